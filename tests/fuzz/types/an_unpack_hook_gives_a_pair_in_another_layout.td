# Inner tensors of an argument begin at element 9; the unpack hook gives a clone, at 0.

func @f(%p0) {
  %v8, %v9 = median_dim(%p0, -1, false)
  return %v8
}
case "seed 950021073" {
  %a2 = randint(-3, 4, [4,3], f32, seed=58)
  %a3 = randn([4,3], f32, seed=82)
  %a4 = _wrap([%a2, %a3], "fz_pair", "", [4,3], [], f32, requires_grad=true)
  %a5... = split(%a4, 3, 0)
  call @f(%a5.1) hooks=clone
  backward seed=8
}
