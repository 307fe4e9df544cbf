/* aot/aot.h -- from a body or a graph to a function: the pipeline, the specializations
 * of a function and how a call picks one. */
#ifndef TD_AOT_H
#define TD_AOT_H

#include "runtime/plan.h"

/* What must be alike for a call to fit: one word per property, compared whole.
 * key.c writes it. */
typedef TD_VEC(int64_t) td_key;

typedef struct td_spec {
    struct td_spec *next;
    int             nr;
    td_graph       *program; /* owned; NULL: the function's own graph */
    td_plan        *plan;
    td_key          key;
    bool            offsets; /* storage offsets of inputs count */
} td_spec;

struct td_fn {
    td_ctx         *cx;
    int             id;
    td_body        *body;
    void           *env;
    const td_graph *graph; /* instead of a body */
    bool            owns_graph;
    td_aot_opts     opts;
    char           *name;
    td_spec        *specs; /* the last one used first */
    int             n_specs;
    td_key          key; /* of the call under way */
};

/* ---- key.c -------------------------------------------------------------- */

/* Properties of a call on these arguments and of the tensors the body closed over;
 * `offsets`: where they begin counts too. */
bool td__key_make(td_ctx *cx, td_key *key, td_values args, const td_spec *s);

/* ---- compile.c ---------------------------------------------------------- */

/* A specialization for these arguments; NULL after td__fail. */
td_spec *td__spec_make(td_fn *f, td_values args);
void     td__spec_drop(td_spec *s); /* NULL is fine */
bool     td__spec_call(td_fn *f, td_spec *s, td_values args, td_value *out);

/* ---- again.c ------------------------------------------------------------ */

bool td__again_make(td_fn *f, td_spec *s);

#endif
