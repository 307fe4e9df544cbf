# seed 303994: compiled: line 12, %out.0 written: fails (result 0 of squeeze_dims is a view and its base or another view of its base has been modified in place. It comes from an op that returns several views; these may not be written. Write out of place), compiled does not

func @f(%p0: f64[3,1]{3,1}+2 @0) {
    %v1 = squeeze_dims(%p0, [-1])
  return %v1
}
case "seed 303994" {
  %a0 = randn([3,3], f32, seed=53, requires_grad=true)
  %a2 = to(%a0, f64)
  %a3... = split_with_sizes(%a2, [2,1], -1)
  call @f(%a3.1)
  no_grad {
    fill_(%out.0, 1)
  }
}
