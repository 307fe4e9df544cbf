# Inputs whose history a program ends, and views from before.

func @f0(%p0: f32[2] @0, %p1: f32[2] @0) {
  detach_(%p1)
  asin_(%p1)
  %v6 = unfold(%p0, -1, 2, 1)
  return %v6
}

case "seed 3851" {
  %a0 = full([2], 2, f32, requires_grad=true)
  %a1 = squeeze_dims(%a0, [0])
  call @f0(%a1, %a0)
  backward
}

func @f1(%p0: f32[1,2], %p2: f32[2,2]) {
  detach_(%p2)
  copy_(%p2, %p0, false)
  return
}

case "seed 8433" {
  %a0 = randint(-2, 1, [2,2], f32, seed=47, requires_grad=true)
  %a2 = sum_to_size(%a0, [1,2])
  call @f1(%a2, %a0)
}

func @f2(%p0: f32[2] @0) {
  %v1... = unbind(%p0, 0)
  detach_(%p0)
  t_(%p0)
  return %v1.1
}

case "seed 5025" {
  %a0 = randint(-2, 2, [2], f32, seed=15, requires_grad=true)
  call @f2(%a0)
}

func @f3(%p0: f32[3]) {
  %v5... = split_with_sizes(%p0, [2,1], 0)
  detach_(%p0)
  copysign_(%p0, -1)
  return %v5.1
}

case "seed 5317" {
  %a0 = randint(-3, 2, [3], f32, seed=88, requires_grad=true)
  call @f3(%a0)
}
