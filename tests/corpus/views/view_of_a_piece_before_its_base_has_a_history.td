# A view of one of several views is made while their base, which was written, has no history; a later write gives it
# one, and the grad_fn of the views is not read after that.

func @chunk(%p0) {
  %v0 = randint(-1, 2, [2,1], f32)
  %v1... = chunk(%v0, 1, 0)
  floor_(%v0)
  %v9 = alias(%v1.0)
  sub_(%v0, %p0, -1.25)
  return %v9
}

func @unbind(%p0) {
  %v0 = zeros([2,3], f32)
  %v1... = unbind(%v0, 0)
  add_(%v0, 1)
  %v9 = select(%v1.1, 0, 1)
  %v8 = view(%v1.0, [3,1])
  mul_(%v0, %p0)
  add_(%v0, %p0)
  return %v0, %v9, %v8
}

func @no_grad(%p0) {
  %v0 = zeros([2,3], f32)
  no_grad {
    %v1 = select(%v0, 0, 1)
  }
  add_(%v0, 1)
  %v9 = select(%v1, 0, 1)
  mul_(%v0, %p0)
  return %v0, %v9
}

case "a chunk" {
  %a = randn([2,1], f32, seed=95, requires_grad=true)
  call @chunk(%a)
}

case "rows" {
  %a = randn([2,3], f32, seed=95, requires_grad=true)
  call @unbind(%a)
  backward %out.0
}

case "a view made without gradients" {
  %a = randn([2,3], f32, seed=95, requires_grad=true)
  call @no_grad(%a)
  backward %out.0
}
