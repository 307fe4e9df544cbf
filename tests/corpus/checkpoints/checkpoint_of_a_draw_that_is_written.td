# A compiled function inside td_checkpoint runs again in backward, where it must save what it saved
# the first time.

func @f(%p: f32[1,1], %q: f32[1,1]) {
  %u = uniform(%q, 0.75, 0.75)
  clamp_max_(%u, %p)
  return %u
}

case "a draw that is written, one tensor passed twice" {
  %a = full([1,1], 1, f32, requires_grad=true)
  call @f(%a, %a) checkpoint=true
  backward
}
