# A region gets %p0 as argument and closes over it, too, and takes the gradient of the
# one with respect to the other inside. They are one tensor and the gradient is 1, so
# result 0 is a new tensor, which ne_ then writes.

func @f(%p0: f32[]) {
  no_grad {
    %v2, %v3 = region(func @grad0(%a: f32[], %b: f32[] <const>) {
      return %b, %a
    }, [%p0, %p0])
    %v7 = ne_(%v2, 0.5)
  }
  return %p0, %v3
}
case "a region gradient of a closed-over argument" {
  %a0 = full([], -1, f32, requires_grad=true)
  call @f(%a0) control=true
}
