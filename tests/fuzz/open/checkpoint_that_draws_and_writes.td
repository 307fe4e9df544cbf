# A compiled function inside td_checkpoint: run again in backward, it saves a value that the
# first run did not, and backward fails; eager works. (--with=checkpoint, seed 705)

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
