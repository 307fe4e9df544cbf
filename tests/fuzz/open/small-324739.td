# seed 324739: compiled-dynamic: line 9: %out.0 has version 1, compiled-dynamic 0; line 9: %out.0 shares bytes with %a1, not compiled-dynamic; line 9: %out.0 has offset 2, compiled-dynamic 0

func @f(%p0: f32[2,2,2]) {
  %v5 = squeeze_dim_(%p0, 2)
  %v6 = slice(%v5, -2, 1, -1, 2)
    %v7 = flatten(%v6)
  return %v7
}
case "seed 324739" {
  %a1 = randn([2,2,2], f32,)
  call @f(%a1)
}
