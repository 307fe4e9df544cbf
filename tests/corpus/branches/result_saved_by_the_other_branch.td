# The branch that does not run saves its result, which is written: eager's backward works.

func @g(%x: f32[2], %p: bool[]) {
  %h = mul(%x, 2.0)
  %y = cond(%p, func @yes(%a: f32[2]) {
    %r = exp(%a)
    return %r
  }, func @no(%a: f32[2]) {
    %r = sin(%a)
    return %r
  }, [%h])
  mul_(%y, 2.0)
  return %y
}
func @f(%x: f32[2], %p: bool[]) {
  %h = mul(%x, 2.0)
  %y = cond(%p, func @yes(%a: f32[2]) {
    %r = exp(%a)
    return %r
  }, func @no(%a: f32[2]) {
    %r = sin(%a)
    return %r
  }, [%h])
  return %y
}
case "result written, saved by the other" {
  %x = randn([2], seed=1, requires_grad=true)
  %p = tensor([false], bool, [])
  call @f(%x, %p) control=true
  %z = mul_(%out.0, 2.0)
  backward seed=3
}
case "result written inside" {
  %x = randn([2], seed=1, requires_grad=true)
  %p = tensor([false], bool, [])
  call @g(%x, %p) control=true
  backward seed=3
}
