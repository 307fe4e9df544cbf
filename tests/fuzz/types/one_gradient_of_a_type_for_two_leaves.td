# Two leaves get one gradient of a type: the second leaf copies it, and later gradients are added to each once.

func @f(%x: f32[2] of fz_pair("m", f32[2], f32[2]) grad, %y: f32[2] grad) {
  %r = add(%y, %x)
  %s = mul(%r, 2.0)
  return %s
}
case "one gradient of a type for two leaves" {
  %a = randn([2], f32, seed=1)
  %b = randn([2], f32, seed=2)
  %x = _wrap([%a, %b], "fz_pair", "m", [2], [], f32, requires_grad=true)
  %y = randn([2], f32, seed=3, requires_grad=true)
  call @f(%x, %y)
  backward
  call @f(%x, %y)
  backward
}
