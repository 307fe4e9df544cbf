# Refused: a region saves operand %b, of which eager saves a detached alias only, and set_
# moves the operand to another storage before backward.

func @f(%p0: f32[]) {
  %v2 = region(func @r0(%a: f32[], %b: f32[]) {
      %d = detach(%b)
      %r = mul(%a, %d)
      return %r
    }, [%p0, %p0])
  %v12 = region(@r0, [%p0, %v2])
  %v15 = full([1,1], 0, f32)
  set_(%v2, %v15)
  return %v15, %p0, %v12
}
case "region operand detached, then moved by set" {
  %a0 = full([], 1, f32, requires_grad=true)
  call @f(%a0)
  backward %out.2, %out.2
}
