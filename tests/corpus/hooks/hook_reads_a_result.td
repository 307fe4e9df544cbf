# A hook reads the tensor that the function returns: in backward it reads what the caller has written there.

func @f(%p0: f32[1,1]) {
  %v0 = frac(%p0)
  on_grad(%v0, func @hook(%g: f32[1,1], %a: f32[1,1]) {
      return %a
    }, [%v0])
  %v1 = erfc_(%v0)
  return %v0
}

func @h(%x: f32[2,3]) {
  %v = sin(%x)
  %r = randint(1, 4, [2,3], f32)
  on_grad(%v, func @hook(%g: f32[2,3], %a: f32[2,3], %b: f32[2,3]) {
      %c = mul(%g, %a)
      %d = add(%c, %b)
      return %d
    }, [%v, %r])
  %y = exp(%v)
  add_(%r, %y)
  return %y, %v, %r
}

case "the result is written" {
  %a1 = full([1,1], 0, f32, requires_grad=true)
  call @f(%a1)
  backward
}

case "results are written by the caller" {
  %x = randn([2,3], seed=1, requires_grad=true)
  call @h(%x)
  no_grad {
    mul_(%out.1, 3.0)
    add_(%out.2, 5.0)
  }
  backward %out.0 seed=2 retain_graph=true
  no_grad {
    add_(%out.2, 5.0)
  }
  backward %out.0 seed=2
}

case "saved values are packed, what the hook reads is not" {
  %x = randn([2,3], seed=1, requires_grad=true)
  call @h(%x) hooks=clone
  no_grad {
    add_(%out.2, 5.0)
  }
  backward seed=2
}

# The caller gives a tensor that a hook reads another storage, other strides or other sizes.

func @k(%x: f32[2,2], %w: f32[2,2]) {
  %v = sin(%x)
  mul_(%w, %v)
  on_grad(%v, func @hook(%g: f32[2,2], %a: f32[2,2], %b: f32[2,2]) {
      %c = mul(%g, %a)
      %d = add(%c, %b)
      return %d
    }, [%v, %w])
  %y = exp(%v)
  return %y, %v
}

case "a result is moved by set_" {
  %x = randn([2,2], seed=1, requires_grad=true)
  %w = randn([2,2], seed=3)
  %o = randn([2,2], seed=5)
  call @k(%x, %w)
  no_grad {
    set_(%out.1, %o)
    mul_(%o, 2.0)
  }
  backward %out.0 seed=2 retain_graph=true
  no_grad {
    transpose_(%out.1, 0, 1)
  }
  backward %out.0 seed=2
}

case "an argument that the call has written is moved by set_" {
  %x = randn([2,2], seed=1, requires_grad=true)
  %w = randn([2,2], seed=3)
  %o = randn([2,2], seed=5)
  call @k(%x, %w)
  no_grad {
    set_(%w, %o)
  }
  backward %out.0 seed=2
}

case "a result has other sizes" {
  %x = randn([2,2], seed=1, requires_grad=true)
  %w = randn([2,2], seed=3)
  call @k(%x, %w)
  no_grad {
    unsqueeze_(%out.1, 0)
  }
  backward %out.0 seed=2
}
