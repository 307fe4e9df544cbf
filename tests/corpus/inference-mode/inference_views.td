# A view of an inference tensor is one; what a region of inference made stays one.

func @f(%p: f32[1,2,2]) {
  %a = transpose(%p, 1, -1)
  return %a
}

func @g() {
  inference {
    %a = randint(-2, 2, [2,1,2], i64)
  }
  %b = as_strided(%a, [1,1,2], [2,0,0])
  return %b
}

case "passed in" {
  inference {
    %a = ones([1,2,2])
  }
  call @f(%a)
}

case "made inside" {
  call @g()
}
