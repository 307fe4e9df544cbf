# Eager: the tangent is the result itself, and .grad takes over its bytes, so that a write to the result changes .grad; the
# functional form gives a tensor of its own.
# seed 9105600743: functional: line 11, %out.0 written: %a2's gradient: element 0 is 8.4511203765869141, functional 6.4511198997497559

func @f(%p0: f32[] @0) {
  %v0 = squeeze_dims_copy(%p0, [])
  %v1 = randn([], f32)
  %v2 = randn([], f32)
  %v3 = addcdiv_(%v0, %v1, %v2, -1)
  return %v0
}
case "seed 9105600743" {
  %a2 = tensor([0], f32, [], requires_grad=true)
  call @f(%a2)
  backward %out.0 with %out.0
}
