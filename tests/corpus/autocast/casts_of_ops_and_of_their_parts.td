# A traced graph has other ops than its program (addmm for addmm_, dot for a product of vectors, parts for losses),
# to which autocast would apply other casts. Therefore the casts are recorded as ops, and the traced ops run with
# autocast off.

func @writes(%x: f32[2,2], %b: f32[1,2,2]) {
  addmm_(%x, %x, %x)
  baddbmm_(%b, %b, %b)
  %y = silu(%x)
  return %y
}
case "products in place are not cast" {
  %x = randn([2,2], seed=1)
  %b = randn([1,2,2], seed=2)
  call @writes(%x, %b) autocast=bf16
  call @writes(%x, %b)
}

func @vectors(%x: f32[3], %w: f32[3]) {
  %y = matmul(%x, %w)
  %z = linear(%x, %w)
  %f = to(%z, f32, false)
  return %y, %f
}
case "products of vectors are cast" {
  %x = randn([3], seed=1, requires_grad=true)
  %w = randn([3], seed=2, requires_grad=true)
  call @vectors(%x, %w) autocast=bf16
  backward
  call @vectors(%x, %w) autocast=f16
}

func @loss(%x: f16[2,2]) {
  %y = smooth_l1_loss(%x, %x, "sum")
  return %y
}
case "a loss of halves is in f32" {
  %x = randn([2,2], f16, seed=1)
  call @loss(%x) autocast=bf16
  call @loss(%x)
}

func @halves(%x: f32[2,2]) {
  %a = full([2,2], 2, f16)
  %b = exp(%x)
  %y = cat([%a, %b])
  return %y
}
case "the other half type" {
  %x = randn([2,2], seed=1)
  call @halves(%x) autocast=bf16
}
