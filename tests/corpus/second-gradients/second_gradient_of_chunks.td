# A base and a view of one of its chunks, written where history is detached: second gradients.

func @f( %p1: f32[1,2], %p3: f32[2,2]) {
  %v16... = chunk(%p3, 2)
  %v24 = randint(0, 2, [2], i64)
  %v25 = index_fill(%v16.1, -1, %v24, 0.0)
  %v26 = view_dtype(%v16.0, f32)
  selu_(%v26)
  return %v25
}
case "second gradient of chunks" {
  %a0 = randint(-2, 2, [2,2], f32, seed=82, requires_grad=true)
  %a2 = as_strided(%a0, [1,2], [2,0], 2)
  call @f( %a2, %a0)
  backward %out.0, %out.0 create_graph=true
}
