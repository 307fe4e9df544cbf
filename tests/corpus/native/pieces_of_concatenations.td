# Loops store the pieces of a concatenation where it has them: beside each other, one below the other, a concatenation
# of concatenations, pieces that others read as well, and one that is an argument.

func @f(%a: f32[4,8] grad, %b: f32[4,8] grad, %w: f32[16,16] grad, %c: f32[4,16]) {
  %p = exp(%a)
  %q = mul(%p, %b)
  %s = cat([%p, %q], 1)
  %m = mm(%s, %w)
  %n = neg(%m)
  %u = sigmoid(%n)
  %x = cat([%u, %n, %u], 0)
  %y = cat([%s, %n, %c, %s], 0)
  %z = mm(%y, %w)
  %t = cat([%q, %p, %q], 0)
  %v = sum(%t, [0])
  return %z, %y, %x, %v
}
case "pieces of concatenations" {
  %a = randn([4,8], f32, seed=1, requires_grad=true)
  %b = randn([4,8], f32, seed=2, requires_grad=true)
  %w = randn([16,16], f32, seed=3, requires_grad=true)
  %c = randn([4,16], f32, seed=4)
  call @f(%a, %b, %w, %c)
  %l = sum(%out.0)
  %k = sum(%out.2)
  %e = add(%l, %k)
  backward %e
}
