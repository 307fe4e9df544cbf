# Versions of arguments that a hook writes: passed twice, in a storage that two share, written twice.

func @f(%p0: f32[3], %p1) {
  %v0 = alias(%p0)
  on_grad(%v0, func @hook(%g: f32[3], %a: f32[3]) {
      return %a
    }, [%p0])
  on_grad(%v0, func @hook(%g: f32[3]) {
      mul_(%g, 2.0)
      return none
    }, [])
  return %v0
}

func @g(%p0: f32[3]) {
  %v0 = alias(%p0)
  on_grad(%v0, func @hook(%g: f32[3], %a: f32[3]) {
      return %a
    }, [%p0])
  on_grad(%v0, func @hook(%g: f32[3]) {
      mul_(%g, 2.0)
      add_(%g, 1.0)
      return none
    }, [])
  return %v0
}

func @h(%p0: f32[3]) {
  %v0 = mul(%p0, 3)
  on_grad(%v0, func @hook(%g: f32[3]) {
      mul_(%g, 2.0)
      add_(%g, 1.0)
      return none
    }, [])
  return %v0
}

case "passed twice" {
  %a0 = tensor([3, 1, -1], f32, [3], requires_grad=true)
  call @f(%a0, %a0)
  backward
}

case "passed with a part of it" {
  %a0 = tensor([3, 1, -1], f32, [3], requires_grad=true)
  %a1 = slice(%a0, 0, 0, 2)
  call @f(%a0, %a1)
  backward
}

case "parts that overlap" {
  %a0 = tensor([3, 1, -1, 2], f32, [4])
  %a1 = slice(%a0, 0, 0, 3)
  %a2 = slice(%a0, 0, 1, 4)
  requires_grad_(%a1)
  call @f(%a1, %a2)
  backward
}

case "written twice" {
  %a0 = tensor([3, 1, -1], f32, [3], requires_grad=true)
  call @g(%a0)
  backward
}

case "a tangent written twice" {
  %a0 = tensor([3, 1, -1], f32, [3], requires_grad=true)
  call @h(%a0)
  backward
}
