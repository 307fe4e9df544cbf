/* backend/emit.h -- private to the files that write a nest as C.
 *
 * emit_plan.c decides in which loop each statement is computed, emit_value.c writes
 * one statement, emit_loop.c the loops of a row, emit_end.c COLUMNs, emit.c the
 * functions. */
#ifndef TD_EMIT_H
#define TD_EMIT_H

#include "backend/nest.h"

enum {
    TD_EMIT_LOOPS = 32,        /* most loops over a row's inside, one after the other */
    TD_EMIT_BLOCK = 1024,      /* elements per fold where no buffer has a whole row */
    TD_EMIT_ROW_BYTES = 16384, /* most bytes of one row buffer */
    TD_EMIT_ALL_BYTES = 65536, /* most bytes of all row buffers */
    TD_EMIT_STACK =
        98304, /* most bytes of all buffers: threads may have 256 KiB of stack */
    TD_EMIT_CHEAP = 4, /* a value that costs no more is recomputed, not buffered */
    TD_EMIT_FAR = 8    /* the cost of a load on a device */
};

/* Where a statement is computed. Loops over the inside are numbered. A row-level
 * statement of stage s is before loop s; a fixed statement is before the loop over
 * rows. */
typedef struct td_emit_at {
    uint32_t vary;     /* set of dims that the value depends on */
    int8_t   depth;    /* number of inner loops around it; 0: row-level */
    bool     fixed;    /* row-level, and equal for all rows */
    bool     after;    /* is a COLUMN, or depends on one */
    bool     main;     /* needed in KERNEL */
    bool     end;      /* needed in KERNEL_end */
    int8_t   loop;     /* earliest loop or stage; of STORE, REDUCE, COLUMN: the one */
    uint32_t needed;   /* set of loops that read it, if depth > 0 */
    uint32_t computed; /* set of loops that compute it */
    bool     buffered; /* the first of these stores it in a row buffer */
    int32_t  store;    /* a STORE of it that later loops can load from; -1: none */
    bool     want;     /* worth a row buffer */
    bool     folded;   /* the operand of a REDUCE, which buffers it anyway */
    int32_t  own;      /* cost of the statement alone */
    int32_t  cost;     /* of computing it from loads and buffers */
    int16_t  acc;      /* COLUMN: its number among the wide or single ones */
    bool     wide;     /* COLUMN: an accumulator per inner element */
    bool     direct;   /* REDUCE of contiguous memory: folded without a loop */
    bool     one;    /* REDUCE of zeros but for one element: computed from that, before
                        * loop `loop` */
    int8_t   late;   /* LOAD: the last loop before which such a REDUCE reads it; 0 */
    int32_t  kept;   /* LOAD whose row is kept in shared memory: where; -1: nowhere */
    int32_t  buffer; /* REDUCE: the statement whose buffer s<i> it uses */
} td_emit_at;

/* The state of writing one nest. */
typedef struct td_emit {
    const td_nest *n;
    td_nest_code  *code;
    td_buf        *b; /* where lines go: &code->text, or a function body */
    td_emit_at    *at;
    int            outer;    /* outer dims, which make rows; 0 if flat */
    int            inner;    /* inner dims */
    bool           flat;     /* one dim; threads divide its elements among them */
    bool           has_rows; /* the inside is constant and small: buffers hold rows */
    int            n_loops;
    int64_t        buffered; /* bytes of row buffers */
    int            block;    /* elements per fold, at most TD_EMIT_BLOCK */
    int            loop;     /* the loop being written; -1: none */
    bool           in_end;
    bool           blocks; /* this loop runs block by block */
    bool           device; /* for a device: one thread per element, no buffers */
    int            vector; /* elements that a thread takes at once; 0: one by one */
    int            each;   /* on a device: a block keeps its row in registers, this many
                            * vectors or elements a thread; 0: it walks memory */
    int            threads; /* of that block */
    bool           ahead;   /* vectors of a row are read while the one before is
                             * computed */
    bool           all;     /* every value is computed where it is needed first */
    bool           alone;   /* one element is being computed, outside of loops */
    int            indent;
    TD_VEC(td_extent) named; /* symbolic sizes and strides, by name n<k> */
} td_emit;

/* The dtype of the C variable for a value of dtype dt (halves are floats, small
 * integers int32_t), the dtype a fold accumulates in, and the C type of the variable.
 */
td_dtype    td__emit_var_dtype(td_dtype dt);
td_dtype    td__emit_acc(const td_stmt *s);
/* The neutral element of a fold, and the fold of a and b, as texts of a device; a NaN
 * stays. */
const char *td__device_unit(const td_stmt *s, td_dtype acc);
const char *td__device_folded(const td_stmt *s);
const char *td__emit_c(td_dtype dt); /* C type of the variable */

/* emit.c: declares the sizes and pointers that the body mentions; lists the functions
 * that code->text uses. */
void td__emit_locals(td_emit *e);
void td__emit_helpers(td_nest_code *code);

/* emit_plan.c: fills e->at; false: out of memory. */
bool td__emit_plan(td_emit *e);
/* Does REDUCE i fold t<a>, the row buffer of its operand, instead of a buffer of its
 * own? */
bool td__emit_folds_buffered(const td_emit *e, int i);

/* emit_value.c */
void         td__emit_line(td_emit *e, const char *fmt, ...) TD_PRINTF(2, 3);
/* A size or stride as C text in `out`, which is returned; names it if it is symbolic.
 */
typedef char td_emit_num[40];
/* The neutral element of a fold with accumulators of type acc, as text. */
const char  *td__emit_unit(const td_stmt *s, td_dtype acc, td_emit_num out);
const char  *td__emit_extent(td_emit *e, td_extent x, td_emit_num out);
/* Appends the index of an access, in elements. */
void         td__emit_index(td_emit *e, td_buf *b, const td_extent *stride);
/* Appends the flattened index within the inside. */
void         td__emit_flat(td_emit *e, td_buf *b);
/* Is the access part of a vector, whose elements are q<i>.v[u]? (emit_device.c) */
bool         td__emit_is_vector(const td_emit *e, const td_stmt *access);
/* The statements that are a sum of zeros but for one element: that of index a[0] - p of
 * the inner dim, and its value. False: REDUCE i is no such sum. (emit_device_row.c) */
typedef struct td_emit_one {
    int     at, value; /* statements */
    int64_t base;      /* the index is that of `at` less this */
} td_emit_one;
bool td__emit_sums_one(const td_emit *e, int i, td_emit_one *to);
bool td__emit_truncates(const td_nest *n, int i); /* is `zero` needed for it? */
void td__emit_value(td_emit *e, int i);           /* declares v<i> */
void td__emit_store(td_emit *e, int i);
/* A STORE of a value that is equal everywhere: only the call that has the first row
 * does it. Without rows, any call does. */
void td__emit_store_once(td_emit *e, int i);
/* Appends text s of variable dtype `from`, converted and rounded to dtype `to`. */
void td__emit_cast(td_buf *b, td_dtype from, td_dtype to, const char *s);

/* Are the DRAW's elements consecutive along the last dim? Then a block of them is
 * drawn into w<i> before the loop that reads them. */
bool td__emit_draws_runs(const td_emit *e, int i);
void td__emit_draws(td_emit *e, int i, const char *place, const char *count,
                    const char *out);

/* emit_loop.c */
void td__emit_buffers(td_emit *e);          /* declares all of them */
void td__emit_stage(td_emit *e, int stage); /* row-level statements; -1: fixed ones */
void td__emit_loop(td_emit *e, int k);

/* emit_end.c */
void td__emit_columns_begin(td_emit *e);     /* accumulators of this part */
void td__emit_column_add(td_emit *e, int i); /* a wide one: one element */
void td__emit_column_row(td_emit *e, int i, const char *x); /* a single one: x */
void td__emit_columns_row_end(td_emit *e);                  /* after a row */
void td__emit_columns_finish(td_emit *e);                   /* after the last row */
void td__emit_end(td_emit *e);                              /* KERNEL_end */

const char *td__emit_last(td_emit *e, td_emit_num out); /* size of the last inner dim */

#endif
