# as_strided_scatter addresses the storage of self, of which self may show a part. The
# gradient of what lies beyond self is 0, and gaps between its elements count too.

func @behind(%x: f32[2]) {
  %y = as_strided_scatter(%x, %x, [2], [1], 2)
  return %y
}

func @beside(%x: f32[2,2], %s: f32[3]) {
  %y = mul(%x, %x)
  %v = as_strided_scatter(%x, %s, [3], [2], 1)
  %z = mul(%v, %y)
  return %z
}

func @transposed(%x: f32[2,3], %s: f32[2]) {
  %v = as_strided_scatter(%x, %s, [2], [3])
  %z = mul(%v, %v)
  return %z
}

case "a part behind self" {
  %w = tensor([2, 1, -2, 1], f32, [2,2], requires_grad=true)
  %x = select(%w, 0, 0)
  call @behind(%x)
  backward seed=1
}

case "a part before and between the elements of self" {
  %w = randn([3,3], seed=1, requires_grad=true)
  %s = randn([3], seed=2, requires_grad=true)
  %v = slice(%w, 0, 1, 3)
  %x = slice(%v, 1, 1, 3)
  call @beside(%x, %s)
  backward seed=3 create_graph=true
  %g = grad %w
  backward %g
}

case "a transposed self" {
  %w = randn([3,2], seed=1, requires_grad=true)
  %s = randn([2], seed=2, requires_grad=true)
  %x = transpose(%w, 0, 1)
  call @transposed(%x, %s)
  backward seed=3
}
