# A compiled call in a checkpoint saves a view of unbind whose base was written; nobody reads its history.

func @f(%p0: f32[]{}+1 @0, %p1: f32[]{}+1 @0, %p2: f32[] @0, %p3: f32[3] @0) {
  no_grad {
    %v7 = round_tens(%p0, 2.0) must_recompute 1
  }
  return %p3, %v7
}
func @g(%q0: f32[1], %q1: f32[1,1], %q2: f32[1]) {
  return 
}
case "seed 182300557" {
  %a0 = tensor([-1, -1, 1], f32, [3], requires_grad=true)
  %a3 = erfc(%a0)
  %a4... = unbind(%a3, 0)
  gt_(%a3, 0)
  call @f(%a4.2, %a4.1, %a4.0, %a3) checkpoint=true module=train
}
