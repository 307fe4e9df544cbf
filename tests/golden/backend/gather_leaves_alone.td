# too few terms; one that somebody else reads; halves, which round after every op;
# deep products, whose operands are larger than what they add up to
# run: infer gather dce functional
func @few(%a: f32[8,2], %b: f32[2,8]) {
  %p = mm(%a, %b)
  %q = mm(%p, %p)
  %r = add(%p, %q)
  return %r
}
func @read(%a: f32[8,2], %b: f32[2,8]) {
  %c = neg(%a)
  %d = exp(%a)
  %e = tanh(%a)
  %p = mm(%a, %b)
  %q = mm(%c, %b)
  %r = mm(%d, %b)
  %s = mm(%e, %b)
  %pq = add(%p, %q)
  %pqr = add(%pq, %r)
  %all = add(%pqr, %s)
  return %all, %q
}
func @halves(%a: f16[64,2], %b: f16[2,64]) {
  %c = neg(%a)
  %d = exp(%a)
  %e = tanh(%a)
  %p = mm(%a, %b)
  %q = mm(%c, %b)
  %r = mm(%d, %b)
  %s = mm(%e, %b)
  %pq = add(%p, %q)
  %pqr = add(%pq, %r)
  %all = add(%pqr, %s)
  return %all
}
func @deep(%a: f32[8,64], %b: f32[64,8]) {
  %c = neg(%a)
  %d = exp(%a)
  %e = tanh(%a)
  %p = mm(%a, %b)
  %q = mm(%c, %b)
  %r = mm(%d, %b)
  %s = mm(%e, %b)
  %pq = add(%p, %q)
  %pqr = add(%pq, %r)
  %all = add(%pqr, %s)
  return %all
}
---
func @few(%a: f32[8,2], %b: f32[2,8]) {
  %p = mm(%a, %b) : f32[8,8]
  %q = mm(%p, %p) : f32[8,8]
  %r = add(%p, %q) : f32[8,8]
  return %r
}

func @read(%a: f32[8,2], %b: f32[2,8]) {
  %c = neg(%a) : f32[8,2]
  %d = exp(%a) : f32[8,2]
  %e = tanh(%a) : f32[8,2]
  %p = mm(%a, %b) : f32[8,8]
  %q = mm(%c, %b) : f32[8,8]
  %r = mm(%d, %b) : f32[8,8]
  %s = mm(%e, %b) : f32[8,8]
  %pq = add(%p, %q) : f32[8,8]
  %pqr = add(%pq, %r) : f32[8,8]
  %all = add(%pqr, %s) : f32[8,8]
  return %all, %q
}

func @halves(%a: f16[64,2], %b: f16[2,64]) {
  %c = neg(%a) : f16[64,2]
  %d = exp(%a) : f16[64,2]
  %e = tanh(%a) : f16[64,2]
  %p = mm(%a, %b) : f16[64,64]
  %q = mm(%c, %b) : f16[64,64]
  %r = mm(%d, %b) : f16[64,64]
  %s = mm(%e, %b) : f16[64,64]
  %pq = add(%p, %q) : f16[64,64]
  %pqr = add(%pq, %r) : f16[64,64]
  %all = add(%pqr, %s) : f16[64,64]
  return %all
}

func @deep(%a: f32[8,64], %b: f32[64,8]) {
  %c = neg(%a) : f32[8,64]
  %d = exp(%a) : f32[8,64]
  %e = tanh(%a) : f32[8,64]
  %p = mm(%a, %b) : f32[8,8]
  %q = mm(%c, %b) : f32[8,8]
  %r = mm(%d, %b) : f32[8,8]
  %s = mm(%e, %b) : f32[8,8]
  %pq = add(%p, %q) : f32[8,8]
  %pqr = add(%pq, %r) : f32[8,8]
  %all = add(%pqr, %s) : f32[8,8]
  return %all
}
