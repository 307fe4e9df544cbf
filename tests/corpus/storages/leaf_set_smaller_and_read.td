# A leaf is given other sizes by set_ while a view of it lives, and read then.

func @f(%p1: f32[2,2] @0, %p2: f32[1,2] @0) {
  no_grad {
    %v0 = set_(%p1, %p1, 2, [2], [1])
  }
  %v10 = mul(%p1, 3.0)
  return %v10
}
case "a" {
  %a0 = full([2,2], 0, f32, requires_grad=true)
  %a1... = split(%a0, 1, -2)
  call @f(%a0, %a1.0)
  backward
}
