# history.td -- functions whose inputs require grad: every way of execution has the
# gradients and flags of eager.

func @write_one_of_two(%x: f32[4,3], %w: f32[4,3]) {
  mul_(%w, 2.0)
  %y = sin(%x)
  return %y, %w
}

# Both lie in one storage: what sine saves must not be the storage that is written later.
case "write one of two" {
  %b0 = randn([8,3], seed=1, requires_grad=true)
  %b = mul(%b0, 1.0)
  %x = slice(%b, 0, 0, 4)
  %w = slice(%b, 0, 4, 8)
  call @write_one_of_two(%x, %w)
  backward seed=3
}

func @turn_then_multiply(%x: f32[4,3], %w: f32[4,3]) {
  %v = expand(%x, [2,4,3])
  %y = mul(%v, %w)
  t_(%w)
  return %y, %w
}

case "turn after reading" {
  %x0 = randn([4,3], seed=1, requires_grad=true)
  %x = mul(%x0, 1.0)
  %w0 = randn([4,3], seed=2, requires_grad=true)
  %w = mul(%w0, 1.0)
  call @turn_then_multiply(%x, %w)
}

case "turn after reading, then backward fails" {
  %x0 = randn([4,3], seed=1, requires_grad=true)
  %x = mul(%x0, 1.0)
  %w0 = randn([4,3], seed=2, requires_grad=true)
  %w = mul(%w0, 1.0)
  call @turn_then_multiply(%x, %w)
  backward seed=3
}

func @fill_expanded(%x: f32[4,3]) {
  %y = mul(%x, 2.0)
  %v = expand(%y, [2,4,3])
  fill_(%v, 3.0)
  %s = sigmoid(%y)
  return %s, %v
}

case "fill an expanded intermediate" {
  %x = randn([4,3], seed=1, requires_grad=true)
  call @fill_expanded(%x)
  backward seed=3
}

func @one_of_several(%x: f32[4,3]) {
  %c = clone(%x)
  sin_(%c)
  %a, %b, %d, %e = unbind(%c, 0)
  return %e, %e
}

# Writing one of several views is refused, also when it is alone in its storage.
case "one of several views" {
  %x = randn([4,3], seed=1, requires_grad=true)
  call @one_of_several(%x)
  backward seed=3
}

func @several_then_write(%x: f32[4,3], %w: f32[4,3]) {
  %a, %b, %c, %d = unbind(%w, 0)
  fill_(%x, 3.0)
  return %c
}

case "one of several views, out of date" {
  %b0 = randn([8,3], seed=1, requires_grad=true)
  %b = mul(%b0, 1.0)
  %x = slice(%b, 0, 0, 4)
  %w = slice(%b, 0, 4, 8)
  call @several_then_write(%x, %w)
  backward seed=3
}

func @row_of_result(%x: f32[4,3]) {
  %y = neg(%x)
  %v = select(%y, 0, 1)
  mul_(%v, 0.5)
  return %v
}

case "row of a written result" {
  %x = randn([4,3], seed=1, requires_grad=true)
  call @row_of_result(%x)
  backward seed=3
}

func @write_saved(%x: f32[4,3]) {
  %y = sigmoid(%x)
  mul_(%y, 2.0)
  return %y
}

# Eager cannot go back: what sigmoid saved was written.
case "write what backward needs" {
  %x = randn([4,3], seed=1, requires_grad=true)
  call @write_saved(%x)
  backward seed=3
}

func @twice(%x: f32[4,3], %s: f32[4,3]) {
  mul_(%s, %x)
  %y = mul(%s, %x)
  return %y
}

case "two calls, gradients add up" {
  %x = randn([4,3], seed=1, requires_grad=true)
  %s = randn([4,3], seed=2)
  %a = call @twice(%x, %s)
  backward seed=3 retain_graph=true
  %b = call @twice(%x, %s)
  backward seed=4
}
