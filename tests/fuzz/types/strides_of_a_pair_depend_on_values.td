# A result of a type has strides that depend on values; the flat code gives their symbols with its outputs.

func @f(%p0: f32[3,3] of fz_pair("", f32[3,3], f32[3,3] of fz_diag("m", f32[3]))) {
  %v1 = randn([3], f32)
  return %v1, %p0
}
func @g(%q0: f32[3,3] of fz_pair("", f32[3,3], f32[3,3] of fz_diag("m", f32[3])), %q1: f32[3,3] of fz_pair("", f32[3,3], f32[3,3] of fz_diag("m", f32[3]))) {
  %u1 = randint(-3, 4, [], f32)
    %u2 = nonzero(%u1)
  %u5 = index(%q1, [none, %u2]) prefer_recompute 1
  return  %u5
}
case "seed 920007769" {
  %a6 = randn([3,3], f32,)
  %a7 = tensor([0, 1, 3], f32, [3])
  %a8 = _wrap([%a7], "fz_diag", "m", [3,3], [], f32)
  %a9 = _wrap([%a6, %a8], "fz_pair", "", [3,3], [], f32)
  call @f(%a9) body=true
  %y... = call @g(%out.1, %out.1)
}
