# run: explain
# Every kind of result: an input, the same again, views of inputs and of what no
# result is, numbers, none.
func @kinds(%x: f32[2,3] grad, %n: int) {
  %v = select(%x, 0, 1)
  %m = mul(%x, 2.0)
  %a = transpose(%m, 0, 1)
  %b = view(%m, [6])
  %d = detach(%m)
  return %x, %v, %a, %b, %v, %d, %n, none
}

# Results that are views of one of several.
func @parts(%x: f32[4] grad) {
  %y = mul(%x, %x)
  %a, %b = split(%y, 2)
  return %a, %b
}
---
@kinds: 1 specialization of at most 64
specialization 0: forward and backward
  captured 5 ops: 4 views, 0 writes, 0 random draws
  inputs
    0  %x  f32[2,3]  only read; requires grad
    1  %n  int       only read
  results
    0                 input 0 itself
    1  f32[3]+3       view of input 0: select(0, 1)
    2  f32[3,2]{1,3}  view of base 0: transpose(0, 1)
    3  f32[6]         view of base 0: view([6])
    4                 result 1 itself
    5  f32[2,3]       detached view of base 0: detach()
    6                 a number
    7                 absent
  bases: new tensors that are not returned, but share storage with results or inputs
    0  f32[2,3]  computed, with history
  epilogue, after the forward code, whose outputs are %f0, %f1, ...
    %3 = select(%x, 0, 1)
    %4 = _made(%f0)
    %5 = transpose(%4, 0, 1)
    %6 = view(%4, [6])
    %7 = detach(%4)
    return %x, %3, %5, %6, %3, %7, 0, none
  gradients
    in   base 0: f32[2,3]
    out  input 0 %x
  for backward
    nothing is saved
  memory, without inputs and incoming gradients
    saved        0 B  of 0 B that backward reads
    peak        48 B  estimated; 48 B if all of it were saved
  guards
    grad mode on, default dtype f32
    argument 0: f32[2,3], requires grad, a leaf
    argument 1: 0
  backward will be compiled when it first runs
@parts: 1 specialization of at most 64
specialization 0: forward and backward
  captured 2 ops: 1 view, 0 writes, 0 random draws
  inputs
    0  %x  f32[4]  only read; requires grad
  results
    0  f32[2]    view of base 0: split(2)#0
    1  f32[2]+2  view of base 0: split(2)#1
  bases: new tensors that are not returned, but share storage with results or inputs
    0  f32[4]  computed, with history
  epilogue, after the forward code, whose outputs are %f0, %f1, ...
    %2 = _made(%f0)
    %3, %4 = split(%2, 2)
    return %3, %4
  gradients
    in   base 0: f32[4]
    out  input 0 %x
  for backward
    %x      input        16 B  saved       an input
  memory, without inputs and incoming gradients
    saved        0 B  of 0 B that backward reads
    peak        48 B  estimated; 48 B if all of it were saved
  guards
    grad mode on, default dtype f32
    argument 0: f32[4], requires grad, a leaf
  backward will be compiled when it first runs
