# A value has another offset than eager's would have, and so has its view.
func @f(%p0: f32[0]{1}+2 @0, %p1: f32[1]{1}+1 @0) {
    logical_xor_(%p1, %p1)
      %v1 = full([], 2, f32)
    %v16 = select_scatter(%p1, %v1, 0, 0)
  return %v16
}
func @g(%q0: f32[1]) {
  %u1... = split(%q0, 1)
  return  %u1.0
}
case "offset_of_a_scattered_view" {
  %a0 = randint(-2, 2, [2], f32,)
  %a1... = chunk(%a0, 2, 0)
  %a2 = narrow(%a0, -1, 2, 0)
  call @f(%a2, %a1.1)
  %y... = call @g(%out.0)
}
