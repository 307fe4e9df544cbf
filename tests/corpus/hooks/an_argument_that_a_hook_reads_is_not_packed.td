# A hook reads a view of an argument, which the caller writes after the call. The value was
# packed with the others, and the hook read what it had been.

func @f(%p0: f32[1,2] grad @0, %p1: f32[1,2] grad @0) {
  %v0 = unflatten(%p0, -1, [1,2])
  on_grad(%v0, func @hook(%g: f32[1,1,2], %a: f32[1,1,2]) {
      return %a
    }, [%v0])
  %v1 = diff(%v0)
  on_grad(%v0, func @hook(%g: f32[1,1,2]) {
      %h = neg(%g)
      return none
    }, [])
  %v2 = full([1,1,1], 2, f16)
  %v3 = ge_(%v1, %v2)
  %v5 = tensor([-1], f32, [1,1,1])
  logical_and_(%v1, %v5)
  %v6 = permute(%p0, [-2,1])
  no_grad {
    %v7 = atleast_3d(%p0)
    mul_(%v2, 0.75)
  }
  return %v5, %v7, %v3
}

case "seed 2300034060" {
  %a0 = randn([1,2], f32, seed=39, requires_grad=true)
  call @f(%a0, %a0) hooks=bf16 rehearse=true
  call @f(%a0, %a0)
  %t = randn([1,1,1], f32, seed=8, requires_grad=true)
  backward %out.2 with %t
}
