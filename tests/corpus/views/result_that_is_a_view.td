# A result that is a view of a tensor that is not returned is still a view: detach_ is an error, and a view of it
# that is made under no_grad may be written, since the base requires no grad.

func @part(%p: f32[9]) {
  %a = mul(%p, 2)
  %b = narrow(%a, 0, 3, 3)
  return %b
}

func @all(%p: f32[9]) {
  %a = mul(%p, 2)
  %b = view(%a, [3,3])
  return %b
}

func @base(%p: f32[9]) {
  %a = mul(%p, 2)
  %b = view(%a, [3,3])
  relu_(%b)
  return %a
}

func @detach(%q) {
  detach_(%q)
  return
}

func @leaf(%q: f32[3,3]) {
  requires_grad_(%q, true)
  no_grad {
    %v... = chunk(%q, 1)
  }
  round_(%v.0)
  return
}

case "a part is detached" {
  %p = randn([9], f32, seed=1)
  call @part(%p)
  %y... = call @detach(%out.0)
}

case "another shape is detached" {
  %p = randn([9], f32, seed=1)
  call @all(%p)
  %y... = call @detach(%out.0)
}

case "one with a history is detached" {
  %p = randn([9], f32, seed=1, requires_grad=true)
  call @all(%p)
  %y... = call @detach(%out.0)
}

case "what is no view is detached" {
  %p = randn([9], f32, seed=1)
  call @base(%p)
  %y... = call @detach(%out.0)
}

case "it becomes a leaf" {
  %p = randn([9], f32, seed=1)
  call @all(%p)
  %y... = call @leaf(%out.0)
}

case "it is written with gradients" {
  %p = randn([9], f32, seed=1, requires_grad=true)
  call @all(%p)
  mul_(%out.0, 3)
  backward %out.0 seed=2
}
