# Eager fails because of a value; a trace, which has no values, meets a later error first.

func @f() {
    %v1 = tensor([-1], i64, [])
    %v4 = randn([], f32)
    %v5 = bernoulli(%v4)
    %v12 = atan2_(%v4, %v1)
      %v16 = full([1,1], 0, i64)
      %v17 = set_(%v1, %v16, 0, [1])
  return 
}
case "seed 83016659" {
  call @f()
  call @f()
}
