# Integers that a shape rule computes with in C, such as the diagonal of tril_indices, and
# that change between calls: the rule fixes each by a guard.

func @triangle(%k) {
  %a = tril_indices(1, 2, %k, none)
  %b = triu_indices(2, 1, %k)
  %c = gt(%a, %k)
  return %a, %b, %c
}

func @draws(%x: f32[2], %from) {
  %a = randint(%from, 4, [2,2], i64)
  %b = mul(%x, %from)
  return %a, %b
}

func @diff(%x: f32[5,5,5], %n) {
  %y = diff(%x, %n, 0)
  return %y
}

func @unfold(%x: f32[5,5,5], %n) {
  %y = unfold(%x, 0, 2, %n)
  return %y
}

func @unfold_size(%x: f32[5,5,5], %n) {
  %y = unfold(%x, 0, %n, 2)
  return %y
}

func @round(%x: f32[5,5,5], %n) {
  %y = round(%x, %n)
  return %y
}

func @slice(%x: f32[5,5,5], %n) {
  %y = slice(%x, 1, 0, 5, %n)
  return %y
}

func @bounds(%x: f32[5,5,5], %n) {
  %y = slice(%x, 1, %n, 5, 1)
  return %y
}

func @diagonal(%x: f32[5,5,5], %n) {
  %y = diagonal(%x, %n, 0, 1)
  return %y
}

func @select(%x: f32[5,5,5], %n) {
  %y = select(%x, 0, %n)
  return %y
}

func @narrow(%x: f32[5,5,5], %n) {
  %y = narrow(%x, 0, 1, %n)
  return %y
}

func @repeat(%x: f32[5,5,5], %n) {
  %y = repeat(%x, [1, 1, %n])
  return %y
}

func @roll(%x: f32[5,5,5], %n) {
  %y = roll(%x, [%n], [1])
  return %y
}

func @tril(%x: f32[5,5,5], %n) {
  %y = tril(%x, %n)
  return %y
}

func @cumsum(%x: f32[5,5,5], %n) {
  %y = cumsum(%x, %n)
  return %y
}

func @flip(%x: f32[5,5,5], %n) {
  %y = flip(%x, [%n])
  return %y
}

func @sum(%x: f32[5,5,5], %n) {
  %y = sum(%x, [%n])
  return %y
}

func @pad(%x: f32[5,5,5], %n) {
  %y = constant_pad_nd(%x, [%n, 1])
  return %y
}

func @expand(%x: f32[5,5,5], %n) {
  %y = expand(%x, [%n, 5, 5, 5])
  return %y
}

case "the diagonal of a triangle" {
  call @triangle(4) body=true
  call @triangle(2) body=true
  call @triangle(3) body=true
}

case "the start of a range that becomes empty" {
  %x = ones([2])
  call @draws(%x, 2) body=true
  call @draws(%x, 3) body=true
  call @draws(%x, 5) body=true
}

case "diff" {
  %x = randn([5,5,5], seed=1, requires_grad=true)
  call @diff(%x, 4) body=true
  backward seed=2
  call @diff(%x, 3) body=true
  backward seed=2
  call @diff(%x, 2) body=true
  backward seed=2
}

case "unfold" {
  %x = randn([5,5,5], seed=1, requires_grad=true)
  call @unfold(%x, 4) body=true
  backward seed=2
  call @unfold(%x, 3) body=true
  backward seed=2
  call @unfold(%x, 2) body=true
  backward seed=2
}

case "unfold_size" {
  %x = randn([5,5,5], seed=1, requires_grad=true)
  call @unfold_size(%x, 4) body=true
  backward seed=2
  call @unfold_size(%x, 3) body=true
  backward seed=2
  call @unfold_size(%x, 2) body=true
  backward seed=2
}

case "round" {
  %x = randn([5,5,5], seed=1, requires_grad=true)
  call @round(%x, 4) body=true
  backward seed=2
  call @round(%x, 3) body=true
  backward seed=2
  call @round(%x, 2) body=true
  backward seed=2
}

case "slice" {
  %x = randn([5,5,5], seed=1, requires_grad=true)
  call @slice(%x, 4) body=true
  backward seed=2
  call @slice(%x, 3) body=true
  backward seed=2
  call @slice(%x, 2) body=true
  backward seed=2
}

case "bounds" {
  %x = randn([5,5,5], seed=1, requires_grad=true)
  call @bounds(%x, 4) body=true
  backward seed=2
  call @bounds(%x, 3) body=true
  backward seed=2
  call @bounds(%x, 2) body=true
  backward seed=2
}

case "diagonal" {
  %x = randn([5,5,5], seed=1, requires_grad=true)
  call @diagonal(%x, 4) body=true
  backward seed=2
  call @diagonal(%x, 3) body=true
  backward seed=2
  call @diagonal(%x, 2) body=true
  backward seed=2
}

case "select" {
  %x = randn([5,5,5], seed=1, requires_grad=true)
  call @select(%x, 4) body=true
  backward seed=2
  call @select(%x, 3) body=true
  backward seed=2
  call @select(%x, 2) body=true
  backward seed=2
}

case "narrow" {
  %x = randn([5,5,5], seed=1, requires_grad=true)
  call @narrow(%x, 4) body=true
  backward seed=2
  call @narrow(%x, 3) body=true
  backward seed=2
  call @narrow(%x, 2) body=true
  backward seed=2
}

case "repeat" {
  %x = randn([5,5,5], seed=1, requires_grad=true)
  call @repeat(%x, 4) body=true
  backward seed=2
  call @repeat(%x, 3) body=true
  backward seed=2
  call @repeat(%x, 2) body=true
  backward seed=2
}

case "roll" {
  %x = randn([5,5,5], seed=1, requires_grad=true)
  call @roll(%x, 4) body=true
  backward seed=2
  call @roll(%x, 3) body=true
  backward seed=2
  call @roll(%x, 2) body=true
  backward seed=2
}

case "tril" {
  %x = randn([5,5,5], seed=1, requires_grad=true)
  call @tril(%x, 4) body=true
  backward seed=2
  call @tril(%x, 3) body=true
  backward seed=2
  call @tril(%x, 2) body=true
  backward seed=2
}

case "cumsum" {
  %x = randn([5,5,5], seed=1, requires_grad=true)
  call @cumsum(%x, 0) body=true
  backward seed=2
  call @cumsum(%x, 2) body=true
  backward seed=2
  call @cumsum(%x, 1) body=true
  backward seed=2
}

case "flip" {
  %x = randn([5,5,5], seed=1, requires_grad=true)
  call @flip(%x, 0) body=true
  backward seed=2
  call @flip(%x, 2) body=true
  backward seed=2
  call @flip(%x, 1) body=true
  backward seed=2
}

case "sum" {
  %x = randn([5,5,5], seed=1, requires_grad=true)
  call @sum(%x, 0) body=true
  backward seed=2
  call @sum(%x, 2) body=true
  backward seed=2
  call @sum(%x, 1) body=true
  backward seed=2
}

case "pad" {
  %x = randn([5,5,5], seed=1, requires_grad=true)
  call @pad(%x, 4) body=true
  backward seed=2
  call @pad(%x, 3) body=true
  backward seed=2
  call @pad(%x, 2) body=true
  backward seed=2
}

case "expand" {
  %x = randn([5,5,5], seed=1, requires_grad=true)
  call @expand(%x, 4) body=true
  backward seed=2
  call @expand(%x, 3) body=true
  backward seed=2
  call @expand(%x, 2) body=true
  backward seed=2
}
