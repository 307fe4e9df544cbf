# run: functionalize functional
# Branches become functional too; a custom function's forward is what it does.

func @branch(%x: f32[2], %p: f32[]) {
  %y = cond(%p, func @yes(%a: f32[2]) {
    %z = mul(%a, 2.0)
    add_(%z, 1.0)
    return %z
  }, func @no(%a: f32[2]) {
    no_grad {
      %z = neg(%a)
    }
    return %z
  }, [%x])
  mul_(%x, %y)
  return %y
}

func @custom(%x: f32[2]) {
  %h = mul(%x, 3.0)
  %y = custom("half", func @forward(%a: f32[2]) {
    mul_(%a, 0.5)
    return %a
  }, func @backward(%g: f32[2] <tangent 0>) {
    %k = mul(%g, 0.5)
    return %k <grad 0>
  }, [%h], [], dirty=[0])
  %z = mul(%h, %y)
  return %z
}
---
func @branch(%x: f32[2], %p: f32[]) {
  %2 = cond(%p, func @yes(%a: f32[2]) {
    %1 = mul(%a, 2.0) : f32[2]
    %2 = add(%1, 1.0) : f32[2] grad
    return %2
  }, func @no(%a: f32[2]) {
    %1 = neg(%a) : f32[2] grad
    return %1
  }, [%x]) : f32[2]
  %3 = mul(%x, %2) : f32[2]
  return %2, %3 <update 0>
}

func @custom(%x: f32[2]) {
  %1 = mul(%x, 3.0) : f32[2]
  %2 = mul(%1, 0.5) : f32[2]
  %3 = mul(%2, %2) : f32[2]
  return %3
}
