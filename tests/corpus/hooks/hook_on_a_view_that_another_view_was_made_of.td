# A hook is registered on a view after another view was made of it, which is returned: its gradient passes
# through the hook.

func @f(%p0: f32[2]) {
  %v0 = squeeze_dim(%p0, 0)
  %v1 = transpose(%v0, 0, 0)
  no_grad {
    on_grad(%v0, func @hook(%g: f32[2], %a: f32[2]) {
      return %a
    }, [%v0])
  }
  on_grad(%v0, func @hook(%g: f32[2]) {
      return none
    }, [])
  return %v1
}
case "the hook returns the value it is on" {
  %x = randn([2], seed=70, requires_grad=true)
  call @f(%x)
  backward
}
