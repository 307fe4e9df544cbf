/* backend/nest.h -- a nest of loops as data: what fusion makes of a part of a graph,
 * and what emit.c writes as C. Nothing here knows of graphs but for comments.
 *
 * A nest walks a space of n_dims dims, outermost first. Statements are computed at
 * every point of it, or less often where they do not depend on all of it. The first
 * n_outer dims make rows, which threads share out; the rest are a row's inside. What a
 * statement depends on follows from what it reads:
 *
 *   inside   varies with an inner dim: computed in loops over the inside
 *   row      varies with outer dims only: once a row, before or between those loops
 *   fixed    varies with nothing: once
 *   after    reads a COLUMN: when all rows are done, in loops over the inside alone,
 *            or once
 *
 * A REDUCE ends a loop over the inside, and whoever reads it comes in a later one.
 * What was computed in an earlier loop is computed again or kept in a buffer of the
 * row; that is emit.c's to decide. Statements are in an order where each reads earlier
 * ones only, and loads of a pointer never follow a store to another place that it may
 * share. */
#ifndef TD_NEST_H
#define TD_NEST_H

#include "build/kernel.h"
#include "graph/graph.h"
#include "kernels/loops/loops.h"

enum { TD_NEST_DIMS = 12 };

/* A size or stride: c, or c times a number the nest gets when it runs. */
typedef struct td_extent {
    int64_t c;
    int32_t p; /* index into the run's sizes; -1: just c */
} td_extent;

typedef enum td_stmt_kind {
    TD_S_LOAD,   /* an element of pointer `ptr`; strides in elements */
    TD_S_NUM,    /* num, a constant */
    TD_S_GIVEN,  /* number `ptr` of the run, in the value's C type at its address */
    TD_S_PLACE,  /* i64: the sum of stride * index over all dims, plus num.i */
    TD_S_EXPR,   /* .expr of row `op`, on a[] and p */
    TD_S_CAST,   /* a[0], of another dtype, as this one: what eager's casts do */
    TD_S_REDUCE, /* of a[0] over all inner dims */
    TD_S_COLUMN, /* of a[0] over all outer dims; once only if that is a row's or a
                  * REDUCE, unless `wide` */
    TD_S_DRAW,   /* random: block and word by a[0], the element's i64 place */
    TD_S_STORE   /* a[0] to pointer `ptr`, whose dtype is that of a[0] */
} td_stmt_kind;

typedef enum td_fold { TD_FOLD_SUM, TD_FOLD_PROD, TD_FOLD_MAX, TD_FOLD_MIN } td_fold;

/* What a block of Philox becomes (ops/draw.h). Numbers ptr and ptr + 1 of the run are
 * the seed and the offset of the draw, 64 bits each. */
typedef enum td_draw_kind {
    TD_DRAW_UNIFORM, /* [0, 1) on the grid of the dtype */
    TD_DRAW_NORMAL,
    TD_DRAW_COIN /* bool: true with probability num.f */
} td_draw_kind;

/* A value of dtype t is held in C as t computes: double, float (also halves, rounded to
 * a half), int64_t, int32_t (also narrower integers, wrapped, and bool, 0 or 1). The
 * operands of an EXPR have the dtype it computes in, or its narrow kin. */
typedef struct td_stmt {
    uint8_t           kind;    /* td_stmt_kind */
    uint8_t           dtype;   /* of the value */
    uint8_t           compute; /* EXPR: td_compute of its text */
    uint8_t           how;     /* td_fold; td_draw_kind */
    uint8_t           n;       /* arguments */
    uint8_t           masks;   /* EXPR: bit k: a[k] is a bool, read as %name */
    bool              wide;    /* COLUMN: one for each inner element in any case */
    int16_t           ptr;
    td_op             op;
    int32_t           a[TD_LOOP_INPUTS]; /* statements by number */
    const td_extent  *stride;            /* [n_dims]: LOAD, STORE, PLACE */
    const td_scalars *p;                 /* EXPR: its numbers; NULL: none */
    union {
        double  f;
        int64_t i;
    } num;
    const td_gnode *from; /* for comments; NULL: none in particular */
} td_stmt;

typedef struct td_pointer {
    uint8_t dtype;
    bool    written;
} td_pointer;

typedef struct td_nest {
    int       n_dims, n_outer;
    td_extent size[TD_NEST_DIMS]; /* each at least 0 */
    td_extent rows, inside;       /* products of outer and of inner sizes */
    TD_VEC(td_pointer) ptr;       /* two may be one address, at equal strides */
    TD_VEC(td_stmt) stmt;
    int n_sizes, n_given; /* of the run */
} td_nest;

/* ---- emitted code ------------------------------------------------------- */

/* The text of a nest: the same text does the same. The function is called KERNEL, and
 * KERNEL_end where has_end. */
typedef struct td_nest_code {
    td_buf text;
    td_buf helpers; /* names of ops/math.h and draw.h functions, one per line */
    bool   has_end;
    int    n_wide, n_single; /* accumulators of 8 bytes: a part has n_wide of `inside`
                              * elements each and n_single of one */
} td_nest_code;

/* False: no memory. `code` is zero before, and freed by the caller either way. */
bool td__nest_emit(const td_nest *n, td_nest_code *code);
void td__nest_code_free(td_nest_code *code);
#endif
