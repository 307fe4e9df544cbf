# With debug_asserts the second call captures the function a second time. The capture and the compiled program with
# these sizes are equal; only their lists of parameters differ.

func @f(%p: f32[2,2], %q: f32[2,2], %r: f32[2,1], %s: f32[2,2], %c: i32[2,2] <const>) {
  logical_or_(%c, %q)
  return %r, %p, %q, %r
}

case "called twice" {
  %c = randint(-3, 4, [2,2], i32, seed=12)
  %q = tensor([-2, 1, 1, 2], f32, [2,2])
  %r = randint(-3, 4, [2,1], f32, seed=10)
  %p = copy_(%q, %c, false)
  call @f(%p, %q, %r, %q, %c)
  call @f(%p, %q, %r, %q, %c)
}
