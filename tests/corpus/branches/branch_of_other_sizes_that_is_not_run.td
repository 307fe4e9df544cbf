# Refused: a body that eager does not run fails for these sizes; a compiled function contains it.

func @f( %p1) {
  %v4 = full([], 0, i64)
  %v5, %v6 = while_loop(func @test(%n: i64[], %a: f32[2,1]) {
      return %n
    }, func @body(%n: i64[], %a: f32[2,1]) {
      %m = add(%n, 1)
      %r = reshape(%a, [2,1])
      return %m, %r
    }, [%v4, %p1], [])
  return 
}
case "seed 154507506" {
  %a0 = tensor([-1, -1], f32, [2,1])
  %b2 = cat([%a0, %a0], 0)
  call @f( %b2)
}
