# The program writes an operand of a branch afterwards: backward of the captured branch
# reads it as it was.

func @f(%x: f32[2], %p: bool[]) {
  %h = mul(%x, 2.0)
  %y = cond(%p, func @yes(%a: f32[2]) {
    %r = mul(%a, 3.0)
    return %r
  }, func @no(%a: f32[2]) {
    %r = neg(%a)
    return %r
  }, [%h])
  zero_(%h)
  return %y
}
case "the predicate was true" {
  %x = randn([2], seed=1, requires_grad=true)
  %p = tensor([true], bool, [])
  call @f(%x, %p) control=true
  backward seed=3
}
