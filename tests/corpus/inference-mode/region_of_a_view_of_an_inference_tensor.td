# A view of an inference tensor does not require grad, in a region, too; a region that saves the tensor fails in backward code only where eager fails.

func @view(%p1: f32[1,1,1]) {
  %v1 = region(func @r0(%a: f32[1,1,1]) {
      %v = reshape(%a, [-1])
      %q = add(%v, 1)
      return %q
    }, [%p1])
  return %v1
}

func @saved(%p1: f32[1,1,1]) {
  %v1 = region(func @r0(%a: f32[1,1,1]) {
      %q = alias(%a)
      %r = mul(%q, %q)
      return %r
    }, [%p1])
  return %v1
}

func @twice(%p1: f32[3], %p2: f32[3]) {
  %v1 = region(func @once0(%a: f32[3]) {
      %q = alias(%a)
      %r = mul(%q, 2)
      return %r
    }, [%p1])
  %v2 = region(@once0, [%p2])
  return %v1, %v2
}

case "seed 77102181" {
  inference {
    %a3 = randint(-1, 1, [1,1,1], f32, seed=87, requires_grad=true)
  }
  call @view(%a3)
}
case "called as td_call_region, and before with an ordinary tensor" {
  inference {
    %a3 = randint(-1, 1, [1,1,1], f32, seed=87, requires_grad=true)
  }
  %a4 = randint(-1, 1, [1,1,1], f32, seed=87, requires_grad=true)
  %x = call @view(%a4) control=true
  %y = call @view(%a3) control=true
}
case "a view that would be saved" {
  inference {
    %a3 = randint(-1, 1, [1,1,1], f32, seed=87, requires_grad=true)
  }
  call @saved(%a3) control=true
}
case "captured once for an ordinary tensor" {
  inference {
    %a3 = randn([3], f32, seed=87, requires_grad=true)
  }
  %a4 = randn([3], f32, seed=88, requires_grad=true)
  call @twice(%a4, %a3) control=true
  backward %out.0 seed=3
}
