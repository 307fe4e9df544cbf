# Refused: literals in the text of a region or of a custom function. They were taken for
# tangents, or read as zeros. td_call_region and td_function_call close over them.

func @f(%x: f32[2]) {
  %z = custom("own", func @forward(%u: f32[2]) {
    %k = tensor([3], f32, [])
    %v = mul(%u, %k)
    return %v
  }, func @backward(%g: f32[2] <tangent 0>) {
    %k = tensor([3], f32, [])
    %h = mul(%g, %k)
    return %h <grad 0>
  }, [%x], [])
  return %z
}

case "a custom function" {
  %x = randn([2], seed=1, requires_grad=true)
  call @f(%x)
  backward seed=2
}

func @g(%x: f32[2]) {
  %y = region(func @r(%a: f32[2]) {
    %k = tensor([2], i64, [])
    %r = mul(%a, %k)
    return %r
  }, [%x])
  return %y
}

case "a region" {
  %x = randn([2], seed=1, requires_grad=true)
  call @g(%x)
  backward seed=2
}

case "td_call_region" {
  %x = randn([2], seed=1, requires_grad=true)
  call @g(%x) control=true
  backward seed=2
}
