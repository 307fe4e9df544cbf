# seed 311867: compiled: line 10: works, compiled fails: pow_: cannot broadcast f32[u0] with f32[0]

func @f() {
    %v3 = randn([3,3,3], f32)
    %v4 = tensor([0, 0, 0], bool, [3])
    %v5 = masked_select(%v3, %v4)
    %v7 = randint(-3, 1, [0], f32)
    pow_(%v5, %v7)
  return 
}
case "seed 311867" {
  call @f()
}
