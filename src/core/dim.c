/* dim.c -- the uncommon half of dim arithmetic: symbols and overflow. */
#include "core/dim.h"

static _Thread_local td_dim_hook *hook_fn;
static _Thread_local void        *hook_env;

void td__dim_set_hook(td_dim_hook *hook, void *env) {
    hook_fn = hook;
    hook_env = env;
}

/* Numbers too: a product or sum that left the range, or an operand a user made up
 * that only looks like a symbol. Saturates, so that whoever checks sizes refuses. */
static int64_t saturated(td_dim_op op, int64_t a, int64_t b) {
    bool negative = op == TD_DIM_MUL ? (a < 0) != (b < 0) : a < 0;
    switch (op) {
    case TD_DIM_EQ: return a == b;
    case TD_DIM_LT: return a < b;
    case TD_DIM_MIN: return a < b ? a : b;
    case TD_DIM_MAX: return a > b ? a : b;
    case TD_DIM_SUB: negative = a < b; break;
    case TD_DIM_MOD: return 0;
    case TD_DIM_ADD:
    case TD_DIM_MUL:
    case TD_DIM_DIV: break;
    }
    return negative ? -TD_DIM_HUGE : TD_DIM_HUGE;
}

int64_t td__dim_slow(td_dim_op op, int64_t a, int64_t b) {
    bool symbolic = td__dim_is_sym(a) || td__dim_is_sym(b);
    return symbolic && hook_fn ? hook_fn(hook_env, op, a, b) : saturated(op, a, b);
}

bool td__dim_tracing(void) { return hook_fn != NULL; }
