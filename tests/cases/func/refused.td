# refused.td -- what eager does in an order of its own, and a graph cannot say.

func @write_overlapping_unfold(%x: f32[4,3]) {
  %v = unfold(%x, 0, 2, 1)
  add_(%v, 1.0)
  return %x
}

case "write_overlapping_unfold" {
  %x = randn([4,3], seed=1)
  call @write_overlapping_unfold(%x)
}
