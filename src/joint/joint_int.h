/* joint_int.h -- a run that makes a joint graph; private to the room. */
#ifndef TD_JOINT_INT_H
#define TD_JOINT_INT_H

#include "eager/node.h"
#include "joint/joint.h"

#include <string.h>

/* What is known of a tensor, or of a storage, at the end of the program. -1: none. */
typedef struct td_joint_spot {
    int        input, result; /* the first it is; of a tensor */
    int        at_end, came; /* the first input that uses it at the end, at the start */
    int        sharers;      /* different tensors among the results that use it */
    td_tensor *all;          /* a list of all its elements; NULL: nobody has asked */
} td_joint_spot;

typedef struct td_joint_run {
    td_joint       *to;
    const td_graph *program;
    td_joint_opts   opts;
    td_ctx         *cx;
    td_value       *in, *out; /* of the replay: outer tensors and numbers */
    td_tensor     **real, **outer;
    td_edge        *edge, *base_edge; /* by input: where it stood before */
    uint64_t       *version;          /* by input: of its storage before */
    td_geom        *geom;             /* by input: as it came */
    int            *nr;               /* by input: which of the mode's arguments */
    td_gval       **write;            /* by update: what the graph writes */
    td_tensor     **bases;            /* intermediate ones, outer */
    td_storage    **rooms;            /* outer */
    td_tensor     **roots;            /* by tangent: what it is the tangent of */
    td_tensor     **tangent;          /* outer */
    td_ptrmap       spots;            /* by tensor and storage */
    td_faker        fakes;
    td_record       rec;
    td_func         f;
} td_joint_run;

/* ---- trace.c ------------------------------------------------------------ */

/* The value of an outer tensor becomes the next output; its number, -1 on failure. */
int  td__joint_output(td_joint_run *r, td_tensor *value, td_desc d);
/* Is there a history, that is, anything to send a gradient to? */
bool td__joint_has_history(td_tensor *t);

static inline bool td__same_edge(td_edge a, td_edge b) {
    return a.node == b.node && a.nr == b.nr;
}

/* Is it that of a write of geometry? */
static inline bool td__joint_turns(const td_node *n) {
    return n->def && n->def->flags & TD_OPF_META && n->info->writes;
}

/* A view whose storage was written since its history was last looked up: asking for it
 * now may fail, as it would in eager; so nobody asks. */
static inline bool td__joint_is_stale(const td_tensor *t) { return td__is_behind(t); }

/* Did it come as a leaf? A view that is behind has a history when it is asked. */
static inline bool td__joint_is_leaf(const td_tensor *real) {
    return !td__has_node(real) && !td__is_behind(real);
}

/* ---- spots.c ------------------------------------------------------------ */

bool                 td__joint_find_spots(td_joint_run *r);
const td_joint_spot *td__joint_spot(const td_joint_run *r, const void *of);
/* A tensor of one dim that shows all bytes of a storage as t's dtype, one for each
 * storage; NULL after td__fail. */
td_tensor           *td__joint_list(td_joint_run *r, const td_tensor *t);

/* ---- relate.c ---------------------------------------------------------- */

/* Before the program runs; shared: by input. */
bool td__joint_relate(td_joint_run *r, const int *shared);
/* leaves.c: false after td__fail, where leaves come and go among inputs that share
 * bytes. */
bool td__joint_leaves(td_joint_run *r, const int *sharers);

/* ---- grads.c ------------------------------------------------------------ */

/* Tangents in, gradients out. */
bool td__joint_differentiate(td_joint_run *r);
/* Elements the graph itself writes into inputs, after everything has read them. */
bool td__joint_write_updates(td_joint_run *r);

/* ---- updates.c, results.c ----------------------------------------------- */

bool td__joint_updates(td_joint_run *r);
bool td__joint_same_sizes(const td_joint_run *r, int i); /* as it came in */
bool td__joint_fail_sizes(const td_joint_run *r, int i); /* of a leaf */
bool td__joint_results(td_joint_run *r);
bool td__joint_tangents(td_joint_run *r); /* names what gets one */

/* ---- views.c ------------------------------------------------------------ */

/* t is a view; the ops that make it of `from`, a tensor it was made of or shares a
 * base with. False after td__fail. */
bool td__joint_views(td_joint_run *r, td_result *to, td_tensor *t, td_tensor *from);
int  td__joint_steps(const td_view_step *s, const td_view_step *until); /* -1 */
bool td__joint_in_base(td_joint_run *r, td_tensor *t);
bool td__joint_leads(const td_result *to, td_tensor *t, td_edge end);

/* ---- reach.c ------------------------------------------------------------ */

/* Fills in td_target.from; to[] are the targets' edges. */
/* Finds td_target.from; ran: backward has run from all tangents, finds `gives`. */
bool td__joint_reach(td_joint_run *r, const td_edge *to, bool ran);

/* ---- passes.c, shield.c ------------------------------------------------- */

bool     td__joint_keep_sizes(td_joint *j); /* sizes.c: at the end of the trace */
td_gval *td__joint_root(td_gval *v);
/* A copy of v with these strides, as the last node; NULL after td__fail. */
td_gval *td__joint_copy(td_graph *g, td_gval *v, const int64_t *stride);
bool     td__joint_shield(td_joint *j);
bool     td__joint_drop_copies(td_joint *j);
bool     td__joint_write_plain(td_joint *j); /* behind the two before */

#endif
