# An integer has no history, and a piece of it may be written after a float that requires
# grad was written to its base.

func @f(%p: i16[0,3], %w: f32[]) {
  %a... = split(%p, 3)
  %b = view(%p, [-1])
  %none = full([0], 0, i64)
  index_fill_(%b, 0, %none, %w)
  %mask = full([3], 0, bool)
  masked_scatter_(%a.0, %mask, %a.0)
  return %a.0
}
case "seed 54007453" {
  %w = tensor([3], f32, [], requires_grad=true)
  %p = full([0,3], 0, i16)
  call @f(%p, %w)
}

func @g(%p: i64[3,3], %w: f32[3]) {
  inference {
    %a... = split(%p, 1)
    %v = select(%p, 0, 2)
  }
  gt_(%a.0, %w)
  gt_(%v, %w)
  return
}
case "pieces of inference mode" {
  %w = tensor([3, 4, 5], f32, [3], requires_grad=true)
  %p = full([3,3], 4, i64)
  call @g(%p, %w)
}
