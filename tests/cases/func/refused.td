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

func @write_outside(%a: f32[2,3]+3) {
  %v = as_strided(%a, [3], [1], 0)
  add_(%v, 1.0)
  return %v
}

case "write_outside" {
  %x = randn([4,3], seed=1)
  %a = slice(%x, 0, 1, 3)
  call @write_outside(%a)
}

func @grow_use_shrink(%a: f32[0]) {
  resize_(%a, [8])
  fill_(%a, 3.0)
  %y = add(%a, 1.0)
  resize_(%a, [0])
  return %y
}
case "test_input_mutation_storage_resize_up_down" {
  %a = zeros([0])
  call @grow_use_shrink(%a)
}
