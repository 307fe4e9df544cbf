# Eager runs a region with td_grad inside as its ops, so that the gradient is a view of the tangent, and .grad takes over
# its bytes; the compiled region is one op, whose gradients are new tensors. A second backward then adds to the tangent, or not.
func @f( %p1: f32[1]) {
  %v5 = region(func @grad1(%a: f32[1]) {
      %v = unsqueeze(%a, 0)
      return %v
    }, [%p1])
  return %v5
}
case "gradient of a region that is a view of the tangent" {
  %a2 = full([1], 1, f32, requires_grad=true)
  call @f( %a2) control=true
  %t = randn([1,1], f32,)
  backward %out.0 with %t
  backward
}
