# Zeros for a missing tangent have the layout of the tangent, also if that is expanded.

func @f(%p0: i64[2], %p1: f32[2], %p2: f16[2,2,2], %p3: f16[2,2,2], %p4: f16[2,2,2]) {
  %v3... = split(%p3, 1, -2)
  %v4 = silu(%v3.0)
  %v5 = randint(-2, 2, [2,2], i8)
  %v6 = t(%v5)
  %v7 = sum_to_size(%v3.1, [2])
  %v9 = zero(%p0)
  %v10 = min(%v5)
  sigmoid_(%v4)
  return %v7, %v4, %v10, %v6
}

case "seed 180081259" {
  %a0 = randint(-2, 2, [2,2,2], f16, seed=33, requires_grad=true)
  %a1... = chunk(%a0, 1, 2)
  %a3 = ravel(%a1.0)
  %a9 = randint(-2, 2, [2], f32, seed=45)
  %a10 = randint(0, 2, [2], i64,)
  scatter_value_(%a9, -1, %a10, 0)
  call @f(%a10, %a9, %a0, %a1.0, %a0)
  no_grad {
    fill_(%out.0, 1)
  }
  backward %out.1, %out.2 seed=2
}
