# run: explain
# The layer of docs/explain.md: a written input, two results that share storage.
func @layer(%x: f32[4,3], %w: f32[3,2] grad, %seen: f32[]) {
  add_(%seen, 1.0)
  %h = matmul(%x, %w)
  %y = tanh(%h)
  %t = transpose(%y, 0, 1)
  return %y, %t
}
---
@layer: 1 specialization of at most 64
specialization 0: forward and backward
  captured 4 ops: 1 view, 1 write, 0 random draws
  inputs
    0  %x     f32[4,3]  only read
    1  %w     f32[3,2]  only read; requires grad
    2  %seen  f32[]     written without history, version +1
  results
    0  f32[4,2]       computed, with history
    1  f32[2,4]{1,2}  view of result 0: transpose(0, 1)
  epilogue, after the forward code, whose outputs are %f0, %f1, ...
    _assign(%seen, %f0, 1)
    %6 = _made(%f1)
    %7 = transpose(%6, 0, 1)
    return %6, %7
  gradients
    in   result 0: f32[4,2]
    out  input 1 %w
  for backward
    %x      input        48 B  saved       an input
    %7      tanh         32 B  saved       chosen by the min-cut
    input 1 is saved too, for double backward
  memory, without inputs and incoming gradients
    saved       32 B  of 32 B that backward reads
    peak        92 B  estimated; 92 B if all of it were saved
  guards
    grad mode on, default dtype f32
    argument 0: f32[4,3]
    argument 1: f32[3,2], requires grad, a leaf
    argument 2: f32[]
  backward will be compiled when it first runs
