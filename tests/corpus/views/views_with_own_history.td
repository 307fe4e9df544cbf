# Results in the bytes of others whose history is their own.

func @f0(%p0: f32[0,2,2] @0) {
  %v0 = as_strided(%p0, [0,2], [0,2], 2)
  %v1 = acos(%v0)
  %v3 = detach(%v1)
  %v5... = unbind(%v3, -1)
  no_grad {
    %v6 = squeeze_dims(%v1, [-2,1])
  }
  return %v6, %v5.0
}

case "seed 1203" {
  %a2 = randint(-2, 2, [2,2,0], f32, seed=79, requires_grad=true)
  %a3 = permute(%a2, [2,1,0])
  call @f0(%a3)
}

func @f1(%p0: f32[1,1,1]) {
  %v2 = detach(%p0)
  requires_grad_(%v2)
  %v7 = squeeze(%v2)
  return %v7
}

case "seed 8407" {
  %a2 = full([1,1,1], 1, f32)
  call @f1(%a2)
}

func @f2(%p0: f32[3,3]) {
  %v9... = chunk(%p0, 1)
  %v10 = view_dtype(%v9.0, f32)
  %v24 = tensor([1, 0, 1], f32, [3])
  lerp_(%v10, %v24, %p0)
  return %v10
}

case "seed 10789" {
  %a2 = tensor([-1, 1, 1, 1, 1, 1, -1, -1, 3], f32, [3,3], requires_grad=true)
  call @f2(%a2)
}

func @f3(%p1: f32[1,1] @1) {
  %v0 = view_dtype(%p1, f32)
  %v5 = unsqueeze_(%v0, -1)
  return %v5
}

case "seed 21806" {
  %a0 = randn([1,1], f32, seed=84, requires_grad=true)
  call @f3(%a0)
}

func @f4(%p0: f32[1,1,1] @0) {
  %v5 = view_dtype(%p0, f32)
  squeeze_dim_(%v5, 1)
  return %v5
}

case "seed 25369" {
  %a0 = full([1,1,1], 1, f32, requires_grad=true)
  call @f4(%a0)
}
