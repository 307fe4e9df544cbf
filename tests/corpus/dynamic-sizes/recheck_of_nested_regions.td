# debug_asserts: the gradient of a region inside a region, compiled for symbolic sizes, has the ops of the body.

func @f(%p0: i64[3,1,3] @0, %p1: f32[2,1] grad @1) {
  %v0 = region(func @grad0(%a: f32[2,1], %b: f32[2,1]) {
      %i = region(func @in(%c: f32[2,1], %d: f32[2,1]) {
        %k = mul(%c, %d)
        %l = sin(%k)
        return %l
      }, [%a, %b])
      return %i
    }, [%p1, %p1])
  %v1 = region(@grad0, [%v0, %p1])
  %v2 = linalg_matrix_rank(%v1, 0.0)
  %v3 = copysign(%p0, %v0)
  return %v1
}

case "seed 4500403678" {
  %a0 = tensor([-2, 2], f32, [2,1], requires_grad=true)
  no_grad {
    %a1 = randn([1,1,1], bf16, seed=63)
    %a2 = upsample_nearest1d(%a1, [3], none)
    %a3 = transpose(%a0, -1, 0)
  }
  %a4 = randint(-3, 4, [3,3,3], i32, seed=73)
  %a5 = sum_to_size(%a4, [3,1,3])
  call @f(%a5, %a0) control=true
  no_grad {
    fill_(%out.0, 1)
  }
  call @f(%a5, %a0) control=true
}
