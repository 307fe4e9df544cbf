/* joint_int.h -- a run that makes a joint graph; private to the room. */
#ifndef TD_JOINT_INT_H
#define TD_JOINT_INT_H

#include "eager/node.h"
#include "joint/joint.h"
#include "joint/log.h"

#include <string.h>

typedef struct td_joint_run {
    td_joint       *to;
    const td_graph *program;
    td_joint_opts   opts;
    td_ctx         *cx;
    td_value       *in, *out; /* of the replay: outer tensors and numbers */
    td_tensor     **real, **outer;
    td_edge        *edge, *base_edge; /* by input: where it stood before */
    td_geom        *geom;             /* by input: as it came */
    int            *nr;               /* by input: which of the mode's arguments */
    td_gval       **write;            /* by input: what the graph writes; or NULL */
    td_tensor     **roots;            /* by tangent: what it is the tangent of */
    td_tensor     **tangent;          /* outer */
    td_faker        fakes;
    td_record       rec;
    td_func         f;
    td_log          log;
    TD_VEC(td_node *) bound;       /* held: accumulators of leaves that begin inside */
    td_tensor **values;            /* by forward output: inner; NULL: a number, */
    int64_t    *numbers;           /* ...a symbol that only run time knows */
    bool        grad, inference;   /* modes of the call */
    td_ptrmap   tensors, storages; /* index.c's */
    bool        facts_only;
    td_facts   *facts;
} td_joint_run;

/* ---- trace.c ------------------------------------------------------------ */

/* The value of an outer tensor becomes the next output; its number, -1 on failure. */
int td__joint_output(td_joint_run *r, td_tensor *value, td_desc d);

static inline bool td__same_edge(td_edge a, td_edge b) {
    return a.node == b.node && a.nr == b.nr;
}

/* A view whose storage was written since its history was last looked up: asking for it
 * now may fail, as it would in eager; so nobody asks. */
static inline bool td__joint_is_stale(const td_tensor *t) { return td__is_behind(t); }

/* Did it come as a leaf? A view that is behind has a history when it is asked. */
static inline bool td__joint_is_leaf(const td_tensor *real) {
    return !td__has_node(real) && !td__is_behind(real);
}

/* ---- index.c ------------------------------------------------------------ */

/* What a tensor of the run is, and what its events do to it. */
typedef struct td_about_tensor {
    int  input, result; /* the first that is this; -1: none */
    bool named;         /* passed, or made inside: the epilogue can name it */
    bool touched;       /* elements, geometry or flags of it are written */
    bool observed;      /* an event that is no write is of it, or any is of a view */
    bool meta_written;  /* its geometry is, by an event that is kept */
} td_about_tensor;

/* Events whose tensor is there before or after. */
typedef struct td_about_storage {
    bool changed;    /* elements or geometry of a tensor there are written, */
    bool meta;       /* ...geometry */
    bool flagged;    /* flags of one are: it may cease to have a history */
    int  n_writes;   /* kept, and more than a bump of the version */
    int  last_write; /* ...the last, of a tensor that is there after; -1: none */
    int  first_meta; /* kept; -1: none */
} td_about_storage;

/* When the program has run; what depends on td_event.kept, behind td__log_slice. */
bool td__log_index(td_joint_run *r);
void td__log_index_kept(td_joint_run *r);
void td__log_index_free(td_joint_run *r);

/* What all fields are where there is no event. */
const td_about_tensor *td__about_tensor(const td_joint_run *r, const td_tensor *t);
/* NULL: no event is of it. */
td_about_storage      *td__about_storage(const td_joint_run *r, const td_storage *st);

/* The first input that is t, a tensor of the run; -1: none. */
static inline int td__joint_input(const td_joint_run *r, const td_tensor *t) {
    return td__about_tensor(r, t)->input;
}

/* ---- relate.c ---------------------------------------------------------- */

/* Before the program runs; shared: by input. */
bool td__joint_relate(td_joint_run *r, const int *shared);

/* ---- grads.c ------------------------------------------------------------ */

/* Tangents in, gradients out. */
bool td__joint_differentiate(td_joint_run *r);
/* Elements of an input become v at the end of the graph. */
bool td__joint_add_write(td_joint_run *r, int input, td_gval *v);

/* ---- inside.c ----------------------------------------------------------- */

/* Which writes stay in the graph; before forward outputs are named. */
bool td__joint_choose_inside(td_joint_run *r);
/* Puts them there, after everything has read what they write. */
bool td__joint_write_inside(td_joint_run *r);

/* ---- tangents.c --------------------------------------------------------- */

/* A tangent comes in for forward output `index`, which has the history of t. */
bool td__joint_want(td_joint_run *r, int index, td_tensor *t);

/* ---- merge.c, slice.c, values.c, epilogue.c: in this order --------------- */

bool td__log_merge(td_joint_run *r); /* one write where several will not be told */
bool td__log_slice(td_joint_run *r); /* sets td_event.kept */
bool td__epilogue_values(td_joint_run *r); /* names forward outputs and tangents */
bool td__epilogue_write(td_joint_run *r);  /* behind the gradients: the graph */

/* ends.c: finds td_joint.ends, where asked to; behind td__epilogue_values. */
bool td__joint_ends(td_joint_run *r);

/* ---- reach.c ------------------------------------------------------------ */

/* Finds td_target.from, td_tangent.clash and feeds, td_joint.feeds; to[] are the edges
 * of the targets. */
bool td__joint_reach(td_joint_run *r, const td_edge *to);

/* ---- passes.c, shield.c ------------------------------------------------- */

/* sizes.c, at the end of the trace: numbers and symbols of the trace become the graph's
 * own. */
bool     td__joint_keep_sizes(td_joint *j);
void     td__geom_keep(td_graph *g, td_geom *of);
td_gval *td__joint_root(td_gval *v);
/* A copy of v with these strides, as the last node; NULL after td__fail. */
td_gval *td__joint_copy(td_graph *g, td_gval *v, const int64_t *stride);
bool     td__joint_shield(td_joint *j);
bool     td__joint_drop_copies(td_joint *j);
bool     td__joint_write_plain(td_joint *j); /* behind the two before */

#endif
