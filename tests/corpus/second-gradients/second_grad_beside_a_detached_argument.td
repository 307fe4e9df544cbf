# An argument that no gradient depends on is detached, also where the program runs again.

func @f( %p1: f32[1], %p2: f32[0]) {
  %v0 = constant_pad_nd(%p2, [0,0], -1.5)
  detach_(%p1)
  return %p1, %v0, %p1
}
case "second grad beside a detached argument" {
  %a0 = full([1], 0, f32, requires_grad=true)
  %a2 = randint(-1, 1, [1], f32, seed=68, requires_grad=true)
  %a3... = split_with_sizes(%a2, [1,0], -1)
  call @f( %a0, %a3.1)
  backward %out.1, %out.2 create_graph=true
}
