# Functional: set_ beyond the storage of an argument: as_strided does not fit in the storage it is run on, an error.

func @f(%p0: f32[3] @0, %p1: f32[1,3]{3,1}+3 @1) {
  %v0 = set_(%p0, %p0, 1, [3,1], none)
  clamp_(%v0, -1, none)
  lt_(%p0, -1)
  return 
}
case "seed 1000155968" {
  %a1 = randint(-3, 1, [3,3], f32, seed=43, requires_grad=true)
  %a4... = split_with_sizes(%a1, [1,1,1])
  %a5 = sum_to_size(%a4.1, [3])
  call @f(%a5, %a4.1)
}
