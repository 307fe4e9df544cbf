# as_strided reads elements beside an argument that is a view: after a write of the argument
# they have the history of its base, also in what is computed of them inside the function.

func @f(%p0: f32[3,1]{3,3}+1) {
  %v0 = as_strided(%p0, [1,3], [0,1], none)
  %v1 = full([1,1], 0, f32)
  mul_(%p0, %v1)
  %v2 = mul(%v0, %v0)
  return %v2
}
case "elements beside a view" {
  %a0 = tensor([1, 2, 3, 4, 5, 6, 7, 8, 9], f32, [3,1,3], requires_grad=true)
  %a1 = neg(%a0)
  %a2 = select(%a1, -1, 1)
  call @f(%a2)
  backward
}
