# run: to_plan
# What a call does after its forward code: who requires grad, and views.
func @leaves(%x: f32[3], %w: f32[3] grad) {
  %p = ones([3])
  requires_grad_(%p)
  %y = mul(%p, %w)
  mul_(%x, %y)
  detach_(%x)
  return %p, %y
}

# Results that are views of a tensor that is no result; one of them detached, one made
# in inference mode.
func @views(%x: f32[2,3] grad, %n: int) {
  %m = exp(%x)
  %t = transpose(%m, 0, 1)
  %d = detach(%m)
  inference {
    %q = mul(%x, 2.0)
  }
  no_grad {
    %v = select(%x, 0, 1)
  }
  return %t, %d, %q, %v, %x, %n, none
}

# Two inputs in one storage; the second is only read.
func @shared(%a: f32[4] @0, %b: f32[2] @0) {
  mul_(%a, 2.0)
  %y = exp(%b)
  return %y, %b
}
---
func @leaves(
    %x: f32[3],
    %w: f32[3],
    %f0: f32[3],
    %f1: f32[3],
    %f2: f32[3] <update 0>,
    %node: f32[3] grad) {
  %6 = _made(%f0)
  requires_grad_(%6)
  _bind(%6, %node, 1, false, true)
  %9 = _made(%f1)
  _assign(%x, %f2, 1)
  detach_(%x)
  return %6, %9
}

func @views(%x: f32[2,3], %n, %f0: f32[2,3] <base>, %f1: f32[2,3]) {
  %4 = _made(%f0)
  %5 = transpose(%4, 0, 1) : f32[3,2]{1,3} grad
  %6 = detach(%4) : f32[2,3]
  inference {
    %7 = _made(%f1)
  }
  no_grad {
    %8 = select(%x, 0, 1) : f32[3]+3 grad
  }
  return %5, %6, %7, %8, %x, 0, none
}

func @shared(%a: f32[4], %b: f32[2], %f0: f32[4] <update 0>, %f1: f32[2]) {
  _assign(%a, %f0, 1)
  %5 = _made(%f1)
  return %5, %b
}
