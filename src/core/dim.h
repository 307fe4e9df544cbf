/* core/dim.h -- arithmetic on sizes and strides ("dims"). A dim is an int64_t.
 * In a trace it may be symbolic: values below TD_DIM_SYM_LIMIT are tags of
 * expressions that the trace keeps. Shape rules use these functions instead of
 * + * ==, so one rule serves numbers and symbols; for numbers they cost one
 * predictable branch. Sums and products saturate at TD_DIM_HUGE, which no
 * tensor may reach. */
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

/* Further operations of the trace's hook. */
enum {
    TD_DIM_FIX = TD_DIM_LT + 1, /* a as a number: its value in this trace, guarded */
    TD_DIM_NOW,                 /* a with known values substituted */
    TD_DIM_SAME,                /* is a == b proved? Records no guard */
    TD_DIM_SEEMS_EQ,            /* EQ and LT without run-time asserts */
    TD_DIM_SEEMS_LT,
    TD_DIM_FRESH,  /* a new data-dependent size in [a, b] */
    TD_DIM_TRACES, /* does this trace have symbols? */
    TD_DIM_EXPECT  /* + td_dim_rel: states that a rel b holds at every run */
};
typedef enum td_dim_rel {
    TD_DIM_IS_EQ,
    TD_DIM_IS_NE,
    TD_DIM_IS_LT,
    TD_DIM_IS_GE,
    TD_DIM_RELS
} td_dim_rel;

/* Does a rel b hold, both numbers? */
static inline bool td__dim_rel_holds(td_dim_rel rel, int64_t a, int64_t b) {
    switch (rel) {
    case TD_DIM_IS_EQ: return a == b;
    case TD_DIM_IS_NE: return a != b;
    case TD_DIM_IS_LT: return a < b;
    case TD_DIM_IS_GE: return a >= b;
    case TD_DIM_RELS: break;
    }
    return false;
}

static inline bool td__dim_is_sym(int64_t a) { return a < TD_DIM_SYM_LIMIT; }
/* Does this thread run a trace that has symbols? */
bool               td__dim_tracing(void);
/* Does it run a trace that may create symbols? */
bool               td__dim_served(void);
/* Is it a symbolic dim, and not just a very negative number? */
static inline bool td__dim_is_symbolic(int64_t a) {
    return TD_UNLIKELY(td__dim_is_sym(a)) && td__dim_tracing();
}

/* The tag of entry i in a table of expressions. Tags are far apart and away from powers
 * of two, so that plain arithmetic on a tag does not give another valid tag. */
#define TD_DIM_FIRST_TAG (TD_DIM_SYM_LIMIT - 0x6b43a5)
static inline int64_t td__dim_tag(int i) {
    return TD_DIM_FIRST_TAG - (int64_t)i * ((int64_t)1 << 24);
}
/* The table index of a tag; -1: dim is no tag of a table with n entries. */
static inline int td__dim_entry(int64_t dim, int n) {
    if (dim > TD_DIM_FIRST_TAG) return -1;
    int64_t far = TD_DIM_FIRST_TAG - dim, step = (int64_t)1 << 24;
    return far % step || far / step >= n ? -1 : (int)(far / step);
}

/* The out-of-line part: symbolic dims through the trace's hook, and overflow. */
int64_t td__dim_slow(int op, int64_t a, int64_t b);
/* The functions of a trace that compute with its symbols; fn NULL: no trace. */
typedef struct td_dim_hook {
    int64_t (*fn)(void *env, int op, int64_t a, int64_t b); /* td_dim_op or above */
    void (*text)(void *env, int64_t dim, td_buf *out);
    void *env;
} td_dim_hook;
td_dim_hook        td__dim_set_hook(td_dim_hook hook); /* returns the previous one */
void              *td__dim_hook_env(void);             /* NULL: no trace serves */
void               td__dim_text(int64_t dim, td_buf *out); /* "s0*2 + 1", or digits */
/* A negative number, not a symbol. */
static inline bool td__dim_is_negative(int64_t a) {
    return TD_UNLIKELY(a < 0) && !td__dim_is_symbolic(a);
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
/* Comparisons. If the answer depends on symbols, it is recorded as a guard. */
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
static inline bool td__dim_le(int64_t a, int64_t b) { return !td__dim_lt(b, a); }
/* Comparisons that affect only layout: for data-dependent sizes they give the answer
 * for sizes above 1 and assert nothing. */
static inline bool td__dim_seems_eq(int64_t a, int64_t b) {
    if (TD_UNLIKELY(td__dim_is_sym(a) || td__dim_is_sym(b)))
        return td__dim_slow(TD_DIM_SEEMS_EQ, a, b) != 0;
    return a == b;
}
static inline bool td__dim_seems_lt(int64_t a, int64_t b) {
    if (TD_UNLIKELY(td__dim_is_sym(a) || td__dim_is_sym(b)))
        return td__dim_slow(TD_DIM_SEEMS_LT, a, b) != 0;
    return a < b;
}
/* Whole lists of them, dim by dim. */
static inline bool td__dims_eq(const int64_t *a, const int64_t *b, int n) {
    for (int i = 0; i < n; i++)
        if (!td__dim_eq(a[i], b[i])) return false;
    return true;
}
static inline bool td__dims_seem_eq(const int64_t *a, const int64_t *b, int n) {
    for (int i = 0; i < n; i++)
        if (!td__dim_seems_eq(a[i], b[i])) return false;
    return true;
}
static inline bool td__dims_identical(const int64_t *a, const int64_t *b, int n) {
    for (int i = 0; i < n; i++)
        if (a[i] != b[i]) return false;
    return true;
}
static inline bool td__dims_any_sym(const int64_t *a, int n) {
    for (int i = 0; i < n; i++)
        if (td__dim_is_sym(a[i])) return true;
    return false;
}
/* A dim as a number, where only a number works (a number of results): a symbol becomes
 * its value in this trace, guarded. */
static inline int64_t td__dim_fixed(int64_t a) {
    if (TD_LIKELY(!td__dim_is_sym(a))) return a;
    return td__dim_slow(TD_DIM_FIX, a, 0);
}
static inline int64_t td__dim_now(int64_t a) {
    return TD_LIKELY(!td__dim_is_sym(a)) ? a : td__dim_slow(TD_DIM_NOW, a, 0);
}
/* Are they proved equal? Symbols with equal values in this trace are not. */
static inline bool td__dim_same(int64_t a, int64_t b) {
    if (TD_LIKELY(a == b)) return true;
    if (!td__dim_is_sym(a) && !td__dim_is_sym(b)) return false;
    return td__dim_slow(TD_DIM_SAME, a, b) != 0;
}
static inline bool td__dims_same(const int64_t *a, const int64_t *b, int n) {
    for (int i = 0; i < n; i++)
        if (!td__dim_same(a[i], b[i])) return false;
    return true;
}
/* Does a rel b hold? For data-dependent sizes: it is assumed from now on and
 * asserted at run time. */
bool    td__dim_expect(int64_t a, td_dim_rel rel, int64_t b);
/* The size, within [lo, hi], of a result that depends on data: the next one given, or a
 * symbol of the trace. TD_DIM_HUGE: no trace is running, or td__fail. */
int64_t td__dim_fresh(int64_t lo, int64_t hi);
/* The sizes of a trace that is made for these alone: results whose sizes depend on
 * values take them in the order in which the program makes them. */
typedef struct td_dim_given {
    const int64_t *v;
    int            n, at; /* at: number of those taken already */
} td_dim_given;
typedef TD_VEC(int64_t) td_dim_list;
/* Gives the sizes of the results that follow. Returns the previous ones, for the caller
 * to restore. */
td_dim_given td__dim_give(td_dim_given sizes);
bool         td__dim_is_given(void); /* Are sizes given now? */

#endif
