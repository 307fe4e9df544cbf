# set_ to the storage of a tensor that an op has saved writes nothing: backward reads the saved value.

func @index(%p0: f32[3,3]) {
  %i = tensor([0, 2, 1], i64, [3])
  %y = embedding(%p0, %i, 2, false)
  %z = full([2], 0, i64)
  set_(%z, %i)
  return %y, %z
}

func @argument(%p0: f32[2,3]) {
  %y = mul(%p0, %p0)
  %z = full([2], 0, f32)
  set_(%z, %p0, 1, [2,2], [1,2])
  return %y
}

func @written(%p0: f32[2,3]) {
  %c = clone(%p0)
  %y = mul(%c, %c)
  %z = full([2], 0, f32)
  no_grad {
    set_(%z, %c, 1, [2], [1])
    fill_(%z, 7)
  }
  return %y
}

func @back(%p0: f32[2,3]) {
  %c = clone(%p0)
  %a = alias(%c)
  %d = detach(%c)
  %y = mul(%p0, %d)
  %e = full([2,3], 5, f32)
  set_(%d, %e)
  set_(%d, %a)
  return %y
}

case "an index" {
  %a = randn([3,3], f32, seed=26, requires_grad=true)
  call @index(%a)
  backward seed=6
}

case "an argument" {
  %a = randn([2,3], f32, seed=26, requires_grad=true)
  call @argument(%a)
  backward seed=6
}

case "written through the other tensor" {
  %a = randn([2,3], f32, seed=26, requires_grad=true)
  call @written(%a)
  backward seed=6
}

case "a saved tensor that left its storage and came back" {
  %a = randn([2,3], f32, seed=26, requires_grad=true)
  call @back(%a)
  backward seed=6
}
