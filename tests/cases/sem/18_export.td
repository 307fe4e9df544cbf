# 18_export.td -- programs of the export tests, whose captured program is what PyTorch
# calls a graph before dispatch.

# Out of training a dropout is its argument, so that the write reaches the input.
func @written_dropout(%x: f32[4]) {
  %y = dropout(%x, 0.5, false)
  add_(%y, 1.0)
  return %y
}
case "test_aot_export_ban_dropout_mut_pre_dispatch" {
  %x = randn([4], seed=1)
  call @written_dropout(%x)
}

func @switches(%x: f32[4]) {
  %y = add(%x, 2.0)
  no_grad {
    add_(%y, 2.0)
  }
  %d = mul(%x, 2.0)
  %r = add(%d, %y)
  return %r
}
case "test_aot_export_predispatch_func_simple" {
  %x = randn([4], seed=1, requires_grad=true)
  no_grad {
    call @switches(%x)
  }
}
case "test_aot_export_predispatch_func_simple with gradients" {
  %x = randn([4], seed=1, requires_grad=true)
  call @switches(%x)
  backward seed=3
}

func @switched_on(%x: f32[4]) {
  enable_grad {
    %y = add(%x, 5.0)
    add_(%y, 7.0)
  }
  %r = sin(%y)
  return %r, %y
}
case "test_aot_export_predispatch_with_autograd_op" {
  %x = randn([4], seed=1, requires_grad=true)
  no_grad {
    %r, %y = call @switched_on(%x)
  }
  backward %y seed=3
}
