# Elements are written that the argument showed only before a metadata write.

func @f(%p0: i64[2,3,3]) {
  %v0 = resize_(%p0, [2,2,3,3])
  %v4 = cumprod_(%v0, -2)
  resize_(%v4, [3,3,3])
  return
}
case "written outside of the final view" {
  %a1 = randint(0, 2, [3,3,2,3], i64)
    %a3 = diagonal(%a1)
  call @f(%a3)
}
