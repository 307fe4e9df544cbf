# The captured program, printed and parsed, reads a size that depends on values before it is made.
# seed 4501600793: captured in text: line 8: eager works, captured in text fails: verify: program.td:3: as_strided: %a value without a name is read before it is made (program.td:8) (program.td:8)

func @f(%p0) {
  %v0, %v1, %v2 = unique_consecutive(%p0, false, false, -2)
  %v9 = linalg_matrix_rank(%v0)
  return 
}
case "seed 4501600793" {
  %a1 = randint(-3, 2, [3,2,3,1], f32,)
  call @f(%a1)
}
