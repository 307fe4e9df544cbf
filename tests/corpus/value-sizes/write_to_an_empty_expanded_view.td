# A write to an expanded view of as many elements as values say: of none, it changes nothing.

func @f( %p1: f32[] @1) {
  %v0 = randint(0, 1, [], bool)
  %v1 = index(%p1, [%v0])
  %v8 = randint(-1, 1, [], f32)
  %v9 = expand_as(%v8, %v1)
  %v10, %v11 = custom("own", func @forward(%a: f32[], %b: f32[]) {
      return %a, %b, %b <saved 0>
    }, func @backward(%b: f32[] <saved 0>, %k: f32[] <tangent 1>, %g: f32[] <tangent 0>) {
      return 
    }, [%p1, %v8], [])
  %v12 = custom("own", func @forward(%a: f32[1]) {
      mul_(%a, 2.0)
      return %a
    }, func @backward(%g: f32[1] <tangent 0>) {
      return 
    }, [%v9], [], dirty=[0])
  return 
}
func @g(%q0: i8[0,1], %q1: f32[], %q2: f32[1]) {
  %u3 = custom("own", func @forward(%a: f32[1]) {
      return 
    }, func @backward(%g: f32[1] <tangent 0>) {
      return 
    }, [%q2], [])
  return 
}
case "an empty expanded view is written" {
  %a1 = randint(-1, 1, [], f32,)
  call @f( %a1) autocast=f16
}
