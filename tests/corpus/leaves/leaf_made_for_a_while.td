# A result that was a leaf while others were computed from it.

func @made(%x: f32[2,2]) {
  %v = transpose(%x, 0, 1)
  %l = requires_grad_(%v)
  %y = contiguous(%l)
  requires_grad_(%v, false)
  return %l, %y
}
case "leaf made for a while" {
  %x = randn([2,2], f32, seed=1)
  call @made(%x)
  backward
}
