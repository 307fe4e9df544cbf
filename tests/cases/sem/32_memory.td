# 32_memory.td -- functions whose kept values once cost too much: the group 32 of
# tests/README.md. Counts are in unit/sem_aot.c.

func @split_second(%x: f32[4,2]) {
  %s = sin(%x)
  %a, %b = split(%s, 2)
  %m = mul(%b, %b)
  return %b, %m
}
case "test_mem_leak_from_save_for_bw" {
  %x = randn([4,2], seed=1, requires_grad=true)
  call @split_second(%x)
  backward seed=3
}

func @many_writes(%x: f32[3]) {
  add_(%x, 1.0)
  mul_(%x, 2.0)
  add_(%x, 3.0)
  mul_(%x, 4.0)
  add_(%x, 5.0)
  %y = sin(%x)
  return %y
}
case "test_input_mutation_mutiple_times_fake_tensor_cahche_hit NRG" {
  %x = randn([3], seed=1)
  call @many_writes(%x)
  call @many_writes(%x)
}
case "test_input_mutation_mutiple_times_fake_tensor_cahche_hit NL" {
  %x0 = randn([3], seed=1, requires_grad=true)
  %x = mul(%x0, 1.0)
  call @many_writes(%x)
  backward seed=2
}
