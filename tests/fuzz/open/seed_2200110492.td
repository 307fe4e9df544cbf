# seed 2200110492: compiled: line 10: eager works, compiled fails: as_strided_scatter: src i64[3,2] must have the sizes [2,3] of the part it replaces (tests/fuzz/prog_types.c:36)

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
