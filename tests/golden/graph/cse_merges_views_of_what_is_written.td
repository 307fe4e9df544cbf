# equal views of %a are one before the write, but not across it
# run: cse
func @f(%x: f32[2,3]) {
  %a = neg(%x)
  %v = t(%a)
  %w = t(%a)
  %b = add(%v, %w)
  fill_(%v, 1.0)
  %u = t(%a)
  %c = add(%w, %u)
  %y = add(%b, %c)
  return %y
}
---
func @f(%x: f32[2,3]) {
  %a = neg(%x)
  %v = t(%a)
  %b = add(%v, %v)
  fill_(%v, 1.0)
  %u = t(%a)
  %c = add(%v, %u)
  %y = add(%b, %c)
  return %y
}
