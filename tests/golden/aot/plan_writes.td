# run: to_plan
# What a call does after its forward code: writes. Elements that several writes bring
# are written once, and the version counter moves by all of them.
func @often(%x: f32[3], %w: f32[3] grad) {
  mul_(%x, %w)
  add_(%x, 1.0)
  %s = sum(%x)
  return %s
}

# A view of an input is written, read and written again: the copy_ is seen by the
# history of %x, the last write is under no_grad.
func @rows(%x: f32[2,3], %w: f32[3] grad) {
  %v = select(%x, 0, 1)
  mul_(%v, %w)
  %s = sum(%x)
  no_grad {
    add_(%v, 1.0)
  }
  return %v, %s
}

# A new tensor is made with the elements it has in the end.
func @fresh(%x: f32[2,3] grad) {
  %y = mul(%x, 2.0)
  %v = select(%y, 0, 0)
  mul_(%v, 3.0)
  return %y, %v
}
---
func @often(%x: f32[3], %w: f32[3], %f0: f32[3] <update 0>, %f1: f32[]) {
  _assign(%x, %f0, 2)
  %5 = _made(%f1)
  return %5
}

func @rows(%x: f32[2,3], %w: f32[3], %f0: f32[3] <base>, %f1: f32[]) {
  %4 = select(%x, 0, 1) : f32[3]+3 grad
  copy_(%4, %f0)
  %6 = _made(%f1)
  _bump(%4, 1)
  return %4, %6
}

func @fresh(%x: f32[2,3], %f0: f32[2,3]) {
  %2 = _made(%f0)
  %3 = select(%2, 0, 0) : f32[3] grad
  _bump(%2, 1)
  _touch(%3)
  return %2, %3
}
