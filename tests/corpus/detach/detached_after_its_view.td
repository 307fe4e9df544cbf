# A plain tensor may be detached in place, a view of it may not.

func @g(%p0) {
  detach_(%p0)
  return
}
case "detached after its view" {
  %x = randn([4], f32, seed=1)
  %y = alias(%x)
  call @g(%x)
  call @g(%y)
}
