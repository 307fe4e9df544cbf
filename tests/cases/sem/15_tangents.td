# 15_tangents.td -- gradients that come in: the group 15 of tests/README.md.

func @conv(%x: f32[2,3,4,4], %w: f32[4,3,3,3], %seen: f32[2,3]) {
  add_(%seen, 1.0)
  %y = conv2d(%x, %w, none, [1], [1])
  %p = permute(%y, [0,2,3,1])
  %z = mul(%y, 2.0)
  return %y, %p, %z
}
case "test_grads_no_force_contiguous_dense RG" {
  %x0 = randn([2,4,4,3], seed=1, requires_grad=true)
  %x = permute(%x0, [0,3,1,2])
  %w = randn([4,3,3,3], seed=2, requires_grad=true)
  %seen = zeros([2,3])
  %y, %p, %z = call @conv(%x, %w, %seen)
  %q = mul(%p, %p)
  %s = sum(%q)
  %r = sum(%z)
  %l = add(%s, %r)
  backward %l
}
case "test_grads_no_force_contiguous_dense a dense gradient" {
  %x0 = randn([2,4,4,3], seed=1, requires_grad=true)
  %x = permute(%x0, [0,3,1,2])
  %w = randn([4,3,3,3], seed=2, requires_grad=true)
  %seen = zeros([2,3])
  call @conv(%x, %w, %seen)
  backward seed=3
}

func @sum_expanded(%x: f32[4,3]) {
  %s = sum(%x, [0], true)
  %y = expand(%s, [4,3])
  return %y
}
func @first_expanded(%x: f32[4,3]) {
  %f = slice(%x, 0, 0, 1)
  %s = sin(%f)
  %y = expand(%s, [4,3])
  return %y
}
case "test_backward_with_expanded_computed_output sum" {
  %x = randn([4,3], seed=1, requires_grad=true)
  call @sum_expanded(%x)
  backward seed=3
}
case "test_backward_with_expanded_computed_output first row" {
  %x = randn([4,3], seed=1, requires_grad=true)
  call @first_expanded(%x)
  backward seed=3
}

func @turned(%x: f32[2,3,4]) {
  %a = add(%x, 1.0)
  %y = transpose(%a, 1, 2)
  return %y
}
case "test_noncontig_nonmemformat_tangents dense" {
  %x = randn([2,3,4], seed=1, requires_grad=true)
  call @turned(%x)
  backward seed=3
}
case "test_noncontig_nonmemformat_tangents all strides 0" {
  %x = randn([2,3,4], seed=1, requires_grad=true)
  %y = call @turned(%x)
  %s = sum(%y)
  backward %s
}
case "test_noncontig_nonmemformat_tangents doubled strides" {
  %x = randn([2,3,4], seed=1, requires_grad=true)
  %k = randn([2,4,6], seed=2)
  %y = call @turned(%x)
  %c = cat([%y, %y], 2)
  %m = mul(%c, %k)
  %s = sum(%m)
  backward %s
}
case "test_noncontig_nonmemformat_tangents every other of more" {
  %x = randn([2,3,4], seed=1, requires_grad=true)
  %k = randn([2,4,3,2], seed=2)
  %y = call @turned(%x)
  %c = stack([%y, %y], 3)
  %m = mul(%c, %k)
  %s = sum(%m)
  backward %s
}

func @attend(%q: f32[2,4,3,8], %k: f32[2,4,3,8], %v: f32[2,4,3,8]) {
  %qt = transpose(%q, 1, 2)
  %kt = transpose(%k, 1, 2)
  %vt = transpose(%v, 1, 2)
  %kk = transpose(%kt, 2, 3)
  %a = matmul(%qt, %kk)
  %p = softmax(%a, -1)
  %o = matmul(%p, %vt)
  %y = transpose(%o, 1, 2)
  return %y
}
case "test_flex_attn_noncontiguous_tangents" {
  %q = randn([2,4,3,8], seed=1, requires_grad=true)
  %k = randn([2,4,3,8], seed=2, requires_grad=true)
  %v = randn([2,4,3,8], seed=3, requires_grad=true)
  %y = call @attend(%q, %k, %v)
  %f = transpose(%y, 1, 3)
  %m = mul(%f, %f)
  %s = sum(%m)
  backward %s
}

func @view_turned(%x: f32[6]) {
  %v = view(%x, [2,3])
  %y = transpose(%v, 0, 1)
  return %y
}
case "test_contiguous" {
  %x = randn([6], seed=1, requires_grad=true)
  %g = randn([3,2], seed=2)
  %y = call @view_turned(%x)
  %m = mul(%y, %g)
  %s = sum(%m)
  backward %s
}

func @passed_on(%x: f32[3], %k: f32[3]) {
  %y = mul(%x, %k)
  %s = sum(%y)
  return %s
}
case "test_grad_inputs_alias_inputs a gradient that is an input" {
  %x = randn([3], seed=1, requires_grad=true)
  %k = randn([3], seed=2)
  call @passed_on(%x, %k)
  backward
  %g = grad %x
  add_(%k, 1.0)
  %z = mul(%g, 1.0)
}
