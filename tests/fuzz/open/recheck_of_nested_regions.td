# A false alarm of debug_asserts, as in recheck_of_nested_regions_and_a_closed_over_argument.
# seed 4500403678: compiled-dynamic with budget 0, assign_writes=off, functional_rng=on: line 29: eager works, compiled-dynamic with budget 0, assign_writes=off, functional_rng=on fails: debug_asserts: f: at call 2 the body does something else than what was compiled: `%2 = mul(%0, %0) : f32[2,1] grad @"program.td":4` is now `%2 = region(func () {`. It reads a value that compiled call

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
