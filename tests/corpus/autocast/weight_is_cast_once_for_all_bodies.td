# Eager casts a weight once in a region of autocast, also for the bodies of regions,
# branches and loops, and adds up its gradients in bf16, where 256 + 1 is 256.

func @regions(%w: f32[1,1]) {
  %big = full([1,1], 256, f32)
  %one = full([1,1], 1, f32)
  %r0 = region(func @times(%a: f32[1,1], %b: f32[1,1]) {
      %p = matmul(%a, %b)
      return %p
    }, [%one, %w])
  %r1 = region(@times, [%one, %w])
  %r2 = region(@times, [%one, %w])
  %r3 = region(@times, [%one, %w])
  %r4 = region(@times, [%one, %w])
  %r5 = region(@times, [%one, %w])
  %r6 = region(@times, [%one, %w])
  %r7 = region(@times, [%one, %w])
  %r8 = region(@times, [%one, %w])
  %r9 = region(@times, [%one, %w])
  %r10 = region(@times, [%one, %w])
  %r11 = region(@times, [%one, %w])
  %r12 = region(@times, [%one, %w])
  %r13 = region(@times, [%one, %w])
  %r14 = region(@times, [%one, %w])
  %r15 = region(@times, [%one, %w])
  %r16 = region(@times, [%one, %w])
  %r17 = region(@times, [%one, %w])
  %r18 = region(@times, [%one, %w])
  %r19 = region(@times, [%one, %w])
  %r20 = region(@times, [%one, %w])
  %r21 = region(@times, [%one, %w])
  %r22 = region(@times, [%one, %w])
  %r23 = region(@times, [%one, %w])
  %r24 = region(@times, [%one, %w])
  %r25 = region(@times, [%one, %w])
  %r26 = region(@times, [%one, %w])
  %r27 = region(@times, [%one, %w])
  %r28 = region(@times, [%one, %w])
  %r29 = region(@times, [%one, %w])
  %r30 = region(@times, [%one, %w])
  %r31 = region(@times, [%one, %w])
  %r32 = region(@times, [%one, %w])
  %r33 = region(@times, [%one, %w])
  %r34 = region(@times, [%one, %w])
  %r35 = region(@times, [%one, %w])
  %m = matmul(%big, %w)
  return %m, %r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8, %r9, %r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17, %r18, %r19, %r20, %r21, %r22, %r23, %r24, %r25, %r26, %r27, %r28, %r29, %r30, %r31, %r32, %r33, %r34, %r35
}

func @loops(%w: f32[1,1]) {
  %one = full([1,1], 1, f32)
  %n = full([], 300, i64)
  %left, %s = while_loop(func @test(%n: i64[], %s: f32[1,1], %a: f32[1,1], %w: f32[1,1] <const>) {
      return %n
    }, func @body(%n: i64[], %s: f32[1,1], %a: f32[1,1], %w: f32[1,1] <const>) {
      %k = sub(%n, 1)
      %p = cond(%n, func @then(%a: f32[1,1], %b: f32[1,1]) {
          %m = matmul(%a, %b)
          return %m
        }, func @else(%a: f32[1,1], %b: f32[1,1]) {
          %m = matmul(%b, %a)
          return %m
        }, [%a, %w])
      %q = add(%p, %s)
      %t = to(%q, f32)
      return %k, %t
    }, [%n, %one], [%one, %w])
  return %s
}

case "regions" {
  %w = full([1,1], 1, f32, requires_grad=true)
  call @regions(%w) autocast=bf16 control=true body=true
  backward
}
case "loops" {
  %w = full([1,1], 1, f32, requires_grad=true)
  call @loops(%w) autocast=bf16 control=true body=true
  backward
}
