# Gradients are taken inside with respect to the first operand. The second was computed
# from it, outside of the region, where gradients may reach it, or outside of the function,
# where none does.

func @in_the_body(%x: f32[2]) {
  %h = sin(%x)
  %y = region(func @grad(%a: f32[2], %b: f32[2]) {
      %d = detach(%b)
      %r = mul(%a, %d)
      %s = mul(%r, %a)
      return %s
    }, [%x, %h])
  return %y
}

func @through(%x: f32[2]) {
  %h = sin(%x)
  %y = region(func @grad(%a: f32[2], %b: f32[2]) {
      %r = mul(%a, %b)
      %s = mul(%r, %a)
      return %s
    }, [%x, %h])
  return %y
}

func @outside(%x: f32[2], %h: f32[2]) {
  %y = region(func @grad(%a: f32[2], %b: f32[2]) {
      %d = detach(%b)
      %r = mul(%a, %d)
      %s = mul(%r, %a)
      return %s
    }, [%x, %h])
  %z = mul(%y, %h)
  return %z
}

func @written(%x: f32[2], %h: f32[2]) {
  mul_(%h, 3.0)
  %y = region(func @grad(%a: f32[2], %b: f32[2]) {
      %d = detach(%b)
      %r = mul(%a, %d)
      %s = mul(%r, %a)
      return %s
    }, [%x, %h])
  %z = mul(%y, %h)
  return %z
}

case "in the body" {
  %x = randn([2], seed=1, requires_grad=true)
  call @in_the_body(%x) control=true
  backward seed=3
}
case "through the history in the body" {
  %x = randn([2], seed=1, requires_grad=true)
  call @through(%x) control=true
  backward seed=3
}
case "outside" {
  %x = randn([2], seed=1, requires_grad=true)
  %h = sin(%x)
  call @outside(%x, %h) control=true
  backward seed=3
}
case "outside, from a value" {
  %x = randn([2], seed=1, requires_grad=true)
  %k = exp(%x)
  %h = sin(%k)
  call @outside(%k, %h) control=true
  backward seed=3
}
case "written" {
  %x = randn([2], seed=1, requires_grad=true)
  %h = sin(%x)
  call @written(%x, %h) control=true
  backward seed=3
}
case "called twice" {
  %x = randn([2], seed=1, requires_grad=true)
  %y = randn([2], seed=2, requires_grad=true)
  %h = sin(%x)
  call @outside(%x, %y) control=true
  call @outside(%x, %h) control=true
  call @outside(%x, %h) control=true
  backward seed=3
}
