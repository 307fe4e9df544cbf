# run: to_joint
# Rows of tests/README.md: tangents, updates and gradients of joint graphs.
# channels last comes in as channels last
func @test_grads_no_force_contiguous_dense(
    %x: f32[2,3,4,4]{48,1,12,3} grad,
    %w: f32[4,3,3,3] grad,
    %seen: f32[2,3]) {
  add_(%seen, 1.0)
  %y = conv2d(%x, %w, none, [1], [1])
  return %y
}
# an expanded result takes a dense tangent
func @test_backward_with_expanded_computed_output(%x: f32[4,3] grad) {
  %s = sum(%x, [0], true)
  %y = expand(%s, [4,3])
  return %y
}
func @test_flex_attn_noncontiguous_tangents(%x: f32[2,4,3] grad) {
  %a = exp(%x)
  %y = transpose(%a, 1, 2)
  return %y
}
# a view of an input takes no tangent
func @test_backward_prologue_tangent_filtering(%x: f32[2,3] grad) {
  %a = mul(%x, 2.0)
  %v = view(%x, [6])
  return %a, %v
}
# nothing to differentiate: no tangents
func @test_compiled_forward_no_codegen_for_inference(%x: f32[3]) {
  %y = exp(%x)
  return %y
}
---
func @test_grads_no_force_contiguous_dense(
    %x: f32[2,3,4,4]{48,1,12,3} grad,
    %w: f32[4,3,3,3] grad,
    %seen: f32[2,3],
    %t0: f32[2,4,4,4]{64,1,16,4} <tangent 0>) {
  %4 = clone(%seen) : f32[2,3] must_save 0
  %5 = add(%4, 1.0) : f32[2,3]
  %6 = convolution(%x, %w, none, [1], [1], [1], false, [0], 1) : f32[2,4,4,4]{64,1,16,4}
  %7 = conv_data_grad(%t0, %w, [2,3,4,4], [1], [1], [1], 1) : f32[2,3,4,4] backward
  %8 = conv_weight_grad(%t0, %x, [4,3,3,3], [1], [1], [1], 1) : f32[4,3,3,3] backward
  return %5 <update 2>, %6, %7 <grad 0>, %8 <grad 1>
}

func @test_backward_with_expanded_computed_output(
    %x: f32[4,3] grad,
    %t0: f32[1,3] @0 <tangent 0>) {
  %2 = sum(%x, [0], true) : f32[1,3]
  %3 = expand(%t0, [4,3]) : f32[4,3]{0,1} @0 backward
  return %2 <base>, %3 <grad 0>
}

func @test_flex_attn_noncontiguous_tangents(
    %x: f32[2,4,3] grad,
    %t0: f32[2,4,3] <tangent 0>) {
  %2 = exp(%x) : f32[2,4,3]
  %3 = mul(%t0, %2) : f32[2,4,3] backward
  return %2 <base>, %3 <grad 0>
}

func @test_backward_prologue_tangent_filtering(
    %x: f32[2,3] grad,
    %t0: f32[2,3] <tangent 0>) {
  %2 = mul(%x, 2.0) : f32[2,3]
  %3 = mul(%t0, 2.0) : f32[2,3] backward
  return %2, %3 <grad 0>
}

func @test_compiled_forward_no_codegen_for_inference(%x: f32[3]) {
  %1 = exp(%x) : f32[3]
  return %1
}
