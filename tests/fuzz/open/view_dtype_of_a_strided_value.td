# Compiled: a value lies otherwise than in eager, and view_dtype fails.

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
