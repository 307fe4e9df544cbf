# run: explain
# Cheap chains are computed again, products are kept; a random draw too.
func @block(%x: f32[64,64], %w: f32[64,64] grad, %b: f32[64] grad) {
  %h = matmul(%x, %w)
  %s = add(%h, %b)
  %t = tanh(%s)
  %u = exp(%t)
  %d = dropout(%u, 0.5, true)
  %y = mul(%d, %u)
  return %y
}

# Nothing to differentiate.
func @plain(%x: f32[4], %y: f32[4]) {
  %z = add(%x, %y)
  return %z
}
---
@block: 1 specialization of at most 64
specialization 0: forward and backward
  captured 6 ops: 0 views, 0 writes, 1 random draw
  inputs
    0  %x  f32[64,64]  only read
    1  %w  f32[64,64]  only read; requires grad
    2  %b  f32[64]     only read; requires grad
  results
    0  f32[64,64]  computed, with history
  epilogue, after the forward code, whose outputs are %f0, %f1, ...
    %4 = _made(%f0)
    return %4
  gradients
    in   result 0: f32[64,64]
    out  input 1 %w
    out  input 2 %b
  for backward
    %x      input             16.0 KiB  saved       an input
    %b      input                256 B  saved       an input
    %4      mm                16.0 KiB  saved       heavy op
    %5      add               16.0 KiB  recomputed  cheap: pointwise
    %6      tanh              16.0 KiB  recomputed  cheap: pointwise
    %7      exp               16.0 KiB  recomputed  cheap: pointwise
    %8      native_dropout    16.0 KiB  saved       random numbers are expensive
    %9      native_dropout     4.0 KiB  saved       random numbers are expensive
    donated to backward: <saved 2> <saved 3> <saved 4>
    input 1 is saved too, for double backward
  memory, without inputs and incoming gradients
    saved   36.0 KiB  of 52.0 KiB that backward reads
    peak   100.0 KiB  estimated; 100.0 KiB if all of it were saved
  guards
    grad mode on, default dtype f32
    argument 0: f32[64,64]
    argument 1: f32[64,64], requires grad, a leaf
    argument 2: f32[64], requires grad, a leaf
  backward will be compiled when it first runs
@plain: 1 specialization of at most 64
specialization 0: forward only
  captured 1 op: 0 views, 0 writes, 0 random draws
  inputs
    0  %x  f32[4]  only read
    1  %y  f32[4]  only read
  results
    0  f32[4]  computed
  epilogue, after the forward code, whose outputs are %f0, %f1, ...
    %3 = _made(%f0)
    return %3
  guards
    grad mode on, default dtype f32
    argument 0: f32[4]
    argument 1: f32[4]
