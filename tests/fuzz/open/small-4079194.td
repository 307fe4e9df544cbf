# seed 4079194: functional: line 10: works, functional fails: expect: a size is not as the program expects: [1] == [0]

func @f(%p0) {
  %v3 = randint(0, 1, [], bool)
  %v4 = masked_select(%p0, %v3)
  %v6 = reshape(%v3, [1])
  %v20 = clamp_tensor(%v4, none, %v6)
  return 
}
case "seed 4079194" {
  %a1 = randint(-1, 1, [], f32,)
  call @f(%a1)
}
