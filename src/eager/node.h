/* eager/node.h -- nodes of the tape: edges, what inputs looked like, saved values. For
 * the tape itself and for rooms to the right that hang kinds of nodes of their own
 * on tensors.
 *
 * Who holds whom: a tensor holds the node that made it (ag->fn); a node holds the
 * nodes its gradients go to and the values it saved; the accumulation node of a
 * leaf holds the leaf, and the leaf knows it without holding it. A saved result is
 * an alias without history, so there are no cycles. */
#ifndef TD_NODE_H
#define TD_NODE_H

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
    td_tensor  *t;    /* held */
    td_pack    *pack; /* set: t is NULL and hooks hold the value */
    uint64_t    version;
    const void *st;        /* its storage then: set_ may have moved it */
    int32_t     nr;        /* TD_SV_OUTPUT: which result */
    int16_t     arg, item; /* argument and place in its list, or -1 - result */
    uint8_t     flags;
} td_saved;

/* What a kind of node does. grads[] come in as NULL and are filled with tensors of
 * the innermost scope; need[] and grads[] are by edge. */
typedef struct td_node_kind {
    const char *name;
    bool (*apply)(td_node *n, td_tensor *const *g, const bool *need, td_tensor **grads);
    void (*release)(td_node *n); /* lets go of saved values; NULL: the standard way */
    void (*destroy)(td_node *n); /* the rest of `data`; may be NULL */
    bool hungry;                 /* runs also when no gradient arrived */
    /* Did nothing that came lead to edge i? What lies behind is as if it were not
     * there. NULL: never. */
    bool (*apart)(const td_node *n, int i);
    /* Would eager send the gradient of result `from` through result `to`, both of this
     * one node? NULL: never. */
    bool (*passes)(const td_node *n, int from, int to);
    /* td__fail, with the names the user knows the two by. */
    bool (*refuse)(const td_node *n, int from, int to);
} td_node_kind;

enum {
    TD_NF_FREED = 1,
    TD_NF_ZERO = 2,
    TD_NF_NONE = 4,
    /* of a view that a compiled call returned or wrote: other results of the call were
     * computed from it, and their gradients do not pass here */
    TD_NF_MISSED = 8
};

struct td_node {
    TD_HANDLE_FIELDS;
    const td_node_kind *kind;
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
/* Has it values that go with the first backward? Then a second one fails. */
bool td__node_saves(const td_node *n);
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
/* Has it a grad function, up to date or not? */
bool         td__has_node(const td_tensor *t);
td_node     *td__last_node(const td_tensor *t); /* the same function; NULL: none */
/* The accumulation node of a leaf, with a reference; NULL after td__fail. */
td_node     *td__accumulator(td_tensor *leaf);
/* The same if there is one, also when the leaf no longer wants gradients; not held. */
td_node     *td__known_accumulator(const td_tensor *leaf);
/* A view that has, or gets, its history from its base, which was written since. */
bool         td__is_behind(const td_tensor *t);
/* Is t a view, up to date, whose history is not its base's? A write goes by that of the
 * base, and t's own is lost with it. */
bool         td__is_apart(const td_tensor *t);
/* The node of t, brought up to date for a view whose base was written. */
bool         td__fn_of(td_tensor *t, td_node **fn);
/* May the gradient of t, of node fn, be asked for? False after td__fail. (hooks.c) */
bool         td__grad_arrives(const td_tensor *t, const td_node *fn, const char *who);

/* Changes of history that are no op calls, told to one listener. */
typedef struct td_listener {
    /* t, a view, takes its history from its base anew. */
    bool (*touched)(void *env, td_tensor *t);
    /* A custom function gave t, its result, a creation mark and, where recorded, a
     * history; in_place: t is an input it wrote. */
    bool (*given)(void *env, td_tensor *t, bool recorded, bool in_place);
    void *env;
} td_listener;
/* Who listens from now on; returns who did. */
td_listener td__tape_listen(td_ctx *cx, td_listener to);

/* ---- saved.c ------------------------------------------------------------ */

bool       td__save(td_saved *s, td_tensor *t, bool output, int nr);
/* Gives the tensor in the innermost scope (or alive elsewhere); NULL after fail. */
td_tensor *td__unpack(td_node *n, const td_saved *s);
bool       td__fail_second(const td_node *n); /* its saved values are gone */
void       td__saved_free(td_saved *s);
/* t without its history, held by the caller and no scope; NULL after td__fail. */
td_tensor *td__loose_alias(td_tensor *t);
/* The bytes of t as a tensor whose gradient goes to e; NULL after td__fail. */
td_tensor *td__alias_at(td_tensor *t, td_edge e);

/* ---- inplace.c ---------------------------------------------------------- */

/* After a write: t's history is now n, result nr; writes into a view rebase. */
bool td__rebase(td_tensor *t, td_node *n, int nr, int self_edge);

/* ---- steps.c ------------------------------------------------------------ */

/* What a compiled call does that is no op of a program; false after td__fail. */

bool td__step_made(td_tensor *t);
bool td__step_touch(td_tensor *t);
bool td__step_assign(td_tensor *t, td_tensor *value, uint64_t writes);
bool td__step_bump(td_tensor *t, uint64_t writes);
bool td__step_give(td_tensor *t, td_tensor *value, td_creation creation, bool in_place);
bool td__step_bind(td_tensor *leaf, td_tensor *value, int edge);

/* ---- backward.c --------------------------------------------------------- */

/* As td_grad, but with respect to edges, where gradients end: what led to an edge gets
 * none of what arrives there. grads[i] is NULL when nothing arrived. */
bool td__grad_edges(td_tensors outputs, const td_edge *to, int n, td_tensor **grads,
                    const td_grad_opts *opts);
/* The same, but as td_backward does it: nodes that lead to none of them run as well,
 * and may fail. */
bool td__grad_all(td_tensors outputs, const td_edge *to, int n, td_tensor **grads,
                  const td_grad_opts *opts);

#endif
