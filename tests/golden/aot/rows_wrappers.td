# run: explain
# Rows of tests/README.md: what a call does besides running code, and what it leaves out.
func @test_compiled_forward_codegen_emitted(%x: f32[3] grad) {
  %y = exp(%x)
  return %y
}
func @test_compiled_forward_no_codegen_for_inference(%x: f32[3]) {
  %y = exp(%x)
  return %y
}
func @test_codegen_source_contains_gen_alias(%x: f32[2,3] grad) {
  %a = mul(%x, 2.0)
  %t = transpose(%a, 0, 1)
  %v = select(%x, 0, 1)
  return %a, %t, %v, %x
}
---
@test_compiled_forward_codegen_emitted: 1 specialization of at most 64
specialization 0: forward and backward
  captured 1 op: 0 views, 0 writes, 0 random draws
  inputs
    0  %x  f32[3]  only read; requires grad
  results
    0  f32[3]  computed, with history
  epilogue, after the forward code, whose outputs are %f0, %f1, ...
    %2 = _made(%f0)
    return %2
  gradients
    in   result 0: f32[3]
    out  input 0 %x
  for backward
    %2      exp          12 B  saved       chosen by the min-cut
    input 0 is saved too, for double backward
  memory, without inputs and incoming gradients
    saved       12 B  of 12 B that backward reads
    peak        24 B  estimated; 24 B if all of it were saved
  guards
    grad mode on, default dtype f32
    argument 0: f32[3], requires grad, a leaf
  backward will be compiled when it first runs
@test_compiled_forward_no_codegen_for_inference: 1 specialization of at most 64
specialization 0: forward only
  captured 1 op: 0 views, 0 writes, 0 random draws
  inputs
    0  %x  f32[3]  only read
  results
    0  f32[3]  computed
  epilogue, after the forward code, whose outputs are %f0, %f1, ...
    %2 = _made(%f0)
    return %2
  guards
    grad mode on, default dtype f32
    argument 0: f32[3]
@test_codegen_source_contains_gen_alias: 1 specialization of at most 64
specialization 0: forward and backward
  captured 3 ops: 2 views, 0 writes, 0 random draws
  inputs
    0  %x  f32[2,3]  only read; requires grad
  results
    0  f32[2,3]       computed, with history
    1  f32[3,2]{1,3}  view of result 0: transpose(0, 1)
    2  f32[3]+3       view of input 0: select(0, 1)
    3                 input 0 itself
  epilogue, after the forward code, whose outputs are %f0, %f1, ...
    %2 = _made(%f0)
    %3 = transpose(%2, 0, 1)
    %4 = select(%x, 0, 1)
    return %2, %3, %4, %x
  gradients
    in   result 0: f32[2,3]
    out  input 0 %x
  for backward
    nothing is saved
  memory, without inputs and incoming gradients
    saved        0 B  of 0 B that backward reads
    peak        48 B  estimated; 48 B if all of it were saved
  guards
    grad mode on, default dtype f32
    argument 0: f32[2,3], requires grad, a leaf
  backward will be compiled when it first runs
