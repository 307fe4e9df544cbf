# seed 4002728: functional: line 12: fails (as_strided_scatter: sizes [2,2,2], strides [4,2,1] at offset 0 need 32 bytes, the storage has 16), functional does not

func @f( %p1: f32[2,2,2] @0) {
  %v1 = tril(%p1, -1)
  %v2 = tensor([0, 2, 0, 0], i16, [2,2])
  %v3 = alias_inverse(%v2, %v1)
  as_strided_(%v1, [2,2,1], [0,0,2])
  sin_(%v3)
  return  %v3
}
case "seed 4002728" {
  %a0 = tensor([2, 2, 2, 1, 0, 2, 0, -1], f32, [2,2,2], requires_grad=true)
  call @f( %a0)
  backward
}
