/* trace/sym_args.h -- fake arguments with symbolic sizes, from which a dynamic
 * capture starts. */
#ifndef TD_SYM_ARGS_H
#define TD_SYM_ARGS_H

#include "trace/sym.h"
#include "trace/trace.h"

/* Which sizes become symbols, and how guards name the inputs. */
typedef struct td_symplan {
    td_dynamic      dynamic;     /* all sizes, or only marked dims */
    const uint32_t *marks;       /* by argument; NULL: those of the tensors */
    bool            no_duck;     /* equal sizes get separate symbols, */
    bool            duck;        /* ...or share one, those of marked dims too */
    bool            by_argument; /* inputs are numbered by argument, not by tensor */
    bool            may_fix;     /* specialize all sizes where symbols fail */
    const td_graph *named_as;    /* take input names from it; NULL: x0, x1... */
    const bool *fixed; /* by argument: sizes stay numbers (parameters); NULL: none */
} td_symplan;

/* In marks: all sizes of inner tensors, of a type whose tensors vary in them
 * (td_type_opts.varies). */
#define TD_SYM_INNER (1u << 31)

/* Fake copies of a call's tensor arguments, with symbolic sizes; other values
 * unchanged. */
typedef struct td_symargs {
    td_symenv *e;
    td_symplan plan;
    td_faker   fakes;
    td_ptrmap  still;   /* bases whose sizes stay numbers because a view's chain does */
    td_value  *v;       /* by argument; owned */
    int        n, n_in; /* arguments; tensors among them */
} td_symargs;

/* Call between td__symenv_begin and td__symenv_end. False after td__fail. Drop
 * it in either case, before e. */
bool td__symargs_make(td_symargs *a, td_symenv *e, td_values args, td_symplan plan);
void td__symargs_drop(td_symargs *a);

/* td__capture_graph with symbolic sizes for in[]; appends the guards as text. */
td_graph *td__capture_symbolic(const td_graph *g, const td_value *in, td_symplan plan,
                               td_buf *guards);

#endif
