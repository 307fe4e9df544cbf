# Eager runs a region with a gradient inside as its ops, so that the gradient is a view of
# the tangent, and .grad takes over its bytes: a second backward adds to the tangent. The
# call of the region's backward half gave a new tensor.

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

# The region's passes remove a view of all of the tangent; its gradient is still one.
func @g(%p0: f32[2,2]) {
  %y = region(func @squeezed(%a: f32[2,2]) {
      %v = squeeze(%a)
      %w = add(%v, 1.0)
      return %w
    }, [%p0])
  return %y
}
case "a view of all of the tangent" {
  %a = randn([2,2], f32, requires_grad=true)
  call @g(%a)
  %t = randn([2,2], f32)
  backward %out.0 with %t
  backward
}
func @h(%p0: f32[2,3]) {
  %y = region(func @turned(%a: f32[2,3]) {
      %v = t(%a)
      %w = add(%v, 1.0)
      return %w
    }, [%p0])
  return %y
}
case "a transposed tangent" {
  %a = randn([2,3], f32, requires_grad=true)
  call @h(%a)
  %t = randn_like(%out.0)
  backward %out.0 with %t
  backward
}
