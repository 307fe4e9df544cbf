# shared_places.td -- writes of tensors whose elements share places: all results are computed from
# the old elements, and of those for one place the last in row-major order stays.

func @write_overlapping_unfold(%x: f32[4,3]) {
  %v = unfold(%x, 0, 2, 1)
  add_(%v, 1.0)
  return %x
}

case "write_overlapping_unfold" {
  %x = randn([4,3], seed=1)
  call @write_overlapping_unfold(%x)
}

func @write_an_argument_of_windows(%v: f32[3,2]) {
  sub_(%v, 1.0)
  %t = transpose(%v, 0, 1)
  cumsum_(%t, 0)
  return %v
}

case "write_an_argument_of_windows" {
  %x = randn([4], seed=1)
  %v = as_strided(%x, [3,2], [1,1], 0)
  call @write_an_argument_of_windows(%v)
}
