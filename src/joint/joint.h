/* joint/joint.h -- the joint graph: the forward and the backward of a program in one
 * pure graph. It is made by replaying the program on tensors without bytes, under log,
 * tape, functional mode and recorder, and then running the ordinary engine: what eager
 * autograd does, recorded.
 *
 * Inputs, in order: the program's inputs (its consts too), then the tangents
 * (<tangent k>). Outputs, in order: n_fwd forward outputs (values that become tensors
 * of the caller's or are written into some, in program order), then one gradient
 * (<grad k>) for each target, NONE where the engine gave none. Nodes of the engine
 * have origin TD_FROM_BACKWARD and the source location of the op they are the
 * derivative of. A program with nothing to differentiate has neither tangents nor
 * targets: the graph is its inference graph.
 *
 * The effects of a call apart from running code (writes of inputs, views, metadata,
 * flags) are the epilogue, a graph of eager's own ops. */
#ifndef TD_JOINT_H
#define TD_JOINT_H

#include "eager/node.h"
#include "func/func.h"

/* Sets of tangents: one bit each, in td__set_words(number of tangents) words. */
static inline int  td__set_words(int n_tangents) { return n_tangents / 64 + 1; }
static inline bool td__set_has(const uint64_t *s, int i) {
    return s[i / 64] >> i % 64 & 1;
}
static inline void td__set_add(uint64_t *s, int i) {
    s[i / 64] |= (uint64_t)1 << i % 64;
}
static inline void td__set_drop(uint64_t *s, int i) {
    s[i / 64] &= ~((uint64_t)1 << i % 64);
}
static inline bool td__set_any(const uint64_t *s, int words) {
    for (int w = 0; w < words; w++)
        if (s[w]) return true;
    return false;
}
static inline void td__set_join(uint64_t *s, const uint64_t *with, int words) {
    for (int w = 0; w < words; w++) s[w] |= with[w];
}
/* Do s and `of` have a tangent in common; does s have one that `of` does not have? */
static inline bool td__set_meets(const uint64_t *s, const uint64_t *of, int words) {
    for (int w = 0; w < words; w++)
        if (s[w] & of[w]) return true;
    return false;
}
static inline bool td__set_leaves(const uint64_t *s, const uint64_t *of, int words) {
    for (int w = 0; w < words; w++)
        if (s[w] & ~of[w]) return true;
    return false;
}

/* How the call changes an input. */
typedef struct td_primal {
    int       same;    /* the first input that is the same tensor */
    bool      written; /* its elements change, directly or through an alias */
    bool      touched; /* its elements, metadata, flags or storage change */
    uint64_t *saved;   /* a set: tangents whose history has a node that saves it */
} td_primal;

/* Where a gradient goes: the edge of an input, of its base, or of a leaf that exists
 * only inside the call. */
typedef struct td_target {
    int       input; /* -1: a leaf that the program makes */
    bool      base;  /* of its base */
    bool      leaf;  /* the epilogue binds it as a leaf, */
    int       event; /* ...at this event of the log; -1: bound before the call */
    uint64_t *from;  /* a set: tangents whose history leads to it */
} td_target;

typedef struct td_tangent {
    int         index;  /* its forward output */
    td_geom     geom;   /* sizes, and the strides the graph was made for */
    uint8_t    *order;  /* dims by those strides, outermost first */
    td_code     code;   /* eager's backward from there fails with this code, */
    const char *broken; /* ...and this message; NULL: it works */
    uint64_t   *clash;  /* a set: tangents whose backward frees what this one's needs */
    uint64_t   *feeds;  /* a set: tangents of values computed from its output */
} td_tangent;

/* A forward output: the epilogue makes it a tensor, or writes it to one. */
typedef struct td_fwd {
    bool      made;    /* it becomes a tensor; else the epilogue copies its elements */
    bool      written; /* the epilogue writes it: no other code may read it */
    bool      meta_written; /* the epilogue changes its metadata */
    int       tangent; /* its tangent, a result of the compiled node; -1: no grad_fn */
    int       input, result; /* the first one it is written to or becomes; -1: none */
    td_geom   geom;          /* made: that of eager's tensor */
    uint64_t *saved;         /* as td_primal.saved */
} td_fwd;

/* td_fwd index of an output that the epilogue does not read. */
#define TD_FWD_UNREAD ((td_fwd){.input = -1, .result = -1, .tangent = -1})

/* Strides without gaps for these sizes, with the tangent's order of dims. */
void td__tangent_strides(const td_tangent *t, const int64_t *size, int64_t *stride);

typedef struct td_joint {
    td_ctx     *cx;
    td_arena    arena;
    td_graph   *g;
    /* The effects of the call. Its inputs are those of the program, then
     * the forward outputs, then, where it binds leaves, a result of the node. */
    td_graph   *epilogue;
    td_fwd     *fwd;   /* by forward output */
    bool       *feeds; /* by result that is a view: a value with a tangent was
                              computed from it */
    int         n_primals, n_fwd;
    int         n_results, n_tangents, n_targets;
    td_primal  *primals;  /* by input */
    td_tangent *tangents; /* inputs n_primals.. of g, in order */
    /* Eager's backward from each tangent works, and that from all of them fails with
     * this code and this message; NULL: it works. */
    td_code     code;
    const char *broken;
    td_target  *targets; /* outputs n_fwd.. of g, in order */
    uint32_t   *varies;  /* by result: a bit per dim whose size is a symbol */
    int         left;    /* grad mode after the call: td_graph.left of the program */
    int         order;   /* td_joint_opts.n_orders */
} td_joint;

/* One order of differentiation below that of a joint graph: its tangents, as sets. */
typedef struct td_grad_order {
    const uint64_t *missing; /* those that do not arrive */
    const uint64_t *grad;    /* those that require grad */
    int             words;   /* of a set */
} td_grad_order;

/* Which tangents arrive, and how, as in td_joint_opts. */
typedef struct td_arriving {
    const uint64_t   *missing;
    td_tensor *const *tangents;
    bool              plain_tangents;
} td_arriving;

typedef struct td_joint_opts {
    bool              keep_mutations; /* writes without history stay in the graph */
    bool              merge_writes;   /* docs/plan.md has these three */
    bool              merge_made;
    bool              assign_writes;
    bool              train; /* false: an inference graph, whatever requires grad */
    bool              find_saved; /* fill in td_primal.saved and td_fwd.saved */
    /* A set of tangents that do not arrive: the engine starts at the other roots alone,
     * as eager's does. Tangents and targets are numbered as without it. NULL: none. */
    const uint64_t   *missing;
    /* By tangent: a gradient of the type with which it arrives; NULL: it has the type
     * of the value. The list may be NULL. */
    td_tensor *const *tangents;
    bool plain_tangents; /* other tangents are plain: a type cannot compute them */
    bool nested;         /* the program is the body of a region or a branch */
    int  loss;           /* 1 + the result whose tangent alone arrives; 0: all do */
    /* Orders below, the first one first. Without any, forward outputs are values of the
     * program. With n of them, they are its gradients of order n, one result for each
     * target of that order; the tangents of the orders below are inputs after the
     * program's, and the targets are those of the order below and then its tangents
     * that require grad. */
    int  n_orders;
    const td_grad_order *orders;
} td_joint_opts;

/* The joint graph of a call of the program on inputs like in[] (by input; NONE: the
 * program's const), in the context's grad mode. NULL after td__fail. */
td_joint *td__joint(const td_graph *program, const td_value *in,
                    const td_joint_opts *opts);
void      td__joint_drop(td_joint *j); /* NULL is fine */
/* The functional form: td__joint with train off. guards: makes sizes of inputs symbolic
 * and appends the text of their guards to it. */
td_joint *td__functional_form(const td_graph *program, const td_value *in,
                              td_buf *guards);
/* An input while the program is traced. */
typedef struct td_traced_input {
    td_tensor *real;            /* the tensor passed; NULL: not a tensor */
    td_tensor *outer;           /* its copy in the trace, and */
    td_tensor *alias;           /* ...its value there, an alias of real */
    bool       shares;          /* it shares bytes with another input: its copy is a
                                   view if it is one */
    td_edge    edge, base_edge; /* before the call, referenced */
    td_geom    geom;            /* of the copy before the call */
    int        nr;              /* index in td_func.in */
    int        before;          /* number of writes before the order or backward that is
                                   traced */
    uint64_t   version;         /* of the copy's storage at that point */
    td_gval   *write;  /* the value that the graph itself writes to it; NULL: none */
    bool       shared; /* it shares an inner tensor with a written input */
} td_traced_input;

/* A program that has been replayed, before a joint graph is made of it. */
typedef struct td_replayed {
    const td_graph        *program;
    const td_graph        *g; /* the functional graph recorded so far */
    td_ctx                *cx;
    const td_func         *f;
    const struct td_log   *log;
    const td_traced_input *inputs;
    const td_value        *out; /* results */
} td_replayed;

typedef bool td_look_fn(void *env, const td_replayed *r);

/* Replays the program as td__joint does, calls `look` in the modes of the call, and
 * stops. False after td__fail, or if `look` returns false. */
bool td__joint_look(const td_graph *program, const td_value *in, td_look_fn *look,
                    void *env);

/* Gives every forward output that becomes a tensor a storage of its own, shared with no
 * input and no other output. Call again after a pass that merges values. */
bool               td__joint_separate(td_joint *j);
/* The value whose storage v shares: the end of a chain of views. */
td_gval           *td__joint_root(td_gval *v);
/* Has the type no gaps? With symbolic sizes only a row-major layout is known to have
 * none. */
bool               td__gtype_is_packed(const td_gtype *l);
/* Does the node switch requires_grad off? */
static inline bool td__gnode_switches_grad_off(const td_gnode *n) {
    return n->kind == TD_N_OP && n->op == TD_OP_requires_grad_ && n->n_in > 1 &&
           !n->in[1].u.i;
}
/* Is it the copy through which a written input is read (input_copies.c)? */
bool           td__joint_is_input_copy(const td_gnode *n);
/* The value whose whole storage n may address (as_strided), not only its elements;
 * NULL: none. */
const td_gval *td__joint_addressed(const td_gnode *n);
/* Takes those copies out of a forward half that saves none of them. */
bool           td__half_drop_input_copies(td_graph *g);
/* Gives views the storage number of their source, which a pass may have replaced. */
bool           td__graph_fix_storages(td_graph *g);
/* Dead code elimination, CSE (unless off) and short chains of views. May be repeated;
 * the graph stays readable. */
bool           td__joint_tidy(td_joint *j, bool cse);
/* td__joint_tidy, and then, once, the copies that partitioning needs: of written
 * inputs, and of outputs that share storage. */
bool           td__joint_clean(td_joint *j, bool cse);

#endif
