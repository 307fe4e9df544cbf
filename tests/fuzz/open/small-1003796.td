# seed 1003796: functional: line 10: %out.0 has version 0, functional 1

func @f() {
    %v2 = full([2,2,2,2], 2, f32)
    %v3... = chunk(%v2, 2, 2)
    %v4 = tensor([0], bool, [1])
    %v5 = masked_select(%v3.0, %v4)
  dropout_(%v5)
  return  %v5
}
case "seed 1003796" {
  call @f()
}
