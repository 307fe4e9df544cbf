# The storage has 6 bytes: a copy of the written f32 must copy it as bf16, of which it has whole elements.

func @f(%p0: f32[1], %p1: bf16[1], %p2: bf16[3]) {
  floor_(%p0)
  lt_(%p1, 1.25)
  return
}

func @g(%p0: f32[1], %p1: bf16[3]) {
  %v0 = mul(%p1, 2)
  mul_(%p0, 3)
  %v1 = as_strided(%p1, [2], [1], 1)
  %v2 = add(%v1, 1)
  return %v0, %v2
}

func @h(%p0: f32[1], %p1: u8[7]) {
  add_(%p1, 1)
  %v0 = add(%p0, 1)
  mul_(%p0, 3)
  return %v0
}

case "of two bytes" {
  %a0 = randn([3], bf16)
  %a1... = split_with_sizes(%a0, [2,1], -1)
  %a2 = view_dtype(%a1.0, f32)
  call @f(%a2, %a1.1, %a0)
}

case "read as a whole" {
  %a0 = randn([3], bf16)
  %a1 = slice(%a0, 0, 0, 2)
  %a2 = view_dtype(%a1, f32)
  call @g(%a2, %a0)
}

case "of three bytes" {
  %a0 = tensor([0, 0, 0, 0, 128, 63, 9], u8, [7])
  %a1 = slice(%a0, 0, 0, 4)
  %a2 = view_dtype(%a1, f32)
  call @h(%a2, %a0)
}
