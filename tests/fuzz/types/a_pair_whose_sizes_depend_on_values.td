# A pair fails in its own check: inner tensors whose sizes depend on values must have its sizes; nobody reads the result.


func @f() {
    %v10 = randint(-3, 2, [2,2,2], i64)
    %v11 = argwhere(%v10)
    %v17 = _wrap([%v11, %v11], "fz_pair", "", [8,3], [], i64)
      %v30 = tensor([0, 1, 0], bool, [3])
      %v31 = masked_scatter(%v17, %v30, %v17)
  return 
}
func @g(%q0: i64[2,2,2,1], %q1: i8[2,0]) {
  return 
}
case "seed 1300150927" {
  call @f() body=true
}
