/* engine.h -- one backward walk: what engine.c and backward.c share. */
#ifndef TD_ENGINE_H
#define TD_ENGINE_H

#include "eager/eager_int.h"
#include "eager/history.h"

#include <stdio.h>

typedef struct td_walk td_walk;

/* A request for a gradient: that of result nr is stored in *to, with a
 * reference. */
typedef struct td_capture {
    struct td_capture *next;
    int                nr;
    td_tensor        **to;
} td_capture;

/* A node's record in one walk. In the arena td_eager.walks; references its
 * node. */
struct td_rec {
    td_node    *node;
    td_walk    *walk;
    td_rec     *hides;   /* the node's record in an outer walk; restored at the end */
    int32_t     deps;    /* edges into the node that have not delivered yet */
    int32_t     next;    /* the edge to explore next */
    int32_t     index;   /* in td_walk.lists.recs */
    bool        seen;    /* exploration reached it */
    bool        wanted;  /* must run: it leads to a requested gradient */
    bool        reached; /* an edge delivered, with a gradient or without */
    uint64_t    came;    /* to which of the first 64 results edges delivered */
    int32_t     key, key_end; /* of a history: where its key describes the node */
    const char *host;  /* of a history: why the engine runs the node; NULL: code does */
    bool        hears; /* ...it has hooks that run before its derivative */
    bool        heard; /* its requests and these hooks have run */
    td_capture *capture;    /* requested gradients of its results */
    td_tensor  *one, **buf; /* sums of gradients by result, referenced */
};

struct td_walk {
    td_ctx           *cx;
    bool              keep;      /* retain_graph: saved values stay */
    bool              create;    /* create_graph: the backward itself is recorded */
    bool              some;      /* run only nodes that lead to requested gradients */
    bool              holes;     /* a NULL gradient of a root is absent, not 1 */
    bool              stop;      /* do not continue beyond requested gradients */
    bool              explained; /* the error message names its forward op already */
    /* Runs the walk in the engine's place where it can (td_aot_backward); or NULL. */
    td_backward_fn   *by;
    /* The walk is a trace: what it does is noted here instead of done; or NULL. */
    td_history_trace *trace;
    td_walk_lists     lists; /* work lists */
};

/* A walk: begin; enter and explore each root; add and arrive each root's gradient; run;
 * end. Functions return false after td__fail; td__walk_end is called in any case. */
void               td__walk_begin(td_walk *w);
/* The record of n in this walk, made on first use. */
td_rec            *td__walk_enter(td_walk *w, td_node *n); /* NULL after td__fail */
/* Finds all nodes reachable from a root, counts their dependencies and marks those
 * that must run. */
bool               td__walk_explore(td_walk *w, td_rec *root);
/* Adds g to the gradient of result nr; takes over one reference. */
bool               td__walk_add(td_walk *w, td_rec *r, int nr, td_tensor *g);
/* One edge into r has delivered; the last one makes r ready. */
bool               td__walk_arrive(td_walk *w, td_rec *r);
/* Runs ready nodes, latest first, until none is left. */
bool               td__walk_run(td_walk *w);
/* The ready node that runs next; NULL: none is left. */
td_rec            *td__walk_top(const td_walk *w);
bool               td__walk_step(td_walk *w); /* runs it */
/* Runs its requests and the hooks that come before its derivative. It stays the next.
 */
bool               td__walk_hear(td_walk *w);
/* Something else has run it: drops its gradients; its edges count as delivered. */
bool               td__walk_pass(td_walk *w);
/* Runs one node for which a walk that was compiled has computed gradients. */
bool               td__walk_run_one(td_walk *w, td_rec *r);
void               td__walk_end(td_walk *w);
/* Must gradients be sent to this node? */
static inline bool td__rec_leads(const td_rec *r) { return r->wanted || r->capture; }
/* The record of n in this walk; NULL: the walk does not reach it. */
td_rec            *td__walk_find(const td_walk *w, const td_node *n);

/* ---- backward.c --------------------------------------------------------- */

/* The incoming gradient of root i, with a reference: the given one, cast to the
 * root's dtype, or 1 for a scalar. NULL after td__fail. */
td_tensor *td__root_grad(td_tensor *root, td_tensors grads, int i, const char *who);

/* ---- history.c, history_run.c ------------------------------------------- */

/* What a walk starts from. */
typedef struct td_walk_roots {
    td_tensors  roots, grads;
    td_rec    **recs; /* by root */
    const char *who;
} td_walk_roots;
/* Delivers the gradients of the roots. */
bool                  td__walk_feed(td_walk *w, const td_walk_roots *from);
/* Has w->by run the walk, which is explored and not begun, if it can. */
td_walk_end           td__history_run(td_walk *w, const td_walk_roots *from);
/* Is the gradient of root i a value of h? If not it is the number 1. */
bool                  td__root_has_tangent(const td_history *h, int i);
/* Adds a node that leads to the key, and its values. Returns why the engine must run
 * it; NULL: code can. */
const char           *td__history_put_node(td_history *h, const td_rec *r);
/* Collects the values of a node that code runs again: what the engine ran since may
 * have written or freed some, or registered hooks. False if the node is not as the key
 * describes it. */
bool                  td__history_lift_node(td_history *h, const td_rec *r);
/* Has it hooks that run before its derivative? */
bool                  td__history_hears(const td_node *n);
/* Is r a leaf whose .grad, to which the backward adds, shares memory with a value?
 * Eager may write it before it reads the value; code reads all values first. */
bool                  td__grad_is_read(td_history *h, const td_rec *r);
/* Node i of the walk. */
static inline td_rec *td__history_rec(const td_history *h, int i) {
    return h->w->lists.recs.v[i];
}
/* Has a gradient of result nr arrived? */
static inline bool td__pending(const td_rec *r, int nr) { return r->buf[nr] != NULL; }
/* What code that begins or ends here depends on: is a gradient there, and did an edge
 * deliver to the node at all? */
static inline uint8_t td__place_state(const td_rec *r, int nr) {
    return (uint8_t)(td__pending(r, nr) | r->reached << 1);
}
/* Why code may not run at present; NULL: it may. */
const char *td__history_refuses(const td_walk *w);
#define TD_WHY_STALE "a saved value was written or detached since"
#define TD_WHY_GRAD "a .grad shares memory with a value that is read"
/* For a walk with td_walk.trace: the node's derivative runs now; the gradients asked
 * of it are there. False after td__fail. */
bool td__note_ran(td_history_trace *t, const td_rec *r);
bool td__note_gradient(td_history_trace *t, const td_rec *r);

#endif
