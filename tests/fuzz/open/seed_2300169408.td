# seed 2300169408: compiled: line 9: eager works, compiled fails: view_dtype: storage offset 1 must be a multiple of 4 (program.td:9)

func @f(%p0: u8[1] @0) {
  %v2 = ge_(%p0, %p0)
    %v3... = split_with_sizes_copy(%p0, [1,0])
  %v4 = view_dtype(%v3.1, f32)
  return  %v4
}
case "seed 2300169408" {
  %a0 = randint(0, 1, [1], u8,)
  call @f(%a0) dynamic=maybe
}
