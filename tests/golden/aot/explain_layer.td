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
  after the forward code, whose outputs are %f0, %f1, ...
    _assign(%seen, %f0, 1)
    %6 = _made(%f1)
    %7 = transpose(%6, 0, 1)
    return %6, %7
  gradients
    in   result 0: f32[4,2]
    out  input 1 %w
  for backward
    %x      input        48 B  kept            an input
    %7      tanh         32 B  kept            the cheapest place to cut
    input 1 is held as well, for gradients of gradients
  memory, beside inputs and gradients that come in
    kept        32 B  of 32 B that backward reads
    peak        92 B  estimated; 92 B with all that kept
  guards
    grad mode on, default dtype f32
    argument 0: f32[4,3]
    argument 1: f32[3,2], requires grad, a leaf
    argument 2: f32[]
  backward is compiled when it first runs
