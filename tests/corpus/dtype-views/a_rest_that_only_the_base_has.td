# The storage has 12 bytes and the first argument elements of 8: the base, which is no argument, is read with its last 4.

func @f(%p0: f64[] @0, %p1: f32[2] @0) {
  div_(%p1, 2)
  return
}

func @g(%p0: c64[] @0, %p1: f32[2] @0) {
  mul_(%p0, %p0)
  div_(%p1, 2)
  %v0 = add(%p0, %p0)
  return %v0
}

case "of 8 bytes" {
  %a0 = randn([3], f32, seed=1)
  %a1... = unsafe_chunk(%a0, 2)
  %a2 = view_dtype(%a1.0, f64)
  %a3 = select(%a2, 0, 0)
  call @f(%a3, %a1.0)
}

case "of pairs" {
  %a0 = randn([3], f32, seed=1)
  %a1... = unsafe_chunk(%a0, 2)
  %a2 = view_as_complex(%a1.0)
  call @g(%a2, %a1.0)
}

case "a list of one element" {
  %a0 = randn([3], f32, seed=1)
  %a1 = slice(%a0, 0, 0, 2)
  %a2 = view_dtype(%a1, f64)
  %a3 = select(%a2, 0, 0)
  call @f(%a3, %a1)
}
