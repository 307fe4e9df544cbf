# A storage grows past elements whose number may be a symbol.

func @f(%p0: f32[2] @0) {
  resize_(%p0, [2,2])
  return 
}
case "storage grows after a symbolic size" {
  %a1 = randint(-2, 2, [2], f32,)
  %a4 = reshape_as(%a1, %a1)
  call @f(%a4)
}
