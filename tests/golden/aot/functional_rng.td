# run: functional_rng=on to_forward
# run: functional_rng=on memory_budget=0 to_backward
# test_functionalized_rng_codegen_emitted: draws take seed and offset of the generator,
# which moves; a recomputed one repeats its numbers.
func @f(%x: f32[4,3] grad, %w: f32[3] grad) {
  %h = mul(%x, %w)
  %a = dropout(%h, 0.5)
  %b = rand_like(%a)
  %c = mul(%a, %b)
  return %c
}
---
