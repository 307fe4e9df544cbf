# Regions of autocast in the text of a function: its capture records the casts.

func @product(%x: f32[4,3], %w: f32[3,2]) {
  autocast_bf16 {
    %h = matmul(%x, %w)
  }
  %y = exp(%h)
  return %h, %y
}

case "a region around a product" {
  %x = randn([4,3], seed=1, requires_grad=true)
  %w = randn([3,2], seed=2, requires_grad=true)
  call @product(%x, %w)
  backward seed=3
}

func @nested(%x: f32[4,3], %w: f32[3,3], %b: f32[3]) {
  autocast_bf16 {
    %h = linear(%x, %w, %b)
    autocast_off {
      %f = to(%h, f32)
      %p = matmul(%f, %w)
    }
    %q = matmul(%p, %w)
    %l = layer_norm(%q, [3], none, none)
    no_grad {
      %c = matmul(%x, %w)
    }
    %s = cat([%q, %p, %c], 0)
  }
  %z = matmul(%p, %w)
  return %p, %q, %l, %s, %z
}

case "regions in a region" {
  %x = randn([4,3], seed=1, requires_grad=true)
  %w = randn([3,3], seed=2, requires_grad=true)
  %b = randn([3], seed=3)
  call @nested(%x, %w, %b)
  backward seed=3
}

case "a region of the text in a region around the call" {
  %x = randn([4,3], seed=1, requires_grad=true)
  %w = randn([3,3], seed=2, requires_grad=true)
  %b = randn([3], seed=3)
  call @nested(%x, %w, %b) autocast=f16
  backward seed=3
}

func @written(%x: f32[4,3], %w: f32[3,3]) {
  autocast_f16 {
    %h = matmul(%x, %w)
    mul_(%x, 2.0)
    %g = matmul(%x, %w)
  }
  %s = add(%h, %g)
  return %s
}

case "an argument is written in a region" {
  %x = randn([4,3], seed=1)
  %w = randn([3,3], seed=2, requires_grad=true)
  call @written(%x, %w)
  backward seed=3
}
