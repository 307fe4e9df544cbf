/* facts_int.h -- a run of facts; private to facts.c and facts_out.c. */
#ifndef TD_FACTS_INT_H
#define TD_FACTS_INT_H

#include "func/func_int.h"

typedef struct td_facts_run {
    td_facts       *to;
    const td_graph *program;
    td_ctx         *cx;
    td_func         f;
    td_faker        fakes;
    td_tensor     **outer; /* by input; NULL: no tensor */
    int            *nr;    /* by input: which of the mode's arguments */
    td_value       *in, *out;
    td_tensor     **bases; /* intermediate ones, [n_out] */
} td_facts_run;

static inline td_func_in *td__facts_given(td_facts_run *r, int i) {
    return &r->f.in.v[r->nr[i]];
}
/* td_is_leaf, where a view whose history eager refuses to tell has one: that is an
 * error of whoever asks, not of the program. */
static inline bool td__facts_is_leaf(td_facts_run *r, td_tensor *t) {
    bool was = td_ok(r->cx), leaf = td_is_leaf(t);
    if (was && td_error(r->cx) == TD_E_GRAD) td_clear(r->cx);
    return leaf;
}
bool td__facts_outputs(td_facts_run *r);
bool td__facts_tangents(td_facts_run *r);

#endif
