# Every random op, dtype and kind of size, in ways with functional_rng on
# (compiled-all, compiled-dynamic) and off. The generator after each call counts.
func @floats(%x: f32[5,3], %d: f64[5], %h: bf16[7]) {
  %a = rand_like(%x)
  %b = randn_like(%d)
  %c = uniform(%h, 0.0, 2.0)
  %e = normal(%x, 1.0, 2.0)
  %f = exponential(%x)
  %g = exponential(%d)
  %i = rand([3,3], f64)
  %j = randn([6], f32)
  return %a, %b, %c, %e, %f, %g, %i, %j
}
func @integers(%x: i64[5], %y: f32[3]) {
  %a = randint(0, 10, [7])
  %b = randint_like(%x, 3, 9)
  %c = randperm(9)
  %d = random(%y, 1, 100)
  %e = randperm(4, i32)
  return %a, %b, %c, %d, %e
}
func @coins(%p: f32[9], %w: f32[3,5], %x: f32[0], %b: bool[6]) {
  %a = bernoulli(%p)
  %c = bernoulli_p(%b, 0.3)
  %d = multinomial(%w, 2)
  %e = multinomial(%w, 3, true)
  %f = multinomial(%p, 4)
  %g = rand_like(%x)
  %h = dropout(%p, 0.5)
  %i = dropout(%p, 0.5, false)
  %k, %m = native_dropout(%p, 0.5, false)
  %j = rand_like(%p)
  return %a, %c, %d, %e, %f, %g, %h, %i, %j, %k, %m
}
func @writes(%x: f32[5,2]) {
  uniform_(%x, 1.0, 2.0)
  %v = select(%x, 1, 0)
  normal_(%v)
  %y = dropout(%x, 0.25)
  return %y
}
func @trains(%x: f32[4,3], %w: f32[3]) {
  %h = mul(%x, %w)
  %a = dropout(%h, 0.5)
  %b = tanh(%a)
  %c = dropout(%b, 0.25)
  %d = rand_like(%c)
  %e = mul(%c, %d)
  return %e
}
func @chooses(%p: f32[1], %x: f32[5]) {
  %y = cond(%p, func @yes(%a: f32[5]) {
    %r = rand_like(%a)
    %b = add(%a, %r)
    return %b
  }, func @no(%a: f32[5]) {
    %b = mul(%a, 2.0)
    return %b
  }, [%x])
  %z = rand_like(%x)
  return %y, %z
}
case "floats" {
  %x = randn([5,3], seed=1)
  %d = randn([5], f64, seed=2)
  %h = randn([7], bf16, seed=3)
  call @floats(%x, %d, %h)
  call @floats(%x, %d, %h)
}
case "integers" {
  %x = randint(0, 5, [5], seed=1)
  %y = randn([3], seed=1)
  call @integers(%x, %y)
  call @integers(%x, %y)
}
case "coins and choices" {
  %p = rand([9], seed=1)
  %w = rand([3,5], seed=1)
  %x = rand([0])
  %b = tensor([true, false, true, true, false, false])
  call @coins(%p, %w, %x, %b)
  call @coins(%p, %w, %x, %b)
}
case "draws that write" {
  %x = randn([5,2], seed=1)
  call @writes(%x)
  call @writes(%x)
}
case "a backward, twice, then its gradient" {
  %x = randn([4,3], seed=1, requires_grad=true)
  %w = randn([3], seed=2, requires_grad=true)
  call @trains(%x, %w)
  backward seed=3
  call @trains(%x, %w)
  backward seed=4 create_graph=true
  %g = grad %w
  backward %g
}
case "a backward of a checkpoint repeats its draws" {
  %x = randn([4,3], seed=1, requires_grad=true)
  %w = randn([3], seed=2, requires_grad=true)
  call @trains(%x, %w) checkpoint=true
  backward seed=3
  call @trains(%x, %w)
  backward seed=3
}
case "a branch that draws, and one that does not" {
  %x = randn([5], seed=1)
  %p = tensor([1.0], f32)
  %q = tensor([0.0], f32)
  call @chooses(%p, %x)
  call @chooses(%q, %x)
}
