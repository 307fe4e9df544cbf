# Two products that share an operand may not share loops: what one of them feeds is
# fused with something that the other needs.

func @f(%x: f32[3], %i: i64[3]) {
  %y = scatter_reduce(%x, 0, %i, %x, "prod")
  return %y
}

case "the gradient of a product of pieces" {
  %x = tensor([-1, 1, 1], f32, [3], requires_grad=true)
  %i = tensor([0, 2, 1], i64, [3])
  call @f(%x, %i)
  backward
}
