# A dtype view is not used in place of other views of the same elements.

func @f(%p0: bf16[6], %p1: f32[3], %p2: f32[3]) {
  %v7 = logical_or_(%p1, %p2)
  return
}
case "dtype view does not replace other views" {
  %a1 = randint(-3, 1, [3], f32)
  %a3 = randn([3], f32, seed=79, requires_grad=true)
  %a4 = reshape_as(%a1, %a3)
  %a5 = view_dtype(%a1, bf16)
  call @f(%a5, %a4, %a3)
}
