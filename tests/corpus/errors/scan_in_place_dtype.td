# A scan in place refuses a dtype that is not the written tensor's.

func @f(%p: f32[2]) {
  cumsum_(%p, 0, i8)
  return
}

case "refused both ways" {
  %p = randn([2], seed=1)
  call @f(%p)
}
