# Sparse tensors as arguments, results, closed-over values and gradients; docs/sparse.md.

func @product(%a: f32[3,4] of sparse_coo("", i64[2,5], f32[5]), %x: f32[4,2]) {
  %y = sparse_mm(%a, %x)
  %z = mul(%a, 2.0)
  %s = sparse_sum(%z)
  return %y, %s
}

func @given(%a: f32[3,4] of sparse_coo("", i64[2,5], f32[5])) {
  %z = mul(%a, 2.0)
  %t = t(%a)
  %c = to_sparse(%a)
  %s = add(%z, %c)
  return %z, %t, %a, %s
}

case "sparse results" {
  %i = tensor([0, 1, 1, 2, 2, 3, 0, 0, 1, 2], i64, [2,5])
  %v = randn([5], seed=1)
  %a = sparse_coo_tensor(%i, %v, [3,4])
  call @given(%a)
}

case "sparse results that require grad" {
  %i = tensor([0, 1, 1, 2, 2, 3, 0, 0, 1, 2], i64, [2,5])
  %v = randn([5], seed=1)
  %a = sparse_coo_tensor(%i, %v, [3,4], requires_grad=true)
  call @given(%a)
}

case "entries at one place" {
  %i = tensor([0, 1, 1, 2, 2, 3, 0, 0, 1, 2], i64, [2,5])
  %v = randn([5], seed=1)
  %a = sparse_coo_tensor(%i, %v, [3,4], requires_grad=true)
  %x = randn([4,2], seed=2, requires_grad=true)
  call @product(%a, %x)
  backward seed=3
}

func @made(%i: i64[2,5], %v: f32[5], %x: f32[4,2]) {
  %a = sparse_coo_tensor(%i, %v, [3,4])
  %d = to_dense(%a)
  %y = mm(%a, %x)
  %t = t(%a)
  %s = sparse_sum(%t)
  %m = mul(%a, %d)
  %w = add(%m, %a)
  %q = to_dense(%w)
  return %y, %q, %s
}

case "made in the body" {
  %i = tensor([0, 1, 1, 2, 2, 3, 0, 0, 1, 2], i64, [2,5])
  %v = randn([5], seed=1, requires_grad=true)
  %x = randn([4,2], seed=2, requires_grad=true)
  call @made(%i, %v, %x)
  backward seed=3
}

case "made of indices out of range" {
  %i = tensor([0, 1, 1, 2, 9, 3, 0, 0, 1, 2], i64, [2,5])
  %v = randn([5], seed=1, requires_grad=true)
  %x = randn([4,2], seed=2, requires_grad=true)
  call @made(%i, %v, %x)
}

func @rows(%c: i64[4], %k: i64[5], %v: f32[5], %x: f32[4,2]) {
  %a = sparse_csr_tensor(%c, %k, %v, [3,4])
  %y = sparse_mm(%a, %x)
  %b = to_sparse(%a)
  %w = values(%a)
  %q = sparse_sampled_addmm(%a, %y, %x, 1.0, 0.5)
  return %y, %b, %w, %q
}

func @square(%c: i64[4], %k: i64[5], %v: f32[5], %x: f32[4,2]) {
  %a = sparse_csr_tensor(%c, %k, %v, [3,4])
  %y = sparse_mm(%a, %x)
  %xt = t(%x)
  %q = sparse_sampled_addmm(%a, %y, %xt, 1.0, 0.5)
  %n = neg(%q)
  %d = to_dense(%n)
  return %y, %d
}

case "sampled products" {
  %c = tensor([0, 2, 2, 5], i64, [4])
  %k = tensor([3, 0, 1, 2, 3], i64, [5])
  %v = randn([5], seed=1, requires_grad=true)
  %x = randn([4,2], seed=2, requires_grad=true)
  call @square(%c, %k, %v, %x)
  backward seed=3
}

case "sampled products of sizes that do not match" {
  %c = tensor([0, 2, 2, 5], i64, [4])
  %k = tensor([3, 0, 1, 2, 3], i64, [5])
  %v = randn([5], seed=1, requires_grad=true)
  %x = randn([4,2], seed=2, requires_grad=true)
  call @rows(%c, %k, %v, %x)
}

func @found(%d: f32[3,4], %x: f32[4,2]) {
  %a = to_sparse(%d)
  %b = add(%a, %a)
  %c = coalesce(%b)
  %y = sparse_mm(%c, %x)
  %r = to_sparse_csr(%c)
  %z = mm(%r, %x)
  return %y, %z
}

case "sizes that depend on elements" {
  %r = randn([3,4], seed=1)
  %d = relu(%r, requires_grad=true)
  %x = randn([4,2], seed=2, requires_grad=true)
  call @found(%d, %x)
  backward seed=3
}

func @table(%w: f32[6,3], %i: i64[2,2]) {
  %y = embedding(%w, %i, 1, false, true)
  %s = sum(%y, [1])
  return %s
}

case "a sparse gradient of a table" {
  %w = randn([6,3], seed=1, requires_grad=true)
  %i = tensor([0, 1, 5, 0], i64, [2,2])
  call @table(%w, %i)
  backward seed=3
  call @table(%w, %i)
  backward seed=4
}

func @both(%w: f32[6,3], %i: i64[2,2]) {
  %y = embedding(%w, %i, -1, false, true)
  %s = sum(%y)
  %q = square(%w)
  %r = sum(%q)
  %z = add(%s, %r)
  return %z
}

case "a sparse and a plain gradient" {
  %w = randn([6,3], seed=1, requires_grad=true)
  %i = tensor([0, 1, 5, 0], i64, [2,2])
  call @both(%w, %i)
  backward
}

func @bags(%w: f32[6,3], %i: i64[4], %o: i64[2]) {
  %y = embedding_bag(%w, %i, %o, false, "mean", none, false, none, true)
  return %y
}

case "a sparse gradient of bags" {
  %w = randn([6,3], seed=1, requires_grad=true)
  %i = tensor([0, 1, 5, 0], i64, [4])
  %o = tensor([0, 3], i64, [2])
  call @bags(%w, %i, %o)
  backward seed=3
}

func @written(%a: f32[3,4] of sparse_coo("", i64[2,5], f32[5]), %x: f32[3,4]) {
  %b = mul_(%a, 3.0)
  %y = add_(%x, %b)
  return %y
}

case "values are written" {
  %i = tensor([0, 1, 1, 2, 2, 3, 0, 0, 1, 2], i64, [2,5])
  %v = randn([5], seed=1)
  %a = sparse_coo_tensor(%i, %v, [3,4])
  %x = randn([3,4], seed=2)
  call @written(%a, %x)
}

func @branch(%a: f32[3,4] of sparse_coo("", i64[2,5], f32[5]), %x: f32[4,2], %p: bool[]) {
  %y = cond(%p, func @yes(%b: f32[3,4] of sparse_coo("", i64[2,5], f32[5]), %u: f32[4,2]) {
    %r = sparse_mm(%b, %u)
    return %r
  }, func @no(%b: f32[3,4] of sparse_coo("", i64[2,5], f32[5]), %u: f32[4,2]) {
    %c = mul(%b, 2.0)
    %r = mm(%c, %u)
    return %r
  }, [%a, %x])
  return %y
}

case "a branch with products" {
  %i = tensor([0, 1, 1, 2, 2, 3, 0, 0, 1, 2], i64, [2,5])
  %v = randn([5], seed=1)
  %a = sparse_coo_tensor(%i, %v, [3,4])
  %x = randn([4,2], seed=2, requires_grad=true)
  %p = tensor(1, bool)
  call @branch(%a, %x, %p)
  backward seed=3
}
