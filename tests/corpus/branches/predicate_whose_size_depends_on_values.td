# Refused: a predicate whose size depends on values; the trace assumes that such sizes are neither 0 nor 1.

func @f(%p0: f32[2,2,2]) {
  %v0 = gt(%p0, %p0)
  no_grad {
    %v1, %v2, %v3 = unique(%v0)
    %v5 = randn([2,2], f32)
    %v6 = randint(-3, 4, [2,2], f32)
    %v7 = mish_backward(%v5, %v6)
  }
  %v8 = cond(%v1, func @yes(%a: f32[2,2]) {
      %v = reshape(%a, [-1])
      return %v
    }, func @no(%a: f32[2,2]) {
      %v = mul(%a, 2)
      %w = reshape(%v, [-1])
      return %w
    }, [%v7])
  sin_(%v8)
  %v9 = gt(%v0, 0.0)
  %v10 = sum(%v9)
  %v11 = lt(%v10, 2.0)
  %v12 = cond(%v11, func @yes(%a: f32[2,2,2], %b: f32[2,2,2]) {
      add_(%a, %b)
      mul_(%a, 2)
      %r = mul(%b, %a)
      return %r
    }, func @no(%a: f32[2,2,2], %b: f32[2,2,2]) {
      mul_(%a, 3)
      add_(%a, %b)
      return %a
    }, [%p0, %p0])
  %v13 = movedim(%v7, [1], [0])
  %v14 = as_strided(%v3, [0], [3])
  %v16 = randint(-3, 4, [2], f32)
  %v17 = softshrink_backward(%v12, %v16, 0.0)
  return %v17, %v12
}

case "seed 174506744" {
  %a0 = full([2,2,2], 2, f32)
  %a1 = view_as(%a0, %a0)
  %a2 = neg_(%a0)
  call @f(%a2) control=true
}
