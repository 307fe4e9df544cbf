# beyond.td -- what docs/beyond.md says of functions that PyTorch's AOTAutograd fails at
# or refuses, where no case of tests/cases/sem shows it.

func @turned(%a: f32[2,3]) {
  %out = mul(%a, 3.0)
  transpose_(%out, 0, 1)
  return %out
}
case "an intermediate reshaped in place is returned" {
  %a = randn([2,3], seed=1, requires_grad=true)
  call @turned(%a)
  backward seed=2
}
func @turned_and_views(%a: f32[2,3]) {
  %out = mul(%a, 3.0)
  %before = view(%out, [6])
  transpose_(%out, 0, 1)
  %after = select(%out, 0, 1)
  return %before, %out, %after
}
case "an intermediate reshaped in place is returned with views" {
  %a = randn([2,3], seed=1, requires_grad=true)
  call @turned_and_views(%a)
  backward seed=2
}

func @expanded(%x: f32[3]) {
  %e = expand(%x, [2,3])
  add_(%e, 1.0)
  return %e
}
case "writing elements of an expanded tensor that share their place" {
  %x = randn([3], seed=1)
  call @expanded(%x)
}

func @dropped(%x: f32[4,4], %w: f32[4,4]) {
  %m = mm(%x, %w) : f32[4,4] must_recompute 1
  %d = dropout(%m, 0.5, true) : f32[4,4] must_recompute 1
  %s = sin(%d) : f32[4,4] must_recompute 1
  return %s
}
case "a checkpoint that draws" {
  %x = randn([4,4], seed=1, requires_grad=true)
  %w = randn([4,4], seed=2, requires_grad=true)
  call @dropped(%x, %w)
  backward seed=3
  call @dropped(%x, %w)
  backward seed=3
}

func @two_of_one(%x: f32[4]) {
  %y = add(%x, 1.0)
  return %y, %y
}
func @takes_two(%a: f32[4], %b: f32[4]) {
  %c = add(%a, %b)
  mul_(%a, 2.0)
  %d = add(%b, %c)
  return %d
}
case "one result twice, given to another function" {
  %x = randn([4], seed=1, requires_grad=true)
  %a, %b = call @two_of_one(%x)
  %d = call @takes_two(%a, %b)
  backward %d seed=3
}

func @parts(%x: f32[2,3]) {
  %a = mul(%x, 2.0)
  %p, %q = unbind(%a)
  return %p, %q
}
case "views of unbind refuse to be written" {
  %x = randn([2,3], seed=1, requires_grad=true)
  %p, %q = call @parts(%x)
  add_(%p, 1.0)
}

func @eight(%a: f32[2], %b: f32[2], %c: f32[2], %d: f32[2],
            %e: f32[2], %f: f32[2], %g: f32[2], %h: f32[2]) {
  mul_(%a, 2.0)
  mul_(%h, 3.0)
  %s = add(%a, %b)
  %t = add(%g, %h)
  %u = mul(%s, %t)
  return %u
}
case "eight inputs that overlap" {
  %x = randn([9], seed=1)
  %a = slice(%x, 0, 0, 2)
  %b = slice(%x, 0, 1, 3)
  %c = slice(%x, 0, 2, 4)
  %d = slice(%x, 0, 3, 5)
  %e = slice(%x, 0, 4, 6)
  %f = slice(%x, 0, 5, 7)
  %g = slice(%x, 0, 6, 8)
  %h = slice(%x, 0, 7, 9)
  call @eight(%a, %b, %c, %d, %e, %f, %g, %h)
}

func @written_later(%x: f32[3], %t: f32[3]) {
  %z = custom("write", func @forward(%a: f32[3], %b: f32[3]) {
    %c = mul(%a, 2.0)
    return %c, %b <saved 0>
  }, func @backward(%b: f32[3] <saved 0>, %g: f32[3] <tangent 0>) {
    mul_(%b, 2.0)
    %h = mul(%g, %b)
    return %h <grad 0>, none <grad 1>
  }, [%x, %t], [], stash=[0])
  return %z
}
case "backward writes an input that requires grad" {
  %x = randn([3], seed=1, requires_grad=true)
  %t = randn([3], seed=2, requires_grad=true)
  call @written_later(%x, %t)
  backward seed=3
}
case "backward writes an input that requires grad, create_graph" {
  %x = randn([3], seed=1, requires_grad=true)
  %t = randn([3], seed=2, requires_grad=true)
  call @written_later(%x, %t)
  backward seed=3 create_graph=true
}
