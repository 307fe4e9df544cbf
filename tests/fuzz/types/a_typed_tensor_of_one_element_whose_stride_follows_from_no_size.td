# With symbolic sizes the stride of a dim of size 1 was a symbol that no inner tensor has.

func @f(%p0: f32[1] of fz_rounded("", f32[1], f32[])) {
    %v12 = randint(0, 1, [1], i64)
    %v13 = randn([1], f32)
    index_put_(%p0, [%v12], %v13, true)
  return 
}
case "seed 2310178694" {
  %a1 = randn([1,2], f32,)
  %a2 = full([], 0.25, f32)
  %a3 = _wrap([%a1, %a2], "fz_rounded", "", [1,2], [], f32)
    %a7 = select(%a3, -1, -2)
  call @f(%a7)
}
