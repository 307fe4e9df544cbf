# Equal sizes and offsets in storages of other lengths: whether resize_ grows the storage, and what as_strided reads
# after the elements, depends on the length.

func @grows(%x) {
  resize_(%x, [6])
  add_(%x, 1)
  %y = exp(%x)
  return %y
}

func @reads(%x) {
  %y = as_strided(%x, [6], [1], 0)
  %z = exp(%y)
  return %z
}

func @part(%x) {
  %t = transpose(%x, 0, 1)
  %v5 = as_strided_scatter(%t, %x, [1,3], [1,2], 3)
  mul_(%x, 2)
  return %v5
}

case "a short storage, then a long one" {
  %a = randn([3], f32, seed=1)
  %b = randn([6], f32, seed=1)
  %c = narrow(%b, 0, 0, 3)
  call @grows(%a)
  call @grows(%c)
}

case "a long storage, then a short one" {
  %a = randn([3], f32, seed=1)
  %b = randn([6], f32, seed=1)
  %c = narrow(%b, 0, 0, 3)
  call @grows(%c)
  call @grows(%a)
}

case "other sizes" {
  %a = randn([3], f32, seed=1)
  %b = randn([4], f32, seed=2)
  %c = randn([5], f32, seed=3)
  %d0 = randn([9], f32, seed=4)
  %d = narrow(%d0, 0, 0, 4)
  %e0 = randn([9], f32, seed=4)
  %e = narrow(%e0, 0, 0, 5)
  %f = randn([8], f32, seed=5)
  %h = randn([9], f32, seed=5)
  call @grows(%a)
  call @grows(%b)
  call @grows(%c)
  call @grows(%d)
  call @grows(%e)
  call @grows(%f)
  call @grows(%h)
}

case "reads" {
  %c = randn([7], f32, seed=3)
  %d0 = randn([9], f32, seed=4)
  %d = narrow(%d0, 0, 0, 4)
  %e0 = randn([9], f32, seed=4)
  %e = narrow(%e0, 0, 0, 5)
  %f = randn([8], f32, seed=5)
  call @reads(%c)
  call @reads(%d)
  call @reads(%e)
  call @reads(%f)
}

case "storages" {
  %a0 = randn([3,3], f32, seed=43)
  %a1 = narrow(%a0, 0, 1, 1)
  %b0 = randn([8], f32, seed=43)
  %b1 = as_strided(%b0, [1,3], [3,1], 3)
  %c0 = randn([20], f32, seed=43)
  %c1 = as_strided(%c0, [1,3], [3,1], 3)
  call @part(%a1)
  call @part(%b1)
  call @part(%c1)
}
