# The copy of an inner tensor computed strides from symbols of the graph as if they were numbers.

func @f(%p0: bool[3,1] of fz_pair("", bool[3,1], bool[3,1]), %p1: f32[3,3], %p2: f32[3], %p3: f32[3,3,3] of fz_rounded("", f32[3,3,3], f32[])) {
  %v0 = expand(%p2, [3])
  %v1 = tensor([0, 1, 0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 0, 0, 1, 0, 1, 0, 1, 1, 1, 1, 1, 1, 0, 1, 0, 0, 1, 0, 0, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 1, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 1, 0, 1, 0, 1, 1, 1, 1, 1, 0, 1, 1, 1, 0, 1, 0, 1, 0, 1, 1, 1, 0, 0, 1, 1, 0, 1, 0, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 1, 1, 0, 0, 0], bool, [4,3,3,3])
  %v2 = where(%p0, %v1, %p2)
  %v3 = uniform_(%p1, 0.5, 1.0)
  return %p0, %v3, %p3, %v2
}

case "seed 930000893" {
  %a0 = randint(-3, 4, [3,3], f32, seed=29)
  %a1 = randn([3,1], f32, seed=56)
  %a2 = tensor([-2, 1, 1], f32, [3,1], requires_grad=true)
  %a3 = _wrap([%a1, %a2], "fz_pair", "", [3,1], [], f32, requires_grad=true)
  %a4 = randn([3,3,3], f32, seed=81)
  %a5 = full([], 0.25, f32)
  %a6 = _wrap([%a4, %a5], "fz_rounded", "", [3,3,3], [], f32, requires_grad=true)
  %a7 = randint(-3, 4, [3], f32, seed=67, requires_grad=true)
  %a8 = fmod_(%a0, %a7)
  %a9 = isinf(%a3)
  call @f(%a9, %a0, %a7, %a6)
  backward seed=7 retain_graph=true
  backward
no_grad {
  call @f(%a9, %a0, %a7, %a6)
}
}
