# Views that a body closes over and reads first when it has moved what they are views
# of, which has no elements any more: they are as they were, also several of them.

func @f(%p0: f32[2,3], %p1: f32[3] <const>, %p2: f32[2] <const>) {
  no_grad {
    %v = full([0], 0, f32)
    set_(%p0, %v)
  }
  %y = mul(%p1, 2)
  %z = mul(%p2, 3)
  return %y, %z
}

func @writes(%p0: f32[2,3], %p1: f32[3] <const>, %p2: f32[2] <const>) {
  %v = full([2,0], 0, f32)
  set_(%p0, %v)
  mul_(%p1, 2)
  add_(%p2, 1)
  %y = add(%p1, 2)
  return %y, %p2
}

func @apart(%p0: f32[1,2,2], %p1: f32[2] <const>) {
  inference {
    %v3 = full([2,0,2], 0, f32)
    set_(%p0, %v3)
    clamp_max_(%p1, %p1)
  }
  return %p1
}

case "without gradients" {
  %a = randn([2,3], f32, seed=1)
  %b = select(%a, 0, 1)
  %c = select(%a, 1, 1)
  call @f(%a, %b, %c)
}

case "of a leaf" {
  %a = randn([2,3], f32, seed=1, requires_grad=true)
  %b = select(%a, 0, 1)
  %c = select(%a, 1, 1)
  call @f(%a, %b, %c)
  backward
}

case "of a result" {
  %l = randn([2,3], f32, seed=1, requires_grad=true)
  %a = mul(%l, 2)
  %b = select(%a, 0, 1)
  %c = select(%a, 1, 1)
  call @f(%a, %b, %c)
  backward
}

case "written" {
  %a = randn([2,3], f32, seed=1)
  %b = select(%a, 0, 1)
  %c = select(%a, 1, 1)
  call @writes(%a, %b, %c)
}

case "one of several views, which eager refuses to tell" {
  %a1 = full([1,2,2], 0, f32, requires_grad=true)
  %a3 = squeeze(%a1)
  %a4... = unbind(%a3, -2)
  call @apart(%a1, %a4.1) module=train
}
