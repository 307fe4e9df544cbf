# Refused: the branches give other strides; a compiled function has one type for both.

func @f(%x: f32[2,3], %p: bool[]) {
  %y = cond(%p, func @yes(%a: f32[2,3]) {
    %t = t(%a)
    %r = clone(%t)
    return %r
  }, func @no(%a: f32[2,3]) {
    %r = reshape(%a, [3,2])
    return %r
  }, [%x])
  return %y
}
case "not taken" {
  %x = randn([2,3], seed=1, requires_grad=true)
  %no = tensor([false], bool, [])
  call @f(%x, %no) control=true
  backward seed=3
}
