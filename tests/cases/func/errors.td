# errors.td -- what eager refuses is refused;
# every way of execution does what eager does.

func @write_expanded(%x: f32[4,3]) {
  %a = select(%x, 0, 2)
  %v = expand(%a, [5,3])
  mul_(%v, 2.0)
  return %x
}

case "write_expanded" {
  %x = randn([4,3], seed=1)
  call @write_expanded(%x)
}

func @partial_overlap(%x: f32[4,3]) {
  %a = slice(%x, 0, 0, 3)
  %b = slice(%x, 0, 1, 4)
  add_(%a, %b)
  return %x
}

case "partial_overlap" {
  %x = randn([4,3], seed=1)
  call @partial_overlap(%x)
}

func @wrong_dtype(%x: f32[4,3]) {
  %i = to(%x, i64)
  mul_(%i, 2.5)
  return %i
}

case "wrong_dtype" {
  %x = randn([4,3], seed=1)
  call @wrong_dtype(%x)
}

func @wrong_size(%x: f32[4,3]) {
  %o = ones([5,4,3])
  add_(%x, %o)
  return %x
}

case "wrong_size" {
  %x = randn([4,3], seed=1)
  call @wrong_size(%x)
}

func @bad_view(%x: f32[4,3]) {
  %v = t(%x)
  %w = view(%v, [12])
  return %w
}

case "bad_view" {
  %x = randn([4,3], seed=1)
  call @bad_view(%x)
}
