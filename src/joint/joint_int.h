/* joint_int.h -- a run that makes a joint graph; private to this directory. */
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
    td_tensor      **roots;          /* by tangent: where the engine starts */
    td_tensor      **tangent;        /* outer */
    int              first_tangent;  /* its number among the inputs of `f` */
    td_edge         *goal;           /* by target: its edge; nodes are held elsewhere */
    bool             typed_tangents; /* some are of the types of their values */
    int              order;          /* of differentiation that is traced, from 0 */
    int              first; /* node that the backward of the highest order begins at */
    TD_VEC(td_log) logs;    /* of the orders below, ended */
    td_faker  fakes;
    td_record rec;
    td_func   f;
    td_log    log;
    TD_VEC(td_node *)
    bound;               /* referenced: accumulators of leaves that are bound inside */
    td_tensor **values;  /* by forward output: inner; NULL: it is a number, */
    int64_t    *numbers; /* ...a symbol that only run time knows */
    bool        grad, inference;   /* modes of the call */
    td_ptrmap   tensors, storages; /* event_index.c's */
    td_look_fn *look;              /* td__joint_look; NULL: none */
    void       *look_env;
} td_joint_run;

/* ---- trace.c ------------------------------------------------------------ */

/* The value of an outer tensor becomes the next output; its number, -1 on failure. */
int td__joint_output(td_joint_run *r, td_tensor *value, td_desc d);

/* Inputs that share an inner tensor with an input that is written count as written, too
 * (td_traced_input.shared). */
bool td__joint_share_inner(td_joint_run *r);
/* After td__joint_reach: fails if eager saves such an input. No version tells it that
 * an inner tensor was written. */
bool td__joint_check_saved(const td_joint_run *r);
/* Makes t, a tangent of `value`, one of the same type: inner tensors without gaps. */
bool td__joint_type_tangent(td_joint_run *r, td_tensor *t, const td_tensor *value);

static inline bool td__same_edge(td_edge a, td_edge b) {
    return a.node == b.node && a.nr == b.nr;
}

/* ---- event_index.c ------------------------------------------------------ */

/* What a tensor of the run is, and what its events do to it; found once. */
typedef struct td_about_tensor {
    int  input, result; /* the first that is this; -1: none */
    bool named;         /* passed, or made inside: the epilogue can name it */
    bool touched;       /* its elements, metadata or flags are written */
    bool observed;      /* an event that is no write is of it, or any is of a view */
    bool meta_written;  /* its metadata is, by an event that is live */
} td_about_tensor;

/* What the events of tensors that use a storage, before or after the event, do. */
typedef struct td_about_storage {
    bool changed;    /* elements or metadata of a tensor are written, */
    bool meta;       /* ...metadata */
    bool flagged;    /* requires_grad_ or detach_: a tensor may lose its history */
    int  n_writes;   /* live events that write elements */
    int  last_write; /* ...the last, of a tensor that uses it afterwards; -1: none */
    int  first_meta; /* the first live event that writes metadata; -1: none */
} td_about_storage;

/* Of a log that is complete, instead of the index of another. */
bool td__log_index(td_joint_run *r);
bool td__log_index_event(td_joint_run *r, const td_event *e); /* of one more event */
/* After td__log_slice: needs td_event.live. */
void td__log_index_live(td_joint_run *r);
void td__log_index_free(td_joint_run *r);

/* Never NULL: a tensor without events has a row of its own. */
const td_about_tensor *td__about_tensor(const td_joint_run *r, const td_tensor *t);
/* NULL: no event concerns it. */
td_about_storage      *td__about_storage(const td_joint_run *r, const td_storage *st);

/* The first input that is t, a tensor of the run; -1: none. */
static inline int td__joint_input(const td_joint_run *r, const td_tensor *t) {
    return td__about_tensor(r, t)->input;
}

/* ---- grads.c ------------------------------------------------------------ */

/* Adds tangents, runs the engine, adds gradients. */
bool td__joint_differentiate(td_joint_run *r);
/* Runs the engine once to r->goal, from all roots whose tangent arrives and whose
 * backward eager allows. The history stays for another run. order: with create_graph,
 * from the roots whose tangents arrive in that order. */
bool td__joint_go_back(td_joint_run *r, const td_grad_order *order, td_tensor **grads);
/* Adds tangent i, an input of the graph; given: it is one of the next order, too. */
bool td__joint_tangent(td_joint_run *r, int i);
/* Is it the storage of an input? */
bool td__joint_is_input(const td_joint_run *r, const td_storage *st);
/* Finds the targets of the first order, and which tangents lead to them. */
bool td__joint_targets(td_joint_run *r);

/* ---- higher_order.c ----------------------------------------------------- */

/* Differentiates once, with create_graph: the gradients are what the run returns from
 * here on, and its tangents are inputs. */
bool td__joint_raise(td_joint_run *r, const td_grad_order *o);

/* ---- graph_writes.c ------------------------------------------------------ */

/* Chooses the writes that stay in the graph; before forward outputs are added. */
bool td__joint_choose_writes(td_joint_run *r);
/* Appends them, after everything has read what they write. */
bool td__joint_add_writes(td_joint_run *r);
/* Appends writes of the backward itself: those after td_traced_input.before. */
bool td__joint_add_late_writes(td_joint_run *r);

/* ---- merge.c, slice.c, forward_outputs.c, epilogue.c: in this order ----- */

bool td__log_merge(td_joint_run *r);       /* merges writes that nothing observes */
bool td__log_slice(td_joint_run *r);       /* sets td_event.live */
bool td__epilogue_values(td_joint_run *r); /* names forward outputs and tangents */
/* At the end of the trace: symbols in geometry become those of the graph. */
bool td__joint_keep_sizes(td_joint *j);
/* Refuses a leaf that is read and then gets other sizes, unless something that was
 * computed from it lives on. Its gradients have the sizes it was first read with as
 * long as its accumulator lives, which temporaries of the body may hold; a program does
 * not say how long they live. `dead`: also leaves that nothing outside observes. */
bool td__joint_check_leaves(const td_joint_run *r, bool dead);
bool td__epilogue_write(td_joint_run *r); /* behind the gradients: the graph */

/* ---- reach.c ------------------------------------------------------------ */

/* Finds td_target.from, td_tangent.clash and feeds, td_joint.feeds; to[] are the edges
 * of the targets. */
bool td__joint_reach(td_joint_run *r, const td_edge *to);

/* ---- passes.c, input_copies.c ------------------------------------------------- */

/* Moves the nodes from `first` on before node `to`. False after td__fail. */
bool     td__joint_move_nodes(td_graph *g, int first, int to);
/* The elements of type l in the storage of v, by as_strided; NULL after td__fail. */
td_gval *td__joint_view(td_graph *g, td_gval *v, td_gtype l);
/* How many elements a storage must have for those at g, whose sizes are dims of `of`.
 * Not above 0 where g is empty. */
int64_t  td__joint_extent(td_graph *of, const td_geom *g);
bool     td__joint_copy_inputs(td_joint *j);
bool     td__joint_drop_copies(td_joint *j);
bool     td__joint_write_plain(td_joint *j); /* behind the two before */

#endif
