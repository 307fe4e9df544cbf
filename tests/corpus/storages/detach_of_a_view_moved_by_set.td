# A view that set_ moved to another storage is still a view: detach_ is an error.

func @f( %p2: i64[1,1,1]) {
  detach_(%p2)
  %v1 = randint(-1, 1, [1,1,1], i64)
  %v2 = set_(%p2, %v1)
  return 
}
case "seed 190097220" {
  %a0 = randint(-1, 1, [1,1,1], i64,)
  %a5 = reshape_as(%a0, %a0)
  call @f( %a0)
  call @f( %a5)
}
