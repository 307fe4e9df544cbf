# The bodies of the ops `region` and `cond` are graphs, which have all of their casts: autocast around a call of
# the ops does not act on them. td_call_region and td_cond (control=true) run their bodies under it.

func @region(%a: f32[1,1,1]) {
  %m = region(func @r0(%a: f32[1,1,1]) {
      %m = matmul(%a, %a)
      %t = tanh(%m)
      return %t
    }, [%a])
  return %m
}
func @cond(%p: bool[], %a: f32[1,1,1]) {
  %m = cond(%p, func @yes(%a: f32[1,1,1]) {
      %m = matmul(%a, %a)
      return %m
    }, func @no(%a: f32[1,1,1]) {
      %t = tanh(%a)
      return %t
    }, [%a])
  return %m
}
case "ops" {
  %a = full([1,1,1], 2, f32, requires_grad=true)
  %p = full([], true, bool)
  call @region(%a) autocast=bf16
  backward seed=1
  call @cond(%p, %a) autocast=bf16
}
case "calls" {
  %a = full([1,1,1], 2, f32, requires_grad=true)
  call @region(%a) autocast=bf16 control=true
  backward seed=1
}
