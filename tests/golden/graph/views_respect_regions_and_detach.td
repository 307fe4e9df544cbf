# a view made without history is another tensor than the one with it
# run: infer views dce
func @f(%x: f32[2,3]) {
  no_grad {
    %a = transpose(%x, 0, 1)
  }
  %b = transpose(%a, 0, 1)
  %c = detach(%x)
  %d = view(%c, [3,2])
  %e = view(%d, [2,3])
  %s = add(%b, %e)
  return %s
}
---
func @f(%x: f32[2,3] @0) {
  no_grad {
    %a = transpose(%x, 0, 1) : f32[3,2]{1,3} @0
  }
  %b = transpose(%a, 0, 1) : f32[2,3] @0
  %c = detach(%x) : f32[2,3] @0
  %s = add(%b, %c) : f32[2,3]
  return %s
}
