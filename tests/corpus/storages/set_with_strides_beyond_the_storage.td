# set_ with strides beyond a storage, written before and after.

func @f( %p1: f32[2,2]) {
  %v3 = randn([2,2], f32)
  %v4 = set_(%p1, %v3, 0, [2,2], [2,3])
  %v7 = randint(0, 2, [2,2], i64)
  scatter_add_(%v4, 1, %v7, %v3)
  %v9 = trunc_(%v3)
  clamp_max_(%p1, -1)
  return 
}
case "strides beyond the storage" {
  %a1 = randn([2,2], f32, seed=43, requires_grad=true)
  %a8 = _softmax(%a1, -1, false)
  %a9 = slice(%a8)
  call @f( %a9)
}
