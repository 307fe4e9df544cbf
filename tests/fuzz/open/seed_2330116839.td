# seed 2330116839: compiled with budget 0, merge_writes=off, merge_made=off, assign_writes=off, functional_rng=on: line 49: eager works, compiled with budget 0, merge_writes=off, merge_made=off, assign_writes=off, functional_rng=on fails: debug_asserts: @f_forward_backward: result 0 of mul is f64[3,3] with strides [1,3] at offset 0, which is not its type in the graph (program.td:45, in the backward called at program.td:49)

func @f(%p0, %p1, %p2, %p3 <const>, %p4 <const>, %n0, %n1, %n2) {
  %v0 = float_power(%p4, %n2)
  %v1, %v2 = custom("own", func @forward(%a: f32[3,3], %b: f32[3,3]) {
      %z = mul(%a, %b)
      %y = add(%a, 1.0)
      return %z, %y
    }, func @backward(%k: f32[3,3] <tangent 1>, %g: f32[3,3] <tangent 0>) {
      %h = add(%g, %k)
      %l = neg(%k)
      return %h <grad 0>, %l <grad 1>
    }, [%p4, %p3], [])
  %v3 = custom("own", func @forward(%a: f32[3,3]) {
      %z = mul(%a, 2.0)
      return %z
    }, func @backward(%g: f32[3,3] <tangent 0>) {
      %c = clone(%g)
      mul_(%c, 2.0)
      return %c <grad 0>
    }, [%p4], [])
  %v4 = region(func @r0(%a: f32[3,3]) {
      %m = mul(%a, 2)
      %v = reshape(%m, [-1])
      return %v
    }, [%v1])
  rsqrt_(%v3)
  return %p0, %p4, %v0, %p4
}

func @g(%q0: f32[2,3] of fz_pair("m", f32[2,3]{1,3}+1, f32[2,3]{1,3}+1)) {
  %u4 = fz_note(%q0)
  reciprocal_(%u4)
  return %u4, %q0
}

case "seed 2330116839" {
  %a0 = randint(-3, 4, [3], i32, seed=93)
  %a1 = randn([3,3], f32, seed=28, requires_grad=true)
  %a2 = randn([3,3], f32, seed=78, requires_grad=true)
  %a3 = _wrap([%a1, %a2], "fz_pair", "m", [3,3], [], f32, requires_grad=true)
  enable_grad {
    %a4 = swapaxes(%a3, -2, -1)
    %a5... = vsplit_indices(%a4, [3,3,1])
  }
  call @f(%a5.3, %a5.2, %a5.1, %a5.0, %a5.0, 1.75, -1.0, -0.25) hooks=bf16 checkpoint=true control=true body=true rehearse=true
  call @f(%a5.3, %a5.2, %a5.1, %a5.0, %a5.0, 1.75, -1.0, -0.25) autocast=bf16 module=train dynamic=maybe control=true body=true
  %y... = call @g(%a5.3) control=true
  %s = randn([3,6], f64, seed=8)
  %t = slice(%s, -1, 0, 6, 2)
  backward %out.2 with %t
  %b0 = cat([%a5.3, %a5.3], 0)
  %b1 = cat([%a5.2, %a5.2], 0)
  %b2 = cat([%a5.1, %a5.1], 0)
  %b3 = cat([%a5.0, %a5.0], 0)
  %b4 = cat([%a5.0, %a5.0], 0)
  call @f(%b0, %b1, %b2, %b3, %b4, 1.75, -1.0, 0.5) autocast=bf16 module=eval dynamic=maybe control=true body=true
  backward seed=2
  %b5 = cat([%b0, %b0], 0)
  %b6 = cat([%b1, %b1], 0)
  %b7 = cat([%b2, %b2], 0)
  %b8 = cat([%b3, %b3], 0)
  %b9 = cat([%b4, %b4], 0)
  call @f(%b5, %b6, %b7, %b8, %b9, 1.75, 3, 0.5) autocast=bf16 control=true body=true
  call @f(%b5, %b6, %b7, %b8, %b9, 1.25, 1, 1.5) hooks=clone control=true body=true
  backward seed=6
}
