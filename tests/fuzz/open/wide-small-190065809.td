# seed 190065809: functional only: works, functional fails: requires_grad can be changed for leaves only

func @f( %p1: f32[3,2,3,3]) {
  %v0 = requires_grad_(%p1, false)
  return 
}
case "seed 190065809" {
  %a0 = tensor([3, 1, 1, 3, 0, -2, 3, 0, 1], f32, [3,3], requires_grad=true)
  %a1 = full([3,2,3,3], 1, f32)
  %a3 = squeeze_dims(%a1, [1,2])
  addcdiv_(%a1, %a1, %a0)
  call @f( %a3)
}
