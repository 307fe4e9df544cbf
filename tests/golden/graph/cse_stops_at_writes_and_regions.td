# x is another after the write, and a result has no history inside no_grad
# run: cse
func @f(%x: f32[2]) {
  %a = neg(%x)
  add_(%x, 1.0)
  %b = neg(%x)
  no_grad {
    %c = neg(%x)
  }
  %d = neg(%x)
  %e = add(%a, %b)
  %g = add(%c, %d)
  %h = add(%e, %g)
  return %h
}
---
func @f(%x: f32[2]) {
  %a = neg(%x)
  add_(%x, 1.0)
  %b = neg(%x)
  no_grad {
    %c = neg(%x)
  }
  %d = neg(%x)
  %e = add(%a, %b)
  %g = add(%c, %d)
  %h = add(%e, %g)
  return %h
}
