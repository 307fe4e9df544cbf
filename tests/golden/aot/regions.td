# run: to_joint
# run: to_forward
# run: to_backward
# run: explain
func @stack(%x: f32[2,3] grad, %w: f32[3,3] grad, %v: f32[3,3] grad) {
  %h = region(func @block(%x: f32[2,3], %w: f32[3,3]) {
    %m = matmul(%x, %w)
    %t = tanh(%m)
    %y = add(%x, %t)
    return %y
  }, [%x, %w])
  %y = region(@block, [%h, %v])
  return %y
}
---
# to_joint
func @stack(
    %x: f32[2,3] grad,
    %w: f32[3,3] grad,
    %v: f32[3,3] grad,
    %t0: f32[2,3] <tangent 0>) {
  %4, %5 = call(func @block_forward(%x: f32[2,3] grad, %w: f32[3,3] grad) {
    %2 = mm(%x, %w) : f32[2,3]
    %3 = tanh(%2) : f32[2,3]
    %4 = add(%x, %3) : f32[2,3] grad
    return %4, %2 <saved 2>
  }, [%x, %w]) : (f32[2,3], f32[2,3])
  %6, %7 = call(@block_forward, [%4, %v]) : (f32[2,3], f32[2,3])
  %8, %9 = call(func @block_backward(
      %x: f32[2,3] grad @0 <saved 0>,
      %w: f32[3,3] grad @1 <saved 1>,
      %2: f32[2,3] <saved 2>,
      %t0: f32[2,3] <tangent 0>) {
    %4 = tanh(%2) : f32[2,3]
    %5 = tanh_backward(%t0, %4) : f32[2,3] backward
    %6 = t(%w) : f32[3,3]{1,3} @1 backward
    %7 = mm(%5, %6) : f32[2,3] backward
    %8 = t(%x) : f32[3,2]{1,3} @0 backward
    %9 = mm(%8, %5) : f32[3,3] backward
    %10 = add(%t0, %7) : f32[2,3] backward
    return %10 <grad 0>, %9 <grad 1>
  }, [%4, %v, %7, %t0]) : (f32[2,3], f32[3,3]) backward
  %10, %11 = call(@block_backward, [%x, %w, %5, %8]) : (f32[2,3], f32[3,3]) backward
  return %6, %10 <grad 0>, %11 <grad 1>, %9 <grad 2>
}

# to_forward
func @stack_forward(%x: f32[2,3] grad, %w: f32[3,3] grad, %v: f32[3,3] grad) {
  %3, %4 = call(func @block_forward(%x: f32[2,3] grad, %w: f32[3,3] grad) {
    %2 = mm(%x, %w) : f32[2,3]
    %3 = tanh(%2) : f32[2,3]
    %4 = add(%x, %3) : f32[2,3] grad
    return %4, %2 <saved 2>
  }, [%x, %w]) : (f32[2,3], f32[2,3])
  %5, %6 = call(@block_forward, [%3, %v]) : (f32[2,3], f32[2,3])
  return %5, %3 <saved 3>, %4 <saved 4>, %6 <saved 5>
}

# to_backward
func @stack_backward(
    %x: f32[2,3] grad <saved 0>,
    %w: f32[3,3] grad <saved 1>,
    %v: f32[3,3] grad <saved 2>,
    %3: f32[2,3] <saved 3>,
    %4: f32[2,3] <saved 4>,
    %5: f32[2,3] <saved 5>,
    %t0: f32[2,3] <tangent 0>) {
  %7, %8 = call(func @block_backward(
      %x: f32[2,3] grad @0 <saved 0>,
      %w: f32[3,3] grad @1 <saved 1>,
      %2: f32[2,3] <saved 2>,
      %t0: f32[2,3] <tangent 0>) {
    %4 = tanh(%2) : f32[2,3]
    %5 = tanh_backward(%t0, %4) : f32[2,3] backward
    %6 = t(%w) : f32[3,3]{1,3} @1 backward
    %7 = mm(%5, %6) : f32[2,3] backward
    %8 = t(%x) : f32[3,2]{1,3} @0 backward
    %9 = mm(%8, %5) : f32[3,3] backward
    %10 = add(%t0, %7) : f32[2,3] backward
    return %10 <grad 0>, %9 <grad 1>
  }, [%3, %v, %5, %t0]) : (f32[2,3], f32[3,3]) backward
  %9, %10 = call(@block_backward, [%x, %w, %4, %7]) : (f32[2,3], f32[3,3]) backward
  return %9 <grad 0>, %10 <grad 1>, %8 <grad 2>
}

# explain
@stack: 1 specialization of at most 64
specialization 0: forward and backward
  captured 2 ops: 0 views, 0 writes, 0 random draws
  inputs
    0  %x  f32[2,3]  only read; requires grad
    1  %w  f32[3,3]  only read; requires grad
    2  %v  f32[3,3]  only read; requires grad
  results
    0  f32[2,3]  computed, with history
  epilogue, after the forward code, whose outputs are %f0, %f1, ...
    %4 = _made(%f0)
    return %4
  gradients
    in   result 0: f32[2,3]
    out  input 0 %x
    out  input 1 %w
    out  input 2 %v
  for backward
    %x      input        24 B  saved       an input
    %w      input        36 B  saved       an input
    %v      input        36 B  saved       an input
    %4      call         24 B  saved       not a cheap op
    %5      call         24 B  saved       not a cheap op
    %7      call         24 B  saved       not a cheap op
    donated to backward: <saved 3> <saved 4> <saved 5>
  memory, without inputs and incoming gradients
    saved       72 B  of 72 B that backward reads
    peak       168 B  estimated; 168 B if all of it were saved
  regions, each compiled once
    @block_forward             3 ops, called 2 times
    @block_backward            7 ops, called 2 times
  guards
    grad mode on, default dtype f32
    argument 0: f32[2,3], requires grad, a leaf
    argument 1: f32[3,3], requires grad, a leaf
    argument 2: f32[3,3], requires grad, a leaf
  backward will be compiled when it first runs
