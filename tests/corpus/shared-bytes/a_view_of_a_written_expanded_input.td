# Elements of an expanded input share memory, those of the copy it is read through do not: a view of the copy is no
# view of the input.
func @f( %p2: f32[3], %p3: f32[3,3]) {
  %v0 = unfold(%p3, 0, 3, 1)
  %v10 = randint(0, 3, [1,3,3], i64)
  %v11 = take_along_dim(%v0, %v10)
  logical_not_(%p2)
  return 
}
case "seed 77081996" {
  %a0 = tensor([-1, 1, 1], f32, [3])
  %a1 = as_strided(%a0, [3,3], [0,0], 1)
  %a2 = tensor([1, 0, 1], f32, [3], requires_grad=true)
  add_(%a0, %a2, 1.25)
  call @f( %a0, %a1)
}
