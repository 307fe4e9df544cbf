/* trace/trace.h -- capture: a C function of tensors runs once on fake tensors
 * (sizes and strides without bytes) and what it does is recorded as a graph.
 *
 * Three pieces make a capture. The faker copies real tensors into fake ones.
 * The recorder is a mode on the context's mode stack that turns each op call
 * into a node. td__capture sets both up, runs the body and gives the graph.
 *
 * The recorder sees what modes see: op calls (a composite op is one call), the
 * grad-mode regions around them, and the user's source line of each. The tape
 * stands below the recorder and tracks requires_grad and views as in eager
 * mode, so td_grad inside a body works: the engine's ops are recorded like the
 * body's own. */
#ifndef TD_TRACE_H
#define TD_TRACE_H

#include "eager/eager.h"
#include "graph/graph.h"
#include "tandem/capture.h"

/* ---- maps from pointers (ptrmap.c) -------------------------------------- */

/* Hash map from pointer to pointer. Zero-initialized is empty. NULL is no key. */
typedef struct td_ptrmap {
    const void **key; /* NULL: free */
    void       **val;
    int          n, cap;
} td_ptrmap;
void *td__ptrmap_get(const td_ptrmap *m, const void *key);      /* NULL when absent */
bool  td__ptrmap_put(td_ptrmap *m, const void *key, void *val); /* a new key */
void  td__ptrmap_free(td_ptrmap *m);

/* ---- fake copies (fake.c) ----------------------------------------------- */

/* The fake storage that represents a real one. */
typedef struct td_fake_store {
    td_storage *st;    /* owned: one reference */
    bool        given; /* an argument of the capture has this storage */
    int32_t     nr;    /* storage number in the graph's types; -1: not numbered yet */
} td_fake_store;

/* The .grad of a copied tensor. */
typedef struct td_fake_grad {
    td_tensor *owner; /* the fake copy whose .grad it is; the first one copied */
    td_tensor *real;  /* the real gradient */
} td_fake_grad;

/* Makes fake copies of real tensors and owns them. Invariants: a real tensor has at
 * most one copy; tensors that share bytes have copies that share a fake storage, so
 * aliasing among copies is the aliasing among originals. */
typedef struct td_faker {
    td_ctx   *cx;
    bool      flat; /* copies made from now on are not views; they have a grad_fn */
    td_arena  arena;
    td_ptrmap stores;          /* by real bytes: td_fake_store */
    td_ptrmap copies;          /* by real tensor: its copy */
    td_ptrmap metas;           /* by real tensor: td_meta its copy gets */
    td_ptrmap grads;           /* by copy of a gradient: td_fake_grad */
    TD_VEC(td_tensor *) pairs; /* owned: copy, original, copy, original... */
    TD_VEC(td_tensor *)
    outer_leaves;                  /* owned: leaves behind copies that have a grad_fn */
    td_ptrmap borders;             /* by copy of no view: its outer leaf */
    TD_VEC(td_storage *) storages; /* owned */
} td_faker;

/* The fake copy of t, made on first use: same sizes, strides, dtype, version,
 * requires_grad, leaf or non-leaf, and the same chain of view ops from its
 * base. Owned by f until td__faker_end. NULL after td__fail. */
td_tensor *td__fake_copy(td_faker *f, td_tensor *t);
/* May a gradient of a td_grad in the trace have a path to the grad_fn that real's copy
 * had at first? */
bool       td__fake_reached(const td_faker *f, td_tensor *copy, const td_tensor *real);
/* Sets the geometry the copy of `real` will have (with symbolic sizes, for
 * example). Must be called before the copy is made. False after td__fail. */
bool       td__fake_shape(td_faker *f, const td_tensor *real, const td_meta *m);
/* The fake storage of a real tensor's bytes; NULL when none was made yet. */
td_fake_store *td__fake_store_of(td_faker *f, const td_tensor *real);
/* Releases the originals; their copies stay. No more copies can be made. */
void           td__faker_close(td_faker *f);
/* Releases copies, storages and maps; f may be used again after zeroing. */
void           td__faker_end(td_faker *f);

/* ---- recording (record.c) ----------------------------------------------- */

typedef struct td_record td_record;

/* The recorder's data about a tensor; td_tensor.payload points to it. The owner is
 * the recorder's mode. */
typedef struct td_tag {
    TD_PAYLOAD_FIELDS;
    td_gval        *v;    /* its value in the graph; NULL: its call is still running */
    const td_gtype *type; /* its type after the last metadata write */
    td_geom         geom; /* its geometry then, in sizes of the trace */
    int32_t         storage; /* storage number in the graph's types */
    int32_t         hidden;  /* index of the td_expansion it is a part of; -1: none */
    bool            moved;   /* set_ replaced the storage; aliases keep the old tag */
} td_tag;

/* A grad-mode region that is open in the graph: the modes that hold outside of
 * it. */
typedef struct td_open_region {
    bool grad, inference;
} td_open_region;

/* A recorded call that computed tensors the body has not received: the parts of a
 * composite op, or the copy that the tape takes of a value about to be overwritten.
 * td_grad in the body may read one of them; then the parts replace the call. */
typedef struct td_expansion {
    td_gnode *top;      /* the node of the call; NULL: the call failed */
    int       first, n; /* its parts: td_record.parts[first .. first+n) */
    int       main;    /* parts that run before top; -1: composite, parts replace top */
    bool      wanted;  /* a part was read: splice the parts into the graph */
    td_gval **instead; /* by result of a composite: the part's value that replaces it */
} td_expansion;

/* Tensors that a nested body (of cond, a loop, a custom function) reads without
 * receiving them as arguments. They become inputs of its graph after the
 * arguments ("lifted"), and operands of the op that holds the graph. */
typedef struct td_lift {
    TD_VEC(td_tensor *) tensors; /* owned; in input order */
    bool grads; /* the body reads gradients of tensors outside (td_grad, td_grad_of), so
                 * that it depends on their histories */
    bool args;  /* the body closes over an argument, and reads the argument */
} td_lift;

/* A region (td_call_region) as it was captured; equal ones share one graph. */
typedef struct td_captured_region {
    td_graph *g;    /* referenced */
    td_buf    text; /* of g without names, by which it is compared */
    td_body  *body;
    void     *env;
    int64_t
        *key; /* with td_region_body.once: types and numbers of the arguments; NULL: its
                      body is called again */
    int  n_key;
    bool plain;   /* its results are new tensors, never written */
    td_lift lift; /* tensors that g closes over, with a key */
} td_captured_region;

/* A gradient hook that the body registered, by the node of its op `on_grad`. */
typedef struct td_recorded_hook {
    uint64_t  id;
    td_gnode *node;
} td_recorded_hook;

/* How a capture treats real tensors that the body reads without receiving them
 * as arguments ("closes over"). */
typedef struct td_closure {
    td_values bound;   /* real tensors that the first arguments represent: a module's
                          parameters and buffers */
    td_faker *fakes;   /* made the arguments, with symbolic sizes; NULL: the arguments
                          are real tensors */
    bool      aliases; /* closed-over tensors may be arguments or share bytes with
                          them, because the caller compares aliasing at each call */
    /* What messages call a real tensor, such as "fc1.weight"; NULL: unknown. */
    const char *(*name)(void *env, const td_tensor *t);
    void       *env;
    const char *function; /* its name, for messages; NULL: none */
    uint8_t    *reads; /* by argument: gets TD_ARG_READ where the body reads a number as
                          a C number; NULL: no tensor stands for a number */
    bool whole; /* regions are their ops, as for symbolic sizes (part/region.c) */
} td_closure;
enum { TD_ARG_READ = 1 };

/* State of one capture. The mode stack during a capture, from the top: `mode`
 * (records), `inside` (sees the parts of composite ops), the tape, `mark` (tags
 * results before the tape saves aliases of them), the kernels on fake tensors. */
struct td_record {
    td_mode   mode;   /* first: the mode is the recorder */
    td_mode   inside; /* above the tape: receives the parts of composites */
    td_mode   mark;   /* below the tape: tags results before the tape saves them */
    td_ctx   *cx;
    td_graph *g;
    td_faker  fakes;
    td_lift  *lift; /* of a nested capture; NULL: what is closed over is a const */
    td_record
        *outer; /* of a nested capture: the enclosing capture's recorder, or NULL */
    td_outside *outside; /* the state around the capture */
    td_closure  close;
    td_ptrmap   closed;    /* real tensors the body closes over: their copies */
    td_ptrmap   own_grads; /* inputs (td_gval) whose .grad is an input as well */
    bool        start_grad, start_inference; /* modes before the first op */
    bool        grad, inference;             /* modes at the end of the graph so far */
    TD_VEC(td_open_region) open;
    td_opcall   *current;            /* the call being recorded; NULL: none */
    td_opcall   *part;               /* the part of `current` that is running */
    td_expansion expansion;          /* expansion of `current` so far */
    TD_VEC(td_expansion) expansions; /* in the order of the graph's nodes */
    TD_VEC(td_gnode *) parts;        /* nodes that are not in the graph's list */
    uint64_t          offset;        /* of the generator: +1 per draw */
    int               first_scope;   /* scopes from this one on form the label path */
    td_buf            path;          /* label path of the last op: "model/attn" */
    const char       *scope;         /* the same string in the graph's arena */
    const char       *file, *file_copy; /* source file of the last op; copy for nodes */
    td_where          calls[TD_STACK_MOST]; /* around the last op */
    int               n_calls;
    const td_place   *stack;    /* the same as a place */
    const char       *function; /* the captured function, for messages; NULL: unknown */
    struct td_symenv *sym;    /* symbolic sizes of the trace; NULL: sizes are numbers */
    int               guards; /* guards of `sym` that became asserts */
    TD_VEC(td_captured_region) regions; /* of an outermost capture: the distinct ones */
    TD_VEC(td_recorded_hook) hooks;     /* those the body has not removed */
    bool removed;                       /* it removed one: its node is dead */
};
/* The recorder of the innermost capture that is running; NULL: none. */
td_record *td__recorder_of(const td_ctx *cx);

/* Initializes a recorder that writes into g. It does not touch the mode stack:
 * the capture pushes the recorder's modes and td__ambient_restore removes them. */
void       td__record_begin(td_record *r, td_graph *g);
/* Adds an input to the graph and returns the fake copy the body reads for it. A
 * tensor passed twice is two inputs; the body reads the first. NULL after
 * td__fail. */
td_tensor *td__record_input(td_record *r, td_tensor *real, const char *name);
/* Before the body runs: maps each tensor of close.bound to the copy in
 * copies[], so that a body that reads the member directly reads the argument. */
bool       td__record_bind(td_record *r, const td_value *copies);
/* Makes fake copies of every live tensor that shares bytes with a tensor the
 * body can reach so far. A copy made after the body wrote those bytes would
 * have the wrong version, so it must exist before. */
bool       td__record_siblings(td_record *r);
/* In a nested capture: replaces *t by the enclosing capture's copy of it. No
 * effect without an enclosing capture. False after td__fail. */
bool       td__record_outer(td_record *r, td_tensor **t);
/* The graph value of a tensor. A real tensor becomes an input (lifted or closed
 * over), and *t its fake copy. `who` names the op in errors. NULL after
 * td__fail. */
td_gval   *td__record_value(td_record *r, td_tensor **t, const char *who);
/* After the body: closes open regions, splices requested parts into the graph,
 * and notes in td_graph.left a grad mode that the body changed and did not
 * restore. */
bool       td__record_finish(td_record *r);
/* Releases everything but the graph. Tensors lose their tags. */
void       td__record_end(td_record *r);
/* Records run-time asserts on data-dependent sizes that arose after the last
 * op. */
bool       td__record_asserts(td_record *r);

/* ---- capture (capture.c) ------------------------------------------------ */

/* May a public function capture a body for these arguments? Not for a tensor that was
 * kept from a body captured before: its sizes may be symbols of that capture. False
 * after td__fail. */
bool      td__has_args(td_ctx *cx, const char *who, td_values args);
/* Captures `body` for arguments like args. Inputs of the graph are the tensors
 * among args in order (a tensor passed twice is two inputs), then the tensors
 * the body closed over. Numbers become constants of the program. The context is
 * unchanged afterwards, except for an error. NULL after td__fail. */
td_graph *td__capture(td_ctx *cx, td_body *body, void *env, td_values args);
/* td__capture with a closure policy. With close->aliases, a closed-over tensor
 * that is also an argument is an input of its own that no node reads: the
 * caller of the program learns from it that the aliasing matters. */
td_graph *td__capture_closing(td_ctx *cx, td_body *body, void *env, td_values args,
                              const td_closure *close);
/* Captures a graph by replaying it. in[] are its inputs; absent for a const the
 * graph owns. Names and descriptors are copied. */
td_graph *td__capture_graph(const td_graph *g, const td_value *in);
/* td__capture_graph for a captured program, consts and .grad inputs included in
 * in[]. The result keeps the program's consts and its records of which inputs'
 * gradients the body reads, as if the body itself had been captured. */
td_graph *td__capture_replay(const td_graph *program, const td_value *in);
/* ---- value_sizes.c ------------------------------------------------------- */

/* Finds the sizes that depend on values which the program makes of in[], tensors with
 * elements. Called after a trace has failed: true clears the error; false leaves it. */
bool td__sizes_measure(const td_graph *program, const td_value *in, td_dim_list *to);
/* Makes the program one for these sizes alone: it was captured while td__dim_give gave
 * them. False after td__fail. */
bool td__sizes_keep(td_graph *program, const td_dim_list *sizes);

/* ---- retrace.c ----------------------------------------------------------- */

/* td__capture_graph inside an autocast region: the casts become nodes. The
 * result must run with autocast off. */
td_graph *td__capture_cast(const td_graph *g, const td_value *in,
                           const td_closure *close);
/* Captures a body that is an argument of an op (cond, while_loop, custom).
 * Whatever it closes over, values of the enclosing capture and real tensors,
 * becomes inputs: first the tensors already in `lift`, in order, then new ones,
 * which are added to it. */
td_graph *td__capture_nested(td_ctx *cx, td_body *body, void *env, td_values args,
                             td_lift *lift);

/* The arguments of a running body. Borrowed. */
td_values td__call_args(const td_call *c);
/* Runs another body with this call's arguments from `skip` on; its td_return is
 * this call's. Returns what the body returned. */
bool      td__call_inner(td_call *c, td_body *body, void *env, int skip);
/* Replaces each tensor t among the call's results by fn(t); false when fn gives
 * nil. */
bool      td__call_map(td_call *c, td_tensor *(*fn)(td_tensor *t));
/* Captures a graph from its input types alone, without tensors. NULL after
 * td__fail, which names an input without a type. */
td_graph *td__capture_types(const td_graph *g);
/* Captures a body for arguments of the types of a graph's inputs. Inputs have its
 * descriptors; tensors that the body closes over follow them. */
td_graph *td__capture_types_of(const td_graph *g, td_body *body, void *env);
/* td__capture_types with ops replaced by their decompositions: op names
 * separated by commas, or "all". */
td_graph *td__graph_decompose(const td_graph *g, const char *ops);

/* ---- decompose_by.c: decompositions by the user --------------------------- */

/* The table of td_aot_opts.decompositions, and the function it belongs to. */
typedef struct td_decompose_by {
    const struct td_decomposition *v;
    int                            n;
    const char                    *function;
    const struct td_compile_info  *compiling; /* for td_compiling; NULL: nothing */
    bool ours; /* the library's own table: results are not compared with the op's, whose
                * node would stay where the op may fail */
} td_decompose_by;

/* Can the op named be decomposed by the user? False after td__fail. */
bool      td__decompose_by_check(td_ctx *cx, const char *op);
/* A mode that calls the user's functions, while `by` lives. False after td__fail. */
bool      td__decompose_by_begin(td_ctx *cx, const td_decompose_by *by);
void      td__decompose_by_end(td_ctx *cx);
/* td__graph_decompose with the decompositions of `by`, then those of ops (NULL:
 * none). */
td_graph *td__graph_decompose_by(const td_graph *g, const td_decompose_by *by,
                                 const char *ops);

/* ---- programs (program_inputs.c) ---------------------------------------- */

/* The inputs of a call, by input of the program; NONE is replaced by the const that the
 * program owns. False after td__fail: an input is missing. */
bool td__program_inputs(const td_graph *p, const td_value *in, td_value *to);
/* Fake arguments with the types of the graph's inputs: in[i] by input, NONE for consts,
 * 0 for numbers. Types with one storage number share a storage. */
bool td__inputs_like(const td_graph *g, td_value *in);

/* ---- the .grad of inputs (input_grad.c) ------------------------------------- */

/* A body may change the .grad of its inputs (td_backward accumulates, td_zero_grad
 * clears). The program has one more input, <own_grad i>, where it reads or accumulates
 * into the .grad that input i had at entry, and one more output after the results,
 * <own_grad i>, where input i has another .grad at exit, or none. The caller of a
 * program fetches these inputs from the tensors and stores these outputs.
 *
 * Fills in[] for the <own_grad> inputs. False, without an error, when an input lacks
 * a .grad the program reads, or has one where the program was captured without. */
bool td__own_grads_read(const td_graph *program, td_value *in);
/* Stores the <own_grad> outputs of out[] as .grad of their inputs. */
bool td__own_grads_leave(const td_graph *program, const td_value *in,
                         const td_value *out);
/* td__graph_replay of a captured program, with .grad inputs and outputs
 * handled. in[] has slots for all inputs; those of <own_grad> inputs are filled
 * here. */
bool td__program_replay(const td_graph *program, td_value *in, td_value *out);

/* ---- histories of inputs (history_check.c) ------------------------------------ */

/* Does the autograd graph lead from `from` to `to`? `from` is not a view of
 * `to`. 1 yes, 0 no, -1 after td__fail. A program in which td_grad computes the
 * gradient of an input is valid only if no other input's history passes through
 * that input: the fake copies do not contain that path. */
int td__history_passes(td_tensor *from, td_tensor *to);

/* ---- tensors of a type (flat_graph.c) ----------------------------------- */

/* A clone of g with inner tensors in place of tensors of a type. NULL after
 * td__fail. */
td_graph *td__graph_flat_types(const td_graph *g);
/* Is t row-major, with the inner tensors that it consists of? */
bool      td__is_dense_inside(td_tensor *t);

/* ---- nested graphs (nested_graphs.c) --------------------------------------------- */

void td__lift_free(td_lift *l);
/* Adds unused inputs to g until it has one for each lifted tensor, so that all graphs
 * of one op take the same operands. n_args: inputs that are not lifted tensors. */
bool td__lift_pad(td_graph *g, const td_lift *l, int n_args);

/* A tensor to capture with instead of t: same geometry over the same storage,
 * without grad_fn, view chain or payload, so that reading its state calls no
 * op. requires_grad is `grad`. NULL after td__fail. */
td_tensor *td__template(td_tensor *t, bool grad);
/* In the body of a backward graph of a branch: clones gradients that are not row-major
 * or share storage with an argument or with each other. Both branches must give the
 * same layout. */
bool       td__private_grads(td_call *c, td_tensor **g, int n);
/* Where a nested body returns a tensor that it closes over (*outside), *t becomes that
 * tensor's copy in the innermost capture. No effect outside of captures. */
bool       td__result_copy(td_ctx *cx, td_tensor **t, bool *outside);
/* The first output of a nested graph that shares storage with an input behind the first
 * n_args, a tensor the graph closes over; -1: none. */
int        td__graph_gives_lifted(const td_graph *g, int n_args);

/* Where gradients pass an op with the graphs g[]: replaces its operands by clones,
 * which backward reads, because the program may write the operands later.
 * Functionalization removes the clones. Operands whose clone would differ in strides,
 * and all operands of a graph that reads storages, stay. An inference tensor that
 * requires grad is refused. */
bool td__operands_keep(td_ctx *cx, td_tensor **ts, int n, td_graph *const g[2]);

/* Flags: the input is written; at least one write happens with grad mode on; at least
 * one changes sizes, strides, storage or history, not elements. */
enum { TD_WRITTEN = 1, TD_WRITTEN_GRAD = 2, TD_WRITTEN_META = 4 };
/* How a graph writes one of its inputs. */
typedef struct td_input_write {
    uint8_t  how;   /* TD_WRITTEN flags; 0: not at all */
    uint64_t times; /* writes of its storage, as its version counts them */
    td_where at;    /* of the first write; the file may be NULL */
} td_input_write;
/* The writes of g by input, an array for td__free; NULL after td__fail. `grad` is the
 * grad mode at the start of g. */
td_input_write *td__graph_writes(const td_graph *g, bool grad);
/* " (model.c:41)", the place of the first write; "" if it is unknown. */
const char     *td__write_place(const td_input_write *w, char out[120]);

/* Prepares the graphs among a call's arguments for the recorded graph: one
 * whose input types differ from the operands is captured again for them. args[]
 * and c->in[] get the graphs, which r->g then owns. */
bool td__record_graphs(td_record *r, td_opcall *c, td_garg *args);

/* ---- custom functions (custom_capture.c) -------------------------------- */

/* Does a backward that fails in a trace fail with this error in eager, too? */
static inline bool td__is_eagers(td_code code) {
    return code != TD_E_MEMORY && code != TD_E_TRACE && code != TD_E_UNSUPPORTED;
}

/* td_mode.function of the recorder: captures a custom function's forward and
 * backward and records the call as op `custom`. */
bool td__record_function(td_mode *m, const td_fncall *call);

/* ---- hooks (hook_capture.c) --------------------------------------------- */

/* td_mode.hook of the recorder: captures a gradient hook and records it as op
 * `on_grad`, or removes that op from the program. */
bool td__record_hook(td_mode *m, const td_hookcall *call);

#endif
