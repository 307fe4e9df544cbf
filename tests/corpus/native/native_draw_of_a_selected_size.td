# Native: only the size of a selection is read; the size must be computed before it is read.

func @g(%q0: f32[1]) {
  %u0 = clamp_max(%q0, %q0)
  %u1 = full([1], 1, bool)
  %u2 = masked_select(%u0, %u1)
  %u3 = bernoulli_(%u2, 0.5)
  %u4 = randint(-1, 1, [1], f32)
  %u5 = atan2(%u0, %u4)
  %u6 = masked_select(%u0, %u1)
  %u7 = zeros_like(%u6)
  %u8 = exp(%u7)
  return %u5, %u8
}
case "a draw for a selection" {
  %a0 = randn([1], f32)
  call @g(%a0)
}
