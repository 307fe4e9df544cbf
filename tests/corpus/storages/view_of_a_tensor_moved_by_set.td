# A view of a tensor that set_ moved has the tensor's new storage and offset.

func @f(%p: i64[1,1]) {
  %a = randint(0, 1, [1,1], i64)
  set_(%p, %a)
  %b = permute(%p, [0,1])
  return %b
}

case "an input moved away" {
  %p = randint(0, 1, [1,1], i64, seed=1)
  call @f(%p)
}
