# A size of a dead value is checked.

func @f(%p0: f32[3,1,3]) {
    %v1... = chunk(%p0, 2)
    %v2 = tensor([0, 1, 1], bool, [1,3])
    %v3 = masked_select(%v1.0, %v2)
  %v4 = reshape(%v3, [4])
  %v5 = randint(-3, 4, [3,2], f32)
  return 
}
case "size of what is dead" {
  %a1 = randn([3,1,3], f32,)
  %a6... = chunk(%a1, 2, -2)
  call @f(%a6.0)
}
