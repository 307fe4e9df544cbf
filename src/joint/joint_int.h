/* joint_int.h -- the state of a trace that makes a joint graph; private to this
 * directory. */
#ifndef TD_JOINT_INT_H
#define TD_JOINT_INT_H

#include "eager/node.h"
#include "joint/joint.h"
#include "joint/event_log.h"

#include <string.h>

typedef struct td_joint_run {
    td_joint        *to;
    const td_graph  *program;
    td_joint_opts    opts;
    td_ctx          *cx;
    td_value        *in, *out; /* of the replay: outer tensors and numbers */
    td_traced_input *inputs;
    td_tensor      **roots;         /* by tangent: where the engine starts */
    td_tensor      **tangent;       /* outer */
    int              first_tangent; /* its number among the inputs of `f` */
    td_edge         *goal;          /* by target: its edge, borrowed */
    bool
        typed_tangents; /* some tangents have the type of their value (typed tensors) */
    int order;          /* order of differentiation being traced, from 0 */
    int first;          /* first node of the backward of the highest order */
    TD_VEC(td_log) logs; /* of the orders below, complete */
    td_faker  fakes;
    td_record rec;
    td_func   f;
    td_log    log;
    TD_VEC(td_node *)
    bound;              /* referenced: accumulators of leaves that are bound inside */
    td_tensor **values; /* by forward output: its inner tensor; NULL: it is a number, */
    int64_t    *numbers;           /* ...a symbol known only when the code runs */
    bool        grad, inference;   /* modes of the call */
    td_ptrmap   tensors, storages; /* event_index.c's */
    td_look_fn *look;              /* td__joint_look; NULL: none */
    void       *look_env;
} td_joint_run;

/* ---- trace.c ------------------------------------------------------------ */

/* Adds the value of an outer tensor as the next output; returns its index, -1 on
 * failure. */
int td__joint_output(td_joint_run *r, td_tensor *value, td_desc d);

/* Counts inputs that share an inner tensor with a written input as written
 * (td_traced_input.shared). */
bool td__joint_share_inner(td_joint_run *r);
/* After td__joint_reach: fails if eager saves such an input. A write of an inner tensor
 * does not change its version, so the node could not detect it. */
bool td__joint_check_saved(const td_joint_run *r);
/* Gives t, the tangent of `value`, the same type: inner tensors without gaps. */
bool td__joint_type_tangent(td_joint_run *r, td_tensor *t, const td_tensor *value);

static inline bool td__same_edge(td_edge a, td_edge b) {
    return a.node == b.node && a.nr == b.nr;
}

/* ---- event_index.c ------------------------------------------------------ */

/* What a tensor of the run is, and how its events change it; computed once. */
typedef struct td_tensor_summary {
    int  input, result; /* index of the first one that is this tensor; -1: none */
    bool named;         /* passed or made in the call: a value of the epilogue */
    bool touched;       /* its elements, metadata or flags are written */
    bool observed; /* it has an event that is not a write, or a view of it has any */
    bool meta_written; /* its metadata is, by an event that is live */
} td_tensor_summary;

/* How the events of tensors that use a storage, before or after the event, change
 * it. */
typedef struct td_storage_summary {
    bool changed;    /* elements or metadata of a tensor are written, */
    bool meta;       /* ...metadata */
    bool flagged;    /* requires_grad_ or detach_: a tensor may lose its grad_fn */
    int  n_writes;   /* live events that write elements */
    int  last_write; /* ...the last, of a tensor that uses it afterwards; -1: none */
    int  first_meta; /* the first live event that writes metadata; -1: none */
} td_storage_summary;

/* Indexes a complete log; replaces the index of another log. */
bool td__log_index(td_joint_run *r);
bool td__log_index_event(td_joint_run *r, const td_event *e); /* adds one event */
/* After td__log_slice: needs td_event.live. */
void td__log_index_live(td_joint_run *r);
void td__log_index_free(td_joint_run *r);

/* Never NULL: a tensor without events has a row with default values. */
const td_tensor_summary *td__tensor_summary(const td_joint_run *r, const td_tensor *t);
/* NULL: no event concerns it. */
td_storage_summary *td__storage_summary(const td_joint_run *r, const td_storage *st);

/* The first input that is t, a tensor of the run; -1: none. */
static inline int td__joint_input(const td_joint_run *r, const td_tensor *t) {
    return td__tensor_summary(r, t)->input;
}
/* Is t a view outside of the trace? The copy of an input need not be a view. */
static inline bool td__joint_is_view(const td_joint_run *r, const td_tensor *t) {
    int input = td__joint_input(r, t);
    return (input < 0 ? t : r->inputs[input].real)->base != NULL;
}

/* ---- grads.c ------------------------------------------------------------ */

/* Adds tangents, runs the engine, adds gradients. */
bool td__joint_differentiate(td_joint_run *r);
/* Runs the engine once to r->goal, from all roots whose tangent arrives and whose
 * backward eager allows. The history stays usable for another run. order not NULL: with
 * create_graph, from the roots whose tangents arrive in that order. */
bool td__joint_go_back(td_joint_run *r, const td_grad_order *order, td_tensor **grads);
/* Adds tangent i as an input of the graph. */
bool td__joint_tangent(td_joint_run *r, int i);
/* Is it the storage of an input? */
bool td__joint_is_input(const td_joint_run *r, const td_storage *st);
/* A hook reads argument i, which the body writes, in a way that is unsupported. Always
 * returns false. */
bool td__joint_fail_hook(const td_joint_run *r, int i);
/* Finds the targets of the first order, and which tangents lead to them. */
bool td__joint_targets(td_joint_run *r);

/* ---- higher_order.c ----------------------------------------------------- */

/* Differentiates once, with create_graph: the gradients become the results of the run,
 * and its tangents become inputs. */
bool td__joint_raise(td_joint_run *r, const td_grad_order *o);

/* ---- graph_writes.c ------------------------------------------------------ */

/* Chooses the writes that stay in the graph; before forward outputs are added. */
bool td__joint_choose_writes(td_joint_run *r);
/* Appends them after all nodes that read the written inputs. */
bool td__joint_add_writes(td_joint_run *r);
/* Appends the writes of the backward itself: those after td_traced_input.before. */
bool td__joint_add_late_writes(td_joint_run *r);
/* Fails: forward writes input i, and so does backward. */
bool td__joint_fail_twice(const td_joint_run *r, int i);

/* ---- merge.c, slice.c, forward_outputs.c, epilogue.c: in this order ----- */

bool td__log_merge(td_joint_run *r);       /* merges writes that nothing observes */
bool td__log_slice(td_joint_run *r);       /* sets td_event.live */
bool td__epilogue_values(td_joint_run *r); /* names forward outputs and tangents */
/* At the end of the trace: symbols in geometry become those of the graph. */
bool td__joint_keep_sizes(td_joint *j);
/* Refuses a leaf that is read and then changes size, unless a value computed from it
 * exists after the call. Its gradients have the sizes of the first read as long as its
 * accumulator lives; temporaries of the body may reference it, and a program does not
 * contain how long they live. `dead`: also leaves that cannot be observed outside. */
bool td__joint_check_leaves(const td_joint_run *r, bool dead);
bool td__epilogue_write(td_joint_run *r); /* after the gradients: makes the graph */

/* ---- reach.c ------------------------------------------------------------ */

/* Finds td_target.from, td_tangent.clash and feeds, td_joint.feeds; to[] are the edges
 * of the targets. */
bool td__joint_reach(td_joint_run *r, const td_edge *to);

/* ---- passes.c, input_copies.c ------------------------------------------------- */

/* Moves the nodes from `first` on to before node `to`. False after td__fail. */
bool     td__joint_move_nodes(td_graph *g, int first, int to);
/* The elements of type l in the storage of v, by as_strided; NULL after td__fail. */
td_gval *td__joint_view(td_graph *g, td_gval *v, td_gtype l);
/* How many elements a storage must have to contain g, whose sizes are dims of `of`. At
 * most 0 if g is empty. */
int64_t  td__joint_extent(td_graph *of, const td_geom *g);
bool     td__joint_copy_inputs(td_joint *j);
bool     td__joint_drop_copies(td_joint *j);
bool     td__joint_write_plain(td_joint *j); /* after the two passes above */

#endif
