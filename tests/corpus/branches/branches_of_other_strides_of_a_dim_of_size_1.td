# The stride of a dim of size 1 depends on the branch, and shows nothing: a view of another dtype does not depend on it.

func @f(%x: f32[2,1]) {
  %t = t(%x)
  %n = full([], 0, i64)
  %y = cond(%n, func @yes(%a: f32[1,2]) {
      %b = mul(%a, 2.0)
      return %b
    }, func @no(%a: f32[1,2]) {
      %b = sin(%a)
      return %b
    }, [%t])
  %z = view_dtype_copy(%y, f64)
  return %z
}
case "the results of a branch, read as f64" {
  %a = tensor([1, 2], f32, [2,1])
  call @f(%a)
}
