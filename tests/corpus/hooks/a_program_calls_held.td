# Op _held names a tensor of the call for hooks. In a program it is a copy, whatever number it has.

func @f(%p0: f64[1,2,2] grad @0, %p1: f32[2,1] grad @1, %p2: f64[1,2,2] grad @0) {
  %v0 = randn([2,1], f32)
  %v1 = _held(%v0, %p1, 4)
  %v2 = region(func @r0(%a: f32[2,1], %b: f32[2,1]) {
      %r = mul(%a, %b)
      return %r
    }, [%v1, %p1])
  %v3 = view_as_complex(%p2)
  %v4 = region(@r0, [%v2, %v0])
  return %v4, %v4, %v1, %p0
}

case "seed 970025877" {
  %a0 = tensor([-2, 1], f32, [2,1], requires_grad=true)
  %a1 = randint(-3, 4, [1,2,2], f64, seed=61, requires_grad=true)
  call @f(%a1, %a0, %a1)
  call @f(%a1, %a0, %a1)
}
