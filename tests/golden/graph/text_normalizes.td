# keywords become positions, defaults go, numbers take the schema's kind
# run: program
func @f(%x: f32[4,3],
        %w: f32[3]{1}+0) { # a comment
  %a = sum(%x, keepdim=false, dim=[0],)
  %b = add(%a, alpha=1, b=%w)
  %c = uniform(%b, 0, 2)
  return %c
}
---
func @f(%x: f32[4,3], %w: f32[3]) {
  %a = sum(%x, [0])
  %b = add(%a, %w)
  %c = uniform(%b, 0.0, 2.0)
  return %c
}
