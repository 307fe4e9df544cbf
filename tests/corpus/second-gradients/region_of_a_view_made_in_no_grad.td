# A region with .once was captured for a view made in no_grad mode, with respect to which nothing has a
# gradient, and taken for a tensor that has one.

func @f(%p0) {
  %v0 = region(func @once_grad0(%a: f32[3]) {
        %p = mul(%a, %a)
      return %p
    }, [%p0])
  %v1 = region(@once_grad0, [%v0])
  return %v0, %v1
}
case "fixed sizes" {
  %a0 = tensor([1.0,2.0,0.0], f32, [3], requires_grad=true)
  no_grad {
    %a7 = expand(%a0, [3])
  }
  call @f(%a7) control=true
}
case "dynamic sizes" {
  %a0 = tensor([1.0,2.0,0.0], f32, [3], requires_grad=true)
  no_grad {
    %a7 = expand(%a0, [3])
  }
  call @f(%a7) control=true dynamic=maybe
}
