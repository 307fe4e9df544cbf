# seed 1420165075: compiled-dynamic: line 8: eager fails (avg_pool1d: self must be [C,H,W] or [N,C,H,W] and not empty but for N, got i64[0,1,2] (in avg_pool2d) (program.td:3)), compiled-dynamic does not

func @f( %p1: f32[2,1]) {
  %v4 = nonzero(%p1)
  avg_pool1d(%v4, [2])
  return 
}
case "seed 1420165075" {
  %a0 = full([2,1], 0, f32)
  call @f( %a0) dynamic=maybe
}
