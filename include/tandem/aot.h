/* tandem/aot.h -- compiled functions. td_aot_function takes a body as td_capture does
 * and gives a function that behaves as the body in every respect that can be
 * observed: values, writes to arguments, aliases, flags, gradients of any order,
 * random numbers, errors. It is compiled at the first call, and again for arguments
 * that the code at hand does not fit. Modules, boxed calls, stages: docs/aot.md.
 *
 *     td_fn     *f = td_aot_function(cx, layer, NULL, NULL);
 *     td_tensor *out[2];
 *     td_invoke(f, TD_ARGS(x, w, seen), out, 2);
 *     td_backward(td_sum(out[1]));
 *     td_fn_drop(f);
 */
#ifndef TANDEM_AOT_H
#define TANDEM_AOT_H

#include "tandem/capture.h"
#include "tandem/config.h"
#include "tandem/graph.h"
#include "tandem/module.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- backends ----------------------------------------------------------- */

typedef enum td_half { TD_FORWARD, TD_BACKWARD, TD_INFERENCE } td_half;

/* What is being compiled, for backends that name files or log. */
typedef struct td_compile_info {
    size_t      size;
    int         id;   /* of the function, unique in the process */
    int         nr;   /* which specialization of it */
    td_half     half; /* which graph of that */
    const char *name; /* "layer" or "f" */
} td_compile_info;

/* A graph that runs. in[] has an entry for each input of the graph; tensors are the
 * caller's and may be written only where the graph does. out[] has one for each
 * output, to be filled with new tensors of the innermost scope, inputs, and numbers
 * as the graph says. False after td_fail. */
typedef struct td_runner {
    bool (*run)(void *env, td_ctx *cx, const td_value *in, td_value *out) TD_0;
    void (*drop)(void *env) TD_0; /* may be NULL */
    void *env TD_0;
    /* The same where tensors with own[i] are the code's: it calls td_drop on each once,
     * as soon as it can, and also when it fails. NULL: they go after run. */
    bool (*take)(void *env, td_ctx *cx, const td_value *in, const bool *own,
                 td_value *out) TD_0;
} td_runner;

/* Makes code of a graph, which stays valid as long as the code. False after
 * td_fail. `drop` is called once, when neither the function nor a history made by it
 * needs the backend any more; a backend that is given for several halves is one. */
typedef struct td_backend {
    const char *name TD_0;
    bool (*compile)(void *env, const td_graph *g, const td_compile_info *info,
                    td_runner *code) TD_0;
    void *env TD_0;
    void (*drop)(void *env) TD_0; /* may be NULL */
} td_backend;

/* ---- your own stages ---------------------------------------------------- */

/* Sees the joint graph of each specialization before it is taken apart, and may point
 * *g to another with the same inputs and outputs, which is verified and copied. False
 * after td_fail. */
typedef struct td_pass {
    const char *name TD_0; /* for messages; NULL: "pass" */
    bool (*run)(void *env, const td_graph **g) TD_0;
    void *env TD_0;
    void (*drop)(void *env) TD_0; /* as that of a backend; may be NULL */
} td_pass;

/* A joint graph about to be taken apart: which of its forward values does backward
 * get? Those that are not saved it computes again. */
typedef struct td_split td_split;
typedef struct td_split_value {
    const char *name; /* as the text of the graph has it, without % */
    const char *op;   /* "input" for inputs, which are at hand anyhow */
    int64_t     bytes;
    bool        forward; /* may be saved */
    bool        saved;   /* already: it may not be computed twice */
} td_split_value;
TD_API const td_graph *td_split_graph(const td_split *s);
TD_API int             td_split_values(const td_split *s);
TD_API td_split_value  td_split_value_at(const td_split *s, int i);
/* Of a view its base is saved. False after a failure: TD_E_ARG, there is no such value,
 * or it belongs to backward. */
TD_API bool            td_split_save(td_split *s, int i);
TD_API bool            td_split_save_named(td_split *s, const char *name);

/* Decides with td_split_save; false after td_fail. */
typedef struct td_chooser {
    const char *name TD_0; /* for messages; NULL: "partitioner" */
    bool (*choose)(void *env, td_split *s) TD_0;
    void *env TD_0;
    void (*drop)(void *env) TD_0; /* as that of a backend; may be NULL */
} td_chooser;

/* ---- functions ---------------------------------------------------------- */

/* What is left zero is taken from `config`, and that from the context, at the moment
 * of compiling: {TD_AOT_OPTS} is a function like any other. Everything is copied, texts
 * and callbacks too; of `config` log, trace_file and strict are the context's business
 * and not looked at. docs/aot.md has a line for each field. */
typedef struct td_aot_opts {
    size_t size               TD_SIZE(td_aot_opts);
    const char *name          TD_0;
    const td_backend *forward TD_0, *backward TD_0,
        *inference          TD_0; /* NULL: config's `backend` */
    td_partition partition  TD_0;
    bool keep_mutations     TD_0;        /* writes may stay in the graph */
    int limit               TD_0;        /* of specializations */
    const td_config *config TD_0;        /* all settings of this function; or NULL */
    const char *decompose   TD_0;        /* "silu,layer_norm", "all"; NULL: none */
    int n_params TD_0, n_buffers TD_0;   /* the first arguments are these */
    const char *const *state_names TD_0; /* of both; NULL: their numbers */
    td_shapes dynamic              TD_0;
    const char *log                TD_0; /* topics while it compiles: "graphs,guards" */
    td_pass pass                   TD_0; /* on the joint graph */
    td_chooser chooser             TD_0;
    td_module *module              TD_0; /* of td_aot_step: its members are state, */
    td_tensor_list state TD_0; /* ...and these tensors, state_names their names */
    const char *stages   TD_0; /* a version of pass and chooser: with one, what they
                                * did is kept on disk (docs/cache.md) */
    const char *version
        TD_0; /* of body, env, pass and chooser: where this is the same, so
                          * are they. A call that is found on disk runs no body */
} td_aot_opts;
#define TD_AOT_OPTS .size = sizeof(td_aot_opts)

typedef struct td_fn td_fn;

/* `body` and `env` must stay valid as long as the function. opts may be NULL.
 *
 *   returns  nil after a failure
 *   owns     the caller, until td_fn_drop or td_close, in any order
 *   since    0.1
 */
TD_API td_fn *td_aot_function(td_ctx *cx, td_body *body, void *env,
                              const td_aot_opts *opts);
/* The same for a graph from text; it must outlive the function. */
TD_API td_fn *td_aot_graph(const td_graph *g, const td_aot_opts *opts);
TD_API void   td_fn_drop(td_fn *f); /* NULL is fine; histories keep what they need */

/* Calls it. out[0..n_out) gets the first n_out results; more than there are is an
 * error. Results that are no tensors are nil there (td_invoke_values has them).
 *
 *   returns  false after a failure: out is all nil
 *   owns     results belong to the innermost scope
 *   aliases  as the body's results do
 *   fails    as the body does; TD_E_TRACE when it cannot be captured
 *   grad     as the body's
 *   since    0.1
 */
TD_API bool td_invoke(td_fn *f, td_values args, td_tensor **out, int n_out);
TD_API int  td_invoke_values(td_fn *f, td_values args, td_value *out, int n_out);
TD_API int  td_fn_specializations(const td_fn *f);
/* The next call compiles anew, as after a change that no guard sees. */
TD_API void td_fn_forget(td_fn *f);

/* Calls it and takes over one reference of each argument, also when it fails: that of
 * td_keep, or else the scope's. Each is dropped after its last use; args[i] is NULL
 * afterwards. NULL stands for an absent argument.
 *
 *   returns  as td_invoke
 *   since    0.1
 */
TD_API bool td_invoke_boxed(td_fn *f, td_tensor **args, int n, td_tensor **out,
                            int n_out);

/* ---- modules ------------------------------------------------------------ */

/* A function of the arguments of the module's forward. Parameters and buffers are
 * inputs of its graphs under their names; each call takes those the module has now, in
 * the mode it is in. Written buffers are written back, gradients go to the
 * parameters. m must outlive the function; n_params, n_buffers and state_names of opts
 * are the module's own.
 *
 *   returns  nil after a failure
 *   owns     the caller, until td_fn_drop
 *   since    0.1
 */
TD_API td_fn *td_aot_module(td_module *m, const td_aot_opts *opts);
/* The same for a module that stays as it is: its members are taken now, and a call
 * after they, or its mode, were changed fails with TD_E_ARG. */
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
 * Tensors the body reads around its arguments are inputs of the graph: the members of
 * opts->module, as td_aot_module has them, and opts->state, both under their names;
 * and any others, which the function holds. What changes from step to step is best a
 * tensor argument (lr, a count): another number is another specialization.
 *
 * It does what td_call_body would, gradients that are left in tensors (td_grad_of)
 * included, but that results have no history: a loss comes back detached.
 *
 *   returns  nil after a failure
 *   owns     the caller, until td_fn_drop; body, env and module must outlive it
 *   fails    TD_E_UNSUPPORTED: the body leaves a history in a tensor it writes
 *   since    0.1
 */
TD_API td_fn *td_aot_step(td_ctx *cx, td_body *body, void *env,
                          const td_aot_opts *opts);

/* ---- stages ------------------------------------------------------------- */

/* What an input or output of a graph stands for. */
typedef enum td_slot_kind {
    TD_SLOT_PLAIN, /* argument `index`; result `index` */
    TD_SLOT_PARAM,
    TD_SLOT_BUFFER,
    TD_SLOT_CONST,          /* a tensor the body closed over */
    TD_SLOT_TANGENT,        /* of result `index` */
    TD_SLOT_UPDATE_TANGENT, /* of what input `index` becomes */
    TD_SLOT_BASE_TANGENT,   /* of base `index` */
    TD_SLOT_UPDATE,         /* the elements input `index` gets */
    TD_SLOT_META_UPDATE,    /* the tensor it becomes, geometry and all */
    TD_SLOT_BASE,           /* of which results are views */
    TD_SLOT_LOSS,           /* result `index` */
    TD_SLOT_GRAD            /* of input `index`; absent where there is none */
} td_slot_kind;

typedef struct td_slot {
    td_slot_kind   kind;
    int            index;
    const char    *name;   /* "fc.weight": of the member it is, or is about; or NULL */
    bool           tensor; /* else a number, or nothing */
    bool           requires_grad;
    td_dtype       dtype; /* of a tensor */
    int            rank;
    const int64_t *size; /* the graph's */
} td_slot;

/* A call between its stages: captured and joined, not yet compiled. */
typedef struct td_staged td_staged;
/* For arguments like these, with TD_SHAPES_DYNAMIC also of other sizes; they are looked
 * at, not called with. nil after a failure, as td_invoke fails. */
TD_API td_staged *td_stage_capture(td_ctx *cx, td_body *body, void *env, td_values args,
                                   const td_aot_opts *opts);
TD_API td_staged *td_stage_module(td_module *m, td_values args,
                                  const td_aot_opts *opts);
/* NULL once the stage was compiled. */
TD_API const td_graph *td_stage_program(const td_staged *s);
/* Forward and backward; a graph without gradients when there is nothing to
 * differentiate. NULL once the stage was compiled. */
TD_API const td_graph *td_stage_joint(const td_staged *s);
TD_API int             td_stage_inputs(const td_staged *s);
TD_API int             td_stage_outputs(const td_staged *s);
TD_API td_slot         td_stage_input(const td_staged *s, int i);
TD_API td_slot         td_stage_output(const td_staged *s, int i);
/* A copy of g is the joint graph from now on. False after a failure, and nothing has
 * changed: TD_E_ARG, it is no joint graph, or has other inputs and outputs. */
TD_API bool            td_stage_replace(td_staged *s, const td_graph *g);
/* Once; the function serves calls like the staged one. nil after a failure. */
TD_API td_fn          *td_stage_compile(td_staged *s);
TD_API void            td_stage_drop(td_staged *s); /* NULL is fine */

/* What was compiled so far and why it is as it is, for people: what was captured,
 * which inputs are written back and how, what results are, what is kept for backward
 * or computed again, memory, guards, time (docs/explain.md). td_explain_json says the
 * same for programs. Both write at most cap bytes with the final NUL and return the
 * length they want, 0 when memory is exhausted.
 *   since  0.1 */
TD_API size_t td_explain(const td_fn *f, char *out, size_t cap);
/* Writes a page about the function's last specialization to `path`, one HTML file for
 * a browser: the graph, what is saved for backward and why, memory over time, every
 * kernel with its C, and its time if calls were traced (td_trace_start). False after a
 * failure. */
TD_API bool   td_report(const td_fn *f, const char *path);
TD_API size_t td_explain_json(const td_fn *f, char *out, size_t cap);

#ifdef __cplusplus
}
#endif

#endif
