# The copy of an empty part has the offset 0, also where the compiled function returns the part itself.

func @f(%x: u8[1]) {
  ge_(%x, %x)
  %s... = split_with_sizes_copy(%x, [1,0])
  %y = view_dtype(%s.1, f32)
  return %y
}
case "a copied empty part, read as f32" {
  %a = tensor([0], u8, [1])
  call @f(%a)
}
