# Inner tensors of another dtype are an error of a write, also where there are no elements to write.

func @f(%p0, %p3) {
  %v8 = randn([2], f32)
  %v9 = linear(%p3, %v8, none)
  %v10 = clone(%v9)
  %v13 = _wrap([%v9, %v10], "fz_pair", "", [2,0], [], f32)
  return %p0, %v13
}
func @g(%q0: f32[2,0] of fz_pair("", f32[2,0], f32[2,0]), %q1: i64[2,0]) {
  logical_xor_(%q0, %q0) prefer_recompute 1
  return 
}
case "seed 1310011417" {
  %a1 = randn([2,0], f32,)
    %a13 = randint(0, 1, [2,0], i64,)
  %a15 = as_strided(%a1, [2,0,2], [1,2,2], 1)
  %a16... = chunk(%a13, 2, -1)
  call @f(%a16.1, %a15) autocast=f16 dynamic=maybe body=true
  %y... = call @g(%out.1, %a16.0)
}
