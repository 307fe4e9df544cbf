/* facts_int.h -- how facts are found; private to facts.c and facts_out.c. */
#ifndef TD_FACTS_INT_H
#define TD_FACTS_INT_H

#include "func/facts.h"
#include "func/func_int.h"

static inline td_func_in *td__facts_given(td_facts_run *r, int i) {
    return &r->f->in.v[r->nr[i]];
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
