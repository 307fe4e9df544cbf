# The compiled backward of a cumprod of one element gives the tangent itself as the gradient, to which a second
# backward adds in place; eager copies it, as the caller holds it. Needed for it: a tangent that is a view (expand_as);
# add in place of cumprod shows it too.
# seed 7072432: compiled: line 15: %s: element 0 is -2, compiled -1; line 15: %s has version 0, compiled 1

func @f(%p0: f32[1]) {
  %v33 = cumprod(%p0, -1, none)
  %v36 = tensor([1, -1, 1, 1, 0, -1, -1, 0, -1], i16, [3,3])
  %v37... = tensor_split(%v36, 3, -1)
  return %v37.2, %v33
}
case "seed 7072432" {
  %a2 = randint(-3, 1, [1], f32, seed=86, requires_grad=true)
  call @f(%a2)
  no_grad {
    %s = sum(%out.1)
    %t = expand_as(%s, %out.1)
  }
  backward %out.1 with %t retain_graph=true
  backward
}
