# run: explain
# Every way in which an input is written back.
func @written(%a: f32[3] grad, %b: f32[3], %c: f32[2,3], %d: f32[3], %e: f32[3]) {
  %w = mul(%a, 2.0)
  add_(%b, %w)
  transpose_(%c, 0, 1)
  no_grad {
    mul_(%d, 3.0)
  }
  return %w
}

# Two arguments in the same bytes; set_.
func @shared(%a: f32[4] @0, %b: f32[2] @0, %c: f32[3], %d: f32[3]) {
  mul_(%a, 2.0)
  set_(%c, %d)
  return %b
}

# An argument whose history ends.
func @ended(%x: f32[3] grad, %y: f32[3]) {
  mul_(%y, %x)
  detach_(%y)
  return %y
}
---
@written: 1 specialization of at most 64
specialization 0: forward and backward
  captured 4 ops: 0 views, 3 writes, 0 random draws
  inputs
    0  %a  f32[3]    only read; requires grad
    1  %b  f32[3]    written with history, version +1
    2  %c  f32[2,3]  transpose_(0, 1) to f32[3,2]{1,3}, version +1
    3  %d  f32[3]    written without history, version +1
    4  %e  f32[3]    only read
  results
    0  f32[3]  computed, with history
  epilogue, after the forward code, whose outputs are %f0, %f1, ...
    %8 = _made(%f0)
    _assign(%b, %f1, 1)
    transpose_(%c, 0, 1)
    _assign(%d, %f2, 1)
    return %8
  gradients
    in   result 0: f32[3]
    in   written input 1: f32[3]
    out  input 0 %a
  for backward
    nothing is saved
  memory, without inputs and incoming gradients
    saved        0 B  of 0 B that backward reads
    peak        60 B  estimated; 60 B if all of it were saved
  guards
    grad mode on, default dtype f32
    argument 0: f32[3], requires grad, a leaf
    argument 1: f32[3]
    argument 2: f32[2,3]
    argument 3: f32[3]
    argument 4: f32[3]
  backward will be compiled when it first runs
@shared: 1 specialization of at most 64
specialization 0: forward only
  captured 2 ops: 0 views, 2 writes, 0 random draws
  inputs
    0  %a  f32[4]  written without history, version +1
    1  %b  f32[2]  written through another input, version +1
    2  %c  f32[3]  set_ to the storage of input 3, as f32[3]
    3  %d  f32[3]  only its version advances, by 1
  results
    0  input 1 itself
  epilogue, after the forward code, whose outputs are %f0, %f1, ...
    _assign(%a, %f0, 1)
    set_(%c, %d)
    return %b
  guards
    grad mode on, default dtype f32
    argument 0: f32[4]+0
    argument 1: f32[2]+0, shares storage with argument 0
    argument 2: f32[3]+0
    argument 3: f32[3]+0
@ended: 1 specialization of at most 64
specialization 0: forward and backward
  captured 2 ops: 0 views, 2 writes, 0 random draws
  inputs
    0  %x  f32[3]  only read; requires grad
    1  %y  f32[3]  written with history, detached (detach_), version +1
  results
    0  input 1 itself
  epilogue, after the forward code, whose outputs are %f0, %f1, ...
    _assign(%y, %f0, 1)
    detach_(%y)
    return %y
  gradients
    in   written input 1: f32[3]
    out  input 0 %x
  for backward
    %3      clone        12 B  saved       writes, or reads a written input
    donated to backward: <saved 0>
  memory, without inputs and incoming gradients
    saved       12 B  of 12 B that backward reads
    peak        36 B  estimated; 36 B if all of it were saved
  guards
    grad mode on, default dtype f32
    argument 0: f32[3], requires grad, a leaf
    argument 1: f32[3]
  backward will be compiled when it first runs
