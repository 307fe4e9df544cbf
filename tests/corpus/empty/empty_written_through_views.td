# Tensors without elements are written through views outside of no_grad.

func @f(%x: f32[1,0,3]) {
  %y = clone(%x)
  %v = alias(%y)
  exp_(%v)
  return %y, %v
}
func @g(%x: f32[0,3]) {
  %y = mul(%x, 2.0)
  %v = select(%y, 1, 0)
  add_(%v, 1.0)
  return %y
}
func @h(%x: f32[0,3]) {
  %y = mul(%x, 2.0)
  exp_(%y)
  return %y
}
func @k(%x: f32[0,3]) {
  %y = mul(%x, 2.0)
  %v = alias(%y)
  relu_(%v)
  return %y
}
func @l(%x: f32[0,3]) {
  %y = mul(%x, 2.0)
  %v = view(%y, [3,0])
  add_(%v, 1.0)
  return %y, %v
}
case "f grad" {
  %x = tensor([], f32, [1,0,3], requires_grad=true)
  call @f(%x)
  backward seed=3
}
case "f no grad" {
  %x = tensor([], f32, [1,0,3])
  call @f(%x)
}
case "g grad" {
  %x = tensor([], f32, [0,3], requires_grad=true)
  call @g(%x)
  backward seed=3
}
case "h grad" {
  %x = tensor([], f32, [0,3], requires_grad=true)
  call @h(%x)
  backward seed=3
}
case "k grad" {
  %x = tensor([], f32, [0,3], requires_grad=true)
  call @k(%x)
  backward seed=3
}
case "l grad" {
  %x = tensor([], f32, [0,3], requires_grad=true)
  call @l(%x)
  backward seed=3
}
