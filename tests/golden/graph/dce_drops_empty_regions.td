# a region goes when nothing living is in it, an outer one too
# run: dce
func @f(%x: f32[2]) {
  no_grad {
    %a = neg(%x)
    enable_grad {
    }
  }
  no_grad {
    %b = exp(%x)
    enable_grad {
      %c = neg(%x)
    }
  }
  return %b
}
---
func @f(%x: f32[2]) {
  no_grad {
    %b = exp(%x)
  }
  return %b
}
