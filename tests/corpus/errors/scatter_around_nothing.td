# A part of an empty storage fails alike with and without bytes.

func @f() {
  %v0 = tensor([], i64, [0,1])
  %v4 = randn([1,1], f32)
  as_strided_scatter(%v0, %v4, [1], [1], none)
  return
}
case "scatter around nothing" {
  call @f()
}
