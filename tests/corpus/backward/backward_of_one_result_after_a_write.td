# Backward from one result, after a value was written that only the other result's backward reads.

func @f(%x: f32[2], %a: f32[2], %b: f32[2]) {
  %y = mul(%x, %a)
  %z = mul(%x, %b)
  return %y, %z
}

case "a factor of the other result is written" {
  %x = randn([2], f32, seed=1, requires_grad=true)
  %a = randn([2], f32, seed=2)
  %b = randn([2], f32, seed=3)
  call @f(%x, %a, %b)
  add_(%b, 1)
  backward %out.0 seed=4
}

case "a gradient of a gradient, too" {
  %x = randn([2], f32, seed=1, requires_grad=true)
  %a = randn([2], f32, seed=2, requires_grad=true)
  %b = randn([2], f32, seed=3)
  call @f(%x, %a, %b)
  add_(%b, 1)
  backward %out.0 create_graph=true seed=4
  %g = grad %x
  backward %g seed=5
}

func @cuts(%x: f32[2], %a: f32[2], %b: f32[2]) {
  %y = mul(%x, %a)
  %d = detach(%y)
  %z = mul(%x, %b)
  return %y, %z, %d
}

case "a gradient of a gradient of a program that is run once more" {
  %x = randn([2], f32, seed=1, requires_grad=true)
  %a = randn([2], f32, seed=2, requires_grad=true)
  %b = randn([2], f32, seed=3)
  call @cuts(%x, %a, %b)
  add_(%b, 1)
  backward %out.0 create_graph=true seed=4
  %g = grad %x
  backward %g seed=5
}

case "a gradient of a gradient that reads what was written" {
  %x = randn([2], f32, seed=1, requires_grad=true)
  %a = randn([2], f32, seed=2, requires_grad=true)
  %b = randn([2], f32, seed=3)
  call @f(%x, %a, %b)
  add_(%b, 1)
  backward %out.1 create_graph=true seed=4
}

case "and the other result goes backward first" {
  %x = randn([2], f32, seed=1, requires_grad=true)
  %a = randn([2], f32, seed=2)
  %b = randn([2], f32, seed=3)
  call @f(%x, %a, %b)
  backward %out.1 seed=5
  add_(%b, 1)
  backward %out.0 seed=4
}
