# A tensor that the function closes over is its argument, too. A region with .once gets
# it under both names, and then this tensor and another one: two regions.

func @f(%p0: f32[3], %p1: f32[3] <const>) {
  %v0 = region(func @once(%a: f32[3], %b: f32[3]) {
    %r = mul(%a, %b)
    return %r
  }, [%p0, %p1])
  %v1 = region(@once, [%p1, %v0])
  return %v1
}
case "a closed-over argument" {
  %a0 = tensor([2, 3, -1], f32, [3], requires_grad=true)
  call @f(%a0, %a0) control=true
  backward seed=1
}

# The same for a tensor made inside and the result of a write of it, which is returned.
func @g() {
  %v0 = tensor([1, 0, 3], f32, [3])
  %v1 = sub_(%v0, 3, -1)
  %v2 = mul(%v0, %v0)
  %v3 = region(func @once1(%a: f32[3], %b: f32[3]) {
    return %b
  }, [%v0, %v1])
  %v4 = region(@once1, [%v0, %v2])
  return %v4
}
case "a tensor that was written" {
  call @g() control=true
}
