# seed 336501: compiled: line 9, %out.0 written: fails (add_: result 0 of permute is a view and is being modified in place. It comes from an op that returns several views; these may not be written. Write out of place), compiled does not

func @f(%p0: f32[1,1,3,2]) {
  %v0 = permute(%p0, [1,2,3,0])
  return %v0
}
case "seed 336501" {
  %a0 = randn([3,1,3,2], f32, seed=7, requires_grad=true)
  %a1 = to(%a0, f32, true)
    %a2... = split(%a1, 2)
  call @f(%a2.1)
}
