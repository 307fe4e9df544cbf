# Refused where a mask picks one row or none: contiguous and reshape copy only where there are more, and
# the copy is told from its source: one of them is written, both are returned, or it is made under no_grad.
func @writes_the_copy(%m: bool[3]) {
  %u = nonzero(%m)
  %t = cat([%u, %u], 1)
  %s = transpose(%t, 0, 1)
  %c = contiguous(%s)
  add_(%c, 1)
  return %s, %c
}
case "the copy is written, two rows" {
  %m = tensor([1,1,0], bool)
  call @writes_the_copy(%m)
}
case "the copy is written, one row" {
  %m = tensor([1,0,0], bool)
  call @writes_the_copy(%m)
}
case "the copy is written, no row" {
  %m = tensor([0,0,0], bool)
  call @writes_the_copy(%m)
}
func @writes_the_source(%m: bool[3]) {
  %u = nonzero(%m)
  %t = cat([%u, %u], 1)
  %s = transpose(%t, 0, 1)
  %c = contiguous(%s)
  mul_(%t, 2)
  return %c
}
case "the source is written, one row" {
  %m = tensor([0,0,1], bool)
  call @writes_the_source(%m)
}
func @returns_both(%m: bool[3]) {
  %u = nonzero(%m)
  %t = cat([%u, %u], 1)
  %s = transpose(%t, 0, 1)
  %c = contiguous(%s)
  return %s, %c
}
case "both are returned, one row" {
  %m = tensor([0,0,1], bool)
  call @returns_both(%m)
}
func @under_no_grad(%x: f32[3,2], %m: bool[3]) {
  %u = index(%x, [%m])
  %t = transpose(%u, 0, 1)
  no_grad {
    %c = contiguous(%t)
  }
  %s = sum(%t)
  return %c, %s
}
case "under no_grad, two rows" {
  %x = randn([3,2], f32, seed=3, requires_grad=true)
  %m = tensor([1,1,0], bool)
  call @under_no_grad(%x, %m)
}
case "under no_grad, one row" {
  %x = randn([3,2], f32, seed=3, requires_grad=true)
  %m = tensor([1,0,0], bool)
  call @under_no_grad(%x, %m)
}
