# The mean of infinite elements is NaN in group norm and layer norm, and infinite in batch
# norm, eagerly and compiled.

func @group(%x) {
  %a, %b, %c = native_group_norm(%x, none, none, 1, 1, 2, 1, 0.001)
  return %a, %b, %c
}
func @layer(%x) {
  %a, %b, %c = native_layer_norm(%x, [2], none, none, 0.001)
  return %a, %b, %c
}
func @batch(%x, %m, %v) {
  %a, %b, %c = native_batch_norm(%x, none, none, %m, %v, true, 0.25, 0.001)
  return %a, %b, %c
}
case "first" {
  %x = tensor([-inf, 1], f32, [1,1,2])
  call @group(%x)
  call @layer(%x)
}
case "last, in f64" {
  %x = tensor([1, inf], f64, [1,1,2])
  call @group(%x)
  call @layer(%x)
}
case "batch" {
  %x = tensor([-inf, 1, 1, 2], f32, [2,2])
  %m = zeros([2], f32)
  %v = ones([2], f32)
  call @batch(%x, %m, %v)
}
case "both signs" {
  %x = tensor([-inf, 1, 1, 3, inf, 2, 3, 4], f32, [2,2,2])
  %m = zeros([2], f32)
  %v = ones([2], f32)
  call @batch(%x, %m, %v)
}
case "differentiated" {
  %x = tensor([-inf, 1, 1, 2], f32, [2,2], requires_grad=true)
  %m = zeros([2], f32)
  %v = ones([2], f32)
  call @batch(%x, %m, %v)
  backward %out.0
}
