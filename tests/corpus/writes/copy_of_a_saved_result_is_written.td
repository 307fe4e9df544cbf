# Refused: a result is a copy of a written value that backward reads, and compiled code saves the elements of both as one tensor; the copy is written before backward
func @f(%p0: f32[2,2] @0) {
  %v0 = custom("own", func @forward(%a: f32[2,2]) {
      %z = mul(%a, 2.0)
      return %z
    }, func @backward(%g: f32[2,2] <tangent 0>) {
      %h = neg(%g)
      return %h <grad 0>
    }, [%p0], [])
  %v4 = sqrt_(%v0)
  %v8 = slice_copy(%v4, 1)
  return %v0, %v8
}
case "a copy of a written result is written" {
  %a0 = full([2,2], 0, f32, requires_grad=true)
  call @f(%a0)
    fill_(%out.1, 1)
  backward seed=9
}
func @g(%p: f32[2]) {
  %s = exp_(%p)
  %y = clone(%s)
  return %y
}
case "a copy of a written argument is written" {
  %a = full([2], 1.0, f32, requires_grad=true)
  %b = mul(%a, 3.0)
  call @g(%b)
  fill_(%out.0, 5.0)
  backward %b
}
