# The argument is a view made in inference mode of a leaf that requires grad: it requires
# grad too, but no gradient passes, and the tape saves nothing for its sake. With
# create_graph the program runs once more, on such a view again: an argument that takes
# gradients would have the tape save the inference tensor, which is an error.

func @f(%p: f32[1]) {
  inference {
    %v = erfc(%p)
  }
  %r = randn([1,1,1], f32)
  addcdiv_(%r, %p, %v, 0)
  return %r
}

case "view of a leaf made in inference mode" {
  %a = randn([1], f32, seed=7, requires_grad=true)
  inference {
    %b = unflatten(%a, -1, [1])
  }
  call @f(%b)
  backward create_graph=true
}
