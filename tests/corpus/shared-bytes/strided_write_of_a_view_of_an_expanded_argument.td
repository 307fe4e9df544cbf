# A copy of an expanded argument has other strides than the argument: as_strided over a view of it counts from another start.

func @f( %p1: f32[2,2,2]{2,1,0} @1, %p2: f32[2,2] @0, %p3: f32[2,2,1] @1) {
    %v10 = select(%p1, -1, -1)
  %v24 = as_strided(%v10, [], [], none)
  %v25 = full([], 0, f32)
  %v26 = lt_(%v24, %v25)
  return 
}
case "seed 51130068" {
  %a0 = randint(-2, 2, [2,2,1], f32,)
  %a1 = full([2,2], 1, f32)
  %a2 = expand(%a0, [2,2,2])
  call @f( %a2, %a1, %a0)
}
