# Refused: a value saved for backward shares storage with a result that is written.

func @f( %p1) {
  %v4 = softsign(%p1)
  %v8 = unflatten(%v4, -1, [1,1])
  return %p1, %v8
}
case "seed 134098129" {
  %a1 = randn([1,1], f32, seed=75, requires_grad=true)
  call @f( %a1)
  no_grad {
    fill_(%out.1, 1)
  }
  backward %out.1
}
