# debug_asserts: a region in a checkpoint, whose gradient is taken inside, compiled for symbolic sizes.

func @f(%p0, %p1, %p2, %p3 <const>, %n0) {
  %v0 = region(func @once_grad0(%a: f32[3], %b: f32[3]) {
      %i = region(func @in(%c: f32[3], %d: f32[3]) {
        %k = mul(%c, %d)
        %l = sin(%k)
        return %l
      }, [%a, %b])
      %j = region(@in, [%b, %b])
      %d = detach(%j)
      %k = region(@in, [%i, %d])
      return %k
    }, [%p1, %p1])
  %v1 = region(@once_grad0, [%p3, %p3])
  %v2 = argwhere(%v0)
  autocast_bf16 {
    normal_(%v1) prefer_save 1
    %v3 = matmul(%p2, %v1) prefer_save 1
  }
  %v4 = ceil(%p0) prefer_save 1
  squeeze_dim_(%v3, -1) prefer_save 1
  return %v1, %v4, %v2
}

func @g(%q0: f32[3]) {
  %u0 = region(func @r0(%a: f32[3], %b: f32[3]) {
      %r = mul(%a, 3)
      return %r
    }, [%q0, %q0])
  return %q0, %q0
}

case "seed 1300150038" {
  %a0 = full([3], 1, f32, requires_grad=true)
  %a1 = randint(-3, 4, [3], f32, seed=85, requires_grad=true)
  %a2 = full([], 0.25, f32)
  %a3 = _wrap([%a1, %a2], "fz_rounded", "m", [3], [], f32, requires_grad=true)
  %a4 = randn([3], f32, seed=64)
  %a5 = full([], 0.25, f32)
  %a6 = _wrap([%a4, %a5], "fz_rounded", "m", [3], [], f32, requires_grad=true)
  %a7 = swapdims(%a6, 0, 0)
  call @f(%a7, %a6, %a6, %a6, -0.5) hooks=twice checkpoint=true control=true body=true rehearse=true
  call @f(%a7, %a6, %a6, %a6, -0.5) autocast=bf16 module=train control=true body=true
  %y... = call @g(%out.0) control=true
  %b0 = cat([%a7, %a7], 0)
  %b1 = cat([%a6, %a6], 0)
  %b2 = cat([%a6, %a6], 0)
  %b3 = cat([%a6, %a6], 0)
  call @f(%b0, %b1, %b2, %b3, 3) hooks=clone checkpoint=true control=true body=true
  backward
}
