# Inner tensors that arguments share were found by the strides after t_, not by those at the call.

func @f(%p0: i64[3,2] of fz_pair("", i64[3,2], i64[3,2]), %p2: i64[3,2]) {
  %v9 = t_(%p0)
  ge_(%v9, 1.25)
  return 
}
case "seed 2200110492" {
  %a0 = tensor([2, -2, 3, -2, -1, 1], i64, [3,2])
  %a1 = tensor([3, -1, 1, 1, 2, 0], i64, [3,2])
  %a2 = _wrap([%a1, %a0], "fz_pair", "", [3,2], [], i64)
  call @f(%a2, %a0)
}
