# seed 31230763: compiled: line 11: both fail: as_strided_scatter: sizes [8], strides [1] at offset 0 need 32 bytes, the storage has 16; compiled: copy_: several elements of the written tensor f32[2,2] share one place in memory (an expanded view?); clone it first

func @f(%p0: f32[2,2,2]) {
  %v1 = ravel(%p0)
  %v2 = as_strided_(%p0, [2,2], [1,0])
    erfc_(%v1)
  return %v1
}
case "seed 31230763" {
  %a0 = randint(-2, 2, [2,2,2], f32, seed=82, requires_grad=true)
  %a1 = exp(%a0)
  call @f(%a1)
  backward
}
