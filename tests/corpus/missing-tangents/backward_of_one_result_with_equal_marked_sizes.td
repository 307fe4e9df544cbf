# The capture of a C body finds the two marked sizes to be equal. The trace for a backward from one result, which does
# not repeat the capture, had two symbols for them and was refused.

func @f(%p0, %p1) {
  %v0 = mul(%p0, %p1)
  %v1 = sin(%p1)
  return %v0, %v1
}

case "backward of one result with equal marked sizes" {
  %a0 = randn([4,3], f32, seed=1, requires_grad=true)
  %a1 = randn([4,3], f32, seed=2, requires_grad=true)
  call @f(%a0, %a1) dynamic=first body=true
  backward %out.0 seed=3
  %a2 = randn([6,3], f32, seed=4, requires_grad=true)
  %a3 = randn([6,3], f32, seed=5, requires_grad=true)
  call @f(%a2, %a3) dynamic=first body=true
  backward %out.0 seed=6
}
