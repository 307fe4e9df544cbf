# Both fail, with different errors: eager for a value of an index, in a part of
# index_reduce_, the trace later, for the kind of a number.

func @f( %n0) {
  %v0 = randint(-2, 2, [], f32)
  %v2 = randint(0, 2, [1], i64)
  %v3 = full([], 0, f32)
  index_reduce_(%v0, 0, %v2, %v3, "mean")
  random_(%v0, 0, %n0)
  return 
}
case "seed 3200110110" {
  call @f( 2) body=true
  call @f( 0.0) body=true
}
