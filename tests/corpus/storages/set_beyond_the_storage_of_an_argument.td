# set_ moves a view beyond its base: no gradient of the base has the part that is written then, however many bytes its storage
# happens to have. Without a backward nothing fails; with one, eager fails, as PyTorch does.

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
case "with backward" {
  %a1 = randint(-3, 1, [3,3], f32, seed=43, requires_grad=true)
  %a4... = split_with_sizes(%a1, [1,1,1])
  %a5 = sum_to_size(%a4.1, [3])
  call @f(%a5, %a4.1)
  backward %a5
}
case "simpler" {
  %a1 = randint(-3, 1, [1,3], f32, seed=43, requires_grad=true)
  %a4 = clone(%a1)
  %a5 = sum_to_size(%a4, [3])
  call @f(%a5, %a4)
  backward %a5
}
