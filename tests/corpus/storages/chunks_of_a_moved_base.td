# The views cannot be recomputed from the base, which has fewer rows now.

func @f(%p1: i64[1,3]) {
  return
}
case "chunks of a moved base" {
  %a0 = full([3,3], 1, i64)
  %a3... = chunk(%a0, 3, -2)
  set_(%a0, %a3.1)
  call @f(%a3.2)
}
