# Elements of the written pair overlap: its storage is written, and the copy of the pair had less of it.

func @f(%p0: f32[3,3] of fz_pair("", f32[3,3]{1,1}, f32[3,3]{1,1})) {
  exp_(%p0)
  return 
}
func @g(%q0: f32[3] of fz_pair("", f32[3], f32[3]), %q1: f32[3] of fz_pair("", f32[3]{1}+1, f32[3]{1}+1)) {
  return 
}
case "seed 1210191217" {
  %a6 = tensor([0, -1, 1, 3, 1, -1, -1, -1, 1], f32, [3,3])
  %a7 = randn([3,3], f32,)
  %a8 = _wrap([%a6, %a7], "fz_pair", "", [3,3], [], f32)
  %a15 = as_strided(%a8, [3,3], [1,1])
  call @f(%a15) dynamic=maybe body=true
}
