# The region changes the sizes of an argument. Eager does it again when backward runs the region
# again; a compiled function does not. (--wide --with=checkpoint, seed 2439)

func @f(%p: f32[1,1], %q: f32[1,1,1]) {
  unsqueeze_(%q, -1)
  %i = randint(0, 1, [1], i64)
  %y = index_select(%p, -1, %i)
  return %y
}

case "unsqueeze_ of an argument in a checkpoint" {
  %q = randn([1,1,1], f32, seed=1)
  %p = randn([1,1], f32, seed=35, requires_grad=true)
  call @f(%p, %q) checkpoint=true
  backward create_graph=true
}
