# Compiled: create_graph computes the program again with history, and then saves an inference tensor, which eager did not.

func @f(%p0: f32[1] @0) {
  inference {
    %v0 = erfc(%p0)
  }
  %v10 = randn([1,1,1], f32)
  addcdiv_(%v10, %p0, %v0, 0)
  return %v10
}
func @g(%q0: f32[1,1,1], %q1: f32[1,1,1], %q2: f32[1]) {
  return 
}
case "seed 310340487" {
  %a0 = randn([1], f32, seed=7, requires_grad=true)
  inference {
    %a3 = unflatten(%a0, -1, [1])
  }
  call @f(%a3)
  backward create_graph=true
no_grad {
}
}
