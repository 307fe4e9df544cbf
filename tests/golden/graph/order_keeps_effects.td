# nothing crosses a write, a draw or the edge of a region
# run: order
func @f(%x: f32[2]) {
  %b = exp(%x)
  %a = neg(%x)
  add_(%x, 1.0)
  %d = exp(%x)
  %c = neg(%x)
  %r = rand([2])
  no_grad {
    %f = exp(%x)
    %e = neg(%x)
  }
  %s = stack([%a, %b, %c, %d, %e, %f])
  return %s
}
---
func @f(%x: f32[2]) {
  %a = neg(%x)
  %b = exp(%x)
  add_(%x, 1.0)
  %c = neg(%x)
  %d = exp(%x)
  %r = rand([2])
  no_grad {
    %e = neg(%x)
    %f = exp(%x)
  }
  %s = stack([%a, %b, %c, %d, %e, %f])
  return %s
}
