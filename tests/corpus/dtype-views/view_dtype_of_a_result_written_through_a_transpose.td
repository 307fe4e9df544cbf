# A result that is written through a transpose has a last dim of one element, and its stride still is eager's: view_dtype asks for it.

func @f() {
  %v2 = randn([2,1], f32)
  %v3 = transpose(%v2, -1, 0)
    %v5 = view_dtype(%v2, u8)
    %v6... = split_with_sizes(%v5, [0,2])
  tril_(%v3, 1)
  return %v6.0
}
case "seed 350078869" {
  call @f()
}
func @g() {
  %v2 = randn([2,1], f32)
  %v3 = transpose(%v2, -1, 0)
  tril_(%v3, 1)
  return %v2
}
func @h(%p0) {
  %v5 = view_dtype(%p0, u8)
  return %v5
}
case "read as bytes by another function" {
  call @g()
  %y... = call @h(%out.0)
}
