# index_copy takes a vector for a 0-dim tensor if it has one element, which depends on values.

func @f(%p0) {
  %v0 = argmin(%p0, none, false)
  %v13, %v14, %v15 = unique_consecutive(%p0)
  %v17 = index_copy(%p0, -1, %v0, %v13)
  return 
}
case "seed 4150602699" {
  %a0 = full([], 1, f32)
  call @f(%a0) dynamic=maybe
}
