/* facts_int.h -- how facts are found; private to facts.c and facts_out.c. */
#ifndef TD_FACTS_INT_H
#define TD_FACTS_INT_H

#include "aot/facts.h"

/* Facts with the memory that they are in. */
typedef struct td_facts_own {
    TD_OWNED_FIELDS;
    td_arena arena;
    td_facts facts;
} td_facts_own;

typedef struct td_facts_run {
    td_facts          *to;
    td_arena          *arena;
    const td_replayed *r;
    td_tensor        **bases; /* intermediate ones, by td_facts.bases */
} td_facts_run;

/* td_is_leaf, where a view whose history eager refuses to tell has one: that is an
 * error of whoever asks, not of the program. */
static inline bool td__facts_is_leaf(td_facts_run *r, td_tensor *t) {
    td_ctx *cx = r->r->cx;
    bool    was = td_ok(cx), leaf = td_is_leaf(t);
    if (was && td__error(cx) == TD_E_GRAD) td_clear(cx);
    return leaf;
}
/* A copy of t's dtype and geometry in the arena. False after td__fail. */
bool td__facts_type(td_facts_run *r, td_tensor_type *to, const td_tensor *t);
bool td__facts_outputs(td_facts_run *r);
bool td__facts_tangents(td_facts_run *r);

#endif
