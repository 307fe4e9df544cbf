# Views of inner tensors were traced at the offsets of the argument, and the copy of a written pair was at 0.

func @f(%p0, %p1, %p2) {
  %v0... = unbind(%p2, 0)
  fill_(%v0.2, -2)
  %v3 = rsqrt_(%p2)
  %v4 = _softmax(%v0.0, -1, false)
  dropout_(%p1, 0.25)
  %v5 = randn([], f32)
  %v6 = le_(%v5, 0.0)
  %v7 = _inner(%p2, 1)
  %v8 = mul(%v7, 2)
  %v9 = nansum(%p1, [0])
  %v10 = triu_indices(4, 0, 1)
  sin_(%v8)
  return %v0.0, %v5, %v10, %v10
}

case "seed 9504" {
  %a0 = full([3], 2, f32)
  %a1 = full([3,3], 1, f32)
  %a2 = full([3,3], 1, f32)
  %a3 = transpose(%a2, 0, 1)
  %a4 = contiguous(%a3)
  %a5 = transpose(%a4, 0, 1)
  %a6 = _wrap([%a1, %a5], "fz_pair", "", [3,3], [], f32)
  %a7 = diagonal(%a6)
  %a8 = unsqueeze(%a7, -1)
  %a9 = _scale(%a6, -0.5)
  call @f(%a9, %a7, %a7) dynamic=maybe
  call @f(%a9, %a7, %a7) dynamic=maybe
  call @f(%a9, %a7, %a7) dynamic=maybe
}
