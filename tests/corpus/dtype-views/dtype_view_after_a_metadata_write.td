# A dtype view of a base whose geometry was written.

func @f(%p0: f16[3,12], %p1: f64[3,3]) {
  %v0 = t_(%p1)
  return
}
case "dtype view after a metadata write" {
  %a6 = randint(-3, 1, [3,3], f64)
  %a9 = view_dtype(%a6, f16)
  call @f(%a9, %a6)
  call @f(%a9, %a6)
}
