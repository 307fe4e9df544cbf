# td_while clones a state that its body wrote; writes and views from before the loop do not count.

func @f(%p0: f32[1]) {
  %v0 = randint(0, 2, [3,2], bool)
  %v1 = asin(%v0)
  %v2 = gt(%v0, 0.0)
  %v3 = sum(%v2)
  %v4 = cond(%v3, func @yes(%a: f32[3,2]) {
      %d = detach(%a)
      return %d
    }, func @no(%a: f32[3,2]) {
      %d = detach(%a)
      %r = neg(%d)
      return %r
    }, [%v1])
  no_grad {
    %v5 = permute(%v1, [1,0])
    %v6 = squeeze(%v4)
    %v13 = alias(%v1)
    %v14 = transpose(%v5, -1, -1)
    %v15 = cos_(%v14)
  }
  %v16 = asin_(%v5)
  %v17 = isnan(%v1)
  inference {
    %v19 = tensor([1], f64, [1])
    leaky_relu_(%v19, false)
    %v20 = full([], 0, i64)
    %v21, %v22 = while_loop(func @test(%n: i64[], %a: f32[1]) {
      %t = lt(%n, 3)
      return %t
    }, func @body(%n: i64[], %a: f32[1]) {
      %m = add(%n, 1)
      return %m, %a
    }, [%v20, %p0], [])
  }
  %v23 = randint(-3, 4, [2,2], f32)
  %v24 = mish(%v23)
  return %v22, %v21
}

case "seed 154503493" {
  %a0 = full([], 0, f32)
  %a1 = flatten(%a0, 0, -1)
  threshold_(%a1, 3, -2)
  call @f(%a1) control=true
inference {
  call @f(%a1) control=true
}
  %b0 = clone(%a1)
  call @f(%b0) control=true
}
