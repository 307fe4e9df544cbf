# A view passed twice, and written: both are asked for their history again.

func @f0(%p0: f32[2,2], %p1: f32[2,2], %p2: f32[2,2]) {
  le_(%p0, %p2)
  return %p0
}

case "seed 305427" {
  %a0 = randn([2,2], f32, seed=39, requires_grad=true)
  %a2 = matmul(%a0, %a0)
  %a3 = squeeze_dim(%a2, 1)
  call @f0(%a3, %a2, %a3)
  backward
}

func @f1(%p0: f32[1,1] @0, %p1: f32[1] @0, %p2: f32[2,2]{1,2} @1, %p3: f32[1,1] @0) {
  %v6 = sgn_(%p1)
  %v8 = unflatten(%p0, -1, [1])
  return %v8
}

case "seed 319771" {
  %a0 = randn([2,2], f32)
  %a1 = tensor([1, -2], f32, [2], requires_grad=true)
  %a3 = sum_to_size(%a1, [1])
  %a4 = unsqueeze(%a3, -1)
  call @f1(%a4, %a3, %a0, %a4)
  backward
}
