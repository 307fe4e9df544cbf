# An argument that both branches write twice has a version counter two higher.

func @f(%x: f32[2], %p: bool[]) {
  %y = cond(%p, func @yes(%a: f32[2]) {
    mul_(%a, 2.0)
    add_(%a, 1.0)
    %r = sin(%a)
    return %r
  }, func @no(%a: f32[2]) {
    %v = unsqueeze(%a, 0)
    neg_(%v)
    mul_(%a, 3.0)
    return %a
  }, [%x])
  return %y
}
case "each branch" {
  %l = randn([2], seed=1, requires_grad=true)
  %x = mul(%l, 1.0)
  %yes = tensor([true], bool, [])
  %no = tensor([false], bool, [])
  call @f(%x, %yes) control=true
  call @f(%x, %no) control=true
  backward seed=3
}
