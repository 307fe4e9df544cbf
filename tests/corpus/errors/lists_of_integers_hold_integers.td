# An element of a list of integers that is a float or a tensor is an error. The address of
# a tensor was once taken for a size.

func @f(%x: f32[2], %n) {
  %y = repeat(%x, [1, %n])
  return %y
}

func @g(%x: f32[6], %n) {
  %y = reshape(%x, [%n, 3])
  return %y
}

case "a float" {
  %x = ones([2])
  call @f(%x, 2) body=true
  call @f(%x, 1.75) body=true
}

case "a tensor" {
  %x = ones([2])
  call @f(%x, %x)
}

case "an integer in front" {
  %x = ones([6], requires_grad=true)
  call @g(%x, 2) body=true
  backward
}
