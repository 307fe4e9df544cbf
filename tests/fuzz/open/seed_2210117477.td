# seed 2210117477: compiled-dynamic with budget 0, merge_writes=off, merge_made=off: line 73: eager works, compiled-dynamic with budget 0, merge_writes=off, merge_made=off fails: debug_asserts: @f_forward_backward: result 0 of mish_backward is f32[2,3] with strides [1,2] at offset 0, which is not its type in the graph (program.td:70, in the backward called at program.td:73)

func @f(%p0, %p1 <const>, %p2, %p3 <const>, %n0, %n1, %n2) {
  %v0 = as_strided(%p3, [1], [2]) prefer_recompute 1
  %v7 = swapaxes(%p0, 1, 0) prefer_recompute 1
  %v8 = randint(-3, 4, [1,2,2], i16)
  %v9 = kron(%v8, %p3) prefer_recompute 1
  %v10 = custom("own", func @forward(%a: f32[1,3,2]) {
      %z = mul(%a, %a)
      return %z, %a <saved 0>
    }, func @backward(%a: f32[1,3,2] <saved 0>, %g: f32[1,3,2] <tangent 0>) {
      %h = mul(%g, %a)
      return %h <grad 0>
    }, [%v7], [])
  %v11 = region(func @r0(%a: f32[1,3,2], %b: f32[1,3,2] <const>) {
      %r = mul(%a, 3)
      return %r
    }, [%v10, %v10]) prefer_recompute 1
  %v12 = custom("own", func @forward(%a: f32[2,3], %b: f32[2,3]) {
      %z = mul(%a, 2.0)
      return %z, %z <saved 0>
    }, func @backward(%z: f32[2,3] <saved 0>, %g: f32[2,3] <tangent 0>) {
      %h = mul(%z, %g)
      %k = mul(%g, 5.0)
      return %h <grad 0>, %k <grad 1>
    }, [%p2, %p2], [])
  %v13 = region(func @r1(%a: f32[2,3], %b: f32[2,3] <const>) {
      %p = mul(%a, %b) prefer_recompute 91
      %s = sin(%p) prefer_recompute 91
      %e = exp(%s) must_recompute 91
      %r = mul(%e, %a)
      return %r
    }, [%p2, %p2]) prefer_recompute 1
  %v14 = randint(-3, 4, [1], f32)
  index_put_(%v10, [none, none], %v14)
  %v15 = _scale(%p3, %n2) must_save 2
  %v16 = tensor([0, 0, 0, -1, 1, 1], f32, [2,3])
  %v17 = mish_backward(%v13, %v16) must_save 2
  return %v16, %v17
}

func @g(%q0: f32[2,3] of fz_pair("m", f32[2,3]{1,2}, f32[2,3]{1,2}), %q1: f32[2,3] of fz_pair("m", f32[2,3]{1,2}, f32[2,3]{1,2}), %q2: f32[2,3] of fz_pair("m", f32[2,3]{1,2}, f32[2,3]{1,2})) {
  %u0 = _inner(%q1, 0)
  %u1 = mul(%u0, 2)
  enable_grad {
    %u2 = mul(%u1, 2)
    %u3 = neg(%u1)
    %u4 = _wrap([%u2, %u3], "fz_pair", "", [2,3], [], f32)
    %u5 = custom("own", func @forward(%a: f32[2,3]) {
      %z = mul(%a, %a)
      return %z, %z <saved 0>
    }, func @backward(%z: f32[2,3] <saved 0>, %g: f32[2,3] <tangent 0>) {
      %h = mul(%z, 2.0)
      return %h <grad 0>
    }, [%u4], [])
  }
  return %q1
}

case "seed 2210117477" {
  %a0 = tensor([1, 3, -1, 2], i8, [4])
  %a1 = full([3,2,2], 1, f32, requires_grad=true)
  %a2 = tensor([1, 2, 2, -1, 1, 1, -1, 1, -1, 2, -1, 3], f32, [3,2,2], requires_grad=true)
  %a3 = _wrap([%a1, %a2], "fz_pair", "m", [3,2,2], [], f32, requires_grad=true)
  %a4 = full([3,2], 1, f32, requires_grad=true)
  %a5 = tensor([1, 3, 0, 0, 0, -1], f32, [3,2], requires_grad=true)
  %a6 = _wrap([%a4, %a5], "fz_pair", "m", [3,2], [], f32, requires_grad=true)
  %a7 = fz_note(%a0)
  %a9 = swapaxes(%a6, 1, -2)
  %a10... = chunk(%a3, 2, 1)
  call @f(%a10.1, %a10.0, %a9, %a7, 2.0, 2.0, -0.5) hooks=bf16 control=true body=true rehearse=true
  call @f(%a10.1, %a10.0, %a9, %a7, 2.0, 2.0, -0.5) dynamic=maybe control=true body=true
  %y... = call @g(%out.1, %out.1, %out.1) control=true
  %t = randn([2,3], f32, seed=1, requires_grad=true)
  backward %out.1 with %t
  call @f(%a10.1, %a10.0, %a9, %a7, 2.0, -1.5, -0.5) autocast=bf16 checkpoint=true module=train control=true body=true
  backward seed=4
  call @f(%a10.1, %a10.0, %a9, %a7, 2.0, 1.5, 2.0) hooks=clone dynamic=maybe control=true body=true
  call @f(%a10.1, %a10.0, %a9, %a7, 1.0, 1.5, 2.0) autocast=f16 checkpoint=true dynamic=maybe control=true body=true
}
