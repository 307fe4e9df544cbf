# Sizes that depend on values are asked for as numbers (split_with_sizes, narrow): the code is for those of the call.

func @f(%p0: f32[1,3,1] @0) {
  %v0 = randint(0, 2, [3,3,3], bool)
  %v1 = masked_select(%p0, %v0)
  %v5 = narrow(%v1, 0, 3, 3)
  %v12 = randint(0, 2, [3], bool)
  %v13 = index(%v5, [%v12])
  %v16... = split_with_sizes(%v13, [0,1])
  return 
}
case "seed 41001081" {
  %a1 = randint(-3, 2, [1,3,1], f32,)
  call @f(%a1)
}
