# two draws are two draws
# run: cse
func @f(%x: f32[2]) {
  %a = rand_like(%x)
  %b = rand_like(%x)
  %c = dropout(%x)
  %d = dropout(%x)
  %e = add(%a, %b)
  %f = add(%c, %d)
  %g = add(%e, %f)
  return %g
}
---
func @f(%x: f32[2]) {
  %a = rand_like(%x)
  %b = rand_like(%x)
  %c = dropout(%x)
  %d = dropout(%x)
  %e = add(%a, %b)
  %f = add(%c, %d)
  %g = add(%e, %f)
  return %g
}
