# Refused: a branch that does not run writes a leaf; a compiled function contains it.

func @f(%x: f32[2], %p: bool[]) {
  %y = cond(%p, func @yes(%a: f32[2]) {
    mul_(%a, 2.0)
    return %a
  }, func @no(%a: f32[2]) {
    %r = neg(%a)
    return %r
  }, [%x])
  return %y
}
case "not taken" {
  %x = randn([2], seed=1, requires_grad=true)
  %no = tensor([false], bool, [])
  call @f(%x, %no) control=true
  backward seed=3
}
