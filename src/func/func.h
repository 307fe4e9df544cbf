/* func/func.h -- programs without writes. A mode makes every write disappear: what
 * the body sees are outer tensors, which look and alias as eager ones do but have no
 * bytes; behind each stands an inner value, computed below the mode by pure ops only.
 * With a recorder below, what is recorded is the functional graph; with the tape
 * above, flags and histories are those of eager. */
#ifndef TD_FUNC_H
#define TD_FUNC_H

#include "trace/trace.h"

typedef struct td_func  td_func;
typedef struct td_fval  td_fval;  /* what the mode knows of an outer tensor */
typedef struct td_group td_group; /* outer tensors that may share elements */

/* An argument as it came, for the question what became of it. */
typedef struct td_func_in {
    td_tensor  *t;     /* outer, held */
    td_fval    *given; /* its first record */
    td_tensor  *inner; /* held: its value as it came */
    td_storage *st;    /* held: where it lay */
    int         n_set; /* calls of set_ on it */
    bool        strayed; /* it was written while set_ had it elsewhere */
} td_func_in;

struct td_func {
    td_mode  mode; /* first: the mode is this */
    td_ctx  *cx;
    td_arena arena;
    td_ptrmap groups; /* by outer storage: the first group of it */
    td_fval  *all;    /* every record; they hold inner values */
    TD_VEC(td_storage *) storages; /* held, so that their addresses stay theirs */
    TD_VEC(td_func_in) in;
    bool any_set; /* some argument's storage was exchanged */
    bool draws;   /* a random op was called */
};

/* Begins without touching the mode stack; `below` hears what the mode computes. */
void td__func_begin(td_func *f, td_ctx *cx, td_mode *below);
/* Lets go of everything; outer tensors that live on are ordinary fake ones. */
void td__func_end(td_func *f);
/* `outer`, a tensor without bytes, becomes an argument with this value. All arguments
 * come before the first op; those that overlap are one group. */
bool td__func_give(td_func *f, td_tensor *outer, td_tensor *inner);
/* The value of an outer tensor now; NULL after td__fail. */
td_tensor *td__func_value(td_func *f, td_tensor *outer);

/* ---- programs (program.c) ----------------------------------------------- */

/* Sizes, strides and where: of an argument at the end, or of a result. */
typedef struct td_geom {
    td_dtype       dtype;
    int            rank;
    int64_t        offset;
    const int64_t *size, *stride;
} td_geom;

/* What became of an argument. */
typedef struct td_change {
    bool    data;    /* its elements were written, through it or another tensor */
    bool    meta;    /* sizes, strides or offset are others */
    bool    storage; /* set_ left it on other bytes */
    int     from;    /* storage: an argument that lies there; -1: new bytes */
    int     update;  /* output with its elements, in the geometry it came with; -1 */
    int     now;     /* output with its elements as it ends; -1 */
    size_t  bytes;   /* of the storage it ends on */
    td_geom end;
} td_change;

/* Where a result lies. */
typedef struct td_place {
    int     input;  /* in the storage this argument came with; -1: in none */
    int     same;   /* it is this argument; -1: none */
    int     first;  /* the first result in its storage, perhaps itself; -1: a number */
    int     sharers; /* results in its storage */
    size_t  bytes;  /* of that storage */
    td_geom geom;
} td_place;

/* A functional graph and what its caller must do. Its outputs are, in order, for each
 * changed argument its elements (<update i>) or, where only the geometry is another,
 * the view it has become (<meta_update i>); both where the one does not show all of
 * the other; then the results of the program. */
typedef struct td_functional {
    td_ctx    *cx;
    td_arena   arena;
    td_graph  *g;
    int        n_in, n_out; /* of the program */
    td_change *in;          /* [n_in] */
    td_place  *out;         /* [n_out] */
} td_functional;

/* The program without writes, for inputs like in[]: by input of the program, NONE
 * takes a const. NULL after td__fail. */
td_functional *td__functionalize(const td_graph *program, const td_value *in);
void           td__functional_drop(td_functional *f); /* NULL is fine */
/* Runs the graph and does by hand what the program does in place: writes arguments,
 * makes results that lie in arguments or each other views of them. */
bool td__functional_run(const td_functional *f, const td_value *in, td_value *out);

#endif
