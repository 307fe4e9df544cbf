/* dim.c -- the uncommon half of dim arithmetic: symbols and overflow. */
#include "core/dim.h"

static _Thread_local td_dim_hook *hook_fn;
static _Thread_local void        *hook_env;

void td__dim_set_hook(td_dim_hook *hook, void *env) {
    hook_fn = hook;
    hook_env = env;
}

__extension__ typedef __int128 wide; /* holds any sum or product of two dims */

static int64_t clamped(wide v) {
    if (v > TD_DIM_HUGE) return TD_DIM_HUGE;
    return v < -TD_DIM_HUGE ? -TD_DIM_HUGE : (int64_t)v;
}

/* Numbers whose sum or product left the range, or that a user made up and that only
 * look like symbols. Saturates, so that whoever checks sizes refuses them. */
static int64_t of_numbers(td_dim_op op, wide a, wide b) {
    switch (op) {
    case TD_DIM_ADD: return clamped(a + b);
    case TD_DIM_SUB: return clamped(a - b);
    case TD_DIM_MUL: return clamped(a * b);
    case TD_DIM_DIV: return clamped(b ? a / b - (a % b < 0) : 0);
    case TD_DIM_MOD: return clamped(b ? a % b + (a % b < 0 ? b : 0) : 0);
    case TD_DIM_MIN: return (int64_t)(a < b ? a : b);
    case TD_DIM_MAX: return (int64_t)(a > b ? a : b);
    case TD_DIM_EQ: return a == b;
    case TD_DIM_LT: return a < b;
    }
    return 0;
}

int64_t td__dim_slow(td_dim_op op, int64_t a, int64_t b) {
    bool symbolic = td__dim_is_sym(a) || td__dim_is_sym(b);
    return symbolic && hook_fn ? hook_fn(hook_env, op, a, b) : of_numbers(op, a, b);
}

bool td__dim_tracing(void) { return hook_fn != NULL; }
