# A copy of a piece is an inner tensor of a result: views of the result are made by the offset that the copy has.

func @f(%p0: f32[3,3]) {
  %v0 = mul(%p0, 1)
  %v1 = neg(%p0)
  %v2 = _wrap([%v0, %v1], "fz_pair", "", [3,3], [], f32)
  %v8 = randint(0, 3, [3,3], i64)
  scatter_(%v2, -1, %v8, %p0)
  %v9... = unbind_copy(%v2)
  %v10 = atleast_3d(%v9.2)
  return  %v10
}
case "a copied piece in a pair" {
  %a2 = tensor([0, 1, -1, 3, 0, 1, 1, -1, 1], f32, [3,3], requires_grad=true)
  call @f(%a2)
}
