# With symbolic sizes set_ gives the argument, a view with an offset, the offset 0, where eager keeps 6.
# seed 1502107338: compiled-dynamic: line 10: %a1.2 has offset 6, compiled-dynamic 0

func @f(%p0: f32[1,3]) {
    lgamma_(%p0)
    %v10 = slice_scatter(%p0, %p0)
    %v12 = set_(%p0, %v10, none, none, none)
  return 
}
case "seed 1502107338" {
  %a0 = tensor([-1, 3, -1, 0, 1, 1, 1, -1, 1], f32, [3,3])
  %a1... = split(%a0, 1, 0)
  call @f(%a1.2)
}
