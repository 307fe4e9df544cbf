# a and b are equal but a is written through a view
# run: cse
func @f(%x: f32[2]) {
  %a = neg(%x)
  %b = neg(%x)
  %v = select(%a, 0, 0)
  fill_(%v, 1.0)
  %y = add(%a, %b)
  return %y
}
---
func @f(%x: f32[2]) {
  %a = neg(%x)
  %b = neg(%x)
  %v = select(%a, 0, 0)
  fill_(%v, 1.0)
  %y = add(%a, %b)
  return %y
}
