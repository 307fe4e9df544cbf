# run: to_prologue
# Which edges the compiled node has when it is made. A tensor that is passed twice has
# one, a leaf that the call makes has none yet.
func @edges(%x: f32[2,3] grad, %w: f32[3] grad, %n: f32[3]) {
  %p = ones([3])
  requires_grad_(%p)
  %h = mul(%x, %w)
  %y = mul(%h, %p)
  %z = add(%y, %n)
  return %p, %z
}

# The node is the history of the first value that has one.
func @written(%x: f32[3], %w: f32[3] grad) {
  mul_(%x, %w)
  return %x
}

# A view of a leaf that the call returns has no edge of its own.
func @part(%x: f32[3], %w: f32[3] grad) {
  %v = select(%w, 0, 1)
  %y = mul(%x, %v)
  return %y, %v
}
---
func @edges_prologue(
    %x: f32[2,3],
    %w: f32[3],
    %n: f32[3],
    %f0: f32[3],
    %f1: f32[2,3],
    %node: f32[2,3] grad) {
  _bind(%x, %f1, 0)
  _bind(%w, %f1, 1)
  return
}

func @written_prologue(%x: f32[3], %w: f32[3], %f0: f32[3] <update 0>) {
  _bind(%w, %f0, 0)
  return
}

func @part_prologue(%x: f32[3], %w: f32[3], %f0: f32[3]) {
  _bind(%w, %f0, 0)
  return
}
