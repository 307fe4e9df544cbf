# requires_grad is switched on for tensors that already have views, or are views: the existing views do not change.

func @f0() {
  %v2 = randn([1,1], f32)
  %v7 = squeeze(%v2)
  squeeze_dims_(%v2, [1])
  requires_grad_(%v7, true)
  return %v7
}

case "seed 1145" {
  call @f0()
}

func @f1() {
  %v0 = randn([], f32)
  %v1 = unfold(%v0, 0, 1, 1)
  mul_(%v1, 1.0)
  requires_grad_(%v1)
  return %v1
}

case "seed 1202" {
  call @f1()
}

func @f2(%p0: f32[3,2,2], %p1: f32[12]) {
  eq_(%p0, 0.0)
  requires_grad_(%p1, true)
  return
}

case "seed 5168" {
  %a0 = tensor([0, 1, 2, -1, 3, 0, -2, 3, -1, -1, -2, -2], f32, [3,2,2])
  %a1 = ravel(%a0)
  call @f2(%a0, %a1)
}

func @f3(%p0: f32[2,2] @0) {
  %v1... = split_with_sizes(%p0, [1,0,1])
  %v7 = erfc_(%v1.2)
  %v8 = requires_grad_(%v1.2)
  return %v7
}

case "seed 6307" {
  %a1 = randint(-2, 2, [2,2], f32)
  call @f3(%a1)
}

func @f4(%p0: f32[2,2,4]) {
  %v5 = reshape_as(%p0, %p0)
  %v7 = requires_grad_(%p0)
  return %v5
}

case "seed 6446" {
  %a0 = tensor([2, -1, -1, 2, 1, 2, -1, 1, 2, -2, 2, -1, 0, 0, -2, -2], f32, [2,2,4])
  call @f4(%a0)
}

func @f5(%p0) {
  %v2 = randn([1], f32)
  %v3 = view_as(%p0, %v2)
  %v4 = requires_grad_(%p0)
  return %v3
}

case "seed 6817" {
  %a0 = full([], 1, f32)
  %a1 = alias(%a0)
  call @f5(%a1)
}

func @f6(%p0: f32[1,0,1,1] @0) {
  %v1 = expand(%p0, [1,1,0,1,1])
  hardtanh_(%p0, 1, -1)
  requires_grad_(%v1, true)
  return %v1
}

case "seed 7504" {
  %a2 = tensor([], f32, [1,0,1,1])
  call @f6(%a2)
}

func @f7(%p0, %p2) {
  no_grad {
    %v0 = requires_grad_(%p0, true)
    cumsum_(%p0, -1, none)
  }
  return
}

case "seed 12040" {
  %a0 = randn([], f32)
  %a2 = unfold(%a0, 0, 1, 1)
  call @f7(%a2, %a0)
}

func @f8(%p0: f32[1], %p1: f32[1,1]) {
  %v0 = celu_(%p0, 2.0)
  %v3 = requires_grad_(%p0, true)
  return
}

case "seed 13559" {
  %a1 = randn([1,1], f32)
  %a3 = diagonal(%a1)
  call @f8(%a3, %a1)
}

func @f9() {
  %v2 = randn([3,3,0,3], f32)
  %v3... = chunk(%v2, 3, 3)
  requires_grad_(%v2, true)
  return %v3.2
}

case "seed 14910" {
  call @f9()
}

func @f10(%p0: f32[3,1,3,2,2]) {
  squeeze_(%p0)
  requires_grad_(%p0, true)
  return
}

case "seed 35428" {
  %a0 = randint(-3, 2, [3,3,3], f32)
  %a1 = unsqueeze(%a0, -3)
  %a2 = unfold(%a1, -1, 2, 1)
  call @f10(%a2)
}
