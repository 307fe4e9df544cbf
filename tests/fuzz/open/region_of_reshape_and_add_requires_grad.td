# The result of a compiled region requires grad, eager's does not.
# seed 77102181: functional: line 13: %out.0 does not have requires_grad, functional does; line 13: %out.0 has is_leaf, functional does not

func @f( %p1: f32[1,1,1]) {
  %v1 = region(func @r0(%a: f32[1,1,1]) {
      %v = reshape(%a, [-1])
      %q = add(%v, 1)
      return %q
    }, [%p1])
  return  %v1
}
case "seed 77102181" {
  inference {
    %a3 = randint(-1, 1, [1,1,1], f32, seed=87, requires_grad=true)
  }
  call @f( %a3)
}
