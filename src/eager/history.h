/* eager/history.h -- the history below some tensors as a key and a list of values, so
 * that a backward through it can be compiled and found again (td_aot_backward).
 *
 * The engine explores the history as for any backward. The key has everything that
 * decides which ops the engine would call: nodes, their numbers, sizes and edges. The
 * values are what these ops read: saved tensors and the gradients of the roots. A trace
 * is a walk of the same engine over the same nodes, on copies without bytes. What it
 * would do to tensors outside (accumulate, store a gradient) it notes as an event with
 * the gradient as a result. A run of the code is followed by these events, in order.
 *
 * Hooks, and nodes that call C code of the user, are the engine's. They cut the history
 * into parts. The engine's own walk goes from cut to cut; a part is a run of nodes
 * between two cuts, and its code takes the walk from the gradients that are pending
 * before the first of them to those pending after the last. So hooks see and do what
 * they see and do without code. */
#ifndef TD_HISTORY_H
#define TD_HISTORY_H

#include "eager/node.h"

struct td_walk;
struct td_walk_roots;

/* How a walk ended that something other than the engine was asked to run. */
typedef enum td_walk_end {
    TD_WALK_LEFT, /* nothing has happened; the engine runs it */
    TD_WALK_DONE,
    TD_WALK_FAILED /* after td__fail */
} td_walk_end;

struct td_history {
    struct td_walk             *w; /* explored, not run */
    const struct td_walk_roots *from;
    TD_VEC(int64_t) key;
    TD_VEC(td_tensor *) values; /* n_saved saved ones, then referenced root gradients */
    int         n_saved;
    int         most;   /* no trace has more events */
    int         n_code; /* nodes that code may run, without leaves */
    const char *host;   /* what cuts it, for a message; NULL: nothing does */
    bool        failed; /* out of memory while it was made */
    bool stale;  /* a saved value was written: the engine says so at the right node */
    bool packed; /* saved-tensor hooks have a value */
    TD_VEC(uint8_t) there;    /* of the part that runs next: td__place_state by place */
    td_tensor *const *copies; /* while it is traced: by value */
    TD_VEC(const void *) storage; /* scratch: a hash set of the values' memory */
};

/* Gradient nr of node `rec` (by its place in the walk) is there; `ran` nodes have run
 * before. */
typedef struct td_event {
    int32_t rec, nr, ran;
} td_event;

/* What a traced walk does besides computing. */
typedef struct td_history_trace {
    TD_VEC(td_event) events; /* in the engine's order */
    /* By event, then pending gradients after a part, by place; referenced, until
     * td__noted_drop. */
    TD_VEC(td_tensor *) results;
    int n_results;
    TD_VEC(int32_t) ran;  /* nodes whose derivative ran: released afterwards */
    TD_VEC(bool) came;    /* of those with td_node_kind.arrived, by result */
    TD_VEC(uint8_t) left; /* of a part: td__place_state after it, by place beyond it */
} td_history_trace;

/* The gradient of result nr of node `rec`. */
typedef struct td_grad_place {
    int32_t rec, nr;
} td_grad_place;

/* Nodes that run one after the other without a cut. Which these are depends on the key
 * and the order of the history alone. */
typedef struct td_history_part {
    TD_VEC(int32_t) recs; /* in the engine's order, leaves too */
    /* Gradients of its nodes, then, from n_inner on, those of later nodes to which its
     * nodes send some. */
    TD_VEC(td_grad_place) at;
    int n_inner;
} td_history_part;

/* td_aot_backward: what runs walks as compiled code. */
struct td_backward_fn {
    TD_OWNED_FIELDS;
    td_walk_end (*run)(td_backward_fn *f, td_history *h, const char **why);
    void (*free)(td_backward_fn *f);
    struct td_backward_code *code; /* of src/aot */
    td_history               h;    /* of the current run */
    bool                     busy, dropped;
    int64_t                  n_compiled, n_engine; /* backwards, by who ran them */
    char why[240]; /* why the engine ran the last of those; "": none yet */
};

/* ---- making one (history.c) --------------------------------------------- */

/* For td_node_kind.describe. Failures are noted in h. */
void        td__history_put(td_history *h, int64_t word);
void        td__history_number(td_history *h, const td_value *v);
void        td__history_geom(td_history *h, const td_geom *g, bool offset);
void        td__history_value(td_history *h, td_tensor *t);
/* All of a node but its edges. Returns as td_node_kind.describe does. */
const char *td__history_node(td_history *h, const td_node *n);

/* ---- tracing and running (history_run.c) -------------------------------- */

/* Is a walk over real nodes being traced? */
bool       td__history_traced(const td_ctx *cx);
/* The copy of a value while a walk is traced; else, or if t is no value, t itself. */
td_tensor *td__history_copy(const td_ctx *cx, td_tensor *t);
/* Runs the engine over the history, or over a part of it, with copies[i] in place of
 * value i. False after td__fail. td__noted_drop in any case. */
bool       td__history_trace(td_history *h, const td_history_part *p,
                             td_tensor *const *copies, td_history_trace *t);
void       td__noted_drop(td_history_trace *t); /* drops the results, not the notes */
void       td__noted_free(td_history_trace *t);
/* After the code has run: frees saved values unless the graph is retained, and does
 * the events. Takes over the reference to each gradient. False after td__fail. */
bool td__history_finish(td_history *h, const td_history_trace *t, td_tensor **grads);
/* Are the nodes in this order by time? order[] has places in the walk, latest first. */
bool td__history_in_order(const td_history *h, const int32_t *order);
/* Fills order[0 .. number of nodes). */
void td__history_order(const td_history *h, int32_t *order);
int  td__history_nodes(const td_history *h);

/* ---- parts (history_parts.c) -------------------------------------------- */

/* For a history with td_history.host: begins the engine's walk. False after td__fail.
 */
bool    td__history_begin(td_history *h);
/* Runs the engine until a node is next that code may run: its place in the walk. -1:
 * no node is left; -2: after td__fail. */
int32_t td__history_next(td_history *h);
/* Finds the part that begins with the next node. False after td__fail. */
bool    td__part_make(td_history *h, td_history_part *p);
void    td__part_free(td_history_part *p);
/* The values and td_history.there of the part that begins with the next node. *why: the
 * engine must run it. False after td__fail. */
bool    td__part_lift(td_history *h, const td_history_part *p, const char **why);
/* After the code of the part has run: frees saved values, does the events, and sets the
 * pending gradients. Takes over the reference to each gradient. False after td__fail.
 */
bool td__part_finish(td_history *h, const td_history_part *p, const td_history_trace *t,
                     td_tensor **grads);
bool td__part_engine(td_history *h, const td_history_part *p); /* runs it */
/* Appends a line about what the engine does for node i of the walk; none if code does
 * all. False: out of memory. */
bool td__history_print_cut(const td_history *h, int i, td_buf *to);

#endif
