# seed 96005849: compiled: line 10: works, compiled fails: @f: a symbolic size is not known yet

func @f( %p1: f32[2,1,1,2]) {
  %v1 = randn([2,1,1,2], f32)
  lerp_(%p1, %p1, %v1)
    %v4 = nonzero(%p1)
  return %v4
}
case "seed 96005849" {
  %a1 = full([2,1,2,2], 2, f32)
  %a4 = narrow(%a1, -2, 0, 1)
  call @f( %a4)
}
