# The first plain gradient of a result of a type is expanded, and the second is not.

func @f( %p1: f32[2,4] of fz_rounded("", f32[2,4], f32[])) {
  %v11 = transpose_copy(%p1, -2, -2)
  %v12 = full([2,0,2,1], 2, f32)
  return %v11, %v12, %v11
}
case "seed 3700002967" {
  %a1 = tensor([-1, 2, -1, 0, 2, 0, -2, 2], f32, [2,4])
  %a2 = full([], 0.25, f32)
  %a3 = _wrap([%a1, %a2], "fz_rounded", "", [2,4], [], f32, requires_grad=true)
  %b1 = transpose(%a3, 0, 1)
  %b3 = transpose(%b1, 0, 1)
  call @f( %b3)
    %s = sum(%out.2)
    %t = expand_as(%s, %out.2)
  backward %out.2 with %t
  backward
}
