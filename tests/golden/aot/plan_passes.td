# run: merge_writes=off merge_made=off assign_writes=off to_plan
# run: merge_made=off assign_writes=off to_plan
# run: merge_writes=off assign_writes=off to_plan
# run: merge_writes=off merge_made=off to_plan
# run: to_plan
# What each pass makes of the plan of a call: none of them, each alone, all. Two writes
# of an input, one under no_grad, then two of a row of a new tensor.
func @f(%x: f32[2,3], %w: f32[3] grad) {
  mul_(%x, %w)
  no_grad {
    add_(%x, 1.0)
  }
  %y = exp(%x)
  %v = select(%y, 0, 1)
  mul_(%v, 2.0)
  mul_(%v, %w)
  return %y, %v
}
---
# merge_writes=off merge_made=off assign_writes=off to_plan
func @f(
    %x: f32[2,3],
    %w: f32[3],
    %f0: f32[2,3] <update 0>,
    %f1: f32[2,3] <update 0>,
    %f2: f32[2,3],
    %f3: f32[3] <base>,
    %f4: f32[3] <base>) {
  no_grad {
    copy_(%x, %f0)
    _give(%x, %f0, 0, true)
    copy_(%x, %f1)
    %10 = _made(%f2)
  }
  %11 = select(%10, 0, 1) : f32[3]+3 grad
  copy_(%11, %f3)
  copy_(%11, %f4)
  return %10, %11
}

# merge_made=off assign_writes=off to_plan
func @f(
    %x: f32[2,3],
    %w: f32[3],
    %f0: f32[2,3] <update 0>,
    %f1: f32[2,3],
    %f2: f32[3] <base>) {
  no_grad {
    copy_(%x, %f0)
    _give(%x, %f0, 0, true)
    _bump(%x, 1)
    %8 = _made(%f1)
  }
  %9 = select(%8, 0, 1) : f32[3]+3 grad
  copy_(%9, %f2)
  _bump(%9, 1)
  _touch(%9)
  return %8, %9
}

# merge_writes=off assign_writes=off to_plan
func @f(
    %x: f32[2,3],
    %w: f32[3],
    %f0: f32[2,3] <update 0>,
    %f1: f32[2,3] <update 0>,
    %f2: f32[2,3],
    %f3: f32[3] <base>) {
  no_grad {
    copy_(%x, %f0)
    _give(%x, %f0, 0, true)
    copy_(%x, %f1)
    %9 = _made(%f2)
  }
  %10 = select(%9, 0, 1) : f32[3]+3 grad
  _bump(%9, 1)
  _touch(%10)
  copy_(%10, %f3)
  return %9, %10
}

# merge_writes=off merge_made=off to_plan
func @f(
    %x: f32[2,3],
    %w: f32[3],
    %f0: f32[2,3] <update 0>,
    %f1: f32[2,3] <update 0>,
    %f2: f32[2,3],
    %f3: f32[3] <base>,
    %f4: f32[3] <base>) {
  _assign(%x, %f0, 1)
  _assign(%x, %f1, 1)
  %9 = _made(%f2)
  %10 = select(%9, 0, 1) : f32[3]+3 grad
  copy_(%10, %f3)
  copy_(%10, %f4)
  return %9, %10
}

# to_plan
func @f(%x: f32[2,3], %w: f32[3], %f0: f32[2,3] <update 0>, %f1: f32[2,3]) {
  _assign(%x, %f0, 2)
  %5 = _made(%f1)
  %6 = select(%5, 0, 1) : f32[3]+3 grad
  _bump(%5, 2)
  _touch(%6)
  return %5, %6
}
