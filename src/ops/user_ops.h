/* user_ops.h -- a registered op, shared by the file that registers ops (user_ops.c) and
 * the one with the functions of their rows (user_op_run.c). */
#ifndef TD_OPS_USER_OPS_H
#define TD_OPS_USER_OPS_H

#include "ops/call.h"
#include "tandem/user_op.h"

#include <stdatomic.h>

/* A registered op. def is first: td_opcall.def leads to the rest.
 *
 * An op with an ordered effect has a second row, its token form NAME_with_token, which
 * takes a token before the op's arguments and returns one before its results. The two
 * rows name each other. */
typedef struct td_user_op {
    td_opdef          def;
    td_opinfo         info;
    td_op_opts        opts; /* the strings are the op's own */
    const td_formula *shape[TD_MAX_RESULTS];
    uint64_t          mark;  /* stands for the op in cached graphs */
    int               token; /* of a token form: 1, arguments and results before those
                              * of the user's functions */
    atomic_int other; /* the op of the token form, or that it is one of; 0: none */
} td_user_op;

/* Is its result a list? Then the token of a token form is the first entry. */
static inline bool td__user_op_lists(const td_user_op *u) {
    return u->info.s.n_out == 1 && u->info.s.out[0].type == TD_T_TENSORS;
}

/* The op that a user calls by its name, with these arguments and so many results;
 * TD_OP_COUNT after td__fail. */
td_op td__op_named(td_ctx *cx, const char *who, const char *name, td_values args,
                   int n_out);

/* Shape rule, kernel and derivatives of every registered op. They find the op by the
 * row of the call. */
bool td__user_op_shape(td_opcall *c);
bool td__user_op_kernel(td_opcall *c);
bool td__user_op_backward(td_vjp *v);
bool td__user_op_no_backward(td_vjp *v); /* of one without a derivative: fails */

#endif
