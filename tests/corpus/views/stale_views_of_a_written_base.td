# Views whose base was written: their history is recomputed from the base, or reading it is an error.

func @f0(%p0, %p2) {
  atan_(%p2)
  return
}

case "seed 4242" {
  %a0 = randint(-1, 1, [1,1,1], f32)
  %a1 = randn([], f32, seed=9, requires_grad=true)
  %a2 = randint(0, 1, [1], i64)
  %a3 = index_put(%a0, [%a2], %a1, true)
  %a6... = split_with_sizes(%a3, [0,1])
  call @f0(%a6.1, %a3)
}

func @f1(%p0: f32[1], %p1: f32[1]) {
  round_(%p1)
  return
}

case "seed 9073" {
  %a0 = randint(-1, 1, [1,1], f32, seed=21, requires_grad=true)
  %a1 = sum_to_size(%a0, [1])
  %a2... = split_with_sizes(%a1, [1])
  call @f1(%a2.0, %a1)
}

func @f2(%p0: f32[1,1,1], %p1: f32[1,1,1]) {
  %v1 = view_as(%p1, %p1)
  %v4 = detach(%p0)
  lerp_(%v4, %v1, 1)
  return %v1
}

case "seed 5844" {
  %a0 = randn([1,1,3], f32, seed=26, requires_grad=true)
  %a1... = split(%a0, 1, -1)
  call @f2(%a1.2, %a1.1)
}

func @f3(%p2: f32[2,2]) {
  %v9 = log_softmax(%p2, 0, f32)
  inference {
    hardsigmoid_(%p2)
  }
  return %v9
}

case "seed 8062" {
  %a2 = randn([2,2,2], f32, seed=76, requires_grad=true)
  %a3... = unbind(%a2, 2)
  call @f3(%a3.1)
}

func @f4(%p0) {
  %v0 = ravel(%p0)
  no_grad {
    abs_(%p0)
  }
  return %v0
}

case "seed 10632" {
  %a0 = randn([2,2], f32, seed=19, requires_grad=true)
  %a1... = split_with_sizes(%a0, [2], -1)
  %a2 = t(%a1.0)
  call @f4(%a2)
}

func @f5(%p0: f32[2], %p1: f32[2]) {
  %v3 = squeeze_dim(%p0, -1)
  no_grad {
    log1p_(%v3)
  }
  return %v3
}

case "seed 12685" {
  %a0 = full([2,2], 0, f32, requires_grad=true)
  %a4... = unbind(%a0, 0)
  call @f5(%a4.1, %a4.0)
}

func @f6(%p0: f32[1] @0, %p1: f32[1,1] @0) {
  %v9 = unfold(%p0, -1, 1, 1)
  inference {
    elu_(%v9, -1)
  }
  return %v9
}

case "seed 15592" {
  %a0 = randint(-1, 1, [1,1], f32, seed=89, requires_grad=true)
  %a1... = unbind(%a0)
  call @f6(%a1.0, %a0)
}

func @f7(%p3: f32[1]) {
  no_grad {
    %v6 = xlogy_(%p3, %p3)
  }
  return
}

case "seed 20367" {
  %a1 = randint(-1, 1, [1], f32, seed=98, requires_grad=true)
  no_grad {
    %a3 = expand(%a1, [1])
  }
  no_grad {
    round_(%a3)
  }
  call @f7(%a3)
}

func @f8(%p0: f32[0,1], %p2: f32[1]) {
  %v8 = flip(%p0, [1])
  return %v8
}

case "seed 23160" {
  %a0 = randint(-1, 1, [], f32, seed=94, requires_grad=true)
  inference {
    %a1 = unfold(%a0, 0, 1, 1)
    gelu_(%a0)
  }
  %a2 = randint(-1, 1, [0,1], f32, seed=78, requires_grad=true)
  call @f8(%a2, %a1)
}

func @f9(%p0: f32[1,1] @0) {
  %v0 = view_dtype(%p0, f32)
  transpose_(%v0, 1, 1)
  return
}

case "seed 34934" {
  %a1 = randint(-1, 1, [1,1], f32, seed=35, requires_grad=true)
  no_grad {
    %a3... = split(%a1, 1)
  }
  call @f9(%a3.0)
  call @f9(%a3.0)
}

func @f10(%p0) {
  no_grad {
    transpose_(%p0, -2, -3)
  }
  return %p0
}

case "seed 3633" {
  %a0 = tensor([0, 2, 3, 0, -2, 1, 3, 3, 2, 3, 1, 3, -1, -2, 1, -2], f32, [2,2,2,2], requires_grad=true)
  %a5 = alias(%a0)
  call @f10(%a5)
  backward seed=2
}
