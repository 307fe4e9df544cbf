/* func_int.h -- records of outer tensors, and how values move between them; private
 * to this directory.
 *
 * A group is a set of outer tensors that may share elements. Its root record has the
 * value from which all others are computed: a tensor with its own storage (a result, an
 * argument) or, if no tensor covers the others, the whole storage as a list. A record
 * is the root, or one step away from another record: a view op, the same value, or a
 * piece of the root given by its geometry. A write computes the new value of one record
 * and propagates it to the root by inverse ops. The group's generation increases, so
 * other records recompute their values when they are read next. */
#ifndef TD_FUNC_INT_H
#define TD_FUNC_INT_H

#include "core/callback.h"
#include "func/func.h"

struct td_group {
    td_func    *f;
    td_group   *into;    /* merged: the group it is part of */
    td_group   *next;    /* of the same outer storage */
    td_storage *st;      /* outer */
    td_fval    *root;    /* NULL: arguments overlap, and no record covers them yet */
    td_tensor  *given;   /* the value of an argument in it at the call; NULL: none */
    td_fval    *written; /* the record of the last write; NULL: none */
    uint64_t    gen;     /* writes so far */
    int         writes, quiet_writes; /* all; those under no_grad */
};

typedef enum td_fkind {
    TD_F_ROOT,
    TD_F_SAME,  /* the value of `up` */
    TD_F_VIEW,  /* a view op on `up` */
    TD_F_PIECE, /* geometry over `up`; NULL until td__fval_place sets it */
} td_fkind;

/* A view op and its arguments; in[view_of] is NONE. */
typedef struct td_fstep {
    td_op            op;
    int              n_in;
    td_value        *in;
    int              n_peers; /* records of the op's results, NULL if unknown */
    struct td_fval **peers;
} td_fstep;

struct td_fval {
    TD_PAYLOAD_FIELDS; /* op, here: of the op that made it */
    td_fval  *next;    /* in the list of all records */
    td_group *group;
    uint8_t   kind;    /* td_fkind */
    bool      overlap; /* elements overlap, of it or of a record it was made of */
    int       nr;      /* which result of the step */
    td_fval  *up;
    td_fval  *from; /* of a piece: the record as_strided was called on; NULL: unknown */
    const td_fstep *step;
    td_geom         geom; /* of the outer tensor */
    td_typed *of; /* inner tensors of the outer tensor, referenced; NULL: it is plain */
    td_tensor      *inner; /* referenced; NULL: not computed yet */
    uint64_t        gen;   /* the group's generation that inner belongs to */
    uint32_t        tags;  /* of the op that made it */
    const td_place *stack; /* the calls around that op */
};

static inline td_value td__ints(const int64_t *v, int n) {
    return td__value_ints((td_ints){v, n});
}

/* ---- alias.c ------------------------------------------------------------ */

td_fval  *td__fval_of(td_func *f, td_tensor *t); /* adopts; NULL after td__fail */
td_fval  *td__fval_make(td_func *f, td_fkind kind, td_group *g, const td_tensor *t);
td_group *td__group_of(const td_fval *v);
td_group *td__group_make(td_func *f, td_storage *st);
/* Makes a new outer tensor with this value the root of a new group. */
bool      td__fval_fresh(td_func *f, td_tensor *t, td_tensor *inner);
bool      td__fval_hold(td_fval *v, td_tensor *inner); /* sets the current value */
/* Sets `up` of a piece; may make the storage the root. */
bool      td__fval_place(td_fval *v);
/* Makes the whole storage, of `bytes` bytes, the root. */
bool      td__group_flatten(td_group *g, int64_t bytes);
/* The storage had `was` bytes before an op that may have grown it: new bytes are
 * zero. */
bool      td__group_grow(td_group *g, size_t was);

/* ---- functional.c ------------------------------------------------------- */

/* A view op with copies of its arguments; from[0] is left out. NULL after td__fail. */
td_fstep *td__fstep_make(td_func *f, td_op op, const td_value *from, int n_in);

/* ---- functional_nested.c ------------------------------------------------ */

/* Calls an op that takes graphs on inner values, with functionalized graphs. */
bool td__func_nested(td_func *f, const td_opcall *c, td_value *in, td_tensor **out);

/* ---- regen.c ------------------------------------------------------------ */

td_tensor *td__fval_value(td_fval *v); /* NULL after td__fail */
/* The same as a view of the whole storage, for ops that read around the tensor. */
td_tensor *td__fval_in_storage(td_fval *v);
/* Sets the value of v, and with it of every record that overlaps v. */
bool       td__fval_store(td_fval *v, td_tensor *value);
/* The value in the layout of the outer tensor, where that matters. */
td_tensor *td__fval_lay_out(const td_fval *v, td_tensor *value);
/* Calls an op below the mode, without history. */
bool td__func_call(td_func *f, td_op op, const td_value *in, int n_in, td_tensor **out,
                   int n_out);
td_tensor *td__func_call1(td_func *f, td_op op, const td_value *in, int n_in);
/* A call of an op that takes graphs, on inner values. */
typedef struct td_graph_call {
    td_op             op;
    td_value         *in;
    int               n_in;
    td_tensor *const *like; /* by result: a tensor with the same inner types */
} td_graph_call;
/* typed_values.c: do the operands of an op that takes graphs, or its graphs, have
 * tensors of a type? Then it is called with their inner tensors instead; results are
 * built like k->like[0..n_out). Changes k->in. */
bool       td__func_is_typed(const td_graph_call *k);
bool       td__func_call_typed(td_func *f, const td_graph_call *k, td_tensor **out,
                               int n_out);
/* The value with the strides of `like`, or of the outer tensor of v, which has the same
 * type, and with inner tensors in the strides of its inner tensors. NULL after
 * td__fail. */
td_tensor *td__func_typed_as(td_func *f, td_tensor *value, td_tensor *like);
td_tensor *td__fval_lay_out_typed(const td_fval *v, td_tensor *value);
/* The value for as_strided_scatter, whose inner tensors have offsets and storages like
 * those of the outer tensor. NULL after td__fail: they have others. */
td_tensor *td__fval_typed_in_storage(td_fval *v);
/* The value of a piece of v->up, taken from its inner tensors. NULL after td__fail. */
td_tensor *td__fval_cut_inner(td_fval *v);
/* The value of `base` with that of v, a view of it, written to its inner tensors. NULL
 * after td__fail. *yes: both are of one type and laid out as the outer tensors are. */
bool       td__fval_may_put_inner(const td_fval *v, td_fval *base, td_tensor *value,
                                  bool *yes);
td_tensor *td__fval_put_inner(const td_fval *v, td_fval *base, td_tensor *value);
/* After a write to group g: updates arguments that share inner tensors with those of
 * the group. */
bool       td__func_share_write(td_func *f, td_group *g);
/* `to` with `value` written to the elements at g, which begin at `at`; NULL after
 * td__fail. Where several elements of g overlap, the last one in row-major order is
 * stored, as in eager. */
td_tensor *td__func_put(td_func *f, td_tensor *to, td_tensor *value, const td_geom *g,
                        int64_t at);

#endif
