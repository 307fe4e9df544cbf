/* trace/sym_args.h -- arguments with symbolic sizes. */
#ifndef TD_SYM_ARGS_H
#define TD_SYM_ARGS_H

#include "trace/sym.h"
#include "trace/trace.h"

/* Which sizes become symbols, and how inputs are called in guards. */
typedef struct td_symplan {
    td_dynamic      dynamic;
    bool            no_duck;     /* equal sizes get symbols of their own, */
    bool            duck;        /* ...or share one, those of marked dims too */
    bool            by_argument; /* guards count arguments, not tensors */
    bool            may_fix;     /* numbers will do where symbols will not */
    const td_graph *named_as;    /* whose inputs they are; NULL: x0, x1... */
    const bool     *fixed; /* by argument: its sizes stay (parameters); NULL: none */
} td_symplan;

/* Copies without bytes of a call's arguments; what is no tensor stays. */
typedef struct td_symargs {
    td_symenv *e;
    td_symplan plan;
    td_faker   fakes;
    td_ptrmap  still;   /* tensors whose sizes stay, as those of their views do */
    td_value  *v;       /* by argument */
    int        n, n_in; /* arguments, and tensors among them: inputs */
} td_symargs;

/* Between td__symenv_begin and _end. Needs _drop either way, before e goes; false
 * after td__fail. */
bool td__symargs_make(td_symargs *a, td_symenv *e, td_values args, td_symplan plan);
void td__symargs_drop(td_symargs *a);

/* td__capture_graph with symbols for the sizes of in[]; appends the guards. */
td_graph *td__capture_symbolic(const td_graph *g, const td_value *in, td_symplan plan,
                               td_buf *guards);

#endif
