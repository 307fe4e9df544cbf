# A view whose history eager refuses to tell may be passed and not used.

func @f(%p: f32[2,2]) {
  return
}

func @g(%p: f32[3]) {
  %a = cos(%p)
  %b... = chunk(%a, 3)
  %c = as_strided(%b.2, [], [])
  round_(%a, 0)
  return %c
}

func @h(%p: f32[2,1,2]) {
  no_grad {
    rsqrt_(%p)
  }
  return
}

case "made and written with gradients off" {
  %a = randn([2,1,2], seed=20, requires_grad=true)
  no_grad {
    %b = squeeze_dim(%a, 1)
    neg_(%b)
  }
  call @f(%b)
}

case "one of several, its base written" {
  %a = randn([3], seed=1, requires_grad=true)
  call @g(%a)
}

case "one of several, written with gradients off" {
  %a = rand([2,2,2], seed=13, requires_grad=true)
  %b... = chunk(%a, 2, 1)
  call @h(%b.1)
}
