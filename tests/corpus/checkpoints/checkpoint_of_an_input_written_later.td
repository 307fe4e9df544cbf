# An input of a checkpointed call is written before backward, which would run the region
# again on other values: an error, also where no gradient depends on the input. Where
# backward reads nothing of the region, it works, also with create_graph: the input that
# a compiled call keeps for that alone is no value that the region saved.

func @f(%p: i64[1,1,0], %q: f32[1,1]) {
  %v = detach(%p)
  %w = sin(%q)
  return %p, %w
}

func @linear(%p: i64[1,1,0], %q: f32[1,1]) {
  %v = detach(%p)
  %w = add(%q, %q)
  return %p, %w
}

func @product(%p: f32[3], %q: f32[3]) {
  %w = mul(%p, %q)
  return %p, %w
}

func @turn(%p: i64[1,1,0], %q: f32[1,1]) {
  transpose_(%p, -1, -2)
  return %q
}

func @write(%p: f32[3], %q: f32[3]) {
  add_(%p, 1)
  return %q
}

case "one that no gradient depends on" {
  %a = randint(-2, 1, [1,1,0], i64)
  %b = tensor([3], f32, [1,1], requires_grad=true)
  call @f(%a, %b) checkpoint=true
  %y... = call @turn(%out.0, %out.1)
  backward
}

case "one that gradients depend on" {
  %a = randn([3], f32, seed=1)
  %b = randn([3], f32, seed=86, requires_grad=true)
  call @product(%a, %b) checkpoint=true
  %y... = call @write(%out.0, %out.1)
  backward
}

case "backward reads nothing" {
  %a = randint(-2, 1, [1,1,0], i64)
  %b = tensor([3], f32, [1,1], requires_grad=true)
  call @linear(%a, %b) checkpoint=true
  %y... = call @turn(%out.0, %out.1)
  backward create_graph=true
}
