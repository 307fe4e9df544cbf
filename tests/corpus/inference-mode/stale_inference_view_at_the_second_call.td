# The first call leaves a stale view that takes no gradients; the second makes its base a leaf and reads the view's
# grad_fn.
func @f(%p0: f32[3,4] @0, %p1: f32[3,4] @0) {
  requires_grad_(%p1)
  %v10 = slice(%p0, 1, 1)
  no_grad {
    detach_(%p1)
    uniform_(%v10, 0.5)
  }
  return 
}
case "seed 77118314" {
  %a0 = tensor([0, 1, 1, 0, 0, -1, -1, -1, 3, 1, 0, 1], f32, [3,4])
  inference {
    %a2 = permute(%a0, [0,1])
  }
  call @f(%a2, %a0)
  call @f(%a2, %a0)
}
