# A custom backward writes the gradient it gets, which is the caller's tangent.

func @f(%x: f32[2] grad @0) {
  %y = custom("own", func @forward(%a: f32[2]) {
      %z = mul(%a, 2.0)
      return %z
    }, func @backward(%g: f32[2] <tangent 0>) {
      mul_(%g, 3.0)
      %h = mul(%g, 2.0)
      return %h <grad 0>
    }, [%x], [])
  return %y
}

case "a tangent without gaps" {
  %x = tensor([1, 2], f32, requires_grad=true)
  %t = tensor([1, 10], f32)
  call @f(%x)
  backward %out.0 with %t retain_graph=true
  backward %out.0 with %t
}

case "one with other strides" {
  %x = tensor([1, 2], f32, requires_grad=true)
  %all = tensor([1, 2, 3, 4], f32)
  %t = slice(%all, 0, 1, 4, 2)
  call @f(%x)
  backward %out.0 with %t
}

case "one whose elements share a place" {
  %x = tensor([1, 2], f32, requires_grad=true)
  %one = tensor([3], f32)
  %t = expand(%one, [2])
  call @f(%x)
  backward %out.0 with %t
}

case "with gradients of gradients" {
  %x = tensor([1, 2], f32, requires_grad=true)
  %t = tensor([1, 10], f32)
  call @f(%x)
  backward %out.0 with %t create_graph=true
}

case "other strides, with gradients of gradients" {
  %x = tensor([1, 2], f32, requires_grad=true)
  %all = tensor([1, 2, 3, 4], f32)
  %t = slice(%all, 0, 1, 4, 2)
  call @f(%x)
  backward %out.0 with %t create_graph=true
}
