# Gradients pass the residuals of linalg_lstsq without a value; a custom function beyond them gets zeros, in a region, too.

func @inside(%p0: f32[1,1]) {
  %v5 = region(func @r2(%a: f32[1,1]) {
      %z = custom("own", func @forward(%u: f32[1,1]) {
        return %u, %u <saved 0>
      }, func @backward(%u: f32[1,1] <saved 0>, %g: f32[1,1] <tangent 0>) {
        return %g <grad 0>
      }, [%a], [])
      %s = sin(%z)
      return %s
    }, [%p0])
  %v9, %v10, %v11, %v12 = linalg_lstsq(%v5, %v5, none)
  return %v10
}

func @before(%p0: f32[1,1]) {
  %z = custom("own", func @forward(%u: f32[1,1]) {
      return %u, %u <saved 0>
    }, func @backward(%u: f32[1,1] <saved 0>, %g: f32[1,1] <tangent 0>) {
      return %g <grad 0>
    }, [%p0], [])
  %v5 = region(func @r2(%a: f32[1,1]) {
      %v9, %v10, %v11, %v12 = linalg_lstsq(%a, %a, none)
      %v = mul(%v10, 2)
      return %v
    }, [%z])
  return %v5
}

case "seed 4630003862" {
  %a2 = randn([1,1], f32, seed=36, requires_grad=true)
  call @inside(%a2)
  backward
}
case "inside, called as td_call_region" {
  %a2 = randn([1,1], f32, seed=36, requires_grad=true)
  call @inside(%a2) control=true
  backward
}
case "before" {
  %a2 = randn([1,1], f32, seed=36, requires_grad=true)
  call @before(%a2)
  backward
}
case "before, called as td_call_region" {
  %a2 = randn([1,1], f32, seed=36, requires_grad=true)
  call @before(%a2) control=true
  backward
}
