# as_strided of a written pair needs the storage between its columns, which a copy of the pair had not.

func @f(%p0: f32[3,3] of fz_pair("", f32[3,3]{9,3}, f32[3,3]{9,3})) {
  %v1 = as_strided(%p0, [3,3], [1,3])
    %v2 = triu_(%v1, 1)
  return 
}
case "seed 1220186261" {
  %a2 = tensor([1, -1, 0, 1, -1, 1, -1, 1, -1, -1, 3, 1, 1, -1, 3, 1, 3, 1, 1, -1, -1, -1, -1, 1, 3, 1, 3], f32, [3,3,3])
  %a3 = randn([3,3,3], f32,)
  %a4 = _wrap([%a2, %a3], "fz_pair", "", [3,3,3], [], f32)
  %a13 = select(%a4, 1, 0)
  call @f(%a13)
}
