/* core/dim.h -- arithmetic on sizes and strides.
 * A dim is an int64_t. Inside traces it may stand for a symbolic expression:
 * values below TD_DIM_SYM_LIMIT are tags of expressions kept by the tracer.
 * Shape rules use these functions instead of + * ==, so the same rule serves
 * numbers and symbols; for numbers they cost one predictable branch. Products
 * and sums saturate at TD_DIM_HUGE, which no tensor may reach. */
#ifndef TD_DIM_H
#define TD_DIM_H

#include "base/base.h"

#define TD_DIM_SYM_LIMIT (-((int64_t)1 << 62))
#define TD_DIM_HUGE ((int64_t)1 << 62)

typedef enum td_dim_op {
    TD_DIM_ADD,
    TD_DIM_SUB,
    TD_DIM_MUL,
    TD_DIM_DIV,
    TD_DIM_MOD,
    TD_DIM_MIN,
    TD_DIM_MAX,
    TD_DIM_EQ,
    TD_DIM_LT
} td_dim_op;

/* One more the hook is asked for: the number a symbol has in this trace, guarded. */
enum { TD_DIM_FIX = TD_DIM_LT + 1 };

static inline bool td__dim_is_sym(int64_t a) { return a < TD_DIM_SYM_LIMIT; }

/* Out of line: symbols through the tracer's hook, and numbers that overflow. */
int64_t         td__dim_slow(td_dim_op op, int64_t a, int64_t b);
typedef int64_t td_dim_hook(void *env, td_dim_op op, int64_t a, int64_t b);
void td__dim_set_hook(td_dim_hook *hook, void *env); /* of the calling thread */
bool td__dim_tracing(
    void); /* has the thread a hook? Without one there are no symbols */
/* A negative number, as opposed to a symbol. */
static inline bool td__dim_is_negative(int64_t a) {
    return TD_UNLIKELY(a < 0) && !(td__dim_is_sym(a) && td__dim_tracing());
}

static inline int64_t td__dim_add(int64_t a, int64_t b) {
    int64_t r;
    if (TD_UNLIKELY(td__dim_is_sym(a) || td__dim_is_sym(b) ||
                    __builtin_add_overflow(a, b, &r) || r > TD_DIM_HUGE))
        return td__dim_slow(TD_DIM_ADD, a, b);
    return r;
}
static inline int64_t td__dim_sub(int64_t a, int64_t b) {
    int64_t r;
    if (TD_UNLIKELY(td__dim_is_sym(a) || td__dim_is_sym(b) ||
                    __builtin_sub_overflow(a, b, &r)))
        return td__dim_slow(TD_DIM_SUB, a, b);
    return r;
}
static inline int64_t td__dim_mul(int64_t a, int64_t b) {
    int64_t r;
    if (TD_UNLIKELY(td__dim_is_sym(a) || td__dim_is_sym(b) ||
                    __builtin_mul_overflow(a, b, &r) || r > TD_DIM_HUGE))
        return td__dim_slow(TD_DIM_MUL, a, b);
    return r;
}
/* Floor division and modulo; b is positive. */
static inline int64_t td__dim_div(int64_t a, int64_t b) {
    if (TD_UNLIKELY(td__dim_is_sym(a) || td__dim_is_sym(b)))
        return td__dim_slow(TD_DIM_DIV, a, b);
    return a / b - (a % b < 0);
}
static inline int64_t td__dim_mod(int64_t a, int64_t b) {
    if (TD_UNLIKELY(td__dim_is_sym(a) || td__dim_is_sym(b)))
        return td__dim_slow(TD_DIM_MOD, a, b);
    return a % b + (a % b < 0 ? b : 0);
}
static inline int64_t td__dim_min(int64_t a, int64_t b) {
    if (TD_UNLIKELY(td__dim_is_sym(a) || td__dim_is_sym(b)))
        return td__dim_slow(TD_DIM_MIN, a, b);
    return a < b ? a : b;
}
static inline int64_t td__dim_max(int64_t a, int64_t b) {
    if (TD_UNLIKELY(td__dim_is_sym(a) || td__dim_is_sym(b)))
        return td__dim_slow(TD_DIM_MAX, a, b);
    return a > b ? a : b;
}
/* Comparisons answer, and when symbolic record a guard. */
static inline bool td__dim_eq(int64_t a, int64_t b) {
    if (TD_UNLIKELY(td__dim_is_sym(a) || td__dim_is_sym(b)))
        return td__dim_slow(TD_DIM_EQ, a, b) != 0;
    return a == b;
}
static inline bool td__dim_lt(int64_t a, int64_t b) {
    if (TD_UNLIKELY(td__dim_is_sym(a) || td__dim_is_sym(b)))
        return td__dim_slow(TD_DIM_LT, a, b) != 0;
    return a < b;
}
static inline bool    td__dim_le(int64_t a, int64_t b) { return !td__dim_lt(b, a); }
/* A number where only a number will do (how many results): a symbol becomes the one
 * it has in this trace, under a guard. */
static inline int64_t td__dim_fixed(int64_t a) {
    if (TD_LIKELY(!td__dim_is_sym(a))) return a;
    return td__dim_slow((td_dim_op)TD_DIM_FIX, a, 0);
}

#endif
