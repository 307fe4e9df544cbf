# debug_asserts: gradients in a region that closes over an argument, compiled for symbolic sizes.

func @f(%p0: f32[] @0, %p1: f32[3,3,3,3] grad @1, %p2: f32[3,3,3,3] grad @1) {
  %v0 = region(func @once_grad0(%a: f32[3,3,3,3], %b: f32[3,3,3,3] <const>) {
      %i = region(func @in(%c: f32[3,3,3,3], %d: f32[3,3,3,3]) {
        %k = mul(%c, %d)
        %l = sin(%k)
        return %l
      }, [%a, %b])
      return %i
    }, [%p2, %p1])
  digamma_(%v0)
  %v2 = ge_(%p0, 3)
  %v3 = log1p_(%v0)
  %v4 = squeeze_copy(%p1)
  return %v2, %v0, %p2, %v2
}

case "seed 4500402113" {
  %a0 = tensor([3, 3, 3, 2, 1, 0, 0, 3, -1, 2, 2, 2, 0, 2, 2, 3, -1, 1, 2, 3, 1, 3, -1, 2, 0, 0, 0, 3, 0, 0, 3, -2, 1, -1, 2, -1, 2, 1, 1, -1, -2, 2, -1, -2, 2, 2, -1, -1, -1, 0, -1, 0, 0, 3, -2, 0, 1, -1, -1, 1, -1, 2, 2, 3, -2, -2, 0, 0, 2, -2, 1, 1, 3, -1, 1, -2, -1, 1, 3, 1, 2], f32, [3,3,3,3], requires_grad=true)
  %a1 = randint(0, 4, [1,2,3,3], u8, seed=83)
  %a2 = randn([], f32, seed=75)
  call @f(%a2, %a0, %a0) control=true
  call @f(%a2, %a0, %a0) control=true
}
