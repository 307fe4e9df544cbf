# run: to_backward
# Rows of tests/README.md: what reaches the backward half.
# x and the weight
func @test_composite_impl_compile(%w: f32[2,3] grad, %b: f32[2] grad, %x: f32[4,3] grad) {
  %y = linear(%x, %w, %b)
  return %y
}
# statistics of the batch, not the buffers
func @test_input_mutation_batchnorm(
    %x: f32[4,3] grad,
    %w: f32[3] grad,
    %b: f32[3] grad,
    %m: f32[3],
    %v: f32[3]) {
  %y = batch_norm(%x, %w, %b, %m, %v, true)
  return %y
}
# the buffer is written outside, nothing of it is kept
func @test_buffer_copied_in_graph_with_different_shapes(
    %buf: f32[4,4],
    %w: f32[4,4] grad,
    %x: f32[4,4]) {
  add_(%buf, %x)
  %y = matmul(%w, %x)
  return %y
}
# one tensor instead of its three parts
func @test_min_cut_partitioner_raise_getitems(%x: f32[6,4] grad, %w: f32[4,2] grad) {
  %h = matmul(%x, %w)
  %s = sin(%h)
  %a, %b, %c = split(%s, 2)
  %p = mul(%a, %b)
  %q = mul(%p, %c)
  return %q
}
# the sum, not its four terms
func @test_min_cut_partitioner(
    %a: f32[4] grad,
    %b: f32[4] grad,
    %c: f32[4] grad,
    %d: f32[4] grad) {
  %p = add(%a, %b)
  %q = add(%p, %c)
  %s = add(%q, %d)
  %u = cos(%s)
  %y = cos(%u)
  return %y
}
# only x; the cosine again
func @test_custom_partitioner_fn(%x: f32[4] grad) {
  %a = cos(%x)
  %b = cos(%a)
  return %b
}
# one product again: three in the backward
func @test_tags_function(%x: f32[3,3] grad, %y: f32[3,3] grad) {
  %s = sin(%x) : f32[3,3] prefer_recompute 1
  %m = mm(%s, %y) : f32[3,3] prefer_recompute 1
  %z = sigmoid(%m) : f32[3,3] prefer_recompute 1
  return %z
}
# kept products are not repeated: four in the backward
func @test_compile_selective_checkpoint_must_not_recompute_gemm(
    %x: f32[3,3] grad,
    %y: f32[3,3] grad) {
  %a = mm(%x, %y) : f32[3,3] must_save 1
  %b = sigmoid(%a) : f32[3,3] prefer_recompute 1
  %c = mm(%b, %y) : f32[3,3] must_save 1
  %z = sigmoid(%c) : f32[3,3] prefer_recompute 1
  return %z
}
# repeated ones are: six
func @test_compile_selective_checkpoint_must_recompute(
    %x: f32[3,3] grad,
    %y: f32[3,3] grad) {
  %a = mm(%x, %y) : f32[3,3] must_recompute 1
  %b = sigmoid(%a) : f32[3,3] prefer_recompute 1
  %c = mm(%b, %y) : f32[3,3] must_recompute 1
  %z = sigmoid(%c) : f32[3,3] prefer_recompute 1
  return %z
}
---
func @test_composite_impl_compile_backward(
    %w: f32[2,3] grad <saved 0>,
    %x: f32[4,3] grad <saved 1>,
    %t0: f32[4,2] @0 <tangent 0>) {
  %3 = mm(%t0, %w) : f32[4,3] backward
  %4 = t(%t0) : f32[2,4]{1,2} @0 backward
  %5 = mm(%4, %x) : f32[2,3] @1 backward
  %6 = sum(%t0, [0], true) : f32[1,2] @2 backward
  %7 = alias(%5) : f32[2,3] @1 backward
  %8 = view(%6, [2]) : f32[2] @2 backward
  return %7 <grad 0>, %8 <grad 1>, %3 <grad 2>
}

func @test_input_mutation_batchnorm_backward(
    %x: f32[4,3] grad <saved 0>,
    %w: f32[3] grad <saved 1>,
    %2: f32[3] <saved 2>,
    %3: f32[3] <saved 3>,
    %t0: f32[4,3] <tangent 0>) {
  %5, %6, %7 = _batch_norm_backward(%t0, %x, %2, %3, %w, [1,1,1]) : (f32[4,3] @0, f32[3], f32[3]) backward
  %8 = alias(%5) : f32[4,3] @0 backward
  return %8 <grad 0>, %6 <grad 1>, %7 <grad 2>
}

func @test_buffer_copied_in_graph_with_different_shapes_backward(
    %x: f32[4,4] @0 <saved 0>,
    %t0: f32[4,4] <tangent 0>) {
  %2 = t(%x) : f32[4,4]{1,4} @0 backward
  %3 = mm(%t0, %2) : f32[4,4] backward
  return %3 <grad 0>
}

func @test_min_cut_partitioner_raise_getitems_backward(
    %x: f32[6,4] grad @0 <saved 0>,
    %w: f32[4,2] grad @1 <saved 1>,
    %2: f32[6,2] <saved 2>,
    %t0: f32[2,2] <tangent 0>) {
  %4 = sin(%2) : f32[6,2] @2
  %5, %6, %7 = split(%4, 2) : (f32[2,2] @2, f32[2,2]+4 @2, f32[2,2]+8 @2)
  %8 = mul(%t0, %7) : f32[2,2] backward
  %9 = mul(%5, %6) : f32[2,2]
  %10 = mul(%t0, %9) : f32[2,2] backward
  %11 = mul(%8, %6) : f32[2,2] backward
  %12 = mul(%8, %5) : f32[2,2] backward
  %13 = cat([%11, %12, %10]) : f32[6,2] backward
  %14 = cos(%2) : f32[6,2] backward
  %15 = mul(%13, %14) : f32[6,2] backward
  %16 = t(%w) : f32[2,4]{1,2} @1 backward
  %17 = mm(%15, %16) : f32[6,4] backward
  %18 = t(%x) : f32[4,6]{1,4} @0 backward
  %19 = mm(%18, %15) : f32[4,2] backward
  return %17 <grad 0>, %19 <grad 1>
}

func @test_min_cut_partitioner_backward(
    %0: f32[4] <saved 0>,
    %t0: f32[4] <tangent 0>) {
  %2 = cos(%0) : f32[4]
  %3 = sin(%2) : f32[4] backward
  %4 = neg(%3) : f32[4] backward
  %5 = mul(%t0, %4) : f32[4] backward
  %6 = sin(%0) : f32[4] backward
  %7 = neg(%6) : f32[4] backward
  %8 = mul(%5, %7) : f32[4] backward
  return %8 <grad 0>, %8 <grad 1>, %8 <grad 2>, %8 <grad 3>
}

func @test_custom_partitioner_fn_backward(
    %x: f32[4] grad <saved 0>,
    %t0: f32[4] <tangent 0>) {
  %2 = cos(%x) : f32[4]
  %3 = sin(%2) : f32[4] backward
  %4 = neg(%3) : f32[4] backward
  %5 = mul(%t0, %4) : f32[4] backward
  %6 = sin(%x) : f32[4] backward
  %7 = neg(%6) : f32[4] backward
  %8 = mul(%5, %7) : f32[4] backward
  return %8 <grad 0>
}

func @test_tags_function_backward(
    %x: f32[3,3] grad <saved 0>,
    %y: f32[3,3] grad @0 <saved 1>,
    %t0: f32[3,3] <tangent 0>) {
  %3 = sin(%x) : f32[3,3] @1 prefer_recompute 1
  %4 = mm(%3, %y) : f32[3,3] prefer_recompute 1
  %5 = sigmoid(%4) : f32[3,3] prefer_recompute 1
  %6 = sigmoid_backward(%t0, %5) : f32[3,3] backward
  %7 = t(%y) : f32[3,3]{1,3} @0 backward
  %8 = mm(%6, %7) : f32[3,3] backward
  %9 = t(%3) : f32[3,3]{1,3} @1 backward
  %10 = mm(%9, %6) : f32[3,3] backward
  %11 = cos(%x) : f32[3,3] backward
  %12 = mul(%8, %11) : f32[3,3] backward
  return %12 <grad 0>, %10 <grad 1>
}

func @test_compile_selective_checkpoint_must_not_recompute_gemm_backward(
    %x: f32[3,3] grad @0 <saved 0>,
    %y: f32[3,3] grad @1 <saved 1>,
    %2: f32[3,3] <saved 2>,
    %3: f32[3,3] <saved 3>,
    %t0: f32[3,3] <tangent 0>) {
  %5 = sigmoid(%3) : f32[3,3] prefer_recompute 1
  %6 = sigmoid_backward(%t0, %5) : f32[3,3] backward
  %7 = t(%y) : f32[3,3]{1,3} @1 backward
  %8 = mm(%6, %7) : f32[3,3] backward
  %9 = sigmoid(%2) : f32[3,3] @2 prefer_recompute 1
  %10 = t(%9) : f32[3,3]{1,3} @2 backward
  %11 = mm(%10, %6) : f32[3,3] backward
  %12 = sigmoid_backward(%8, %9) : f32[3,3] backward
  %13 = mm(%12, %7) : f32[3,3] backward
  %14 = t(%x) : f32[3,3]{1,3} @0 backward
  %15 = mm(%14, %12) : f32[3,3] backward
  %16 = add(%11, %15) : f32[3,3] backward
  return %13 <grad 0>, %16 <grad 1>
}

func @test_compile_selective_checkpoint_must_recompute_backward(
    %x: f32[3,3] grad @0 <saved 0>,
    %y: f32[3,3] grad @1 <saved 1>,
    %t0: f32[3,3] <tangent 0>) {
  %3 = mm(%x, %y) : f32[3,3] must_recompute 1
  %4 = sigmoid(%3) : f32[3,3] @2 prefer_recompute 1
  %5 = mm(%4, %y) : f32[3,3] must_recompute 1
  %6 = sigmoid(%5) : f32[3,3] prefer_recompute 1
  %7 = sigmoid_backward(%t0, %6) : f32[3,3] backward
  %8 = t(%y) : f32[3,3]{1,3} @1 backward
  %9 = mm(%7, %8) : f32[3,3] backward
  %10 = t(%4) : f32[3,3]{1,3} @2 backward
  %11 = mm(%10, %7) : f32[3,3] backward
  %12 = sigmoid_backward(%9, %4) : f32[3,3] backward
  %13 = mm(%12, %8) : f32[3,3] backward
  %14 = t(%x) : f32[3,3]{1,3} @0 backward
  %15 = mm(%14, %12) : f32[3,3] backward
  %16 = add(%11, %15) : f32[3,3] backward
  return %13 <grad 0>, %16 <grad 1>
}
