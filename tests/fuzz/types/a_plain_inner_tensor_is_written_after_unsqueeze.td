# A plain argument is an inner tensor of one that changed its metadata before the write.

func @f(%p0, %p2) {
  unsqueeze_(%p2, 1)
    %v5 = cos_(%p0)
  %v12 = full([1,1,1,1], 0, f32)
  ldexp_(%p2, %v12)
  return 
}
case "seed 2310178572" {
  %a0 = randn([1,1,1], f32,)
  %a1 = randint(-1, 1, [1,1,1], f32,)
  %a2 = _wrap([%a0, %a1], "fz_pair", "", [1,1,1], [], f32)
  call @f(%a0, %a2)
}
