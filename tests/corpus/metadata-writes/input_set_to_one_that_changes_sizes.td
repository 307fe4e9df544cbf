# An argument is set to the storage of another, whose sizes then change: both show the same elements, which are
# written back to where they are.

func @f(%p: i64[1,1], %q: i64[1]) {
  set_(%q, %p)
  unsqueeze_(%p, -1)
  return
}

case "of one element" {
  %p = randint(-1, 1, [1,1], i64, seed=1)
  %q = full([1], 0, i64)
  call @f(%p, %q)
}
