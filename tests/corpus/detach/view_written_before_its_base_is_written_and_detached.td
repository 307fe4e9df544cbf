# A view that was written has a history of its own. It is stale after a write of the base,
# and the view requires grad even where the base is detached then.

func @base_written(%w: f32[3,3]) {
  %x = zeros([3,3], f32)
  %v = transpose(%x, 0, 1)
  add_(%v, %w)
  square_(%x)
  detach_(%x)
  return %v
}
case "base written" {
  %w = tensor([-1, -1, -1, 1, 1, 0, -1, 1, -1], f32, [3,3], requires_grad=true)
  call @base_written(%w)
}

func @other_view_written(%w: f32[3]) {
  %x = zeros([3,3], f32)
  %a = select(%x, 0, 0)
  %b = select(%x, 0, 1)
  %c = select(%x, 0, 2)
  %d = slice(%a, 0, 0, 2)
  add_(%a, %w)
  mul_(%b, %w)
  no_grad {
    add_(%x, 1)
  }
  detach_(%x)
  return %a, %b, %c, %d
}
case "other view written" {
  %w = tensor([-1, 2, 3], f32, [3], requires_grad=true)
  call @other_view_written(%w)
}

func @no_longer_required(%x: f32[3], %w: f32[3]) {
  %y = detach(%x)
  %v = slice(%y, 0, 0, 3)
  mul_(%v, %w)
  mul_(%y, %w)
  detach_(%y)
  %z = mul(%v, 2)
  return %v, %z
}
case "of a detached alias" {
  %x = tensor([1, 2, 3], f32, [3])
  %w = tensor([-1, 2, 3], f32, [3], requires_grad=true)
  call @no_longer_required(%x, %w)
  backward %out.1
}
