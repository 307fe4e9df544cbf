# values.td -- sizes that depend on values.

func @f(%x: f32[3,3]) {
  %m = gt(%x, 0.0)
  %s = masked_select(%x, %m)
  %t = mul(%s, %s)
  %r = sum(%t)
  return %r, %t
}
case "masked" {
  %x = randn([3,3], seed=1, requires_grad=true)
  %a, %b = call @f(%x)
  backward %a
  %y = randn([3,3], seed=5, requires_grad=true)
  %c, %d = call @f(%y)
  backward %c
}
func @nz(%x: f32[4]) {
  %i = nonzero(%x)
  %k = add(%i, 1)
  return %k
}
case "nonzero" {
  %x = tensor([0, 1, 2, 0], f32)
  call @nz(%x)
  %y = tensor([0, 1, 0, 0], f32)
  call @nz(%y)
}
