# seed 68180669: compiled: line 13: %a0's gradient: element 0 is 1, compiled 1.1269477605819702; line 13: %out.1's gradient: element 0 is 1, compiled 1.1269477605819702

func @f(%p0: f32[2,2], %p1: f32[2,2]) {
    %v0 = max_pool1d(%p0, [1])
  random_(%v0, none, none)
  %v3 = randint(0, 2, [2], i64)
  index_copy_(%p0, 0, %v3, %p1)
  %v9 = lerp_(%p0, %p1, %v0)
  return %p0, %p1
}
case "seed 68180669" {
  %a0 = full([2,2], 1, f32, requires_grad=true)
  %a1 = tensor([-2, 0, 0, -1], f32, [2,2])
  call @f(%a1, %a0)
  backward seed=1
}
