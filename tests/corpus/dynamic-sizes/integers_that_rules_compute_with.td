# Integers that a shape rule computes with in C, such as the diagonal of tril_indices, and
# that change between calls: the rule fixes each by a guard.

func @triangle(%k) {
  %a = tril_indices(1, 2, %k, none)
  %b = triu_indices(2, 1, %k)
  %c = gt(%a, %k)
  return %a, %b, %c
}

func @others(%x: f32[4,4], %n) {
  %a = diff(%x, %n, 0)
  %b... = split(%x, %n)
  %c = unfold(%x, 0, 2, %n)
  %d = round(%x, %n)
  %e = slice(%x, 1, 0, 4, %n)
  return %a, %b.0, %c, %d, %e
}

func @draws(%x: f32[2], %from) {
  %a = randint(%from, 4, [2,2], i64)
  %b = mul(%x, %from)
  return %a, %b
}

case "the diagonal of a triangle" {
  call @triangle(4) body=true
  call @triangle(2) body=true
  call @triangle(3) body=true
}

case "numbers of steps, pieces and digits" {
  %x = randn([4,4], seed=1, requires_grad=true)
  call @others(%x, 1) body=true
  backward seed=1
  call @others(%x, 3) body=true
}

case "the start of a range that becomes empty" {
  %x = ones([2])
  call @draws(%x, 2) body=true
  call @draws(%x, 3) body=true
  call @draws(%x, 5) body=true
}
