# as_strided_scatter of an expanded tensor addresses a dense copy, not the storage of the
# written argument behind it.

func @f(%p0: f32[2,2,1]) {
  remainder_(%p0, %p0)
  %v3 = randint(-2, 2, [2], f32)
  %v4... = broadcast_tensors([%p0, %p0, %v3])
  %v10 = as_strided_scatter(%v4.1, %v4.1, [2,2,2], [2,1,1], none)
  return %v10
}
case "seed 3800202107" {
  %a1 = randn([2,2,1], f32,)
  call @f(%a1)
}
