# Refused: no copy of the storages of a written pair is saved for a double backward.
# Eagerly, the saved result of the write was a plain tensor without elements.

func @g(%p0) {
  %v0 = as_strided(%p0, [2], [2], 0)
  exp_(%v0)
  %v1 = mul(%p0, %p0)
  return %v1
}

case "twice" {
  %a0 = randn([3,3], f32, seed=1)
  %a1 = randn([3,3], f32, seed=2)
  %a2 = _wrap([%a0, %a1], "fz_pair", "", [3,3], [], f32, requires_grad=true)
  %a3 = mul(%a2, 2)
  %a4 = select(%a3, 1, 1)
  call @g(%a4)
  backward seed=1 create_graph=true
}
