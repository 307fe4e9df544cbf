# Eager's gradient of a view between complex and real numbers arrives in the sizes of its base, also for symbolic sizes.

func @base_and_view(%p0: f32[3,2,2] @0, %p1: c64[3,2] @0) {
  %v0 = _reshape_copy(%p1, [6])
  return %v0, %v0
}

func @view(%p0: c128[2,2]) {
  %v0 = mean(%p0)
  return %v0
}

func @parts(%p0: f32[3,2,2] @0, %p1: f32[3,2] @0) {
  %v0 = mul(%p0, %p0)
  %v1 = sin(%p1)
  return %v0, %v1
}

func @pieces(%p0: c64[2,2]{2,1}+2 @0, %p1: c64[2,2]{2,1} @0, %p2: c64[2,2,2] @0) {
  %v0 = matrix_H(%p1)
  return %v0
}

case "base and view" {
  %a0 = randn([3,2,2], f32, seed=74, requires_grad=true)
  %a1 = view_as_complex(%a0)
  call @base_and_view(%a0, %a1)
  backward %out.0, %out.1
}

case "of a piece whose elements overlap" {
  %a0 = randn([2,2,2], f64, seed=9, requires_grad=true)
  %a1... = unsafe_chunk(%a0, 2)
  %a2 = expand(%a1.1, [2,2,2])
  %a3 = view_as_complex(%a2)
  call @view(%a3)
  backward
}

case "real parts of a complex base" {
  %a0 = randn([3,2], f32, seed=5, requires_grad=true)
  %a1 = complex(%a0, %a0)
  %a2 = view_as_real(%a1)
  %a3 = imag(%a1)
  call @parts(%a2, %a3)
  backward %out.0, %out.1
}

case "pieces" {
  %a0 = randn([2,2,2,2], f32, seed=3, requires_grad=true)
  %a1 = view_as_complex(%a0)
  %a2... = unbind(%a1, -2)
  call @pieces(%a2.1, %a2.0, %a1)
  backward
}
