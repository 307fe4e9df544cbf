# seed 95013941: compiled-all-keep: line 9: works, compiled-all-keep fails: native_dropout: needs a float dtype, got bool

func @f(%p0: bool[]) {
    %v4 = randint(0, 1, [], bool)
    %v5 = masked_select(%p0, %v4)
  dropout_(%v5)
  return 
}
case "seed 95013941" {
  %a0 = full([], 1, bool)
  call @f(%a0)
}
