# Branches write tensors that they close over (<const> inputs): each gets the final
# value of the branch that ran.

func @writes(%x: f32[2], %p: bool[], %s: f32[2]) {
  %h = mul(%s, 2.0)
  %y = cond(%p, func @yes(%a: f32[2], %h: f32[2] <const>, %s: f32[2] <const>) {
    add_(%h, %a)
    %r = mul(%a, 3.0)
    add_(%s, 1.0)
    return %r
  }, func @no(%a: f32[2], %h: f32[2] <const>, %s: f32[2] <const>) {
    %b = sin(%a)
    mul_(%h, %b)
    %r = mul(%a, 2.0)
    neg_(%s)
    return %r
  }, [%x, %h, %s])
  %z = mul(%y, %h)
  return %z, %h
}

case "yes" {
  %x = randn([2], seed=1, requires_grad=true)
  %p = tensor([true], bool, [])
  %s = randn([2], seed=2)
  call @writes(%x, %p, %s) control=true
  backward %out.0 seed=3
}
case "no" {
  %x = randn([2], seed=1, requires_grad=true)
  %p = tensor([false], bool, [])
  %s = randn([2], seed=2)
  call @writes(%x, %p, %s) control=true
  backward %out.0 seed=3
}
