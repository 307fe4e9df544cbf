# run: functional_rng=on to_forward
# run: functional_rng=on memory_budget=0 to_backward
# test_functionalized_rng_codegen_emitted: draws take seed and offset of the generator,
# which moves; a recomputed one repeats its numbers.
func @f(%x: f32[4,3] grad, %w: f32[3] grad) {
  %h = mul(%x, %w)
  %a = dropout(%h, 0.5)
  %b = rand_like(%a)
  %c = mul(%a, %b)
  return %c
}
---
# functional_rng=on to_forward
func @f_forward(
    %x: f32[4,3] grad,
    %w: f32[3] grad,
    %seed: i64[] <seed>,
    %offset: i64[] <offset>) {
  %4 = mul(%x, %w) : f32[4,3]
  %5, %6 = native_dropout(%4, 0.5, true, %seed, %offset) : (f32[4,3], bool[4,3])
  %7 = add(%offset, 3) : i64[]
  %8 = rand_like(%5, none, %seed, %7) : f32[4,3]
  %9 = mul(%5, %8) : f32[4,3]
  %10 = add(%offset, 6) : i64[]
  return %9, %6 <saved 2>, %8 <saved 3>, %10 <offset>
}

# functional_rng=on memory_budget=0 to_backward
func @f_backward(
    %x: f32[4,3] grad <saved 0>,
    %w: f32[3] grad <saved 1>,
    %2: i64[2] @0 <saved 2>,
    %3: i64[2] @1 <saved 3>,
    %t0: f32[4,3] <tangent 0>) {
  %5 = mul(%x, %w) : f32[4,3]
  %6 = select(%2, 0, 0) : i64[] @0
  %7 = select(%2, 0, 1) : i64[]+1 @0
  %8, %9 = native_dropout(%5, 0.5, true, %6, %7) : (f32[4,3], bool[4,3])
  %10 = select(%3, 0, 0) : i64[] @1
  %11 = select(%3, 0, 1) : i64[]+1 @1
  %12 = rand_like(%8, none, %10, %11) : f32[4,3]
  %13 = mul(%t0, %12) : f32[4,3] backward
  %14 = mul(%13, %9) : f32[4,3] backward
  %15 = mul(%14, 2.0) : f32[4,3] backward
  %16 = mul(%15, %w) : f32[4,3] backward
  %17 = mul(%15, %x) : f32[4,3] backward
  %18 = sum(%17, [0], true) : f32[1,3] @2 backward
  %19 = view(%18, [3]) : f32[3] @2 backward
  return %16 <grad 0>, %19 <grad 1>
}
