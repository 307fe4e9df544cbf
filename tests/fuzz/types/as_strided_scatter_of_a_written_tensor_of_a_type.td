# Refused: as_strided_scatter reads elements beside those of a written argument of a type. It failed with the storage of one element that the written inner tensors have in a graph.

func @f(%p0) {
  %v0 = tensor([1], i64, [])
  fmod_(%p0, %v0)
  %v4 = as_strided_scatter(%p0, %p0, [], [], 1)
  return 
}
case "as_strided_scatter reads beside a written tensor of a type" {
  %a1 = full([3], 0, i16)
  %a2 = randint(-3, 1, [3], i16,)
  %a3 = _wrap([%a1, %a2], "fz_pair", "m", [3], [], i16)
  %a14... = unbind(%a3, -1)
  call @f(%a14.2) dynamic=maybe body=true
}
