# An expanded input is written through a view of one of its elements: the copy it is read through has another
# layout, so each view must be a view of the right one of them.

func @one(%x: f32[2], %base: f32[]) {
  %last = select(%x, 0, -1)
  log1p_(%last)
  return
}

func @row(%x: f32[2,2], %base: f32[2]) {
  %half... = chunk(%x, 2, -2)
  selu_(%half.1)
  return
}

case "an element of an expanded scalar" {
  %base = full([], 2, f32)
  %x = expand(%base, [2])
  call @one(%x, %base)
}

case "a row of an expanded vector" {
  %base = full([2], 2, f32)
  %x = expand(%base, [2,2])
  call @row(%x, %base)
}

func @piece(%x: f32[2,3]) {
  %wide = as_strided(%x, [2,3], [0,2], 1)
  %row... = split_with_sizes(%wide, [1,1], -2)
  square_(%row.0)
  return
}

case "rows of a piece that lie in one place" {
  %x = randn([2,3], f32, seed=4)
  call @piece(%x)
}
