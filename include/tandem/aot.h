/* tandem/aot.h -- compiled functions. td_aot_function takes a body, as td_capture
 * does, and returns a function with the same observable behaviour: values, writes to
 * arguments, aliasing, flags, gradients of any order, random numbers, errors. It is
 * compiled at the first call, and again for arguments that the existing code does not
 * fit. docs/aot.md explains modules, boxed calls and stages.
 *
 *     td_fn     *f = td_aot_function(cx, layer, NULL, NULL);
 *     td_tensor *out[2];
 *     td_invoke(f, TD_ARGS(x, w, seen), out, 2);
 *     td_backward(td_sum(out[1]));
 *     td_fn_drop(f); */
#ifndef TANDEM_AOT_H
#define TANDEM_AOT_H

#include "tandem/backend.h"
#include "tandem/capture.h"
#include "tandem/config.h"
#include "tandem/grad.h"
#include "tandem/graph.h"
#include "tandem/mode.h"
#include "tandem/module.h"
#include "tandem/store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- user-defined passes --------------------------------------------------- */

/* A pass over the joint graph of each specialization, before partitioning. It may set
 * *g to another graph with the same inputs and outputs, which is verified and copied.
 * False after td_fail. */
typedef struct td_pass {
    const char *name TD_0; /* for messages; NULL: "pass" */
    bool (*run)(void *env, const td_graph **g) TD_0;
    void *env TD_0;
    void (*drop)(void *env) TD_0; /* as that of a backend; may be NULL */
} td_pass;

/* ---- decompositions by the user --------------------------------------------- */

/* Where in a joint graph an op is. Texts are borrowed for the call. */
typedef struct td_op_site {
    size_t      size;
    const char *function; /* the compiled function */
    const char *op;
    td_half     half;  /* TD_FORWARD, or TD_BACKWARD: it computes gradients */
    const char *scope; /* "model/attn"; "": no scope */
    const char *file;  /* of the user's source; NULL: not known */
    int         line;
} td_op_site;

/* Replaces an op by other ops, in the joint graph of each specialization, forward and
 * backward. `run` is called for each place where the op is, on fake tensors, and
 * decides there: it computes the results and gives each with td_mode_call_answer; it
 * declines with td_mode_call_go, and the op stays; or it takes the library's own
 * decomposition (td_mode_call_simpler). Results must have the dtype, sizes and strides
 * that the op gives. Ops that it calls are not decomposed again by the table, so that
 * it may call the op itself. False after td_fail.
 *
 *   op    an op that returns new tensors: it writes nothing, draws nothing, is no view
 *   drop  as that of a backend; may be NULL */
typedef struct td_decomposition {
    const char *op TD_0;
    bool (*run)(void *env, td_mode_call *h, const td_op_site *at) TD_0;
    void *env TD_0;
    void (*drop)(void *env) TD_0;
} td_decomposition;

/* A joint graph during partitioning, for td_chooser: which forward values are saved
 * for backward? The others are recomputed. */
typedef struct td_split td_split;
/* A value of the joint graph. */
typedef struct td_split_value {
    const char *name; /* as in the graph's text, without % */
    const char *op;   /* "input" for inputs, which cost nothing to save */
    int64_t     bytes;
    bool        forward; /* a forward value: it may be saved */
    bool        saved;   /* saved already, because it must not be recomputed */
} td_split_value;
TD_API const td_graph *td_split_graph(const td_split *s);
TD_API int             td_split_values(const td_split *s);
TD_API td_split_value  td_split_value_at(const td_split *s, int i);
/* Saves value i; of a view, its base. False after a failure: TD_E_ARG, there is no
 * such value, or backward computes it. */
TD_API bool            td_split_save(td_split *s, int i);
TD_API bool            td_split_save_named(td_split *s, const char *name);

/* A partitioner: `choose` calls td_split_save. False after td_fail. */
typedef struct td_chooser {
    const char *name TD_0; /* for messages; NULL: "partitioner" */
    bool (*choose)(void *env, td_split *s) TD_0;
    void *env TD_0;
    void (*drop)(void *env) TD_0; /* as that of a backend; may be NULL */
} td_chooser;

/* ---- saved values, packed ------------------------------------------------ */

/* A value that forward saves for backward. Texts are borrowed for the call. */
typedef struct td_saved_at {
    const char *function; /* the compiled function */
    int         index;    /* <saved index> of the graphs without packing */
    const char *value;    /* its name in the forward graph; "": it has none */
    const char *op;       /* the op that computes it; "input": an input */
    const char *reader;   /* the first op of backward that reads it; "": none */
    const char *state;    /* of a parameter or buffer: "fc.weight"; or NULL */
    const char *scope;    /* where it was computed: "model/attn"; "": no scope */
    const char *file;     /* ...in the user's source; NULL: not known */
    int         line;
    bool        donated; /* only backward reads it: no input, no result */
    int64_t     bytes;   /* of its elements; symbolic sizes count as 64 */
} td_saved_at;

/* Which saved values are packed. Generator states and sizes never are, nor inputs with
 * gaps, overlaps or an offset. */
typedef enum td_saved_filter {
    TD_SAVED_DONATED,   /* those that are neither inputs nor results */
    TD_SAVED_NO_STATIC, /* all but parameters, buffers and closed-over tensors */
    TD_SAVED_ALL
} td_saved_filter;

enum { TD_PACKED_MOST = 8 }; /* values in place of one */

/* Saved-tensor hooks that are traced into the graphs: forward saves what pack returns
 * in place of a value, and backward computes the value from it. Both are called on
 * fake tensors while the function is compiled, and run as its code, without gradients.
 * They may only call ops that return new tensors and draw no random numbers, on their
 * arguments. docs/packing.md has the contract.
 *
 *   pack    stores at most TD_PACKED_MOST tensors and returns their number; 0, or t
 *           itself: the value is saved as it is; -1 after td_fail
 *   unpack  returns a tensor of the dtype and sizes that pack got; NULL after td_fail
 *   lossless promises that unpack gives what pack got, to the bit: then create_graph
 *           works, which repeats forward from the inputs and packs nothing
 *   version where it is the same, so are pack, unpack and env; NULL: what is compiled
 *           is not cached on disk
 *   drop    as that of a backend; may be NULL */
typedef struct td_packing {
    int (*pack)(void *env, const td_saved_at *at, td_tensor *t,
                td_tensor **packed) TD_0;
    td_tensor *(*unpack)(void *env, const td_saved_at *at, td_tensor *const *packed,
                         int n)TD_0;
    td_saved_filter filter TD_0;
    const char *version    TD_0;
    void *env              TD_0;
    void (*drop)(void *env) TD_0;
    bool lossless TD_0;
} td_packing;

/* Saved values that are in a store between forward and backward: forward saves a
 * handle, backward fetches the value ahead of its first reader. The values are the same
 * to the bit. With td_packing too, what pack returns is offloaded. docs/offload.md has
 * the contract.
 *
 *   store      NULL: nothing is offloaded
 *   choose     may be NULL: all that `filter` and `min_bytes` admit; false: the value
 *              stays in memory. It runs while the function is compiled
 *   min_bytes  smaller values stay; 0: 64 KiB
 *   ahead      so many values are on their way before backward reads them; 0: 1; -1:
 *              each is fetched when it is read
 *   version    where it is the same, so are choose and env; NULL with a choose: what is
 *              compiled is not cached on disk
 *   drop       as that of a backend; may be NULL */
typedef struct td_offload {
    td_store *store TD_0;
    bool (*choose)(void *env, const td_saved_at *at) TD_0;
    int64_t min_bytes      TD_0;
    td_saved_filter filter TD_0;
    int ahead              TD_0;
    const char *version    TD_0;
    void *env              TD_0;
    void (*drop)(void *env) TD_0;
} td_offload;

/* ---- functions ---------------------------------------------------------- */

/* Options of a function. Zero fields are taken from `config`, which defaults to the
 * context's settings at the time of compilation. Everything is copied, including
 * texts and callbacks. The fields log, trace_file and strict of `config` are ignored:
 * they are settings of the context. docs/aot.md describes each field. */
typedef struct td_aot_opts {
    TD_SIZE(td_aot_opts);
    const char *name          TD_0;
    const td_backend *forward TD_0, *backward TD_0,
        *inference          TD_0; /* NULL: config's `backend` */
    td_partition partition  TD_0;
    bool keep_mutations     TD_0;        /* leave writes to inputs in the graph */
    int limit               TD_0;        /* most specializations */
    const td_config *config TD_0;        /* all settings of this function; or NULL */
    const char *decompose   TD_0;        /* "silu,layer_norm", "all"; NULL: none */
    int n_params TD_0, n_buffers TD_0;   /* leading arguments that are state */
    const char *const *state_names TD_0; /* their names; NULL: numbers */
    /* Names of the other arguments, for messages: "argument 2 (mask)". An entry may be
     * NULL; arguments behind the last have none. */
    const char *const *arg_names   TD_0;
    int n_arg_names                TD_0;
    td_shapes dynamic              TD_0;
    const char *log                TD_0; /* topics while it compiles: "graphs,guards" */
    td_pass pass                   TD_0; /* on the joint graph */
    td_chooser chooser             TD_0;
    td_module *module              TD_0; /* td_aot_step: its members are state */
    td_tensor_list state TD_0; /* td_aot_step: more state; names in state_names */
    const char *stages   TD_0; /* a version of pass, chooser and decompositions: with
                                * one, what they did is kept on disk (docs/cache.md) */
    const char *version
        TD_0; /* of body, env, pass and chooser: where this is the same, so
                          * are they. A call that is found on disk runs no body */
    /* Arguments, by index, that seldom change: their sizes are never symbolic, numbers
     * among them are constants of the code, and saving them for backward counts as
     * free, as for parameters. A module's members have no index. */
    const int *static_args TD_0;
    int n_static_args      TD_0;
    td_packing saved       TD_0; /* pack and unpack what is saved for backward */
    bool savable           TD_0; /* keep in memory what td_fn_save writes */
    /* Before the library's own decompositions (.decompose), at most one for an op. */
    const td_decomposition *decompositions TD_0;
    int n_decompositions                   TD_0;
    bool functional_rng      TD_0; /* graphs take and return the generator's state */
    td_offload offload       TD_0; /* move what is saved for backward to a store */
    td_on_compile on_compile TD_0;
} td_aot_opts;
#define TD_AOT_OPTS .td_aot_opts_size = sizeof(td_aot_opts)

typedef struct td_fn td_fn;

/* Compiles a body lazily: at its first call.
 *
 *   body, env  must stay valid as long as the function
 *   opts       may be NULL
 *   returns    nil after a failure
 *   owns       the caller, until td_fn_drop or td_close, in any order
 *   since      0.1 */
TD_API td_fn *td_aot_function(td_ctx *cx, td_body *body, void *env,
                              const td_aot_opts *opts);
/* The same for a graph from text. The function keeps the graph alive. */
TD_API td_fn *td_aot_graph(const td_graph *g, const td_aot_opts *opts);
TD_API void   td_fn_drop(td_fn *f); /* NULL is allowed; backward still works */

/* Calls the function. out[0..n_out) gets the first n_out results; asking for more
 * than the body returns is an error. A result that is no tensor is nil here (use
 * td_invoke_values).
 *
 *   returns  false after a failure: out is all nil
 *   owns     results belong to the innermost scope
 *   aliases  as the body's results
 *   fails    as the body; TD_E_TRACE if it cannot be captured
 *   grad     as the body's
 *   since    0.1 */
TD_API bool td_invoke(td_fn *f, td_values args, td_tensor **out, int n_out);
/* The same with results of any kind. Returns the number of results, -1 after a
 * failure. */
TD_API int  td_invoke_values(td_fn *f, td_values args, td_value *out, int n_out);
/* The number of specializations compiled so far. */
TD_API int  td_fn_specializations(const td_fn *f);
/* Drops all compiled code: the next call compiles again. For changes that no guard
 * detects. */
TD_API void td_fn_forget(td_fn *f);

/* Writes the function to a file, with all its specializations: keys, guards, programs,
 * joint graphs, forward and backward graphs, what a call does besides. td_fn_load makes
 * a function of it in another process, which has no body. Machine code is not in the
 * file: it is compiled where the file is loaded, or found in the cache there. The
 * function must have been made with td_aot_opts.savable.
 *
 *   returns  false after a failure; a file that exists is replaced whole or not at all
 *   fails    TD_E_UNSUPPORTED  a specialization closes over tensors, reads modules that
 *                              are not its own, or is not savable for another reason,
 *                              which the message names
 *            TD_E_ARG          it has no specialization yet: call it first
 *            TD_E_IO           the file cannot be written
 *   since    0.1 */
TD_API bool   td_fn_save(const td_fn *f, const char *path);
/* Reads a function that td_fn_save wrote, by the same build of the library. It behaves
 * as the one that was saved, in calls that fit a specialization in the file; it never
 * compiles another, and a call that fits none fails with TD_E_ARG and the difference.
 *
 *   opts     may be NULL. backends, log, config, on_compile; module and state, which a
 *            compiled module or step needs again: members are found by their names. All
 *            else was decided when the function was made, and must be zero
 *   returns  nil after a failure
 *   owns     the caller, until td_fn_drop
 *   fails    TD_E_IO   the file cannot be read, is damaged, or is of another build
 *            TD_E_ARG  an option that must be zero, or members that differ
 *   since    0.1 */
TD_API td_fn *td_fn_load(td_ctx *cx, const char *path, const td_aot_opts *opts);

/* As td_invoke, and takes over one reference to each argument, also on failure: that
 * of td_keep, or else the scope's. Each argument is dropped after its last use;
 * args[i] is NULL afterwards. A NULL argument is absent.
 *
 *   returns  as td_invoke
 *   since    0.1 */
TD_API bool td_invoke_boxed(td_fn *f, td_tensor **args, int n, td_tensor **out,
                            int n_out);

/* ---- modules ------------------------------------------------------------ */

/* A function of the arguments of the module's forward. Parameters and buffers are
 * inputs of its graphs, under their names. Each call uses the module's current
 * members and mode; written buffers are written back, gradients go to the parameters.
 * n_params, n_buffers and state_names of opts are ignored.
 *
 *   returns  nil after a failure
 *   owns     the caller, until td_fn_drop; m must outlive the function
 *   since    0.1 */
TD_API td_fn *td_aot_module(td_module *m, const td_aot_opts *opts);
/* The same for a module that does not change: its members are read once, and a call
 * after the members or the mode changed fails with TD_E_ARG. */
TD_API td_fn *td_aot_module_flat(td_module *m, const td_aot_opts *opts);

/* ---- training steps ----------------------------------------------------- */

/* A whole step as one function: a body that computes a loss, calls td_grad or
 * td_backward, and writes parameters and the state of an optimizer, is one graph that
 * one backend compiles (opts->inference), with the writes in it.
 *
 *     static bool step(td_call *c) {
 *         model     *m = td_call_env(c);
 *         td_tensor *loss = loss_of(m, td_arg(c, 0), td_arg(c, 1)), *g[2];
 *         if (!td_grad(TD_LIST(loss), TD_LIST(m->w, m->b), g, NULL)) return false;
 *         td_grad_mode was = td_no_grad_begin(td_call_ctx(c));
 *         td_sub_(m->w, td_mul(g[0], td_arg(c, 2)));
 *         td_sub_(m->b, td_mul(g[1], td_arg(c, 2)));
 *         td_no_grad_end(td_call_ctx(c), was);
 *         return td_return(c, loss);
 *     }
 *     td_fn *f = td_aot_step(cx, step, &m, &(td_aot_opts){TD_AOT_OPTS, .module = net});
 *     td_invoke(f, TD_ARGS(x, y, lr), &loss, 1);
 *
 * Tensors that the body reads besides its arguments are inputs of the graph: the
 * members of opts->module, as in td_aot_module, and opts->state, both under their
 * names; and any others, to which the function keeps a reference. Pass a value that
 * changes from step to step (lr, a count) as a tensor: another number is another
 * specialization.
 *
 * A call does what td_call_body does, including gradients stored in tensors
 * (td_grad_of), except that results have no history: a loss is returned detached.
 *
 *   returns  nil after a failure
 *   owns     the caller, until td_fn_drop; body, env and module must outlive it
 *   fails    TD_E_UNSUPPORTED  a tensor that the body writes ends with a grad_fn
 *   since    0.1
 */
TD_API td_fn *td_aot_step(td_ctx *cx, td_body *body, void *env,
                          const td_aot_opts *opts);

/* ---- stages ------------------------------------------------------------- */

/* What an input or output of a graph stands for. */
typedef enum td_slot_kind {
    TD_SLOT_PLAIN, /* argument or result `index` */
    TD_SLOT_PARAM,
    TD_SLOT_BUFFER,
    TD_SLOT_CONST,          /* a closed-over tensor */
    TD_SLOT_TANGENT,        /* of result `index` */
    TD_SLOT_UPDATE_TANGENT, /* of the new value of input `index` */
    TD_SLOT_BASE_TANGENT,   /* of base `index` */
    TD_SLOT_UPDATE,         /* the new elements of input `index` */
    TD_SLOT_META_UPDATE,    /* the same, after its sizes, strides or offset changed */
    TD_SLOT_BASE,           /* a new tensor that results are views of */
    TD_SLOT_LOSS,           /* result `index` */
    TD_SLOT_GRAD,           /* of input `index`; absent where there is none */
    TD_SLOT_SEED,           /* of the random generator, i64[] */
    TD_SLOT_OFFSET,         /* ...its offset, before (input) and after (output) */
    TD_SLOT_TOKEN           /* order of effects: index 0 of forward, 1 of backward */
} td_slot_kind;

/* An input or output of a graph. */
typedef struct td_slot {
    td_slot_kind   kind;
    int            index;
    const char    *name;   /* "fc.weight": the member it is or belongs to; or NULL */
    bool           tensor; /* else a number, or nothing */
    bool           requires_grad;
    td_dtype       dtype; /* of a tensor */
    int            rank;
    const int64_t *size; /* borrowed from the graph */
} td_slot;

/* A function between its stages: captured and differentiated, not yet compiled. */
typedef struct td_staged td_staged;
/* Captures for arguments like these; with TD_SHAPES_DYNAMIC also for other sizes. The
 * arguments are only inspected. nil after a failure, as td_invoke fails. */
TD_API td_staged *td_stage_capture(td_ctx *cx, td_body *body, void *env, td_values args,
                                   const td_aot_opts *opts);
TD_API td_staged *td_stage_module(td_module *m, td_values args,
                                  const td_aot_opts *opts);
/* The captured program; NULL after td_stage_compile. */
TD_API const td_graph *td_stage_program(const td_staged *s);
/* The joint graph of forward and backward, or the forward graph if there is nothing
 * to differentiate; NULL after td_stage_compile. */
TD_API const td_graph *td_stage_joint(const td_staged *s);
TD_API int             td_stage_inputs(const td_staged *s);
TD_API int             td_stage_outputs(const td_staged *s);
TD_API td_slot         td_stage_input(const td_staged *s, int i);
TD_API td_slot         td_stage_output(const td_staged *s, int i);
/* Replaces the joint graph by a copy of g. False after a failure, and nothing has
 * changed: TD_E_ARG, it is no joint graph, or its inputs or outputs differ. */
TD_API bool            td_stage_replace(td_staged *s, const td_graph *g);
/* Compiles; may be called once. The function accepts calls like the staged one only.
 * nil after a failure. */
TD_API td_fn          *td_stage_compile(td_staged *s);
TD_API void            td_stage_drop(td_staged *s); /* NULL is allowed */

/* Describe what was compiled and why, as text and as JSON: captured ops, writes to
 * inputs, results, values saved for backward or recomputed, memory, guards, times
 * (docs/explain.md). Write at most cap bytes including the final NUL and return the
 * length of the whole text, 0 if memory is exhausted.
 *   since  0.1 */
TD_API size_t td_explain(const td_fn *f, char *out, size_t cap);
/* Writes an HTML report about the function's last specialization to `path`: the
 * graph, values saved for backward and why, memory over time, every kernel with its
 * C, and its time if calls were traced (td_trace_start). False after a failure. */
TD_API bool   td_report(const td_fn *f, const char *path);
TD_API size_t td_explain_json(const td_fn *f, char *out, size_t cap);

#ifdef __cplusplus
}
#endif

#endif
