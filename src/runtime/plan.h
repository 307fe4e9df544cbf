/* runtime/plan.h -- what a call of a compiled function does besides running code: it
 * writes inputs, makes results views of what they must be views of, puts one node
 * on the tape, and runs the backward when the engine comes by. All of it is decided
 * when the plan is made; a call walks flat arrays. */
#ifndef TD_PLAN_H
#define TD_PLAN_H

#include "backend/backend.h"
#include "eager/node.h"
#include "part/part.h"
#include "runtime/steps.h"

/* How the value of one fwd output (or primal) is saved for backward. */
typedef struct td_save_plan {
    int       out;     /* of the forward code; -1: primal `index` */
    int       index;   /* the primal */
    int       nr;      /* result of the node this output is; -1: none */
    bool      checked; /* a write before backward is an error */
    bool      number;  /* a size, not a tensor */
    bool      alias;   /* a primal whose geometry or flags the call changes: an alias
                          that shows it as it arrived is saved */
    bool      handle;  /* of an offloaded value: saved-tensor hooks do not get it */
    bool      copied;  /* a primal over a copy of its storage before the call */
    bool      late;    /* hooks alone read it, as it is when backward runs */
    uint64_t *used;    /* a set: tangents whose backward reads it; NULL: all */
} td_save_plan;

/* An edge of the compiled node. */
typedef struct td_edge_plan {
    int  dims;  /* sizes and strides that the node stores for it, at most */
    bool bound; /* tangents lead to it, or gradients of gradients do */
} td_edge_plan;

/* A backward graph that writes an input by one node, where eager writes it several
 * times, or by several, where inputs share a storage (_bump). */
typedef struct td_write_count {
    int         input; /* of the graph */
    int64_t     more;  /* writes of eager, less those of the graph */
    td_tensor  *t;     /* of a run; NULL: none. And */
    td_storage *st;    /* ...its storage, referenced, */
    uint64_t    then;  /* ...whose version this is afterwards */
} td_write_count;

/* The backward code for one set of missing tangents. */
typedef struct td_back {
    const uint64_t *missing;
    bool            typed; /* for tangents of other types than results have */
    td_graph       *g;     /* owned, but for the first */
    td_runner       code;
    td_graph       *form;   /* what code is of, if that is not g; owned */
    bool           *reads;  /* by input of g: does it read it? Owned, with */
    bool           *beside; /* ...does it read elements of its storage beside it? */
    bool           *writes; /* ...does it write it? (a custom backward) */
    bool            late;   /* a gradient is an input, read late (op _late) */
    td_write_count *counts; /* in the arena of g */
    int             n_counts;
    struct td_back *next;
} td_back;

typedef struct td_now td_now;

/* Traces of the program after the call. src/aot implements them for a plan, because it
 * has the program. */
typedef struct td_later_traces {
    /* The joint graph for a backward in which some tangents are missing, or of another
     * type, through the same passes as td_plan.j; the caller drops it. NULL after
     * td__fail. joint NULL: the joint graph is the user's own, and a missing tangent is
     * replaced by zeros. */
    td_joint *(*joint)(void *env, td_arriving which);
    /* The plan of the next order for these tangents, for a backward that records a
     * history (create_graph): (primals, tangents) -> gradients. `sizes` are those of
     * the call, NULL where all are numbers. NULL after td__fail. plan NULL:
     * double_backward is off. */
    struct td_plan *(*plan)(void *env, const td_grad_order *o, const td_now *sizes);
    void (*drop)(void *env);
    void *env;
    int   n_plans; /* one for each pair of sets of tangents */
    bool  nests;   /* custom functions or other ops with graphs are in the program */
} td_later_traces;

typedef struct td_plan {
    int               refs;   /* the function and each node */
    uint64_t          serial; /* unique in the process */
    td_ctx           *cx;
    const char       *name;
    td_joint         *j;       /* owned */
    td_halves        *h;       /* owned; NULL: nothing to differentiate */
    const td_backend *backend; /* of backward */
    td_compile_info   info;
    td_runner         fwd;
    td_graph         *fwd_form; /* what it is the code of, if not td__plan_forward */
    td_back           back;     /* all tangents there; code empty until needed */
    int               n_back;   /* beside it, for other sets of tangents */
    int64_t           limit;    /* most of them, and of later.n_plans */
    int               n_vals;   /* outputs of the forward code */
    int               n_saves;  /* for backward, then for gradients of gradients */
    bool              copies;   /* one of these is td_save_plan.copied */
    td_save_plan     *saves;
    int               n_saved;        /* of them, what the backward code takes */
    int              *primal_save;    /* by primal: the entry of saves that is it; -1 */
    bool             *needs;          /* by primal: gradients depend on it */
    bool             *late;           /* by primal: the call needs it behind its code */
    bool             *fresh;          /* by result: a new tensor, named here first */
    bool             *twin;           /* by forward output: another one is the same */
    int              *inside;         /* primals the code writes, */
    int               n_inside;       /* ...so many */
    int               node_dims;      /* sizes and strides that the node stores */
    bool              checks_sizes;   /* the code fails if a size that depends on values
                                       is another than it was made for */
    bool              asserts;        /* calls check what was promised (asserts.c) */
    bool              functional_rng; /* code takes and gives the generator's state */
    bool              donates; /* backward may free what it is the last to read */
    td_scratch        inputs, values; /* of a call: its caller's, and its own */
    td_later_traces   later;
    bool             *reads; /* by primal, of an order above the first: the code, or
                                what it saves, depends on it; NULL: not found yet */
    /* Binds the edges of the node. It takes what the epilogue takes. NULL: there is no
     * node. */
    td_graph         *prologue;
    td_steps          steps;     /* of both */
    td_edge_plan     *edges;     /* by target */
    uint64_t          code_hash; /* for td_ctx.saver; 0: not computed yet */

    const td_on_compile *on; /* borrowed, like the backend; NULL: no callbacks */
} td_plan;

typedef struct td_plan_opts {
    const td_backend *fwd, *bwd;
    td_compile_info   info;
    bool              lazy_backward; /* compiled when it first runs */
    bool              asserts;
    int64_t           limit; /* of backwards, by which tangents come */
    bool              twice; /* gradients may be differentiated in turn */
    bool              donates;
    bool              functional_rng;

    const td_on_compile *on; /* NULL: no callbacks */
} td_plan_opts;

/* Takes over j and h, also when it fails. NULL after td__fail. */
td_plan *td__plan_make(td_joint *j, td_halves *h, const td_plan_opts *o);
void     td__plan_drop(td_plan *p);
/* in[] by input of the program; consts are given like the others. own may be NULL;
 * own[i]: in[i] is the call's to drop when nobody needs it any more. Then it is NONE
 * and no longer own; others stay the caller's. from: p is the next order of this
 * compiled node, whose edges are the first of the new node; NULL: of none. */
bool     td__plan_call(td_plan *p, const td_node *from, td_value *in, bool *own,
                       td_value *out);

/* ---- private ------------------------------------------------------------ */

/* With symbolic sizes: what they are in one call. The call and its node hold it. */
struct td_now {
    int               refs;
    td_geom          *tangents; /* by tangent */
    const td_gtyped **typed;   /* by tangent: of a type, what it consists of; or NULL */
    td_arena          arena;   /* for what is not the plan's */
    int64_t          *numbers; /* by entry of saves: numbers the backward code takes */
    td_geom          *types;   /* by entry of saves: the type of a tensor, */
    const td_gtyped **saved_typed; /* ...and what it consists of, or NULL */
    td_geom          *given;       /* by primal: its geometry as it arrived, */
    const td_gtyped **given_typed; /* ...and that of its inner tensors, or NULL */
};

/* One call, while it runs. */
typedef struct td_pcall {
    td_plan *p;

    td_now        *now; /* NULL: all sizes are numbers */
    td_value      *in;
    bool          *own;  /* NULL: none */
    td_value      *vals; /* of the forward code */
    td_value      *out;
    td_node       *node;         /* NULL: no history */
    uint64_t       seed, offset; /* of the generator before */
    uint64_t      *counts;       /* by primal the code writes: its counter before */
    const td_node *from;         /* of the order below; NULL: this is the first */
    td_arena       arena;
    td_tensor    **old; /* by primal: over a copy of its storage before the call */
} td_pcall;

bool            td__now_make(td_pcall *c);     /* call_sizes.c: sets c->now */
bool            td__now_tangents(td_pcall *c); /* after the code */
/* Notes the type of entry i of saves, t. False after td__fail. */
bool            td__now_saved(const td_pcall *c, int i, const td_tensor *t);
void            td__now_drop(td_now *n); /* NULL is fine */
/* The forward half, or the whole graph where there is no backward. */
const td_graph *td__plan_forward(const td_plan *p);
/* What the code of each half is of: its functional form, if it has one. backward NULL:
 * there is none. */
const td_graph *td__plan_forward_code(const td_plan *p);
const td_graph *td__plan_backward_code(const td_plan *p);

/* Is saved value i a tensor of the call's own, which is no result? Calls decide again,
 * by who refers to it. */
bool td__plan_donates(const td_plan *p, int i);
/* functional_rng.c: with functional_rng, and if g draws, *form becomes g as a function
 * of the generator's state, which the caller drops; else it stays NULL. False after
 * td__fail. */
bool td__plan_form(const td_plan *p, const td_graph *g, td_graph **form);
/* Compiles the form, which is made if it is not there yet, or g where it has none. */
bool td__plan_compile(const td_plan *p, const td_backend *b, const td_graph *g,
                      const td_compile_info *info, td_runner *code, td_graph **form);
/* What td__plan_run calls for such code. */
bool td__plan_run_rng(td_plan *p, const td_graph *form, const td_runner *code,
                      const td_value *in, const bool *own, td_value *out);
/* fake_run.c: instead of running code of g on fake tensors, makes its outputs. */
bool td__plan_run_fake(td_plan *p, const td_graph *g, const td_value *in,
                       const bool *own, td_value *out);
/* The code of a half: of graph g, or of its form (td__plan_form), if it has one. */
typedef struct td_half_code {
    const td_graph  *g, *form;
    const td_runner *code;
} td_half_code;
/* Runs the code of a half. own may be NULL; own[i]: a scope's reference to tensor in[i]
 * is the code's to drop, also when it fails. False after td__fail, also when the code
 * gave no reason, or left an output of g out. */
bool td__plan_run(td_plan *p, const td_half_code *h, const td_value *in,
                  const bool *own, td_value *out);
/* run_code.c: fills late and inside. False after td__fail. */
bool td__plan_inputs(td_plan *p);
/* old_storage.c: does the graph read elements of primal i's storage that it need not
 * show? */
bool td__plan_reads_storage(const td_plan *p, int i);
/* Marks the inputs of which it reads other elements of the storage (as_strided). False
 * after td__fail. */
bool td__graph_reads_beside(const td_graph *g, bool *beside);
bool td__plan_copy_storages(td_pcall *c); /* before the code; fills in `old` */
/* write_counts.c: fills counts. False after td__fail. */
bool td__back_find_counts(td_back *b);
/* Before the code runs on `in`, of which the first n_saved are saved values, with the
 * gradients g; and after it. */
void td__back_save_counts(const td_back *b, const td_value *in, int n_saved,
                          td_tensor *const *g);
void td__back_set_counts(const td_back *b, bool ok);
bool td__plan_code(td_pcall *c); /* run_code.c: runs the forward code */
bool td__plan_node(td_pcall *c); /* compiled_node.c: makes c->node with what it saves */
void td__plan_saved(td_pcall *c);    /* compiled_node.c: behind the epilogue */
bool td__plan_prologue(td_plan *p);  /* plan_epilogue.c: makes the prologue */
bool td__plan_epilogue(td_pcall *c); /* plan_epilogue.c: runs both */
bool td__plan_used(td_plan *p,
                   bool     twice); /* saved_use.c: fills in td_save_plan.used */
/* May one more backward be compiled where there are n? False after td__fail. */
bool td__plan_may_compile(const td_plan *p, int n, const char *what);
bool td__plan_compile_back(td_plan *p, td_back *b); /* compiled_node.c: unless it is */
/* asserts.c: false after td__fail. */
bool td__plan_check_inputs(const td_pcall *c);
bool td__plan_check_values(const td_pcall *c);
bool td__plan_check_grads(const td_plan *p, const td_node *n, const td_value *grads);

#endif
