# A view that set_ moved with gradients on is written: gradients go to the base of the view, not to set_.

func @g(%q0: f32[2,2,2]) {
  threshold_(%q0, 2, -1.5)
  return 
}
case "g only" {
  %a1 = randint(-2, 2, [2,2,2], f32, seed=54, requires_grad=true)
  %a3 = diff(%a1)
  %a4 = reciprocal(%a3)
  %v0 = reshape_as(%a4, %a4)
  set_(%v0, %a1)
  call @g(%v0)
  backward %v0
}
