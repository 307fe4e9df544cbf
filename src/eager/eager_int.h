/* eager_int.h -- nodes, edges, saved values and the context's autograd state.
 * Private to the room.
 *
 * Who holds whom: a tensor holds the node that made it (ag->fn); a node holds the
 * nodes its gradients go to and the values it saved; the accumulation node of a
 * leaf holds the leaf, and the leaf knows it without holding it. A saved result is
 * an alias without history, so there are no cycles. */
#ifndef TD_EAGER_INT_H
#define TD_EAGER_INT_H

#include "eager/eager.h"

typedef struct td_rec     td_rec; /* a node's place in one backward walk (engine.c) */
typedef struct td_hookrec td_hookrec;
typedef struct td_pack    td_pack; /* a saved value that went through hooks (saved.c) */

typedef struct td_edge {
    td_node *node; /* held; NULL: no gradient is wanted */
    int32_t  nr;   /* which result of it */
} td_edge;

/* What a tensor looked like; dims lie in the node. */
typedef struct td_note {
    const int64_t *dims; /* sizes, then strides when strided */
    int64_t        offset;
    uint8_t        dtype, rank;
    bool           strided;
} td_note;

enum {
    TD_SV_OUTPUT = 1, /* a result: reattached to its own node */
    TD_SV_LEAF = 2,   /* had no grad function */
    TD_SV_ALIAS = 4,  /* t is an alias without history; else the tensor itself */
    TD_SV_FREED = 8,
    TD_SV_PLAIN = 16 /* no version check, no history (stash) */
};

typedef struct td_saved {
    td_tensor *t;    /* held */
    td_pack   *pack; /* set: t is NULL and hooks hold the value */
    uint64_t   version;
    int32_t    nr;        /* TD_SV_OUTPUT: which result */
    int16_t    arg, item; /* argument and place in its list, or -1 - result */
    uint8_t    flags;
} td_saved;

/* What a kind of node does. grads[] come in as NULL and are filled with tensors of
 * the innermost scope; need[] and grads[] are by edge. */
typedef struct td_node_kind {
    const char *name;
    bool (*apply)(td_node *n, td_tensor *const *g, const bool *need, td_tensor **grads);
    void (*release)(td_node *n); /* lets go of saved values; NULL: the standard way */
    void (*destroy)(td_node *n); /* the rest of `data`; may be NULL */
    bool hungry;                 /* runs also when no gradient arrived */
} td_node_kind;

enum { TD_NF_FREED = 1, TD_NF_ZERO = 2, TD_NF_NONE = 4 };

struct td_node {
    const td_node_kind *kind;
    td_ctx             *cx;
    const char         *name; /* the op's, the custom function's or the kind's */
    const td_opdef     *def;  /* ops only */
    const td_opinfo    *info;
    int32_t             refs;
    uint16_t            flags; /* TD_NF_... */
    uint16_t            units; /* size in 64 byte units; 0: from td__alloc */
    uint64_t            seq;   /* later nodes run first */
    td_rec             *rec;   /* of the innermost walk that reached it */
    td_node            *next;  /* in a free list or among the dying */
    td_where            here;
    char               *path;  /* scopes, in anomaly mode; else NULL */
    td_hookrec         *hooks; /* on its results and on itself */
    void               *data;  /* of the kind */
    int32_t             n_edge, n_out, n_saved, n_in;
    td_edge            *edge;
    td_note            *note;     /* by edge: the input */
    td_note            *out_note; /* by result */
    td_saved           *saved;
    td_node            *owner; /* CopySlices that runs it, not held; else NULL */
    td_value           *in;    /* by argument; tensors are empty */
    void               *extra; /* heap memory of out_note, or NULL */
};

/* A tensor's autograd state. */
struct td_autograd {
    td_node     *fn; /* held; NULL: a leaf */
    int32_t      nr;
    bool         wants;   /* a leaf that requires grad */
    bool         retains; /* no leaf, but its gradient is stored */
    td_tensor   *grad;    /* held */
    td_node     *accum;   /* not held; NULL until an op reads the leaf */
    td_hookrec  *hooks;   /* of a leaf */
    td_autograd *next;    /* free list */
};

typedef enum td_hook_kind {
    TD_HOOK_GRAD,
    TD_HOOK_RETAIN,
    TD_HOOK_LEAF,
    TD_HOOK_PRE,
    TD_HOOK_POST
} td_hook_kind;

/* One hook, in the list of its owner and in that of the context. */
struct td_hookrec {
    td_hookrec  *next;           /* of the owner, in order of registration */
    td_hookrec  *before, *after; /* of the context */
    td_hookrec **owner;          /* NULL: removed while hooks run */
    uint64_t     id;
    td_hook_kind kind;
    int32_t      nr; /* which result of the node */
    td_tensor   *t;  /* RETAIN: not held */
    void        *env;
    union {
        td_grad_hook *grad;
        td_leaf_hook *leaf;
        td_pre_hook  *pre;
        td_post_hook *post;
    } fn;
};

#define TD_NODE_CLASSES 17

typedef struct td_eager {
    td_mode      mode; /* the tape */
    td_ctx      *cx;
    uint64_t     seq;
    td_node     *pool[TD_NODE_CLASSES]; /* free nodes by 64 byte units */
    td_autograd *states;                /* free states */
    td_node     *dying;                 /* td__node_drop's work list */
    bool         burying;
    td_hookrec  *hooks; /* all of the context */
    int          hooks_running;
    bool         hooks_removed;
    uint64_t     last_hook;
    td_arena     walks;             /* records of backward walks, nested ones on top */
    TD_VEC(td_saved_hooks) packers; /* stack; the top one counts, pack NULL: none */
    const td_opdef *resize;
} td_eager;

static inline td_eager *td__eager(const td_ctx *cx) { return cx->eager; }
static inline uint64_t  td__version(const td_tensor *t) {
     return atomic_load_explicit(&t->st->version, memory_order_relaxed);
}
/* A view in the sense of autograd. */
static inline bool td__is_diff_view(const td_tensor *t) {
    return t->base && !(t->flags & TD_TF_CUT);
}

/* ---- tape.c: the mode --------------------------------------------------- */

bool td__tape_call(td_mode *m, td_opcall *c);

/* ---- gradmode.c, inplace.c: the tape's part of td_set_requires_grad, td_detach_ -- */

bool       td__heard(const td_ctx *cx); /* are there modes above the tape? */
td_tensor *td__set_requires_grad(td_tensor *t, bool on);
td_tensor *td__detach_in_place(td_tensor *t);
/* td_saved_hooks_push, also during a capture. */
bool       td__saved_hooks_push(td_ctx *cx, const td_saved_hooks *hooks);

/* ---- node.c: nodes and tensor states ------------------------------------ */

/* Room for a node with its arrays in one block; arrays are not set. */
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
void td__node_drop(td_node *n); /* without recursion over graphs */
void td__node_release(td_node *n);
/* Writes what t looks like; *ints moves on. */
void td__note(td_note *note, const td_tensor *t, bool strided, int64_t **ints);
void td__note_meta(const td_note *note, td_meta *m);
bool td__note_outputs(td_node *n, td_tensor *const *out, int n_out, int64_t *room,
                      int n_room);

td_autograd *td__state(td_tensor *t); /* makes one; NULL after td__fail */
void         td__state_free(td_tensor *t);
/* Makes n the node of t; t's old node is let go, retained gradients move along. */
bool         td__set_history(td_tensor *t, td_node *n, int nr);
/* Takes t off its node and its wish for gradients away. */
void         td__clear_history(td_tensor *t);
/* Where the gradient of t goes, with a reference; node NULL: nowhere. False: failed. */
bool         td__edge_of(td_tensor *t, td_edge *e);
/* The node of t, brought up to date for a view whose base was written. */
bool         td__fn_of(td_tensor *t, td_node **fn);

/* ---- inplace.c ---------------------------------------------------------- */

bool           td__check_write(td_opcall *c, td_tensor *t);
/* After a write: t's history is now n, result nr; writes into a view rebase. */
bool           td__rebase(td_tensor *t, td_node *n, int nr, int self_edge);
bool           td__regenerate(td_tensor *t); /* a view behind its storage */
/* What the base of a copy_slices node looked like. */
const td_note *td__slices_base(const td_node *n);
/* A copy of g with the strides of the note. nil on failure. */
td_tensor     *td__copy_like(td_ctx *cx, td_tensor *g, const td_note *like);

/* ---- saved.c ------------------------------------------------------------ */

bool       td__save(td_saved *s, td_tensor *t, bool output, int nr);
/* Gives the tensor in the innermost scope (or alive elsewhere); NULL after fail. */
td_tensor *td__unpack(td_node *n, const td_saved *s);
void       td__saved_free(td_saved *s);

/* ---- hooks.c ------------------------------------------------------------ */

bool td__hooks_grad(td_ctx *cx, td_hookrec *list, td_tensor **g, int n);
bool td__hooks_pre(td_ctx *cx, td_hookrec *list, td_tensor **g, int n);
bool td__hooks_post(td_ctx *cx, td_hookrec *list, td_tensor **made, int n_made,
                    td_tensor *const *g, int n);
bool td__hooks_leaf(td_tensor *t);
void td__hooks_free(td_ctx *cx, td_hookrec **list);
/* The retained gradient of t moves from node `from` to `to`, result nr. */
bool td__retain_move(td_tensor *t, td_node *from, td_node *to, int nr);

/* ---- engine.c ----------------------------------------------------------- */

extern const td_node_kind td__accumulate_kind, td__op_kind, td__slices_kind;
/* The accumulation node of a leaf, with a reference; NULL after td__fail. */
td_node                  *td__accumulator(td_tensor *leaf);
/* Takes over one reference to g. */
bool                      td__grad_accumulate(td_tensor *leaf, td_tensor *g);

/* ---- small helpers (node.c) --------------------------------------------- */

/* Calls an op with two arguments at most; nil on failure. */
td_tensor            *td__op1(td_ctx *cx, td_op op, td_tensor *a);
td_tensor            *td__op2(td_ctx *cx, td_op op, td_tensor *a, td_value b);
static inline td_ints td__note_sizes(const td_note *n) {
    return (td_ints){n->dims, n->rank};
}

#endif
