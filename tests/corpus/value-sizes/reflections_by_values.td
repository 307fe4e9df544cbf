# How many reflections ormqr multiplies depends on values; its derivative has a step for each.

func @f(%m, %x, %t, %o) {
  %z = nonzero(%m)
  %i = select(%z, 1, 0)
  %a = index_select(%x, 0, %i)
  %b = index_select(%t, 0, %i)
  %c = index_select(%o, 0, %i)
  %r = ormqr(%a, %b, %c, true, true)
  return %r
}
case "one of two, then both" {
  %x = tensor([1, 2, 3, 1], f64, [2,2], requires_grad=true)
  %t = tensor([0.5, 0.25], f64, [2])
  %o = tensor([1, -1, 2, 1], f64, [2,2], requires_grad=true)
  %m = tensor([1, 0], bool, [2])
  call @f(%m, %x, %t, %o)
  backward
  %n = tensor([1, 1], bool, [2])
  call @f(%n, %x, %t, %o)
  backward
}
