# views.td -- every view op, written through;
# every way of execution does what eager does.

func @view(%x: f32[4,3]) {
  %v = view(%x, [3,4])
  mul_(%v, 2.0)
  return %x, %v
}

case "view" {
  %x = randn([4,3], seed=1)
  call @view(%x)
}

func @reshape(%x: f32[4,3]) {
  %v = reshape(%x, [-1])
  mul_(%v, 2.0)
  return %x, %v
}

case "reshape" {
  %x = randn([4,3], seed=1)
  call @reshape(%x)
}

func @flatten(%x: f32[4,3]) {
  %v = flatten(%x)
  mul_(%v, 2.0)
  return %x, %v
}

case "flatten" {
  %x = randn([4,3], seed=1)
  call @flatten(%x)
}

func @unflatten(%x: f32[4,3]) {
  %v = unflatten(%x, 0, [2,2])
  mul_(%v, 2.0)
  return %x, %v
}

case "unflatten" {
  %x = randn([4,3], seed=1)
  call @unflatten(%x)
}

func @squeeze(%x: f32[4,3]) {
  %u = unsqueeze(%x, 1)
  %v = squeeze(%u)
  mul_(%v, 2.0)
  return %x, %v
}

case "squeeze" {
  %x = randn([4,3], seed=1)
  call @squeeze(%x)
}

func @squeeze_dim(%x: f32[4,3]) {
  %u = unsqueeze(%x, 1)
  %v = squeeze_dim(%u, 1)
  mul_(%v, 2.0)
  return %x, %v
}

case "squeeze_dim" {
  %x = randn([4,3], seed=1)
  call @squeeze_dim(%x)
}

func @squeeze_dims(%x: f32[4,3]) {
  %u = unsqueeze(%x, 0)
  %v = squeeze_dims(%u, [0, 1])
  mul_(%v, 2.0)
  return %x, %v
}

case "squeeze_dims" {
  %x = randn([4,3], seed=1)
  call @squeeze_dims(%x)
}

func @unsqueeze(%x: f32[4,3]) {
  %v = unsqueeze(%x, -1)
  mul_(%v, 2.0)
  return %x, %v
}

case "unsqueeze" {
  %x = randn([4,3], seed=1)
  call @unsqueeze(%x)
}

func @transpose(%x: f32[4,3]) {
  %v = transpose(%x, 0, 1)
  mul_(%v, 2.0)
  return %x, %v
}

case "transpose" {
  %x = randn([4,3], seed=1)
  call @transpose(%x)
}

func @t(%x: f32[4,3]) {
  %v = t(%x)
  mul_(%v, 2.0)
  return %x, %v
}

case "t" {
  %x = randn([4,3], seed=1)
  call @t(%x)
}

func @permute(%x: f32[4,3]) {
  %v = permute(%x, [1,0])
  mul_(%v, 2.0)
  return %x, %v
}

case "permute" {
  %x = randn([4,3], seed=1)
  call @permute(%x)
}

func @movedim(%x: f32[4,3]) {
  %v = movedim(%x, [0], [1])
  mul_(%v, 2.0)
  return %x, %v
}

case "movedim" {
  %x = randn([4,3], seed=1)
  call @movedim(%x)
}

func @swapaxes(%x: f32[4,3]) {
  %v = swapaxes(%x, 0, 1)
  mul_(%v, 2.0)
  return %x, %v
}

case "swapaxes" {
  %x = randn([4,3], seed=1)
  call @swapaxes(%x)
}

func @select(%x: f32[4,3]) {
  %v = select(%x, 0, 1)
  mul_(%v, 2.0)
  return %x, %v
}

case "select" {
  %x = randn([4,3], seed=1)
  call @select(%x)
}

func @select_last(%x: f32[4,3]) {
  %v = select(%x, 1, -1)
  mul_(%v, 2.0)
  return %x, %v
}

case "select_last" {
  %x = randn([4,3], seed=1)
  call @select_last(%x)
}

func @slice(%x: f32[4,3]) {
  %v = slice(%x, 0, 1, 3)
  mul_(%v, 2.0)
  return %x, %v
}

case "slice" {
  %x = randn([4,3], seed=1)
  call @slice(%x)
}

func @slice_step(%x: f32[4,3]) {
  %v = slice(%x, 0, 0, 4, 2)
  mul_(%v, 2.0)
  return %x, %v
}

case "slice_step" {
  %x = randn([4,3], seed=1)
  call @slice_step(%x)
}

func @slice_empty(%x: f32[4,3]) {
  %v = slice(%x, 0, 2, 2)
  mul_(%v, 2.0)
  return %x, %v
}

case "slice_empty" {
  %x = randn([4,3], seed=1)
  call @slice_empty(%x)
}

func @narrow(%x: f32[4,3]) {
  %v = narrow(%x, 1, 1, 2)
  mul_(%v, 2.0)
  return %x, %v
}

case "narrow" {
  %x = randn([4,3], seed=1)
  call @narrow(%x)
}

func @diagonal(%x: f32[4,3]) {
  %v = diagonal(%x)
  mul_(%v, 2.0)
  return %x, %v
}

case "diagonal" {
  %x = randn([4,3], seed=1)
  call @diagonal(%x)
}

func @diagonal_off(%x: f32[4,3]) {
  %v = diagonal(%x, -1, 1, 0)
  mul_(%v, 2.0)
  return %x, %v
}

case "diagonal_off" {
  %x = randn([4,3], seed=1)
  call @diagonal_off(%x)
}

func @unfold_apart(%x: f32[4,3]) {
  %v = unfold(%x, 0, 2, 2)
  mul_(%v, 2.0)
  return %x, %v
}

case "unfold_apart" {
  %x = randn([4,3], seed=1)
  call @unfold_apart(%x)
}

func @as_strided(%x: f32[4,3]) {
  %v = as_strided(%x, [2,2], [3,1], 1)
  mul_(%v, 2.0)
  return %x, %v
}

case "as_strided" {
  %x = randn([4,3], seed=1)
  call @as_strided(%x)
}

func @as_strided_whole(%x: f32[4,3]) {
  %v = as_strided(%x, [3,4], [1,3], 0)
  mul_(%v, 2.0)
  return %x, %v
}

case "as_strided_whole" {
  %x = randn([4,3], seed=1)
  call @as_strided_whole(%x)
}

func @alias(%x: f32[4,3]) {
  %v = alias(%x)
  mul_(%v, 2.0)
  return %x, %v
}

case "alias" {
  %x = randn([4,3], seed=1)
  call @alias(%x)
}

func @detach(%x: f32[4,3]) {
  %v = detach(%x)
  mul_(%v, 2.0)
  return %x, %v
}

case "detach" {
  %x = randn([4,3], seed=1)
  call @detach(%x)
}

func @expand_same(%x: f32[4,3]) {
  %v = expand(%x, [4,3])
  mul_(%v, 2.0)
  return %x, %v
}

case "expand_same" {
  %x = randn([4,3], seed=1)
  call @expand_same(%x)
}

func @view_as(%x: f32[4,3]) {
  %o = zeros([12])
  %v = view_as(%x, %o)
  mul_(%v, 2.0)
  return %x, %v
}

case "view_as" {
  %x = randn([4,3], seed=1)
  call @view_as(%x)
}

func @split(%x: f32[4,3]) {
  %p... = split(%x, 2, 0)
  mul_(%p.1, 2.0)
  return %x, %p.0, %p.1
}

case "split" {
  %x = randn([4,3], seed=1)
  call @split(%x)
}

func @split_both(%x: f32[4,3]) {
  %p... = split(%x, 3, 0)
  mul_(%p.0, 2.0)
  add_(%p.1, 1.0)
  return %x, %p.0, %p.1
}

case "split_both" {
  %x = randn([4,3], seed=1)
  call @split_both(%x)
}

func @split_with_sizes(%x: f32[4,3]) {
  %p... = split_with_sizes(%x, [1,3], 0)
  mul_(%p.1, 2.0)
  return %p.0, %p.1
}

case "split_with_sizes" {
  %x = randn([4,3], seed=1)
  call @split_with_sizes(%x)
}

func @chunk(%x: f32[4,3]) {
  %p... = chunk(%x, 2, 1)
  add_(%p.0, 1.0)
  return %x, %p.1
}

case "chunk" {
  %x = randn([4,3], seed=1)
  call @chunk(%x)
}

func @unbind(%x: f32[4,3]) {
  %p... = unbind(%x, 0)
  mul_(%p.3, 2.0)
  add_(%x, 1.0)
  return %p.0, %p.3
}

case "unbind" {
  %x = randn([4,3], seed=1)
  call @unbind(%x)
}

func @unbind_last(%x: f32[4,3]) {
  %p... = unbind(%x, 1)
  mul_(%p.2, %p.0)
  return %p.0, %p.2
}

case "unbind_last" {
  %x = randn([4,3], seed=1)
  call @unbind_last(%x)
}

func @view_dtype(%x: f32[4,3]) {
  %v = view_dtype(%x, i32)
  bitwise_xor_(%v, 1)
  return %x, %v
}

case "view_dtype" {
  %x = randn([4,3], seed=1)
  call @view_dtype(%x)
}

func @view_dtype_narrow(%x: f32[4,3]) {
  %v = view_dtype(%x, i16)
  bitwise_and_(%v, 32767)
  return %x, %v
}

case "view_dtype_narrow" {
  %x = randn([4,3], seed=1)
  call @view_dtype_narrow(%x)
}

func @zero_dim(%x: f32[4,3]) {
  %a = view(%x, [12])
  %v = select(%a, 0, 5)
  fill_(%v, 7.0)
  return %x, %v
}

case "zero_dim" {
  %x = randn([4,3], seed=1)
  call @zero_dim(%x)
}
