# The body takes the gradient of a region. A capture with numbers differentiated the region as one op, and one with
# symbols the ops of its body; debug_asserts compared the two.

func @f(%p0) {
  %v3 = region(func @r0(%a: f32[3]) {
      %d = detach(%a)
      %p = mul(%d, %a)
      return %p
    }, [%p0])
  return %v3
}

func @offset(%p0: f32[1]) {
  %v0 = region(func @r0(%a: f32[1]) {
      %v = reshape(%a, [-1])
      %w = mul(%v, 2)
      %r = reshape(%w, [1])
      %q = add(%r, 1)
      return %q
    }, [%p0])
  %v1 = mul(%v0, %v0)
  return %v1
}

case "sizes are symbols" {
  %a0 = tensor([1, -2, 3], f32, requires_grad=true)
  call @f(%a0) grads=true
  backward %out.0 seed=3
  call @f(%a0) grads=true
}

case "an offset is a symbol" {
  %a0 = tensor([1, -2], f32, requires_grad=true)
  %a1 = narrow(%a0, -1, 1, 1)
  call @offset(%a1) grads=true control=true
  backward
  call @offset(%a1) grads=true control=true
  backward
}
