# requires_grad_ that does not change the flag of a view is not an event: the view may be stale, and the first read
# of its grad_fn updates its history.

func @off(%p1) {
  requires_grad_(%p1, false)
  %y = mul(%p1, 2)
  return %y, %p1
}
func @on(%p1) {
  requires_grad_(%p1, true)
  %y = mul(%p1, 2)
  return %y, %p1
}
func @onoff(%p1) {
  requires_grad_(%p1, true)
  requires_grad_(%p1, false)
  %y = mul(%p1, 2)
  return %y, %p1
}
case "own, stale" {
  %a0 = randn([3], f32, seed=1)
  %v = movedim(%a0, [0], [0])
  requires_grad_(%v, true)
  %l = randn([3], f32, seed=2, requires_grad=true)
  mul_(%a0, %l)
  call @off(%v)
}
case "own, stale, on" {
  %a0 = randn([3], f32, seed=1)
  %v = movedim(%a0, [0], [0])
  requires_grad_(%v, true)
  %l = randn([3], f32, seed=2, requires_grad=true)
  mul_(%a0, %l)
  call @on(%v)
  backward
}
case "stale" {
  %a0 = randn([3], f32, seed=1)
  %v = movedim(%a0, [0], [0])
  %l = randn([3], f32, seed=2, requires_grad=true)
  mul_(%a0, %l)
  call @off(%v)
  backward
}
case "stale, on" {
  %a0 = randn([3], f32, seed=1)
  %v = movedim(%a0, [0], [0])
  %l = randn([3], f32, seed=2, requires_grad=true)
  mul_(%a0, %l)
  call @on(%v)
  backward
}
case "stale, on and off" {
  %a0 = randn([3], f32, seed=1)
  %v = movedim(%a0, [0], [0])
  %l = randn([3], f32, seed=2, requires_grad=true)
  mul_(%a0, %l)
  call @onoff(%v)
  backward
}
case "leaf" {
  %l = randn([3], f32, seed=2, requires_grad=true)
  call @on(%l)
  backward
  call @off(%l)
  call @off(%l)
  call @on(%l)
  backward
  call @onoff(%l)
}
case "leaf, history" {
  %l = randn([3], f32, seed=2, requires_grad=true)
  call @on(%l)
  backward create_graph=true
}
case "view of leaf" {
  %l = randn([3], f32, seed=2, requires_grad=true)
  no_grad {
    %v = narrow(%l, 0, 0, 2)
  }
  call @off(%v)
  call @on(%v)
  call @onoff(%v)
}
