# Refused: a hook saves a clone of an argument in bf16 autocast, and the backward of a second function reads elements beside it by as_strided.

func @f(%p0: f32[1] <const>) {
  %v0... = split_with_sizes(%p0, [1,0])
  %v3 = randint(0, 4, [3,3], u8)
  zero_(%v3)
  %v4 = as_strided(%p0, [3,3], [1,0])
  %v5 = tensor([2, -1, 3, -2, 0, 1, 2, -2, -1], i64, [3,3])
  %v6 = eq(%v5, -1)
  return %v3, %v4
}

func @g(%q0: f32[3,3], %q1: u8[3,3]) {
  %u0 = relu6(%q0) prefer_recompute 1
  %u1 = custom("own", func @forward(%a: f32[3,3], %b: f32[3,3]) {
      %z = mul(%a, 2.0)
      return %z, %z <saved 0>
    }, func @backward(%z: f32[3,3] <saved 0>, %g: f32[3,3] <tangent 0>) {
      %h = mul(%z, %g)
      %k = mul(%g, 5.0)
      return %h <grad 0>, %k <grad 1>
    }, [%q0, %u0], [])
  %u6 = roll(%q0, [1,1], [1,-2])
  return %u6, %u1
}

case "seed 8409175" {
  %a0 = randn([3,3], f32, seed=22, requires_grad=true)
  %a1 = randn([1,3], f32, seed=12, requires_grad=true)
  %a2 = full([3,1,0], 0, i8)
  %a3 = narrow(%a1, -1, -3, 1)
  %a4 = flatten(%a3)
  call @f(%a4) hooks=bf16 rehearse=true
  call @f(%a4) autocast=bf16 hooks=clone module=train
  %y... = call @g(%out.1, %out.0)
  backward seed=3
}
