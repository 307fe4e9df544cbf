# set_ to a view of a tensor made inside that requires grad since: the flag of the base is part of the epilogue, because the view has its history from the base
func @f(%p0: f32[1,1,1,1]) {
  %v1 = randn([1], f32)
  %v20 = reshape(%v1, [1])
  requires_grad_(%v1, true)
  set_(%p0, %v20)
  return 
}
case "a view of a tensor that requires grad since" {
  %a1 = randint(-1, 1, [1,1,1,1], f32,)
  call @f(%a1)
}
func @f2(%x: f32[2]) {
  %v = randn([2], f32)
  %w = view(%v, [2])
  %u = alias(%w)
  requires_grad_(%v, true)
  set_(%x, %u)
  return %v
}
case "through a second view" {
  %a = randn([2], f32, seed=1)
  call @f2(%a)
}
func @g(%x: f32[2], %y: f32[2]) {
  %v = detach(%y)
  %w = view(%v, [2])
  requires_grad_(%v, true)
  set_(%x, %w)
  return 
}
case "of a detached argument" {
  %a = randn([2], f32, seed=1)
  %b = randn([2], f32, seed=2)
  call @g(%a, %b)
}
func @h(%x: f32[2], %y: f32[2]) {
  %w = view(%y, [2])
  requires_grad_(%y, true)
  set_(%x, %w)
  requires_grad_(%y, false)
  return 
}
case "of an argument" {
  %a = randn([2], f32, seed=1)
  %b = randn([2], f32, seed=2)
  call @h(%a, %b)
}
