# With symbolic sizes a node read the metadata of a result that was freed (address sanitizer).

func @f(%p0, %p1 <const>, %n0) {
  %v0 = custom("own", func @forward(%a: f32[2]) {
      %z = mul(%a, 2.0)
      return %z
    }, func @backward(%g: f32[2] <tangent 0>) {
      mul_(%g, 2.0)
      %h = neg(%g)
      return %h <grad 0>
    }, [%p0], [])
  enable_grad {
    %v1 = _inner(%v0, 0)
    %v2 = mul(%v1, 2)
  }
  %v3 = nan_to_num_(%p0, 1.0) must_save 1
  %v4 = custom("own", func @forward(%a: f32[2]) {
      %z = sin(%a)
      return %z
    }, func @backward(%g: f32[2] <tangent 0>) {
      %h = clamp(%g, -0.5, 0.5)
      return %h <grad 0>
    }, [%p0], [])
  %v5, %v6 = region(func @r0(%a: f32[2], %b: f32[2]) {
      %p = sin(%a)
      %q = cos(%b)
      return %p, %q
    }, [%p0, %v3])
  %v7 = floor_(%v0)
  %v8, %v9 = region(@r0, [%v0, %v3])
  return %p1, %p0
}

func @g(%q0: f32[2] of fz_pair("m", f32[2], f32[2]), %q1: f32[2] of fz_pair("m", f32[2], f32[2]), %q2: f32[2] of fz_pair("m", f32[2], f32[2])) {
  %u0 = region(func @r0(%a: f32[2], %b: f32[2]) {
      %i = region(func @in(%c: f32[2], %d: f32[2]) {
        %k = mul(%c, %d)
        %l = sin(%k)
        return %l
      }, [%a, %b])
      %j = region(@in, [%i, %b])
      %r = mul(%j, %a)
      return %r
    }, [%q1, %q0])
  %u1 = unfold(%u0, -1, 1, 1)
  return %q1, %q2
}

case "seed 940000151" {
  %a0 = full([3,2], 2, f64)
  %a1 = full([2], 1, f32)
  %a2 = randint(-3, 4, [2], f32, seed=15)
  %a3 = _wrap([%a1, %a2], "fz_pair", "m", [2], [], f32, requires_grad=true)
  %a4 = fz_note(%a3)
  call @f(%a4, %a3, 0.25) dynamic=maybe control=true body=true
  %y... = call @g(%out.1, %out.1, %a3) control=true
  backward create_graph=true
  %g0 = grad %a3
  backward %g0 seed=8 create_graph=true
  %g1 = grad %a3
  backward %g1
  backward %out.1 seed=5
  %b0 = cat([%a4, %a4], 0)
  %b1 = cat([%a3, %a3], 0)
  call @f(%b0, %b1, 0.25) autocast=bf16 module=train control=true body=true
  backward seed=7
  %b2 = cat([%b0, %b0], 0)
  %b3 = cat([%b1, %b1], 0)
  call @f(%b2, %b3, 0.75) autocast=bf16 module=train control=true body=true
}
