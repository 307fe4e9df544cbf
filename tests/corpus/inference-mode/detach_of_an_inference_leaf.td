# detach_ leaves an inference tensor as it was: a leaf that requires grad, and a view.

func @f(%x) {
  detach_(%x)
  %y = mul(%x, 2.0)
  return %x
}

case "a leaf" {
  inference {
    %a = full([3], 1, f32, requires_grad=true)
  }
  call @f(%a)
}

case "a view" {
  inference {
    %a = full([3], 1, f32)
    %b = narrow(%a, 0, 0, 2)
  }
  call @f(%b)
}
