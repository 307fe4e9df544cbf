# seed 303632: compiled: line 10: works, compiled fails: @f: a symbolic size is not known yet

func @f(%p0: f32[1,4]) {
  %v11 = nonzero(%p0)
  %v12 = randint(-3, 4, [1,1], i64)
  addcmul_(%v11, %v12, %v11, 3)
  return 
}
case "seed 303632" {
  %a1 = tensor([1, -2, -2, 0, 1, -2, 1, 0, -1, 0, 2, 1], f32, [1,4,3])
  %a2... = unbind(%a1, 2)
  call @f(%a2.2)
}
