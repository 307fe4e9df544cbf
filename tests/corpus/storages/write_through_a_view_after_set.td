# set_ gives the result of the first call, a view of the argument, a history that has no
# derivative. The write of the second call goes by the history of the base, so that
# backward does not meet set_. A view with the history of its base is another call.

func @f(%p: f32[2,2,2]) {
  %v = alias(%p)
  set_(%v, %v, none)
  return %v
}

func @g(%q: f32[2,2,2]) {
  log10_(%q)
  return %q
}

case "written after set_" {
  %a = full([2,2,2], 3, f32)
  %b = tensor([2, 2], f32, [2], requires_grad=true)
  %c = mul(%a, %b)
  call @f(%c)
  %y... = call @g(%out.0)
  backward
}

case "the second call first with an ordinary view" {
  %a = full([2,2,2], 3, f32)
  %b = tensor([2, 2], f32, [2], requires_grad=true)
  %c = mul(%a, %b)
  %d = mul(%a, %b)
  %e = alias(%d)
  call @g(%e)
  call @f(%c)
  %y... = call @g(%out.0)
  backward
}
