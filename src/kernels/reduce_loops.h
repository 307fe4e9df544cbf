/* reduce_loops.h -- the vector loops under reductions, scans, softmax and norms.
 *
 * loops/reduce_loops.c is compiled once per CPU level and fills one table each;
 * td__reduce_loops gives the best one for this machine. Every loop works on one
 * of three types, the kinds of sum: f32 (also for halves), f64, i64 (also for
 * narrow integers and bool); `load` and `store` change from and to others.
 * Lane counts and the order of combination are fixed in the source, so a result
 * does not depend on the level chosen, up to the use of fused multiply-add. */
#ifndef TD_REDUCE_LOOPS_H
#define TD_REDUCE_LOOPS_H

#include "tandem/tensor.h"

#include <stdbool.h>

typedef enum td_acc { TD_ACC_F32, TD_ACC_F64, TD_ACC_I64, TD_ACCS } td_acc;
typedef enum td_red { TD_RED_SUM, TD_RED_PROD, TD_RED_MAX, TD_RED_MIN, TD_REDS } td_red;

/* What is done to each element before it is reduced, in place on a buffer. */
typedef enum td_red_map {
    TD_MAP_NONE,
    TD_MAP_ABS,
    TD_MAP_SQUARE,
    TD_MAP_NONZERO, /* 1 where not zero; NaN is not zero */
    TD_MAP_NAN0,    /* NaN becomes 0 */
    TD_MAP_POW,     /* |x| to a power; not for integers */
    TD_MAPS
} td_red_map;

/* Elements p[0], p[stride], ... as the accumulator's type. */
typedef void td_load_fn(const void *p, int64_t stride, int64_t n, void *out);
/* n accumulators to a dense run of some dtype. */
typedef void td_store_fn(const void *acc, int64_t n, void *out);
/* *acc becomes *acc combined with all of p[0..n). */
typedef void td_row_fn(const void *p, int64_t n, void *acc);
/* acc[j] becomes acc[j] combined with rows[i * ld + j] for all i < n_rows. */
typedef void td_col_fn(void *acc, const void *rows, int64_t ld, int64_t n_rows,
                       int64_t n_cols);
typedef void td_map_fn(void *buf, int64_t n, double p);

/* Loops for one of the floating accumulator types; T is float or double. */
typedef struct td_float_loops {
    /* b[i] becomes (b[i] - c[i * step])^2, step 0 or 1. */
    void (*square_dev)(void *b, const void *c, int64_t step, int64_t n);
    /* Sum of exp(x[i] - max) over a row; y, if given, takes the terms. */
    void (*exp_row)(const void *x, const void *max, int64_t n, void *y, void *sum);
    /* y[i] = exp(x[i] - max[i]), sum[i] += y[i]; y may be NULL. */
    void (*exp_cols)(const void *x, const void *max, int64_t n, void *y, void *sum);
    /* y[i] = x[i] * m[i * step] and y[i] = x[i] - s[i * step]. */
    void (*scale)(const void *x, const void *m, int64_t step, int64_t n, void *y);
    void (*shift)(const void *x, const void *s, int64_t step, int64_t n, void *y);
    /* y[i] = x[i] - max[i * step] - log[i * step]. */
    void (*log_softmax)(const void *x, const void *max, const void *log, int64_t step,
                        int64_t n, void *y);
    /* y[i] = x[i] / m[i * step]. */
    void (*divide)(const void *x, const void *m, int64_t step, int64_t n, void *y);
    /* Sum of a[i] * b[i]; acc[i] += a[i] * b[i]. */
    void (*dot_row)(const void *a, const void *b, int64_t n, void *sum);
    void (*dot_cols)(const void *a, const void *b, int64_t n, void *acc);
    /* y[i] = out[i] * (g[i] - s[i * step]): softmax's derivative. */
    void (*softmax_grad)(const void *g, const void *out, const void *s, int64_t step,
                         int64_t n, void *y);
    /* y[i] = g[i] - exp(out[i]) * s[i * step]: log_softmax's. */
    void (*log_softmax_grad)(const void *g, const void *out, const void *s,
                             int64_t step, int64_t n, void *y);
    /* Mean and sum of squared deviations of a row: stat[0], stat[1]. */
    void (*moments)(const void *x, int64_t n, void *stat);
    /* y[i] = (x[i] - k[0]) * k[1] * w[i] + b[i]; w and b may be NULL. */
    void (*affine_row)(const void *x, const void *k, const void *w, const void *b,
                       int64_t n, void *y);
    /* y[i] = (x[i] - k[0]) * k[1] + k[2]. */
    void (*affine_plane)(const void *x, const void *k, int64_t n, void *y);
    /* y[i] = (x[i] - m[i]) * a[i] + b[i], with mab = {m, a, b}. */
    void (*affine_cols)(const void *x, const void *const *mab, int64_t n, void *y);
    /* stat[0] = sum g*w, stat[1] = sum g*w*(x-k[0])*k[1]; w may be NULL. */
    void (*norm_grad_stats)(const void *g, const void *x, const void *k, const void *w,
                            int64_t n, void *stat);
    /* y[i] = k[1] * (g[i]*w[i]) + k[2] * (x[i] - k[0]) + k[3]; w may be NULL. */
    void (*norm_grad_row)(const void *g, const void *x, const void *k, const void *w,
                          int64_t n, void *y);
    /* y[i] = a[i] * g[i] + b[i] * (x[i] - m[i]) + c[i], with mabc = {m, a, b, c}. */
    void (*norm_grad_cols)(const void *g, const void *x, const void *const *mabc,
                           int64_t n, void *y);
    /* dw[i] += g[i] * (x[i]-k[0])*k[1], db[i] += g[i]. */
    void (*norm_grad_weight)(const void *g, const void *x, const void *k, int64_t n,
                             void *dw, void *db);
    /* Attention; a block x has a row per key, dense, and a column per query, at most
     * TD_ATTEND_COLS. to[i] += x[i]; x[i] = -inf. */
    void (*attend_add)(const void *x, int64_t n, void *to);
    void (*attend_hide)(int64_t n, void *x);
    /* stat = {max, total, factor} of each column over the blocks so far: x becomes
     * exp(x - max), total the sum of those, factor what stood before is to be scaled
     * by. False: all factors are 1. */
    bool (*attend)(void *x, int64_t rows, int64_t n, void *const *stat);
    /* After the last block: lse = max + log(total); where all was -inf, 0 and a total
     * of 1. */
    void (*attend_end)(int64_t n, void *const *stat, void *lse);
    /* stat = {lse, delta}: p becomes exp(p - lse), d becomes p * (d - delta). */
    void (*attend_grad)(void *p, void *d, int64_t rows, int64_t n,
                        const void *const *stat);
} td_float_loops;

enum { TD_ATTEND_COLS = 64 };

typedef struct td_reduce_loops {
    td_load_fn    *load[TD_ACCS][TD_DTYPE_COUNT];
    td_store_fn   *store[TD_ACCS][TD_DTYPE_COUNT];
    td_row_fn     *row[TD_ACCS][TD_REDS];
    td_col_fn     *col[TD_ACCS][TD_REDS];
    td_map_fn     *map[TD_ACCS][TD_MAPS]; /* NULL: not for this type */
    td_float_loops f[2];                  /* by TD_ACC_F32, TD_ACC_F64 */
} td_reduce_loops;

/* The loops for this machine. */
const td_reduce_loops *td__reduce_loops(void);

#endif
