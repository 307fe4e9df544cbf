# a loop that was unrolled: every step reads the same weight and bias, so their gradients
# are sums with a term for each, which native code takes as one product and one sum
func @steps(%h: f32[3,16], %w: f32[16,16], %b: f32[16]) {
  %p1 = mm(%h, %w)
  %s1 = add(%p1, %b)
  %h1 = tanh(%s1)
  %p2 = mm(%h1, %w)
  %s2 = add(%p2, %b)
  %h2 = tanh(%s2)
  %p3 = mm(%h2, %w)
  %s3 = add(%p3, %b)
  %h3 = tanh(%s3)
  %p4 = mm(%h3, %w)
  %s4 = add(%p4, %b)
  %h4 = tanh(%s4)
  %p5 = mm(%h4, %w)
  %s5 = add(%p5, %b)
  %h5 = tanh(%s5)
  return %h5
}

case "gradients of weight and bias" {
  %h = randn([3,16], seed=1)
  %w = randn([16,16], seed=2, requires_grad=true)
  %b = randn([16], seed=3, requires_grad=true)
  call @steps(%h, %w, %b)
  backward seed=4
}

case "and of the first state" {
  %h = randn([3,16], seed=5, requires_grad=true)
  %w = randn([16,16], seed=6, requires_grad=true)
  %b = randn([16], seed=7)
  call @steps(%h, %w, %b)
  backward seed=8
}

# the weight is large enough that native code packs it, once for the steps, and its
# transpose once for their gradients
func @packed(%h: f32[3,32], %w: f32[32,32]) {
  %p1 = mm(%h, %w)
  %h1 = tanh(%p1)
  %p2 = mm(%h1, %w)
  %h2 = tanh(%p2)
  %p3 = mm(%h2, %w)
  %h3 = tanh(%p3)
  %p4 = mm(%h3, %w)
  %h4 = tanh(%p4)
  return %h4
}

case "a weight that is packed" {
  %h = randn([3,32], seed=1, requires_grad=true)
  %w = randn([32,32], seed=2, requires_grad=true)
  call @packed(%h, %w)
  backward seed=3
}

case "the weight is a transposed view" {
  %h = randn([3,32], seed=4, requires_grad=true)
  %w0 = randn([32,32], seed=5)
  %w = t(%w0)
  call @packed(%h, %w)
  backward seed=6
}
