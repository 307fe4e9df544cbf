/* eager/node.h -- nodes of the autograd graph: edges, recorded geometry of
 * inputs and results, saved values. For the tape, and for later stages that put
 * node kinds of their own on tensors (compiled calls).
 *
 * Ownership: a tensor references the node that made it (ag->fn). A node
 * references the nodes its gradients go to and the values it saved. The
 * accumulation node of a leaf references the leaf, which knows the node by a
 * weak pointer. A saved result is an alias without history. So there are no
 * cycles. */
#ifndef TD_NODE_H
#define TD_NODE_H

#include "core/place.h"
#include "eager/eager.h"

typedef struct td_rec     td_rec; /* a node's place in one backward walk (engine.c) */
typedef struct td_hookrec td_hookrec;
typedef struct td_history td_history; /* a walk as key and values (history.h) */
typedef struct td_pack    td_pack; /* a saved value that went through hooks (saved.c) */

/* Where a gradient goes: result nr of a node. */
typedef struct td_edge {
    td_node *node; /* one reference; NULL: nowhere */
    int32_t  nr;
} td_edge;

/* td_saved.flags */
enum {
    TD_SV_OUTPUT = 1, /* a result of the node: gets the node as grad_fn when read */
    TD_SV_LEAF = 2,   /* had no grad_fn, or is a result: may be detached in place */
    TD_SV_ALIAS = 4,  /* t is an alias without history; else the tensor itself */
    TD_SV_FREED = 8,  /* released by an earlier backward */
    TD_SV_PLAIN = 16, /* stashed: no version check, no history */
    TD_SV_SPARE = 32  /* read for a gradient of a gradient; absent if written since */
};

/* A value saved for backward. Reading it fails if its storage was written since. */
typedef struct td_saved {
    td_tensor  *t;         /* one reference */
    td_pack    *pack;      /* set: t is NULL and saved-tensor hooks have the value */
    uint64_t    version;   /* of the storage when saved */
    const void *st;        /* the storage then, which set_ may have replaced since */
    int32_t     nr;        /* TD_SV_OUTPUT: which result */
    int16_t     arg, item; /* argument and index in its list; arg -1 - i: result i */
    uint8_t     flags;
} td_saved;

/* The functions of a kind of node. need[] and grads[] are by edge; grads[] is NULL on
 * entry and gets tensors of the innermost scope. */
typedef struct td_node_kind {
    const char *name;
    bool (*apply)(td_node *n, td_tensor *const *g, const bool *need, td_tensor **grads);
    void (*release)(td_node *n); /* frees saved values; NULL: those in n->saved */
    void (*destroy)(td_node *n); /* frees the rest of `data`; may be NULL */
    /* Does it run even when no gradient arrived? NULL: never. */
    bool (*hungry)(const td_node *n);
    /* Did no arrived gradient reach edge i? Then the nodes beyond it count as not
     * reached, as in eager. NULL: never. */
    bool (*apart)(const td_node *n, int i);
    bool binds; /* of a compiled call: its plan binds edges after the node is made */
    /* Would eager send the gradient of result `from` through result `to`, both of this
     * one node? NULL: never. */
    bool (*passes)(const td_node *n, int from, int to);
    /* Fails because of such a pair, with the names the user knows them by. */
    bool (*refuse)(const td_node *n, int from, int to);
    /* Adds to a history what the derivative depends on, besides what all nodes have
     * (history.c). Returns why compiled code cannot run the node, a literal; NULL: it
     * can. describe NULL: it never can. */
    const char *(*describe)(const td_node *n, td_history *h);
    /* Compiled code ran the derivative, and came[i] says whether the gradient of result
     * i arrived; called before the node is released. NULL: it makes no difference. */
    void (*arrived)(td_node *n, const bool *came);
} td_node_kind;

extern const td_node_kind td__accumulate_kind; /* data: the leaf */

/* td_node.flags */
enum {
    TD_NF_FREED = 1, /* its saved values were released */
    TD_NF_ZERO = 2,  /* the derivative is zero */
    TD_NF_NONE = 4,  /* there is no derivative: backward through it fails */
    /* grad_fn of a view that a compiled call returned or wrote, from which other
     * results of the call were computed: their gradients do not pass through it */
    TD_NF_MISSED = 8,
    /* grad_fn of a fake copy: it represents a node outside of the trace */
    TD_NF_OUTSIDE = 16,
    /* a captured branch, loop or region whose gradient was recorded: that gradient
     * reads results of ops that were called once more, and not those of the node */
    TD_NF_REPEATED = 32
};

/* A node: one recorded op call, custom function, compiled call, write into a view, or
 * the accumulation into a leaf. Its arrays are in the same block. */
struct td_node {
    TD_HANDLE_FIELDS;
    const td_node_kind *kind;
    const char         *name; /* of the op, the custom function or the kind */
    const td_opdef     *def;  /* ops only */
    const td_opinfo    *info; /* ops only */
    int32_t             refs;
    uint16_t            flags; /* TD_NF_... */
    uint16_t            units; /* block size in 64-byte units; 0: too large to pool */
    uint64_t            seq;   /* creation order; in backward later nodes run first */
    td_rec             *rec;   /* record in the innermost walk that reached it */
    td_node            *next;  /* in a free list or in td_eager.dying */
    td_where            here;  /* the user's source line */
    const td_place     *stack; /* of a traced op: the calls around it; or NULL */
    char               *path;  /* scope labels, in anomaly mode; else NULL */
    td_hookrec         *hooks; /* on its results and on itself */
    void               *data;  /* of the kind */
    int32_t             n_edge, n_out, n_saved, n_in;
    td_edge            *edge;     /* one per tensor argument */
    td_geom            *in_type;  /* by edge: geometry of the argument */
    td_geom            *out_type; /* by result: without strides */
    td_saved           *saved;
    td_node            *owner; /* the copy_slices node that runs it, weak; or NULL */
    td_value           *in;    /* by argument; tensors are left out */
    void               *extra; /* heap memory of out_type, or NULL */
};

/* ---- node.c: nodes and tensor states ------------------------------------ */

/* The sizes of a node's arrays, which are allocated with it in one block and
 * not initialized, except edges. */
typedef struct td_node_plan {
    int n_edge, n_out, n_saved, n_in;
    int n_ints;  /* int64s for dims and lists */
    int n_chars; /* for strings */
} td_node_plan;
td_node *td__node_make(td_ctx *cx, const td_node_kind *kind, const td_node_plan *p,
                       int64_t **ints, char **chars);
static inline td_node *td__node_ref(td_node *n) {
    n->refs++;
    return n;
}
void td__node_drop(td_node *n); /* frees chains of nodes without recursion */
/* Does it have saved values, so that a second backward fails without retain_graph? */
bool td__node_saves(const td_node *n);
void td__node_release(td_node *n); /* frees its saved values */
/* For the derivative of a node, while a walk runs it (engine.c): will the node's saved
 * values stay for another backward (retain_graph)? */
bool td__walk_retains(const td_node *n);
/* Did an edge deliver to result nr, with a gradient or without? */
bool td__walk_came(const td_node *n, int nr);
/* Moves the gradient of result nr from the walk to the innermost scope, if nobody else
 * can look at it or its storage. False: it stays, or after td__fail. */
bool td__walk_give(td_node *n, int nr);
/* Is what n sends along this edge added to the .grad of a leaf? */
bool td__walk_accumulates(const td_node *n, int edge);
/* Records the geometry of t in *ints, which advances. strided: strides too. */
void td__node_type(td_geom *to, const td_tensor *t, bool strided, int64_t **ints);
/* Records the geometry of results in `dims`, n_dims int64s of the node's block; if
 * that is too small, on the heap. */
bool td__node_outputs(td_node *n, td_tensor *const *out, int n_out, int64_t *dims,
                      int n_dims);

td_autograd *td__state(td_tensor *t); /* makes one; NULL after td__fail */
void         td__state_free(td_tensor *t);
/* Makes result nr of n the grad_fn of t. A retained gradient moves to the new
 * node. */
bool         td__set_history(td_tensor *t, td_node *n, int nr);
/* Removes grad_fn and requires_grad: t becomes a leaf. */
void         td__clear_history(td_tensor *t);
/* Where the gradient of t goes; e->node gets a reference, NULL: nowhere. False
 * after td__fail. */
bool         td__edge_of(td_tensor *t, td_edge *e);
/* Does it have a grad_fn, stale or not? */
bool         td__has_node(const td_tensor *t);
td_node     *td__last_node(const td_tensor *t); /* that grad_fn; NULL: none */
/* The accumulation node of a leaf, with a reference; made on first use. NULL
 * after td__fail. */
td_node     *td__accumulator(td_tensor *leaf);
/* The same node if it exists, even if the leaf no longer requires grad. No
 * reference. */
td_node     *td__known_accumulator(const td_tensor *leaf);
/* Is t a stale view: one whose grad_fn must be regenerated, because its base or
 * another view of it was written? */
bool         td__is_behind(const td_tensor *t);
/* Is t a view, not stale, with a history other than its base's? A write to t
 * goes into the base's history, and t's own is lost. */
bool         td__is_apart(const td_tensor *t);
/* The grad_fn of t; a stale view's is regenerated first. False after td__fail. */
bool         td__fn_of(td_tensor *t, td_node **fn);
/* May `who` (td_grad, a hook) use the gradient of t, whose grad_fn is fn? Fails
 * if a compiled call or a repeated graph makes that gradient incomplete (TD_NF_MISSED,
 * TD_NF_REPEATED). */
bool         td__grad_arrives(const td_tensor *t, const td_node *fn, const char *who);

/* Callbacks for changes of history that are not op calls, so that a trace can log
 * them. td_ctx.listener is ambient: a trace inside of another, of a nested graph, does
 * not report to the outer one. */
struct td_listener {
    /* A stale view got a new grad_fn. */
    bool (*touched)(void *env, td_tensor *t);
    /* A custom function returned t: its creation mark is set, and its grad_fn if
     * `recorded`. in_place: t is an input that the function wrote. */
    bool (*given)(void *env, td_tensor *t, bool recorded, bool in_place);
    /* A hook is registered on t, which has a grad_fn. */
    bool (*hooked)(void *env, td_tensor *t);
    void *env;
};

/* ---- saved.c ------------------------------------------------------------ */

/* Saves t for backward, through saved-tensor hooks if any are pushed. output: t is
 * result nr of the node. False after td__fail. */
bool       td__save(td_saved *s, td_tensor *t, bool output, int nr);
/* Is it a spare value (TD_SV_SPARE) that is not there or not wanted now? */
bool       td__saved_is_absent(const td_saved *s);
/* Reads a saved value; fails if its storage was written since. Borrowed from the node
 * or owned by the innermost scope. NULL after td__fail. */
td_tensor *td__unpack(td_node *n, const td_saved *s);
bool       td__fail_second(const td_node *n); /* "backward a second time" */
void       td__saved_free(td_saved *s);
/* Is it an argument whose grad_fn detach_ took since it was saved? Not for packed
 * values. */
bool       td__saved_is_detached(const td_saved *s);
/* An alias of t without history; the caller owns a reference, no scope does.
 * NULL after td__fail. */
td_tensor *td__loose_alias(td_tensor *t);
/* An alias of t whose gradient goes to e. NULL after td__fail. */
td_tensor *td__alias_at(td_tensor *t, td_edge e);
/* The tensor of geometry g in the storage of `whole`, with a history by ops. One of the
 * two may be complex and the other real: a view of its parts, or of pairs. nil on
 * failure. */
td_tensor *td__view_at(td_tensor *whole, const td_geom *g);

/* ---- inplace.c ---------------------------------------------------------- */

/* After t was written by the op of node n: result nr of n becomes t's grad_fn.
 * If t is a view, its base gets a copy_slices node instead and t's grad_fn is
 * regenerated. self_edge: the edge of n that is t. */
bool td__rebase(td_tensor *t, td_node *n, int nr, int self_edge);

/* ---- epilogue_ops.c ----------------------------------------------------- */

/* Runs an op that only plans of compiled calls contain (_made, _assign, ...), on all
 * arguments of its schema; it returns the first. False after td__fail. */
typedef bool td_step_fn(const td_value *in);
/* NULL: another op. */
td_step_fn  *td__step_of(td_op op);

/* ---- backward.c --------------------------------------------------------- */

/* td_grad with respect to edges. Gradients end there: nodes beyond an edge get
 * nothing of what arrives at it. grads[i] is NULL if nothing arrived. opts->grads has
 * one gradient for each output; NULL: its node runs without one. */
bool td__grad_edges(td_tensors outputs, const td_edge *to, int n, td_tensor **grads,
                    const td_grad_opts *opts);
/* td__grad_edges that runs every reachable node, as td_backward does; nodes
 * that lead to none of the edges may fail. */
bool td__grad_all(td_tensors outputs, const td_edge *to, int n, td_tensor **grads,
                  const td_grad_opts *opts);

#endif
