# A view of a slice of another tensor is the last reader of that tensor; see debug_asserts.

func @f(%p0: u8[2]{1}+2 @0) {
  enable_grad {
    %v2 = tensor([1], f32, [])
    xlogy_(%v2, -2)
    no_grad {
      %v3 = select(%p0, -1, -1)
      fill_(%v2, %v3)
    }
    %v7 = slice(%p0, -1)
  }
  %v9 = tensor([-1, -1, -2, 0], f16, [2,2])
  %v10 = diagonal(%v9, 0, -2)
  return %v7, %v10, %v10
}

case "seed 136097812" {
  %a0 = tensor([2, 2, -1, 0, 1, -1, 1, -1, -1, 1, 2, 1, -2, -2, 2, -1, -1, 0, 3, 3, 2, -2, 0, 3], f32, [2,3,2,2], requires_grad=true)
  %a1 = full([2], 0, f32)
  %a2 = view_dtype(%a1, u8)
  %a3 = ravel(%a2)
  %a4 = narrow(%a3, -1, 2, 2)
  call @f(%a4)
  %b0 = clone(%a4)
  call @f(%b0)
}
