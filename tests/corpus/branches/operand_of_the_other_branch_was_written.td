# Refused: a compiled backward passes through the branch that does not run, which needs a value that was written since.
func @f5108(%a0: f32[3], %a1: f32[3]) {
%n = full([], 3, i64)
%v1 = mul(%a1, %a1)
%v2 = mul(%a0, 1.0)
%v3 = mul(%a1, 1.0)
%v4 = mul(%v2, %v3)
%v5 = clone(%v3)
%v6 = mul(%v2, %v4)
sin_(%v3)
%v8 = add(%v6, %v3)
%v9 = mul(%v5, %v2)
%v10 = add(%v3, %v3)
%v13 = remainder(%n, 2)
%v12 = gt(%v13, 0)
%v11 = cond(%v12, func @yes(%v14: f32[3], %v15: f32[3], %v16: f32[3]) {
%v17 = sin(%v14)
return %v16
}, func @no(%v18: f32[3], %v19: f32[3], %v20: f32[3]) {
%v21 = mul(%v20, -1.25)
%v22 = add(%v19, 1)
%v23 = add(%v20, 1)
return %v22
}, [%v2, %v8, %v9])
%z0 = mul(%a0, 0.5)
%z1 = add(%z0, %a1)
%o0 = add(%v9, %z1)
%o1 = add(%v10, %z1)
%o2 = add(%v11, %z1)
%o3 = add(%v2, %z1)
return %o0, %o1, %o2, %o3
}
case "g5108" {
%a0 = randn([3], f32, seed=1, requires_grad=true)
%a1 = randn([3], f32, seed=2, requires_grad=true)
call @f5108(%a0, %a1) control=true
backward seed=3
}
