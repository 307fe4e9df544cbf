# What surrounds a call, and what its options put inside the function.

func @layer(%x: f32[2,3], %w: f32[3,2] <const>) {
  %h = matmul(%x, %w)
  %y = tanh(%h)
  return %y
}

case "a tensor closed over" {
  %x = randn([2,3], seed=1, requires_grad=true)
  %w = randn([3,2], seed=2, requires_grad=true)
  call @layer(%x, %w)
  backward seed=3
  no_grad {
    mul_(%w, 2.0)
  }
  call @layer(%x, %w)
  backward seed=4
}

case "another tensor closed over" {
  %x = randn([2,3], seed=1, requires_grad=true)
  %w = randn([3,2], seed=2, requires_grad=true)
  %v = randn([3,2], seed=3)
  call @layer(%x, %w)
  backward
  call @layer(%x, %v)
  backward
}

func @product(%a: f32[3], %b: f32[3] <const>) {
  %y = mul(%a, %b)
  %z = exp(%y)
  return %z
}

case "closed over and passed" {
  %a = randn([3], seed=1, requires_grad=true)
  call @product(%a, %a)
  backward seed=2
}

case "a gradient inside, a backward outside" {
  %a = randn([3], seed=1, requires_grad=true)
  %b = randn([3], seed=2, requires_grad=true)
  %z, %ga, %gb = call @product(%a, %b) grads=true
  backward %ga, %gb seed=3
}

case "hooks that are not inverses, in the first call" {
  %a = randn([3], seed=1, requires_grad=true)
  %b = randn([3], seed=2, requires_grad=true)
  call @product(%a, %b) hooks=bf16 rehearse=true
  call @product(%a, %b)
  backward seed=3 create_graph=true
  %g = grad %a
  backward %g
}

case "hooks that are not inverses, in a later call" {
  %a = randn([3], seed=1, requires_grad=true)
  %b = randn([3], seed=2, requires_grad=true)
  call @product(%a, %b)
  backward
  call @product(%a, %b) hooks=twice rehearse=true
  call @product(%a, %b)
  backward seed=3
}

case "hooks that hold copies" {
  %a = randn([3], seed=1, requires_grad=true)
  %b = randn([3], seed=2, requires_grad=true)
  call @product(%a, %b) hooks=clone
  backward seed=3 create_graph=true hooks=clone
  %g = grad %a
  backward %g
}

case "the first call is a checkpoint" {
  %a = randn([3], seed=1, requires_grad=true)
  %b = randn([3], seed=2, requires_grad=true)
  call @product(%a, %b) checkpoint=true
  backward seed=3
  call @product(%a, %b)
  backward seed=4
}

case "autocast around some calls" {
  %x = randn([2,3], seed=1, requires_grad=true)
  %w = randn([3,2], seed=2, requires_grad=true)
  call @layer(%x, %w) autocast=bf16
  backward
  call @layer(%x, %w)
  backward
  call @layer(%x, %w) autocast=f16
  backward
}
