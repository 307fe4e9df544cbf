# A write to a view gave the pair inner tensors in the order of its dims, not in the strides they had.

func @f(%p0: f32[1,3,3,3]{9,27,1,3}+18 @0, %p1: f32[1,3,3,3]{9,27,1,3}+9 @0, %p2: f32[1,3,3,3]{9,27,1,3}+9 @0) {
  %v1 = mul(%p2, 1)
  %v2 = neg(%p2)
  %v3 = _wrap([%v1, %v2], "fz_pair", "", [1,3,3,3], [], f32)
    %v10 = unfold(%v3, -3, 1, 1)
  %v11 = randint(0, 1, [1,1,3,3,1], i64)
  %v12 = scatter_value_(%v10, 1, %v11, 2.0)
  return %v12
}
case "seed 1220179451" {
  %a0 = randn([3,3,3,3], f32,)
  %a4 = movedim(%a0, [3,-3], [1,-1])
  %a5... = split(%a4, 1)
  call @f(%a5.2, %a5.1, %a5.1)
}
