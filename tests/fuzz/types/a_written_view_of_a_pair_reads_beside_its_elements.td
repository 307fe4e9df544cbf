# The copy of a written pair had its elements alone; as_strided read others, which were not set.

func @f(%p0) {
  return %p0
}
func @g(%q0: f32[3,1] of fz_pair("m", f32[3,1]{3,1}+1, f32[3,1]{3,1}+1), %q1: f32[3,1] of fz_pair("m", f32[3,1]{3,1}+1, f32[3,1]{3,1}+1), %q2: f32[3,1] of fz_pair("m", f32[3,1]{3,1}+1, f32[3,1]{3,1}+1)) {
  %u0 = as_strided(%q0, [3,1], [1,0])
  %u2 = cos_(%u0)
  return 
}
case "seed 1210192470" {
  %a5 = randn([3,3], f32,)
  %a6 = randn([3,3], f32,)
  %a7 = _wrap([%a5, %a6], "fz_pair", "m", [3,3], [], f32)
  %a10... = split(%a7, 1, 1)
  call @f(%a10.2) body=true
  %y... = call @g(%a10.2, %out.0, %a10.2)
}
