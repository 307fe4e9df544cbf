# One of several views of a tensor that is written.

func @f(%v: f32[1,1], %p: f32[1,1]) {
  log10_(%p)
  return
}

case "base and part passed" {
  %a = full([1,1], 2, f32, requires_grad=true)
  %b = mul(%a, 2)
  %v... = split(%b, 1)
  call @f(%v.0, %b)
}

case "a view of a base that was detached" {
  %a = randn([1,1], seed=1, requires_grad=true)
  %v = alias(%a)
  detach_(%a)
  call @f(%v, %a)
}
