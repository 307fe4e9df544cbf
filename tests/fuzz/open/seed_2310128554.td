# seed 2310128554: compiled-dynamic: line 17: eager works, compiled-dynamic fails: view_dtype_copy: stride 1 of dim 0 must be a multiple of 2 (in view_dtype) (program.td:12)

func @f(%p0: f32[2,1]) {
  %v11 = matrix_H(%p0)
  %v23 = full([2], 0, i64)
  %v25 = sum(%v23)
  %v26, %v27 = cond(%v25, func @yes(%a: f32[1,2]) {
        %b = mul(%a, 2.0)
      return %b, %b
    }, func @no(%a: f32[1,2]) {
      %b = sin(%a)
      return %b, %a
    }, [%v11])
  %v28 = view_dtype_copy(%v26, f64)
  return 
}
case "seed 2310128554" {
  %a0 = randint(-2, 2, [2,1], f32,)
  call @f(%a0)
}
