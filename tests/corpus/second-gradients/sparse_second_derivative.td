# With symbolic sizes the backward of a gradient of a sparse product is refused: a backward that starts at some of the
# results alone could not be traced.

func @alone(%a: f32[3,4] of sparse_coo("", i64[2,5], f32[5]), %x: f32[4,2]) {
  %y = sparse_mm(%a, %x)
  %q = mul(%y, %y)
  return %q
}

case "a second derivative" {
  %i = tensor([0, 1, 1, 2, 2, 3, 0, 0, 1, 2], i64, [2,5])
  %v = randn([5], seed=1)
  %a = sparse_coo_tensor(%i, %v, [3,4], requires_grad=true)
  %x = randn([4,2], seed=2, requires_grad=true)
  call @alone(%a, %x)
  backward create_graph=true
  %g = grad %x
  backward %g
}
