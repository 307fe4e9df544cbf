# seed 68108475: compiled: line 11: fails (set_: has no derivative), compiled does not

func @f(%p0: f32[3,3]) {
  %v0 = flip(%p0, [1,0])
  %v1 = view(%v0, [-1])
  %v2 = set_(%v1, %v1)
  transpose_(%v1, 0, 0)
  return %v0, %v2
}
case "seed 68108475" {
  %a0 = tensor([3, 3, -1, -1, 0, -1, -1, -1, 3], f32, [3,3], requires_grad=true)
  call @f(%a0)
  backward
}
