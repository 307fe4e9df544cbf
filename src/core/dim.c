/* dim.c -- the uncommon half of dim arithmetic: symbols and overflow. */
#include "core/dim.h"

static _Thread_local td_dim_hook *hook_fn;
static _Thread_local void        *hook_env;

void td__dim_set_hook(td_dim_hook *hook, void *env) {
    hook_fn  = hook;
    hook_env = env;
}

int64_t td__dim_slow(td_dim_op op, int64_t a, int64_t b) {
    if (td__dim_is_sym(a) || td__dim_is_sym(b)) {
        TD_ASSERT(hook_fn != NULL);
        return hook_fn(hook_env, op, a, b);
    }
    bool negative = op == TD_DIM_MUL ? (a < 0) != (b < 0) : a < 0;
    return negative ? -TD_DIM_HUGE : TD_DIM_HUGE;
}
