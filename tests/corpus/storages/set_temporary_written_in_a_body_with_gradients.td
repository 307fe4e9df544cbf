# A temporary that was set elsewhere is written by an op that saves its result: a
# gradient inside the body reads that result, not what its base has in its place.

func @of_an_argument(%p0) {
  %v1 = randint(-3, 1, [3], f32)
  %v2 = gelu_erf_backward(%p0, %v1)
  %v3 = narrow(%v2, 0, -1, 1)
  set_(%v3, %p0, 3, [1,1])
  relu_(%v3)
  return %v3
}

func @view_of_a_view(%p0, %p1) {
  %v2 = mul(%p0, 3)
  %v3 = narrow(%v2, 0, -1, 1)
  %v4 = select(%v3, 0, 0)
  set_(%v4, %p1, 3, [1,2])
  tanh_(%v4)
  %z = mul(%v4, %v4)
  return %z
}

func @base_moved(%p0) {
  %v1 = full([9], 2, f32)
  %v2 = mul(%p0, 3)
  %v3 = narrow(%v2, 0, 0, 1)
  no_grad {
    set_(%v2, %v1, 0, [3,3])
  }
  sigmoid_(%v3)
  %y = mul(%v3, %v3)
  return %y, %v2
}

case "a part of an argument" {
  %a0 = randn([3,3], f32, seed=88, requires_grad=true)
  call @of_an_argument(%a0)
  call @of_an_argument(%a0) grads=true
}

case "a view of a view, by other sizes" {
  %a0 = randn([3,3], f32, seed=88, requires_grad=true)
  %a1 = randn([3,3], f32, seed=89)
  call @view_of_a_view(%a0, %a1) grads=true
  %b0 = randn([3,4], f32, seed=88, requires_grad=true)
  %b1 = randn([3,4], f32, seed=89)
  call @view_of_a_view(%b0, %b1) grads=true
}

case "the base is elsewhere" {
  %a0 = randn([3,3], f32, seed=88, requires_grad=true)
  call @base_moved(%a0) grads=true
}
