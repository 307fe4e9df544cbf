/* backend/emit.h -- between the files that write a nest as C; private to them.
 *
 * emit_plan.c decides where each statement is computed, emit_value.c writes one
 * statement, emit_loop.c the loops of a row, emit_end.c COLUMNs, emit.c the frame. */
#ifndef TD_EMIT_H
#define TD_EMIT_H

#include "backend/nest.h"

enum {
    TD_EMIT_LOOPS = 32,    /* loops over a row's inside, one after the other */
    TD_EMIT_BLOCK = 1024,  /* elements between two folds where a row is not kept */
    TD_EMIT_KEEP = 16384,  /* bytes of a row's buffer at most */
    TD_EMIT_KEEPS = 65536, /* of all of them together */
    TD_EMIT_STACK =
        98304,        /* bytes of all buffers on the stack: threads may have 256 KB */
    TD_EMIT_CHEAP = 4 /* what costs no more is computed again */
};

/* Where a statement stands. Loops are numbered; row-level statements of stage s stand
 * before loop s, those that need no row at all before the rows. */
typedef struct td_emit_at {
    uint32_t vary;     /* dims it varies with, by bit */
    int8_t   depth;    /* inner loops around it; 0: row-level */
    bool     fixed;    /* row-level, and the same for all rows */
    bool     after;    /* reads a COLUMN, or is one */
    bool     main;     /* needed in KERNEL */
    bool     end;      /* needed in KERNEL_end */
    int8_t   loop;     /* earliest loop or stage; STORE, REDUCE, COLUMN: the one */
    uint32_t needed;   /* loops that read it; depth > 0 */
    uint32_t computed; /* loops that compute it */
    bool     kept;     /* the first of these keeps it in a buffer of the row */
    int32_t  store;    /* a STORE whose place later loops read again; -1: none */
    bool     want;     /* it is to be kept, if there is room */
    bool     folded;   /* a REDUCE has it in a buffer */
    int32_t  own;      /* cost of the statement alone */
    int32_t  cost;     /* of computing it from loads and what is kept */
    int16_t  acc;      /* COLUMN: number among the wide or the single ones */
    bool     wide;     /* COLUMN: an accumulator per inner element */
    bool     direct;   /* REDUCE of plain memory: no loop */
    int32_t buffer; /* REDUCE: the one whose s<i> it uses, in another loop or its own */
} td_emit_at;

typedef struct td_emit {
    const td_nest *n;
    td_nest_code  *code;
    td_buf        *b; /* = &code->text */
    td_emit_at    *at;
    int            outer;    /* dims that make rows; 0 where flat */
    int            inner;    /* the others */
    bool           flat;     /* one dim, whose elements are what threads share out */
    bool           has_rows; /* the inside has a constant size that buffers may have */
    int            n_loops;
    int64_t        kept;  /* bytes of buffers */
    int            block; /* elements between two folds, TD_EMIT_BLOCK or less */
    int            loop;  /* being written; -1: none */
    bool           in_end;
    bool           blocks; /* this loop goes by blocks */
    int            indent;
    TD_VEC(td_extent) named; /* sizes and strides that have a name */
} td_emit;

/* How a value of a dtype is held, and accumulated. */
td_dtype    td__emit_held(td_dtype dt);
td_dtype    td__emit_acc(const td_stmt *s);
const char *td__emit_c(td_dtype dt); /* C type of a held one */

/* emit_plan.c: false: no memory. */
bool td__emit_plan(td_emit *e);
/* Does REDUCE i fold the buffer t<a> that the row's values are kept in anyway? */
bool td__emit_folds_kept(const td_emit *e, int i);

/* emit_value.c */
void         td__emit_line(td_emit *e, const char *fmt, ...) TD_PRINTF(2, 3);
/* A size or stride as text, in a buffer of the caller. */
typedef char td_emit_num[40];
const char  *td__emit_extent(td_emit *e, td_extent x, td_emit_num out);
/* The place of an access: its index in elements. */
void         td__emit_index(td_emit *e, td_buf *b, const td_extent *stride);
/* The index within the inside, flattened. */
void         td__emit_flat(td_emit *e, td_buf *b);
bool         td__emit_truncates(const td_nest *n, int i); /* is `zero` needed for it? */
void         td__emit_value(td_emit *e, int i);           /* declares v<i> */
void         td__emit_store(td_emit *e, int i);
/* Of what is the same everywhere: by the call that has the first row, or, where there
 * are none, by any. */
void         td__emit_store_once(td_emit *e, int i);
/* Text s of held dtype `from` as held dtype of `to`, rounded as `to` is. */
void         td__emit_cast(td_buf *b, td_dtype from, td_dtype to, const char *s);

/* A DRAW whose elements lie side by side along the last dim: they are made in w<i>
 * before the loop that reads them. */
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
