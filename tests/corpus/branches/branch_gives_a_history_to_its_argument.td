# A branch gives a history to an argument that had none: gradients reach %w through it.

func @f(%w: f64[2], %x: f64[2], %p: bool[]) {
    %v = add(%x, %x)
    %c = cond(%p, func @yes(%a: f64[2], %b: f64[2]) {
      %d = add(%b, 1)
      return %d
    }, func @no(%a: f64[2], %b: f64[2]) {
      mul_(%a, %b)
      return %a
    }, [%v, %w])
    return %v
}
case "written by a tensor that requires grad" {
  %w = randn([2], f64, seed=1, requires_grad=true)
  %x = randn([2], f64, seed=2)
  %p = tensor([false], bool, [])
  call @f(%w, %x, %p) control=true
  backward seed=3
}
func @g(%w: f64[2], %x: f64[2]) {
  %n = full([], 4, i64)
  %m, %y = while_loop(func @test(%n: i64[], %x: f64[2], %w: f64[2]) {
    %t = gt(%n, 0)
    return %t
  }, func @body(%n: i64[], %x: f64[2], %w: f64[2]) {
    %m = sub(%n, 1)
    %v = add(%x, %x)
    %r = remainder(%n, 2)
    %p = gt(%r, 0)
    %c = cond(%p, func @yes(%a: f64[2], %b: f64[2]) {
      %d = add(%b, 1)
      return %d
    }, func @no(%a: f64[2], %b: f64[2]) {
      mul_(%a, %b)
      return %a
    }, [%v, %w])
    return %m, %v
  }, [%n, %x], [%w])
  return %y
}
case "in a loop" {
  %w = randn([2], f64, seed=1, requires_grad=true)
  %x = randn([2], f64, seed=2)
  call @g(%w, %x) control=true
  backward seed=3
}
