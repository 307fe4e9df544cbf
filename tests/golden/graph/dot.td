# run: dot
func @f(%x: f32[2] <param "w">, %d: f32[2] <tangent 0>) {
  %a = mul(%x, 2.0)
  no_grad {
    add_(%x, 1)
  }
  %g = mul(%d, %a) backward
  return %a, %g <grad 0>
}
---
digraph "f" {
  node [shape=box, fontname=monospace];
  edge [fontname=monospace, fontsize=10];
  n0 [label="mul\nb 2.0"];
  i0 -> n0 [label="%x f32[2]"];
  n1 [shape=plaintext, label="begin no_grad"];
  n2 [label="add_\nb 1", peripheries=2];
  i0 -> n2 [label="%x f32[2]"];
  n3 [shape=plaintext, label="end"];
  n4 [label="mul", style=filled, fillcolor=mistyrose];
  i1 -> n4 [label="%d f32[2]"];
  n0 -> n4 [label="%a "];
  i0 [shape=ellipse, label="%x\nf32[2] <param \"w\">"];
  i1 [shape=ellipse, label="%d\nf32[2] <tangent 0>"];
  o0 [shape=ellipse, label="output 0\n%a"];
  n0 -> o0 [label="%a "];
  o1 [shape=ellipse, label="output 1\n%g <grad 0>"];
  n4 -> o1 [label="%g "];
}
