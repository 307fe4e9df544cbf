# Gradients pass regions in a branch, and in the body of a loop: there regions are op by
# op, because the backward of a branch may be differentiated.

func @f(%x: f32[3], %w: f32[3]) {
  %s = full([], 0, i64)
  %t = cond(%s, func @yes(%c: f32[3], %d: f32[3]) {
    %m = mul(%c, %d)
    return %m
  }, func @no(%c: f32[3], %d: f32[3]) {
    %m = region(func @in(%e: f32[3], %f: f32[3]) {
      %k = mul(%e, %f)
      %l = sin(%k)
      return %l
    }, [%c, %d])
    %n = region(@in, [%m, %d])
    return %n
  }, [%x, %w])
  %y = region(func @outer(%a: f32[3], %b: f32[3]) {
    %z = full([], 0, i64)
    %n, %u = while_loop(func @test(%n: i64[], %c: f32[3], %d: f32[3]) {
      %o = lt(%n, 2)
      return %o
    }, func @body(%n: i64[], %c: f32[3], %d: f32[3]) {
      %m = add(%n, 1)
      %k = region(func @in(%e: f32[3], %f: f32[3]) {
        %k = mul(%e, %f)
        %l = sin(%k)
        return %l
      }, [%c, %d])
      return %m, %k
    }, [%z, %a], [%b])
    return %u
  }, [%t, %w])
  return %y
}

case "as ops" {
  %x = randn([3], seed=1, requires_grad=true)
  %w = randn([3], seed=2, requires_grad=true)
  call @f(%x, %w)
  backward seed=3
}

case "by td_cond, td_while and td_call_region" {
  %x = randn([3], seed=1, requires_grad=true)
  %w = randn([3], seed=2, requires_grad=true)
  call @f(%x, %w) control=true
  backward seed=3
}
