/* dim.c -- the uncommon part of dim arithmetic: symbolic operands and overflow. */
#include "core/dim.h"

/* Thread-local, not in the context: dim arithmetic is on plain numbers, in functions
 * without a context argument. One trace at a time runs on a thread. */
static TD_HOT_LOCAL td_dim_hook  serving;
static TD_HOT_LOCAL td_dim_given given;

td_dim_hook td__dim_set_hook(td_dim_hook hook) {
    td_dim_hook was = serving;
    serving = hook;
    return was;
}

void *td__dim_hook_env(void) { return serving.env; }

__extension__ typedef __int128 wide; /* holds any sum or product of two dims */

static int64_t clamped(wide v) {
    if (v > TD_DIM_HUGE) return TD_DIM_HUGE;
    return v < -TD_DIM_HUGE ? -TD_DIM_HUGE : (int64_t)v;
}

/* The result for two numbers, if it is out of range or an operand is in the range of
 * tags although no trace runs. Saturates at TD_DIM_HUGE, which every size check
 * rejects. */
static int64_t of_numbers(int op, wide a, wide b) {
    switch (op) {
    case TD_DIM_ADD: return clamped(a + b);
    case TD_DIM_SUB: return clamped(a - b);
    case TD_DIM_MUL: return clamped(a * b);
    case TD_DIM_DIV: return clamped(b ? a / b - (a % b < 0) : 0);
    case TD_DIM_MOD: return clamped(b ? a % b + (a % b < 0 ? b : 0) : 0);
    case TD_DIM_MIN: return (int64_t)(a < b ? a : b);
    case TD_DIM_MAX: return (int64_t)(a > b ? a : b);
    case TD_DIM_EQ:
    case TD_DIM_SEEMS_EQ:
    case TD_DIM_SAME: return a == b;
    case TD_DIM_LT:
    case TD_DIM_SEEMS_LT: return a < b;
    default: return (int64_t)a;
    }
}

int64_t td__dim_slow(int op, int64_t a, int64_t b) {
    bool symbolic = td__dim_is_sym(a) || td__dim_is_sym(b);
    return symbolic && td__dim_tracing() ? serving.fn(serving.env, op, a, b)
                                         : of_numbers(op, a, b);
}

bool td__dim_served(void) { return serving.fn != NULL; }

bool td__dim_tracing(void) {
    return serving.fn && serving.fn(serving.env, TD_DIM_TRACES, 0, 0);
}

void td__dim_text(int64_t dim, td_buf *out) {
    if (td__dim_is_sym(dim) && serving.text) serving.text(serving.env, dim, out);
    else td__buf_printf(out, "%lld", (long long)dim);
}

bool td__dim_expect(int64_t a, td_dim_rel rel, int64_t b) {
    bool symbolic = td__dim_is_sym(a) || td__dim_is_sym(b);
    if (symbolic && td__dim_tracing())
        return serving.fn(serving.env, TD_DIM_EXPECT + (int)rel, a, b) != 0;
    return td__dim_rel_holds(rel, a, b);
}

td_dim_given td__dim_give(td_dim_given sizes) {
    td_dim_given was = given;
    given = sizes;
    return was;
}

bool td__dim_is_given(void) { return given.n > 0; }

int64_t td__dim_fresh(int64_t lo, int64_t hi) {
    if (given.at < given.n) return given.v[given.at++];
    return serving.fn ? serving.fn(serving.env, TD_DIM_FRESH, lo, hi) : TD_DIM_HUGE;
}
