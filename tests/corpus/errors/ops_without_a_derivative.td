# The results of these ops require grad, and backward fails; they did not require grad, and the gradient was lost.
func @qr(%x: f64[3,3]) {
  %a, %t = geqrf(%x)
  return %a, %t
}
func @ldl(%x: f64[2,2]) {
  %l, %p, %i = linalg_ldl_factor_ex(%x)
  return %l
}
func @counts(%x: f64[4]) {
  %h, %e = histogram(%x, 3, -2, 2)
  return %h
}
case "geqrf" {
  %x = randn([3,3], f64, seed=3, requires_grad=true)
  call @qr(%x)
  backward
}
case "ldl" {
  %x = tensor([2, 1, 1, 3], f64, [2,2], requires_grad=true)
  call @ldl(%x)
  backward
}
case "histogram" {
  %x = randn([4], f64, seed=3, requires_grad=true)
  call @counts(%x)
  backward
}
