# contiguous gives its argument where nonzero finds at most one element, else a copy, which is an inference tensor.

func @f() {
  %v7 = randint(0, 1, [1], bool)
  return %v7
}
func @g(%q0: bool[1]) {
  %u13 = unfold(%q0, 0, 1, 1) prefer_recompute 1
  %u15 = nonzero(%u13)
  inference {
    %u36 = contiguous(%u15)
  }
  return  %u36
}
case "seed 350085989" {
  call @f()
  %y... = call @g(%out.0)
}
