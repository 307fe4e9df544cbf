# run: to_plan
# What a call does after its forward code: geometry and storages, in program order
# between the writes.
func @turned(%x: f32[2,3], %w: f32[3] grad) {
  mul_(%x, %w)
  t_(%x)
  no_grad {
    unsqueeze_(%x, 0)
    add_(%x, 1.0)
  }
  return %x
}

# The input moves to the storage of a result.
func @moved(%x: f32[3], %y: f32[3], %w: f32[3] grad) {
  %m = mul(%y, 2.0)
  no_grad {
    set_(%x, %m)
  }
  mul_(%x, %w)
  %v = slice(%x, 0, 1, 3)
  return %v, %m
}
---
func @turned(
    %x: f32[2,3],
    %w: f32[3],
    %f0: f32[2,3] <update 0>,
    %f1: f32[1,3,2]{3,1,3} <update 0>) {
  _assign(%x, %f0, 1)
  t_(%x) : f32[3,2]{1,3}
  no_grad {
    unsqueeze_(%x, 0) : f32[1,3,2]{3,1,3}
    _assign(%x, %f1, 1)
  }
  return %x
}

func @moved(
    %x: f32[3],
    %y: f32[3],
    %w: f32[3],
    %f0: f32[3],
    %f1: f32[3] <update 0>) {
  %5 = _made(%f0)
  no_grad {
    set_(%x, %5) : f32[3]
    _assign(%x, %f1, 1)
  }
  %8 = slice(%x, 0, 1, 3) : f32[2]+1 grad
  return %8, %5
}
