# debug_asserts: of two regions whose gradients are taken inside, one has symbolic sizes and is its ops, the other has numbers and is one op.

func @f(%p1: f32[3], %p2: f32[1]) {
  %v0 = region(func @grad0(%a: f32[3]) {
      %i = region(func @in(%c: f32[3]) {
        %l = sin(%c)
        return %l
      }, [%a])
      return %i
    }, [%p1])
  %v1 = region(func @grad1(%b: f32[1]) {
      %j = region(func @in2(%d: f32[1]) {
        %m = exp(%d)
        return %m
      }, [%b])
      return %j
    }, [%p2])
  return %v0, %v1
}

case "two regions" {
  %a0 = randn([3], f32, seed=1, requires_grad=true)
  %a1 = randn([4], f32, seed=2, requires_grad=true)
  %b = randn([1], f32, seed=3, requires_grad=true)
  call @f(%a0, %b) control=true
  call @f(%a1, %b) control=true
  call @f(%a1, %b) control=true
  call @f(%a0, %b) control=true
  call @f(%a0, %b) control=true
}
