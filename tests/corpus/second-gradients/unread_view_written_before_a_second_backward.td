# Double backward that does not read an argument does not compute its grad_fn either: it may be one of several views
# whose base was written since.

func @scatter(%p0) {
  %v29 = tensor([1, 1, 0], bool, [3])
  %v30 = masked_scatter(%p0, %v29, %p0)
  return %v30
}
func @reads(%p0) {
  %y = mul(%p0, %p0)
  return %y
}
func @sum(%p0, %p1) {
  %y = add(%p0, %p1)
  %z = mul(%p1, %p1)
  return %y, %z
}
case "unread" {
  %a0 = randn([3,3], f32, seed=1, requires_grad=true)
  %a5... = split(%a0, 1, 0)
  call @scatter(%a5.1)
  no_grad {
    fill_(%a5.1, 1)
  }
  backward create_graph=true
}
case "read" {
  %a0 = randn([3,3], f32, seed=1, requires_grad=true)
  %a5... = split(%a0, 1, 0)
  call @reads(%a5.1)
  no_grad {
    fill_(%a5.1, 1)
  }
  backward create_graph=true
}
case "another part" {
  %a0 = randn([3,3], f32, seed=1, requires_grad=true)
  %b0 = mul(%a0, 2)
  %a5... = split(%b0, 1, 0)
  %c = randn([1,3], f32, seed=2, requires_grad=true)
  call @sum(%a5.1, %c)
  no_grad {
    fill_(%b0, 1)
  }
  backward create_graph=true
}
case "a plain view" {
  %a0 = randn([3,3], f32, seed=1, requires_grad=true)
  %b0 = mul(%a0, 2)
  %v = narrow(%b0, 0, 1, 1)
  call @scatter(%v)
  %w = randn([3,3], f32, seed=2, requires_grad=true)
  mul_(%b0, %w)
  backward create_graph=true
}
