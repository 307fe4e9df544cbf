# nested functions move in, names are their own, defaults go, tags and descriptors stay
# run: program
func @f(%x: f32[2], %p: f32[]) {
  %y = cond(%p, func @yes(%x: f32[2]) {
    no_grad {
      %z = cond(%x, func (%q: f32[2]) { return %q
      }, func (%q) {
        return %q
      }, [%x])
    }
    return %z
  }, func @no(%x: f32[2]) {
    %c = tensor([1.0, 2.0], f32)
    %z = mul(%x, %c) must_save 3
    return %z
  }, operands=[%x])
  %r = custom("twice", func @forward(%a: f32[2]) {
    %b = mul(%a, 2.0)
    return %b, %a <saved 0>
  }, func @backward(%a: f32[2] <saved 0>, %g: f32[2] <tangent 0>) {
    %h = mul(%g, 2.0)
    return %h <grad 0>
  }, [%y, none], [], materialize=true)
  return %r
}
---
func @f(%x: f32[2], %p: f32[]) {
  %y = cond(%p, func @yes(%x: f32[2]) {
    no_grad {
      %z = cond(%x, func @nested(%q: f32[2]) {
        return %q
      }, func @nested(%q) {
        return %q
      }, [%x])
    }
    return %z
  }, func @no(%x: f32[2]) {
    %c = tensor([1.0, 2.0], f32, [2])
    %z = mul(%x, %c) must_save 3
    return %z
  }, [%x])
  %r = custom("twice", func @forward(%a: f32[2]) {
    %b = mul(%a, 2.0)
    return %b, %a <saved 0>
  }, func @backward(%a: f32[2] <saved 0>, %g: f32[2] <tangent 0>) {
    %h = mul(%g, 2.0)
    return %h <grad 0>
  }, [%y, none], [])
  return %r
}
