# seed 2310198132: compiled-dynamic with half the budget, merge_writes=off, merge_made=off, assign_writes=off: line 102: eager works, compiled-dynamic with half the budget, merge_writes=off, merge_made=off, assign_writes=off fails: debug_asserts: @f_forward_backward: result 0 of mul is f32[2,3] with strides [1,2] at offset 0, which is not its type in the graph (program.td:100, in the backward called at program.td:102)

func @f(%p0: f32[2,3] of fz_pair("", f32[2,3], f32[2,3]) <const>, %p1: f32[1,0,3,3], %p2: f32[1,0,3,3] <const>, %n0, %n1) {
  %v0... = dsplit(%p1, 3)
  %v1 = tensor([1, 1, 1], bool, [3,1])
  fz_scale_(%v1)
  %v2 = special_shifted_chebyshev_polynomial_t(%v0.1, %n1)
  unsqueeze_(%v2, 3)
  rad2deg_(%v2)
  %v9 = region(func @r0(%a: f32[2,3]) {
      no_grad {
        mul_(%a, 0.5)
      }
      %r = sin(%a)
      return %r
    }, [%p0]) prefer_recompute 1
  enable_grad {
    %v11 = full([3,3], 0, u8)
    %v12 = gt(%v11, %v0.0)
    %v14 = tensor([], bool, [1,0,3,3])
    %v15 = tensor([3, 2, 1, 1, 3, 1, 0, -2, 0], f32, [3,3,1])
    %v16 = masked_scatter(%p2, %v14, %v15)
    %v17 = region(@r0, [%p0])
    %v18 = region(@r0, [%p0])
  }
  return %v18, %v16, %v15, %v18
}

func @g(%q0: f32[3,3,1], %q1: f32[2,3] of fz_pair("", f32[2,3], f32[2,3])) {
  %u0 = custom("own", func @forward(%a: f32[2,3]) {
      %z = mul(%a, %a)
      return %z, %z <saved 0>
    }, func @backward(%z: f32[2,3] <saved 0>, %g: f32[2,3] <tangent 0>) {
      %h = mul(%z, 2.0)
      return %h <grad 0>
    }, [%q1], [])
  %u3 = randint(0, 3, [0], i64)
  %u4... = unravel_index(%u3, [0,2])
  %u5... = chunk(%u0, 3)
  %u10 = randint(-3, 4, [0], i64)
  %u11 = column_stack([%u3, %u10])
  %u12 = region(func @r0(%a: f32[2,3]) {
      %s = sum(%a, [0], true)
      %r = mul(%s, %a)
      return %r
    }, [%u0])
  %u13 = custom("own", func @forward(%a: f32[2,3]) {
      %z = mul(%a, 2.0)
      return %z
    }, func @backward(%g: f32[2,3] <tangent 0>) {
      %c = clone(%g)
      mul_(%c, 2.0)
      return %c <grad 0>
    }, [%u12], [])
  %u14 = custom("own", func @forward(%a: f32[1,3]) {
      %z = sin(%a)
      return %z, %z <saved 0>
    }, func @backward(%z: f32[1,3] <saved 0>, %g: f32[1,3] <tangent 0>) {
      %h = add(%g, %z)
      return %h <grad 0>
    }, [%u5.0], [])
  return %u5.0, %u14, %u5.1
}

case "seed 2310198132" {
  %a0 = randint(-3, 4, [3,3,3], f32, seed=5, requires_grad=true)
  %a1 = randn([3,3], f32, seed=76, requires_grad=true)
  %a2 = tensor([], f32, [1,0,3,3], requires_grad=true)
  %a3 = full([2,3], 1, f32, requires_grad=true)
  %a4 = full([2,3], 2, f32, requires_grad=true)
  %a5 = _wrap([%a3, %a4], "fz_pair", "", [2,3], [], f32, requires_grad=true)
  %a6 = _wrap([%a0, %a0], "fz_pair", "m", [3,3,3], [], f32, requires_grad=true)
  %a7 = _wrap([%a6, %a0], "fz_pair", "m", [3,3,3], [], f32, requires_grad=true)
  %a8 = randn([3,3,3], f32, seed=56, requires_grad=true)
  %a9 = full([], 0.25, f32)
  %a10 = _wrap([%a8, %a9], "fz_rounded", "m", [3,3,3], [], f32, requires_grad=true)
  %a11 = tensor([-1, 1, 0, 0, 0, -1, 1, 2, -2, 3, -2, -2, 3, 0, 0, -1, -2, -2, 0, -1, -2, -1, 0, -2, -1, 1, 1], f32, [3,3,3], requires_grad=true)
  %a12 = _wrap([%a10, %a11], "fz_pair", "", [3,3,3], [], f32, requires_grad=true)
  %a13 = _wrap([%a7, %a12], "fz_pair", "", [3,3,3], [], f32, requires_grad=true)
  inference {
    %a14 = sin_(%a2)
    %a15 = atleast_1d(%a5)
  }
  call @f(%a15, %a14, %a14, 2, -0.5) autocast=f16 grads=true module=eval control=true body=true
  %y... = call @g(%out.2, %out.3) control=true
  %t = detach(%out.3)
  backward %out.3 with %t retain_graph=true
  backward
  call @f(%a15, %a14, %a14, 2, -0.5) grads=true dynamic=maybe control=true body=true
  backward seed=3
  call @f(%a15, %a14, %a14, 3, -1.5) autocast=bf16 grads=true module=eval dynamic=maybe control=true body=true
  backward seed=4
  call @f(%a15, %a14, %a14, -1, -1.5) autocast=bf16 grads=true module=eval control=true body=true
  backward
  call @f(%a15, %a14, %a14, -1, -1.5) hooks=twice control=true body=true rehearse=true
  %b0 = transpose(%a15, 0, 1)
  %b1 = contiguous(%b0)
  %b2 = transpose(%b1, 0, 1)
  %b3 = transpose(%a14, 0, 1)
  %b4 = contiguous(%b3)
  %b5 = transpose(%b4, 0, 1)
  call @f(%b2, %a14, %b5, -1, 3) autocast=bf16 module=eval control=true body=true
  %t = randn([2,3], f32, seed=6, requires_grad=true)
  backward %out.3 with %t
no_grad {
  call @f(%b2, %a14, %b5, -1, 3) autocast=f16 module=train control=true body=true
}
}
