# run: explain
# The functions of an exported file: the epilogue calls ops that programs do not.
func @net(%x: f32[3], %w: f32[3]) {
  %y = mul(%x, %w)
  return %y
}

func @net_epilogue(%x: f32[3], %w: f32[3], %f0: f32[3]) {
  %1 = _made(%f0)
  return %1
}
---
@net: 1 specialization of at most 64
specialization 0: forward only
  captured 1 op: 0 views, 0 writes, 0 random draws
  inputs
    0  %x  f32[3]  only read
    1  %w  f32[3]  only read
  results
    0  f32[3]  computed
  epilogue, after the forward code, whose outputs are %f0, %f1, ...
    %3 = _made(%f0)
    return %3
  guards
    grad mode on, default dtype f32
    argument 0: f32[3]
    argument 1: f32[3]
@net_epilogue: 1 specialization of at most 64
specialization 0: forward only
  captured 1 op: 0 views, 1 write, 0 random draws
  inputs
    0  %x   f32[3]  only read
    1  %w   f32[3]  only read
    2  %f0  f32[3]  only read
  results
    0  input 2 itself
  epilogue, after the forward code, whose outputs are %f0, %f1, ...
    _made(%f0)
    return %f0
  guards
    grad mode on, default dtype f32
    argument 0: f32[3]
    argument 1: f32[3]
    argument 2: f32[3]
