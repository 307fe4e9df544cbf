# seed 990100648: with debug_asserts the capture of a later call has the alias of a region's operand, made for a
# gradient of a gradient inside, where the first has the ops of the body.

func @f(%p0: f32[1], %n0, %n1) {
  %v0 = region(func @r0(%a: f32[1]) {
      %v = reshape(%a, [-1])
      %w = mul(%v, 2)
      %r = reshape(%w, [1])
      %q = add(%r, 1)
      return %q
    }, [%p0])
  %v1, %v2 = custom("own", func @forward(%a: f32[1], %b: f32[1]) {
      %z = mul(%a, 2.0)
      %y = sin(%b)
      return %z, %y, %b <saved 0>
    }, func @backward(%b: f32[1] <saved 0>, %k: f32[1] <tangent 1>, %g: f32[1] <tangent 0>) {
      %h = mul(%g, 2.0)
      %l = mul(%k, %b)
      return %h <grad 0>, %l <grad 1>
    }, [%p0, %v0], [])
  autocast_bf16 {
    %v3 = region(func @r1(%a: f32[1]) {
      return %a
    }, [%v2])
  }
  %v4 = randint(-3, 4, [2], f32)
  reciprocal_(%v4)
  return %v2, %v3, %v4, %v4
}

func @g(%q0: f32[2]) {
  %u0 = full([2,2,0], 1, i8)
  %u1 = mH(%u0) prefer_save 1
  %u2 = swapaxes(%q0, 0, -1) prefer_save 1
  autocast_bf16 {
    %u3 = region(func @r0(%a: f32[2], %b: f32[2] <const>) {
      %p = mul(%a, %b)
      %s = sin(%p)
      %e = exp(%s)
      %r = add(%e, %a)
      return %r
    }, [%u2, %u2])
  }
  %u4 = region(@r0, [%u2, %u2])
  return %u2, %u2, %u3
}

case "seed 990100648" {
  %a0 = tensor([1, -2, -1, 2], f64, [2,2], requires_grad=true)
  %a1 = full([2,4], 0, f32, requires_grad=true)
  %a2 = tensor([3, 2, 2, -2, 1, -1, -1, -1, 0, 0, 2, 0, -1, 1, 3, 3, 1, -1, -2, -2, 2, 1, 0, 3], f32, [2,3,2,2], requires_grad=true)
  %a3 = randint(-3, 4, [], f32, seed=19, requires_grad=true)
  %a4 = tensor([-2], f32, [], requires_grad=true)
  %a5 = _wrap([%a3, %a4], "fz_pair", "m", [], [], f32, requires_grad=true)
  %a6 = randn([2], f32, seed=70, requires_grad=true)
  %a7 = softshrink_backward(%a5, %a6, false)
  %a8 = narrow(%a6, -1, 1, 1)
  fz_scale_(%a7, 1.0)
  call @f(%a8, -1.25, 2) checkpoint=true grads=true module=eval dynamic=maybe control=true body=true
  %y... = call @g(%out.2) control=true
  %qm = gt(%out.1, 0)
  %q1 = where(%qm, %out.1, %out.1)
  %q2 = add(%q1, %out.1)
  %q3 = mul(%out.1, 0.5)
  on_grad(%q2, func @hook(%g: f32[1]) {
      mul_(%g, 2.0)
      return none
    }, [])
  backward %q3
  call @f(%a8, 0.25, 0) hooks=clone grads=true module=eval dynamic=maybe control=true body=true
  backward
  call @f(%a8, 1.25, -1.5) autocast=f16 grads=true dynamic=maybe control=true body=true
  backward seed=5
  call @f(%a8, 1.25, -1.5) grads=true module=eval dynamic=maybe control=true body=true
  backward
}
