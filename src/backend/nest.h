/* backend/nest.h -- a loop nest as data: what fusion makes of a part of a graph, and
 * what emit.c writes as C. Independent of graphs, except for comments.
 *
 * A nest runs over a space of n_dims dims, outermost first. The first n_outer dims
 * make rows, which threads divide among them; the others are a row's inside.
 * Statements are computed at every point, or less often if they do not depend on all
 * dims. The level of a statement follows from its operands:
 *
 *   inside   depends on an inner dim: computed in loops over the inside
 *   row      depends on outer dims only: once per row, before or between those loops
 *   fixed    depends on no dim: once
 *   after    depends on a COLUMN: after all rows, in loops over the inside, or once
 *
 * A REDUCE ends a loop over the inside; its readers are in a later loop. emit_plan.c
 * decides whether a value of an earlier loop is recomputed or buffered. Statements
 * are ordered such that operands come first, and no load follows a store to a
 * different element of memory that it may share. */
#ifndef TD_NEST_H
#define TD_NEST_H

#include "build/kernel.h"
#include "graph/graph.h"
#include "kernels/loops/loops.h"

enum { TD_NEST_DIMS = 12 };

/* A size or stride: c, or c times a size of the run. */
typedef struct td_extent {
    int64_t c;
    int32_t p; /* index of a size of the run; -1: c alone */
} td_extent;

typedef enum td_stmt_kind {
    TD_S_LOAD,   /* an element of pointer `ptr`; strides in elements */
    TD_S_NUM,    /* num, a constant */
    TD_S_GIVEN,  /* number `ptr` of the run, stored in the value's C type */
    TD_S_PLACE,  /* i64: the sum of stride * index over all dims, plus num.i */
    TD_S_EXPR,   /* .expr of row `op`, on a[] and p */
    TD_S_CAST,   /* a[0] converted to this dtype as in eager */
    TD_S_REDUCE, /* of a[0] over all inner dims */
    TD_S_COLUMN, /* of a[0] over all outer dims; one value if a[0] is at row level,
                  * unless `wide` */
    TD_S_DRAW,   /* random: block and word by a[0], the element's i64 index */
    TD_S_STORE   /* a[0] to pointer `ptr`, whose dtype is that of a[0]. With a[1], the
                  * index along a dim: where it is p->i[0], the last one, p->i[1] zeros
                  * follow, p->i[2] elements apart. On devices only */
} td_stmt_kind;

typedef enum td_fold { TD_FOLD_SUM, TD_FOLD_PROD, TD_FOLD_MAX, TD_FOLD_MIN } td_fold;

/* What a block of Philox words becomes (kernels/draw.h). Numbers ptr and ptr + 1 of the
 * run are the 64-bit seed and offset of the draw. */
typedef enum td_draw_kind {
    TD_DRAW_UNIFORM, /* [0, 1) on the grid of the dtype */
    TD_DRAW_NORMAL,
    TD_DRAW_COIN /* bool: true with probability num.f */
} td_draw_kind;

/* A statement. A value is in a C variable of its compute type: double, float (also
 * for halves, rounded to a half), int64_t, int32_t (also for narrower integers,
 * wrapped, and for bool, 0 or 1). The operands of an EXPR have its compute type. */
typedef struct td_stmt {
    uint8_t           kind;    /* td_stmt_kind */
    uint8_t           dtype;   /* of the value */
    uint8_t           compute; /* EXPR: td_compute of its text */
    uint8_t           how;     /* td_fold; td_draw_kind */
    uint8_t           n;       /* arguments */
    uint8_t           masks;   /* EXPR: bit k: a[k] is a bool, read as %name */
    bool              wide;    /* COLUMN: one value per inner element in any case */
    int16_t           ptr;
    td_op             op;
    int32_t           a[TD_LOOP_INPUTS]; /* statements by number */
    const td_extent  *stride;            /* [n_dims]: LOAD, STORE, PLACE */
    const td_scalars *p;                 /* EXPR: its numbers; STORE; NULL: none */
    union {
        double  f;
        int64_t i;
    } num;
    const td_gnode *from; /* for comments; may be NULL */
} td_stmt;

typedef struct td_pointer {
    uint8_t dtype;
    bool    written;
    bool    shared; /* another pointer may be equal; then all accesses of both have the
                     * same strides */
} td_pointer;

/* A nest; see the top of this file. */
typedef struct td_nest {
    int       n_dims, n_outer;
    td_extent size[TD_NEST_DIMS]; /* each at least 0 */
    td_extent rows, inside;       /* products of outer and of inner sizes */
    TD_VEC(td_pointer) ptr;       /* two may be equal, if their strides are */
    TD_VEC(td_stmt) stmt;
    int n_sizes, n_given; /* counts of td_nest_run.size and .given */
} td_nest;

/* ---- emitted code ------------------------------------------------------- */

/* The C text of a nest; equal texts compute the same. The function is named KERNEL,
 * and KERNEL_end if has_end. */
typedef struct td_nest_code {
    td_buf text;
    td_buf helpers; /* names of functions in kernels/math.h and draw.h, one per line */
    bool   has_end;
    int    n_wide, n_single; /* 8-byte accumulators of a part: n_wide arrays of `inside`
                              * elements, and n_single single ones */
} td_nest_code;

/* *code is zero before the call and freed by the caller in any case. False: out of
 * memory. */
bool td__nest_emit(const td_nest *n, td_nest_code *code);
void td__nest_code_free(td_nest_code *code);

/* How the threads of a device divide a nest (emit_device.c). */
typedef enum td_device_shape {
    TD_DEVICE_ELEMENTS,
    TD_DEVICE_ROWS,
    TD_DEVICE_COLUMNS
} td_device_shape;

/* The texts of a nest for devices, each with a kernel KERNEL. Its argument is a struct
 * of 8-byte words: one pointer more than the nest has, the accumulators of COLUMNs; its
 * sizes and the number of parts; its given numbers and one more; zero. */
typedef struct td_device_code {
    td_buf          text, end; /* end: after the parts, if has_end */
    int             vector;    /* elements that a thread takes at once; 0: one by one */
    int             threads;   /* of a block, which has a row in registers; 0: any */
    bool            has_end;
    td_device_shape shape;
    int             shared; /* bytes of shared memory that a block keeps rows in */
    int             tile;   /* inner elements that a block of `end` has */
    int n_wide, n_single;   /* accumulators: 8 * inside bytes, and 8 bytes, per part */
} td_device_code;

/* `vectors`: with vectors, if the nest allows them; its pointers must be aligned then.
 * shared: bytes of shared memory that a block may keep rows in.
 * *to is zero before the call, but for what its texts begin with; freed by the caller
 * in any case. False: out of memory, or a function it uses has no text. */
bool td__device_emit(const td_nest *n, bool vectors, int64_t shared,
                     td_device_code *to);
/* The alignment in bytes of pointer k in a text with vectors of that many elements. */
int  td__device_alignment(const td_nest *n, int vector, int k);
void td__device_code_free(td_device_code *c);
#endif
