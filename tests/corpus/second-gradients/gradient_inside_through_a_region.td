# A gradient with create_graph is taken inside of the function, through a region, and
# differentiated again.

func @f(%x: f32[3], %w: f32[3]) {
  %a = region(func @wave(%x: f32[3], %w: f32[3]) {
    %m = mul(%x, %w)
    %s = sin(%m)
    %c = mul(%s, %x)
    return %c
  }, [%x, %w])
  %b = region(@wave, [%a, %w])
  return %b
}

case "differentiated outside" {
  %x = randn([3], seed=1, requires_grad=true)
  %w = randn([3], seed=2, requires_grad=true)
  call @f(%x, %w) grads=true
  backward seed=3
}

func @nested(%x: f32[3], %w: f32[3]) {
  %b, %d = region(func @outer(%x: f32[3], %w: f32[3]) {
    %a = region(func @inner(%x: f32[3], %w: f32[3]) {
      %m = mul(%x, %w)
      %s = exp(%m)
      return %s
    }, [%x, %w])
    %c = mul(%a, %x)
    %e = mul(%w, %w)
    return %c, %e
  }, [%x, %w])
  return %b
}

case "regions in regions, and a result that nothing reads" {
  %x = randn([3], seed=1, requires_grad=true)
  %y = mul(%x, 2.0)
  %w = sin(%y)
  call @nested(%x, %w)
  call @nested(%y, %y) grads=true
  backward seed=3
}

func @unread(%x: f32[3], %w: f32[3]) {
  %y = region(func @shifted(%x: f32[3], %w: f32[3]) {
    %m = mul(%x, 2.0)
    %s = add(%m, %w)
    return %s
  }, [%x, %w])
  %z = region(func @product(%a: f32[3], %b: f32[3]) {
    %m = mul(%a, %a)
    %s = sub(%m, %b)
    return %s
  }, [%y, %w])
  return %z
}

case "operands that no backward reads" {
  %x = randn([3], seed=1, requires_grad=true)
  %w = randn([3], seed=2, requires_grad=true)
  call @unread(%x, %w) grads=true
  backward seed=3
}

func @cast(%x: f32[2], %w: f32[2]) {
  %y = region(func @squashed(%x: f32[2], %w: f32[2]) {
    %m = matmul(%x, %w)
    %s = tanh(%m)
    return %s
  }, [%x, %w])
  return %y
}

case "under autocast, whose casts are in the region" {
  %x = randn([2], seed=1, requires_grad=true)
  %w = randn([2], seed=2, requires_grad=true)
  call @cast(%x, %w) autocast=bf16 grads=true body=true
}
