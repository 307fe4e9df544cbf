# Refused: a compiled branch saves its predicate, so a second backward needs retain_graph, as with torch.cond.

func @f(%p0: f32[1,1,1]) {
  %v6 = cond(%p0, func @yes(%a: f32[1,1,1]) {
      return %a
    }, func @no(%a: f32[1,1,1]) {
      return %a
    }, [%p0])
  return %v6, %v6
}
case "seed 156902236" {
  %a0 = randn([1,1,1], f32, seed=77, requires_grad=true)
  call @f(%a0) control=true
  backward
  %t = randn([1,1,1], f32,)
  backward %out.1 with %t
}
