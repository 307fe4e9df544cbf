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
    td_tensor  *t;       /* outer, held */
    td_fval    *given;   /* its first record */
    td_tensor  *inner;   /* held: its value as it came */
    td_storage *st;      /* held: where it lay */
    size_t      bytes;   /* of st then */
    int         n_set;   /* calls of set_ on it */
    bool        strayed; /* it was written while set_ had it elsewhere */
} td_func_in;

struct td_func {
    td_mode   mode; /* first: the mode is this */
    td_ctx   *cx;
    td_arena  arena;
    td_ptrmap groups;              /* by outer storage: the first group of it */
    td_fval  *all;                 /* every record; they hold inner values */
    TD_VEC(td_storage *) storages; /* held, so that their addresses stay theirs */
    TD_VEC(td_func_in) in;
    TD_VEC(td_fval *) moved; /* written while they lie where an argument does */
    bool        any_set;     /* some argument's storage was exchanged */
    bool        draws;       /* a random op was called */
    bool        detaches;    /* an op cut a history, perhaps inside a composite */
    bool        recording;   /* what td__recording said before the first op */
    bool        alone;       /* no tape stands above */
    const char *no_history;  /* why inner values cannot have eager's; NULL: they can */
};

/* Begins without touching the mode stack; `below` hears what the mode computes. */
void       td__func_begin(td_func *f, td_ctx *cx, td_mode *below);
/* Lets go of everything; outer tensors that live on are ordinary fake ones. */
void       td__func_end(td_func *f);
/* `outer`, a tensor without bytes, becomes an argument with this value. All arguments
 * come before the first op; those that overlap are one group. */
bool       td__func_give(td_func *f, td_tensor *outer, td_tensor *inner);
/* The value of an outer tensor now; NULL after td__fail. */
td_tensor *td__func_value(td_func *f, td_tensor *outer);

/* ---- the inputs of a run (program_inputs.c) ----------------------------- */

/* The inputs of a call, by input of the program: NONE takes the const it holds. False
 * after td__fail: one is missing. */
bool td__program_inputs(const td_graph *p, const td_value *in, td_value *to);

/* ---- what became of argument nr (ended.c) ------------------------------- */

int        td__func_writes(const td_func *f, int nr); /* to its elements */
/* Was something written in its storage that no argument shows? */
bool       td__func_writes_outside(td_func *f, int nr);
/* Its elements now, in the geometry it came with; NULL after td__fail. */
td_tensor *td__func_given_value(td_func *f, int nr);
/* Does what arguments and results show in the end make up all of a storage made inside?
 * Else, and without memory, td__fail. */
typedef struct td_shown {
    const char       *name; /* of the program */
    td_tensor *const *in;   /* NULL: none */
    const td_value   *out;
    int               n_in, n_out;
} td_shown;
bool td__storage_shown(td_ctx *cx, const td_storage *st, const td_shown *by);
/* Does its storage hold elements, made inside, that `outer` does not show? */
bool td__func_hides(td_func *f, td_tensor *outer);
/* `outer` is a tensor the run comes to know, with this value. */
bool td__func_make(td_func *f, td_tensor *outer, td_tensor *inner);

/* ---- programs (program.c) ----------------------------------------------- */

/* Sizes, strides and where: of an argument at the end, or of a result. */
typedef struct td_geom {
    td_dtype       dtype;
    int            rank;
    int64_t        offset;
    const int64_t *size, *stride;
} td_geom;
bool    td__geom_copy(td_ctx *cx, td_arena *room, td_geom *g, const td_tensor *t);
bool    td__geom_same(const td_geom *a, const td_geom *b);
/* The same for making a tensor of it. */
td_meta td__geom_meta(const td_geom *g);
/* After a trace: numbers and symbols of the trace become the graph's own. */
void    td__geom_keep(td_graph *g, td_geom *of);
/* Does every element of b lie at one of a, which has no gaps? */
bool    td__geom_covers(const td_geom *a, const td_geom *b);
bool    td__geom_covers_bytes(const td_geom *a, const td_geom *b); /* of any dtypes */

/* What became of an argument. Storages are numbered: a home. */
typedef struct td_change {
    bool    data;       /* its elements were written, through it or another tensor */
    bool    meta;       /* sizes, strides or offset are others */
    bool    storage;    /* set_ left it on other bytes */
    int     came, home; /* where it lay and lies */
    int     update;     /* output with its elements, in the geometry it came with; -1 */
    int     now;        /* output with its elements as it ends; -1 */
    td_geom end;
} td_change;

/* Where a result lies. */
typedef struct td_place {
    int     same;      /* it is this argument; -1: none */
    int     again;     /* it is this earlier result; -1: none */
    int     home;      /* -1: no tensor */
    int     of;        /* the argument it is a view of; -1: none, or not known */
    bool    multi;     /* one of several views */
    bool    behind;    /* a view that is older than the last write of its bytes */
    bool    inference; /* an inference tensor */
    /* It is a view, shares its storage, or shows a part of it: a run leaves the rest
     * zero, and does not tell which tensor is a view of which. */
    bool    partial;
    td_geom geom;
} td_place;

typedef struct td_home {
    size_t   bytes;   /* in the end */
    int64_t  span;    /* the same as a dim of the graph */
    uint64_t version; /* in the end; eager counts every write */
    bool     given;   /* an argument came in it */
    int      users;   /* arguments in the end, and results that are none of them */
} td_home;

/* A functional graph and what its caller must do. Its outputs are, in order, for each
 * changed argument its elements (<update i>) or, where only the geometry is another,
 * the view it has become (<meta_update i>); both where the one does not show all of
 * the other; then the results of the program. */
typedef struct td_functional {
    td_ctx     *cx;
    td_arena    arena;
    td_graph   *g;
    int         n_in, n_out; /* of the program */
    td_change  *in;          /* [n_in] */
    td_place   *out;         /* [n_out] */
    td_home    *homes;
    int         n_homes;
    uint8_t     left; /* td_graph.left of the program */
    /* Why a run gives values only; NULL: under the tape its results and arguments
     * get eager's histories. */
    const char *no_history;
    int64_t    *bound; /* of a run with symbolic sizes: what they are; else NULL */
    struct td_guard_prog *guards; /* under which it holds; NULL: for all of its types */
    char                 *guard_text;
} td_functional;

/* The program without writes, for inputs like in[]: by input of the program, NONE
 * takes a const. NULL after td__fail. */
td_functional *td__functionalize(const td_graph *program, const td_value *in);
/* The same for all inputs that pass its guards, traced with symbols for sizes. Inside
 * a trace with symbols td__functionalize goes on with those. */
td_functional *td__functionalize_dynamic(const td_graph *program, const td_value *in,
                                         td_dynamic dynamic);
/* Whether as_strided fits into a storage is known when sizes are: a trace with symbols
 * takes its word, eager does not. False after td__fail: the program has such an op. */
bool           td__program_may_vary(const td_graph *program);
/* Do its guards hold for these? Else TD_E_GUARD, naming the one that does not. */
bool           td__functional_guard(const td_functional *f, const td_value *in);
void           td__functional_drop(td_functional *f); /* NULL is fine */
/* Runs the graph and does by hand what the program does in place: writes arguments,
 * makes results that lie in arguments or each other views of them. Where arguments
 * require grad and no_history does not forbid it, histories are eager's. */
bool td__functional_run(const td_functional *f, const td_value *in, td_value *out);

/* Arguments without bytes that look as the graph's inputs do: in[i] by input, NONE
 * for consts, 0 for numbers. Looks of one storage number share it. */
bool td__inputs_like(const td_graph *g, td_value *in);

/* One view op between a base and a result, base first. */
typedef struct td_view_op {
    td_op     op;
    int       nr;   /* which result */
    int       n_in; /* in[0] is NONE: what is viewed */
    td_value *in;
    bool      grad, inference; /* modes it was made in */
} td_view_op;
void td__view_op_print(td_buf *b, const td_view_op *v); /* "select(0, 1)" */

#endif
