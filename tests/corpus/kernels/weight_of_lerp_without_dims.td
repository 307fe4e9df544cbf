# lerp of tensors without dims has the dtype of a larger weight; among halves a weight of another dtype is rounded first.

func @f(%a: bf16[2], %b: bf16[2], %w: f16[], %v: f64[], %x: f16[], %y: f16[]) {
  %0 = lerp(%a, %b, %w)
  %1 = lerp(%a, %b, %v)
  %2 = lerp(%x, %y, %v)
  %3 = lerp(%x, %y, 0.49853515625)
  %4 = lerp(%a, %b, 0.49853515625)
  return %0, %1, %2, %3, %4
}

case "weights of other dtypes" {
  %a = tensor([2.640625, -3.359375], bf16, requires_grad=true)
  %b = tensor([-2.671875, 1.265625], bf16)
  %w = tensor([0.49853515625], f16, [])
  %v = tensor([0.49853515625], f64, [], requires_grad=true)
  %x = tensor([2.640625], f16, [], requires_grad=true)
  %y = tensor([-2.671875], f16, [])
  call @f(%a, %b, %w, %v, %x, %y)
  backward seed=3
}
