# What a branch saves is handed to its backward: the products run once.
# run: to_joint
# run: to_backward
func @choose(%p: bool[], %x: f32[2,3] grad, %w: f32[3,3] grad) {
  %y = cond(%p, func @yes(%x: f32[2,3], %w: f32[3,3]) {
    %m = matmul(%x, %w)
    %t = tanh(%m)
    %n = matmul(%t, %w)
    %y = sin(%n)
    return %y
  }, func @no(%x: f32[2,3], %w: f32[3,3]) {
    %y = exp(%x)
    return %y
  }, [%x, %w])
  return %y
}
---
# to_joint
func @choose(
    %p: bool[],
    %x: f32[2,3] grad,
    %w: f32[3,3] grad,
    %t0: f32[2,3] <tangent 0>) {
  %4, %5, %6 = cond(%p, func @yes_forward(%x0: f32[2,3], %x1: f32[3,3]) {
    %2 = mm(%x0, %x1) : f32[2,3]
    %3 = tanh(%2) : f32[2,3]
    %4 = mm(%3, %x1) : f32[2,3]
    %5 = sin(%4) : f32[2,3]
    return %5, %3, %4
  }, func @no_forward(%x0: f32[2,3], %x1: f32[3,3]) {
    %2 = exp(%x0) : f32[2,3]
    %3 = empty_strided([2,3], [3,1], f32) : f32[2,3]
    return %2, %2, %3
  }, [%x, %w]) : (f32[2,3], f32[2,3], f32[2,3])
  %7, %8 = cond(%p, func @yes_backward(
      %x0: f32[2,3] @0,
      %x1: f32[3,3] @1,
      %x2: f32[2,3] @2,
      %x3: f32[2,3],
      %x4: f32[2,3]) {
    %5 = cos(%x3) : f32[2,3] backward
    %6 = mul(%x4, %5) : f32[2,3] backward
    %7 = t(%x1) : f32[3,3]{1,3} @1 backward
    %8 = mm(%6, %7) : f32[2,3] backward
    %9 = t(%x2) : f32[3,2]{1,3} @2 backward
    %10 = mm(%9, %6) : f32[3,3] backward
    %11 = tanh_backward(%8, %x2) : f32[2,3] backward
    %12 = mm(%11, %7) : f32[2,3] backward
    %13 = t(%x0) : f32[3,2]{1,3} @0 backward
    %14 = mm(%13, %11) : f32[3,3] backward
    %15 = add(%10, %14) : f32[3,3] backward
    return %12, %15
  }, func @no_backward(
      %x0: f32[2,3],
      %x1: f32[3,3],
      %x2: f32[2,3],
      %x3: f32[2,3],
      %x4: f32[2,3]) {
    %5 = mul(%x4, %x2) : f32[2,3] backward
    %6 = zeros([3,3], f32) : f32[3,3]
    return %5, %6
  }, [%x, %w, %5, %6, %t0]) : (f32[2,3], f32[3,3]) backward
  return %4, %7 <grad 0>, %8 <grad 1>
}

# to_backward
func @choose_backward(
    %p: bool[] <saved 0>,
    %x: f32[2,3] grad <saved 1>,
    %w: f32[3,3] grad <saved 2>,
    %3: f32[2,3] <saved 3>,
    %4: f32[2,3] <saved 4>,
    %t0: f32[2,3] <tangent 0>) {
  %6, %7 = cond(%p, func @yes_backward(
      %x0: f32[2,3] @0,
      %x1: f32[3,3] @1,
      %x2: f32[2,3] @2,
      %x3: f32[2,3],
      %x4: f32[2,3]) {
    %5 = cos(%x3) : f32[2,3] backward
    %6 = mul(%x4, %5) : f32[2,3] backward
    %7 = t(%x1) : f32[3,3]{1,3} @1 backward
    %8 = mm(%6, %7) : f32[2,3] backward
    %9 = t(%x2) : f32[3,2]{1,3} @2 backward
    %10 = mm(%9, %6) : f32[3,3] backward
    %11 = tanh_backward(%8, %x2) : f32[2,3] backward
    %12 = mm(%11, %7) : f32[2,3] backward
    %13 = t(%x0) : f32[3,2]{1,3} @0 backward
    %14 = mm(%13, %11) : f32[3,3] backward
    %15 = add(%10, %14) : f32[3,3] backward
    return %12, %15
  }, func @no_backward(
      %x0: f32[2,3],
      %x1: f32[3,3],
      %x2: f32[2,3],
      %x3: f32[2,3],
      %x4: f32[2,3]) {
    %5 = mul(%x4, %x2) : f32[2,3] backward
    %6 = zeros([3,3], f32) : f32[3,3]
    return %5, %6
  }, [%x, %w, %3, %4, %t0]) : (f32[2,3], f32[3,3]) backward
  return %6 <grad 0>, %7 <grad 1>
}
