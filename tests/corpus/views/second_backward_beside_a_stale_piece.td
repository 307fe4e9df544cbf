# After a strided tangent was accumulated, a second backward beside a stale piece of unsafe_split.


func @f(%p1: f32[3,3], %p2: f32[3,1]) {
  no_grad {
    neg_(%p2)
  }
  return %p1
}
case "second backward beside a stale piece of unsafe_split" {
  %a1 = tensor([1, 3, -1, -1, 2, -2, 2, -2, -1], f32, [3,3], requires_grad=true)
  %a2... = unsafe_split_with_sizes(%a1, [2,1], 1)
  call @f(%a1, %a2.1)
  %s = randn([3,6], f32, seed=1)
  %t = slice(%s, -1, 0, 6, 2)
  backward %out.0 with %t
  backward
}
