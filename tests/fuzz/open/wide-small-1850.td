# seed 1850: compiled: line 8: fails (detach_: a view cannot be detached in place; use detach), compiled does not

func @f(%p0: f32[1,1]) {
  %v0 = detach_(%p0)
  return 
}
case "seed 1850" {
  %a1 = randint(-1, 1, [1,1], f32,)
  %b0 = alias(%a1)
  call @f(%b0)
}
