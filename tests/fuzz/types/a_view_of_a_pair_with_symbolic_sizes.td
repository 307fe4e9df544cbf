# Inner tensors of a view had the symbolic sizes of those of its base.

func @f(%p0: f32[3,4] of fz_pair("", f32[3,4]{1,3}, f32[3,4]{1,3}), %p1: f32[4,3] of fz_pair("", f32[4,3], f32[4,3]), %p2: f32[0]) {
  %v1 = randint(-3, 4, [4,3], f64)
  %v3 = full([3,3], 0, bool)
  %v4 = randint(-3, 4, [3], i64)
  %v5 = bitwise_or(%v3, %v4)
  %v6 = movedim(%v3, [0], [-2])
  %v7 = squeeze_dim(%v3, 1)
  %v8... = split(%v6, 1)
  no_grad {
    %v9 = unsqueeze(%v4, -1)
  }
  %v13 = gelu_tanh(%p1)
  return %v8.1, %v13, %v9
}

case "seed 3043" {
  %a0 = randint(-3, 4, [3], i64, seed=38)
  %a1 = randint(-3, 4, [3,3], f32, seed=51)
  %a2 = tensor([], f32, [0])
  %a3 = randint(-3, 4, [4,3], f32, seed=76)
  %a4 = full([4,3], 1, f32)
  %a5 = _wrap([%a3, %a4], "fz_pair", "", [4,3], [], f32)
  %a8 = t(%a5)
  call @f(%a8, %a5, %a2)
  no_grad {
    fill_(%out.1, 1)
  }
}
