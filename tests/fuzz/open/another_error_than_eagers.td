# Dynamic: a view that eager refuses to tell and whose storage is gone; both fail, with other messages.

func @f(%p0: f32[1,2,2], %p1: f32[2] <const>) {
  inference {
    %v3 = full([2,0,2], 0, f32)
    set_(%p0, %v3)
    clamp_max_(%p1, %p1)
  }
  return %p1
}
func @g(%q0: f32[2,0,2]) {
  return 
}
case "seed 440585705" {
  %a1 = full([1,2,2], 0, f32, requires_grad=true)
  %a3 = squeeze(%a1)
  %a4... = unbind(%a3, -2)
  call @f(%a1, %a4.1) module=train
}
