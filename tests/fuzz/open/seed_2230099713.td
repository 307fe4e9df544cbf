# seed 2230099713: compiled-packed with budget 0, assign_writes=off, functional_rng=on: line 49: eager works, compiled-packed with budget 0, assign_writes=off, functional_rng=on fails: debug_asserts: @f_forward_backward: result 0 of permute is f32[2,2] with strides [2,1] at offset 0, which is not its type in the graph (program.td:46, in the backward called at program.td:49)

func @f(%p0, %p1 <const>, %p2 <const>, %n0, %n1, %n2) {
  %v0 = movedim(%p2, [0, -1], [1, 0])
  %v1 = custom("own", func @forward(%a: f32[2,2], %b: f32[2,2]) {
      %z = mul(%a, 2.0)
      return %z, %z <saved 0>
    }, func @backward(%z: f32[2,2] <saved 0>, %g: f32[2,2] <tangent 0>) {
      %h = mul(%z, %g)
      %k = mul(%g, 5.0)
      return %h <grad 0>, %k <grad 1>
    }, [%p2, %p1], [])
  %v2, %v3 = region(func @r0(%a: f32[2,2], %b: f32[2,2]) {
      %r = add(%a, %b)
      return %b, %r
    }, [%v0, %p1])
  return %v2, %v3, %p1
}

func @g(%q0: f32[2,2] of fz_pair("", f32[2,2], f32[2,2] of fz_pair("", f32[2,2], f32[2,2])), %q1: f32[2,2] of fz_pair("", f32[2,2], f32[2,2] of fz_pair("", f32[2,2], f32[2,2]))) {
  %u0 = region(func @r0(%a: f32[2,2]) {
      %l = logsumexp(%a, [0])
      return %l
    }, [%q0])
  %u1 = _inner(%u0, 0)
  %u2 = mul(%u1, 2)
  %u3 = _inner(%q0, 0)
  %u4 = mul(%u3, 2)
  inference {
    %u5 = region(func @r1(%a: f32[2], %b: f32[2] <const>) {
      %m = matmul(%a, %b)
      %t = tanh(%m)
      %r = add(%t, %a)
      return %r
    }, [%u2, %u0])
    %u11 = full([2,1], 0.25) prefer_recompute 1
  }
  return %u2
}

case "seed 2230099713" {
  %a0 = randint(-3, 4, [2,2], f32, seed=85, requires_grad=true)
  %a1 = randint(-3, 4, [2,2], f32, seed=56, requires_grad=true)
  %a2 = randn([2,2], f32, seed=65, requires_grad=true)
  %a3 = _wrap([%a1, %a2], "fz_pair", "", [2,2], [], f32, requires_grad=true)
  %a4 = _wrap([%a0, %a3], "fz_pair", "", [2,2], [], f32, requires_grad=true)
  %a5 = alias(%a4)
  call @f(%a5, %a5, %a5, 4, 0.5, -0.5) autocast=f16 checkpoint=true control=true body=true
  %y... = call @g(%out.2, %out.0) control=true
  %t = randn([2,2], f32, seed=8)
  backward %out.1 with %t
  %b0 = cat([%a5, %a5], 0)
  %b1 = cat([%a5, %a5], 0)
  %b2 = cat([%a5, %a5], 0)
  call @f(%b0, %b1, %b2, 4, 2, 0.25) module=train dynamic=maybe control=true body=true
  backward seed=4
}
