# A view and a set_ of its base: backward reaches set_, which has no derivative.

func @f(%p0: f32[1,1]{1,8} @0, %p1: f32[1,1,1] @0, %p2: f32[1,1,1] @1, %p3: f32[] @1, %p4: f32[1,1,1] @0) {
  set_(%p1, %p2)
  log10_(%p4)
  return %p0, %p4
}
func @g(%q0: f32[1,1,1], %q1: f32[1,1,1], %q2: f32[1,1]) {
  return  %q2
}
case "seed 42128170" {
  %a0 = randint(-1, 1, [], f32,)
  %a1 = randint(-1, 1, [1,1,1], f32, seed=83, requires_grad=true)
  %a2 = _scale(%a1, -1.5)
  %a3 = diagonal(%a2)
  cumprod_(%a2, -1, none)
  call @f(%a3, %a2, %a1, %a0, %a2)
  %y... = call @g(%out.1, %a2, %out.0)
  backward
}
