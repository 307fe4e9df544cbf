# A view that becomes a leaf while its base requires grad is stale until its base is detached; an op reads it after that.

func @f(%p0: f32[1,1] @0, %p1: f32[1,1] @0) {
  %v0 = ge_(%p0, 0)
  requires_grad_(%p1, true)
  requires_grad_(%v0)
  detach_(%p1)
  return  %v0
}
case "seed 91592961" {
  %a0 = randint(-1, 1, [1,1], f32,)
  %a1 = alias(%a0)
  call @f(%a1, %a0) module=train
}
