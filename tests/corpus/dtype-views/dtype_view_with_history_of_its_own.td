# A view that reinterprets bits has no history of its base's: written, it has its own.

func @f(%p0: f32[1,1], %p1: f32[1,1]) {
  %v7 = sinh_(%p0)
  return
}
case "a dtype view with a history of its own" {
  %a0 = randn([1,1], f32, seed=48, requires_grad=true)
  %a3 = view_dtype(%a0, f32)
  copy_(%a3, %a0)
  call @f(%a3, %a0)
}
