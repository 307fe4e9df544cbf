# detach_ does nothing in inference mode, also where its argument is a view.

func @made(%x: f32[4]) {
  %y = mul(%x, 2)
  inference {
    detach_(%y)
  }
  %v = slice(%y, 0, 0, 2)
  inference {
    detach_(%v)
    %i = mul(%y, 3)
    detach_(%i)
  }
  return %y, %v, %i
}
case "made inside" {
  %x = tensor([1, 2, 3, 4], f32, [4], requires_grad=true)
  call @made(%x)
  backward %out.1
}

func @given(%y: f32[4], %x: f32[4]) {
  inference {
    detach_(%y)
    detach_(%x)
  }
  %z = mul(%x, %y)
  return %z
}
case "a result and a leaf" {
  %x = tensor([1, 2, 3, 4], f32, [4], requires_grad=true)
  %y = mul(%x, 2)
  call @given(%y, %x)
  backward
}
case "a view" {
  %x = tensor([1, 2, 3, 4], f32, [2,2], requires_grad=true)
  %y = mul(%x, 2)
  %v = view(%y, [4])
  %w = view(%x, [4])
  call @given(%v, %w)
  backward
}
