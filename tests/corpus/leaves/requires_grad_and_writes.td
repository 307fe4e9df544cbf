# Bases that are written and then require grad, with views of them passed too.

func @f0(%p0: f32[2] @0, %p1: f32[1,2] @0) {
  %v0 = asin_(%p1)
  requires_grad_(%v0, true)
  return
}

case "seed 11641" {
  %a2 = tensor([2, 2], f32, [1,2])
  %a4 = ravel(%a2)
  call @f0(%a4, %a2)
}

func @f1(%p0: f32[1,1]{1,1} @0, %p1: f32[1,1] @0, %p2: f32[1,1] @0) {
  %v1 = pow_(%p1, %p2)
  %v2 = requires_grad_(%p2)
  return
}

case "seed 14063" {
  %a0 = full([1,1], 0, f32)
  %a5 = movedim(%a0, [1], [0])
  call @f1(%a5, %a0, %a0)
}

func @f2(%p0: f32[2,2] @0, %p2: f32[2,2] @0) {
  %v6 = randint(0, 2, [2,2], i64)
  %v7 = _index_put_(%p2, [none, %v6], %p0, true)
  requires_grad_(%p0, true)
  return
}

case "seed 24696" {
  %a0 = randint(-2, 2, [2,2], f32)
  %a2 = permute(%a0, [-2,1])
  %a4 = reshape_as(%a2, %a0)
  call @f2(%a2, %a4)
  call @f2(%a2, %a4)
}
