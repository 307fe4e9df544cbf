/* reduce.h -- the reduction engine, shared by the reduction, norm and sort
 * kernels. A plan walks the kept dims in the order of their strides and cuts the
 * work into strips (a run of outputs along the innermost kept dim) and blocks (a
 * run of the reduced elements). Both depend on sizes and strides only, and blocks
 * combine in a fixed order: the pool's size never changes a result. */
#ifndef TD_REDUCE_H
#define TD_REDUCE_H

#include "kernels/reduce_loops.h"
#include "ops/ops.h"
#include "rules/reduce_dims.h"

/* One dim of a walk. Strides are in elements. */
typedef struct td_walk_dim {
    int64_t size, in, out;
} td_walk_dim;

/* Kept and reduced dims of a tensor, outermost first. A "place" is an index over
 * the kept dims in this order; the innermost one is a strip's direction. */
typedef struct td_walk {
    int         nk, nr;
    td_walk_dim kept[TD_MAX_RANK + 1], red[TD_MAX_RANK + 1]; /* at least one each */
    int64_t     outs, reds;                                  /* products of the sizes */
    bool        by_column; /* the kept dim has the smaller stride */
} td_walk;

/* `in_order` keeps the reduced dims in row-major order, for indices. */
void td__walk_make(td_walk *w, const td_tensor *t, const bool *reduced, bool in_order);
/* Element offsets in the input and (dense) output of a place, and of the i-th
 * reduced element. */
int64_t td__walk_in(const td_walk *w, int64_t place);
int64_t td__walk_out(const td_walk *w, int64_t place);
int64_t td__walk_red(const td_walk *w, int64_t i);

typedef struct td_reduction td_reduction;
struct td_reduction {
    td_acc      acc;
    td_red      op;
    td_red_map  map;
    double      power;    /* of TD_MAP_POW */
    td_dtype    in;       /* of the elements */
    td_dtype    round;    /* elements pass through this dtype; or DTYPE_NONE */
    bool        skip_nan; /* NaN is 0 before it passes through `round` */
    const char *src;      /* first element */
    td_walk     w;
    const void *center; /* by place, in acc's type: squared distances are summed */
    /* Turns n accumulators from place on into results; NULL: they are. */
    void (*finish)(const td_reduction *r, void *acc, int64_t place, int64_t n);
    double   k;   /* for finish */
    void    *raw; /* results by place in acc's type, or */
    td_dtype out; /* results of this dtype, at dst by output offset */
    char    *dst;
};

/* Reads the elements of t in the type that sums into `out` use. */
void td__reduce_init(td_reduction *r, const td_tensor *t, td_dtype as);
bool td__reduce_run(td_ctx *cx, td_reduction *r); /* false after td__fail_memory */

/* The accumulator for sums of this dtype. */
td_acc td__acc_of(td_dtype dt);
size_t td__acc_size(td_acc a);

/* Mean and sum of squared deviations of t over the masked dims, in double and by
 * place of *w, which is filled too. */
bool td__moments(td_ctx *cx, const td_tensor *t, const bool *mask, td_walk *w,
                 double *mean, double *m2);

/* ---- plain references (naive_reduce.c), for tests ---------------------- */

void td__naive_reduce(const td_reduction *r, double *by_place);
/* A row of n elements, `step` apart in x and y. */
void td__naive_softmax(const double *x, int64_t n, int64_t step, bool log_of,
                       double *y);
void td__naive_layer_norm(const double *x, int64_t n, double eps, double *y);

#endif
