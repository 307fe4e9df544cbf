# Gradients arrive for some of several results: a custom function gives all of its own,
# of zeros for the others.

func @two(%p0, %p1) {
  %x = mul(%p0, 3)
  %y = sin(%p1)
  %v3, %v4 = custom("own", func @twoorward(%a: f32[2,2], %b: f32[2,2]) {
      %c = mul(%a, %b)
      %d = mul(%b, 3)
      return %c, %d, %a <saved 0>, %b <saved 1>
    }, func @backward(%a: f32[2,2] <saved 0>, %b: f32[2,2] <saved 1>, %g: f32[2,2] <tangent 0>, %h: f32[2,2] <tangent 1>) {
      %c = mul(%g, %b)
      %d = mul(%h, 3)
      return %c <grad 0>, %d <grad 1>
    }, [%x, %y], [])
  %z = exp(%v3)
  return %z, %v4, %y
}
case "one of two, through others" {
  %a0 = randn([2,2], f32, seed=30, requires_grad=true)
  %a1 = randn([2,2], f32, seed=31, requires_grad=true)
  call @two(%a0, %a1)
  backward %out.0 retain_graph=true
  backward %out.1 retain_graph=true
  backward %out.2
}
case "around it" {
  %a0 = randn([2,2], f32, seed=30, requires_grad=true)
  %a1 = randn([2,2], f32, seed=31, requires_grad=true)
  call @two(%a0, %a1)
  backward %out.2
}
case "with a history" {
  %a0 = randn([2,2], f32, seed=30, requires_grad=true)
  %a1 = randn([2,2], f32, seed=31, requires_grad=true)
  call @two(%a0, %a1)
  backward %out.0 create_graph=true
}
case "with a history, of the other" {
  %a0 = randn([2,2], f32, seed=30, requires_grad=true)
  %a1 = randn([2,2], f32, seed=31, requires_grad=true)
  call @two(%a0, %a1)
  backward %out.1 create_graph=true
}

func @loss(%p0, %p1) {
  %v3 = custom("own", func @lossorward(%a: f32[2,2]) {
      return %a, %a <saved 0>
    }, func @backward(%a: f32[2,2] <saved 0>, %g: f32[2,2] <tangent 0>) {
      %k = mul(%g, 2)
      return %k <grad 0>
    }, [%p0], [])
  %v9 = tensor([0, 1], i64, [2])
  %w = exp(%v3)
  %v11, %v12 = nll_loss_forward(%w, %v9, none, "mean", -100)
  %m = mul(%v12, %p1)
  return %v11, %m
}
case "a result without a derivative" {
  %a0 = randn([2,2], f32, seed=30, requires_grad=true)
  %a1 = randn([], f32, seed=31, requires_grad=true)
  call @loss(%a0, %a1)
  backward %out.1
}
case "outside" {
  %a0 = randn([2,2], f32, seed=30, requires_grad=true)
  %a1 = randn([], f32, seed=31, requires_grad=true)
  %b0 = sin(%a0)
  call @loss(%b0, %a1)
  backward %out.1
}
case "one, then the other" {
  %a0 = randn([2,2], f32, seed=30, requires_grad=true)
  %a1 = randn([], f32, seed=31, requires_grad=true)
  call @loss(%a0, %a1)
  backward %out.1 retain_graph=true
  backward %out.0 create_graph=true
}
