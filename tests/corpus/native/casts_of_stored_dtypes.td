# In native code, a u64 was held as i64: from 2^63 on it became a negative float.

func @f(%x: f32[3,5], %n: i64[6]) {
  %q = to(%x, f8e4m3)
  %r = to(%x, f8e5m2)
  %q1 = to(%q, f32)
  %y = tanh(%q1)
  %r1 = to(%r, f16)
  %z = mul(%r1, 2)
  %u = to(%n, u64)
  %s = to(%n, u16)
  %w = to(%n, u32)
  %a = to(%u, f32)
  %s1 = to(%s, i32)
  %b = add(%s1, 1)
  %w1 = to(%w, f64)
  %c = add(%w1, 0.5)
  %d = clone(%u)
  %e = transpose(%q, 0, 1)
  return %y, %z, %a, %b, %c, %d, %e
}

case "numbers below 0, ties and overflow" {
  %x0 = randn([3, 5], f32, seed=1)
  %x = mul(%x0, 200)
  %n = tensor([-1, 0, 65536, 4294967297, -70000, 9223372036854775807], i64, [6])
  call @f(%x, %n)
}
