/* tandem/aot.h -- compiled functions. td_aot_function takes a body as td_capture does
 * and gives a function that behaves as the body in every respect that can be
 * observed: values, writes to arguments, aliases, flags, gradients of any order,
 * random numbers, errors. It is compiled at the first call, and again for arguments
 * that the code at hand does not fit.
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
    bool (*run)(void *env, td_ctx *cx, const td_value *in, td_value *out);
    void (*drop)(void *env); /* may be NULL */
    void *env;
} td_runner;

/* Makes code of a graph, which stays valid as long as the code. False after
 * td_fail. */
typedef struct td_backend {
    const char *name;
    bool (*compile)(void *env, const td_graph *g, const td_compile_info *info,
                    td_runner *code);
    void *env;
    void (*drop)(void *env); /* called with the function; may be NULL */
} td_backend;

/* ---- functions ---------------------------------------------------------- */

/* What is left zero is taken from `config`, and that from the context, at the moment
 * of compiling: {TD_AOT_OPTS} is a function like any other. `config` is copied; its
 * log, trace_file and strict are the context's business and not looked at. */
typedef struct td_aot_opts {
    size_t            size;
    const char       *name;
    const td_backend *forward, *backward, *inference; /* NULL: config's `backend` */
    td_partition      partition;
    bool              keep_mutations; /* writes may stay in the graph */
    int               limit;          /* of specializations */
    const td_config  *config;         /* all settings of this function; or NULL */
} td_aot_opts;
#define TD_AOT_OPTS .size = sizeof(td_aot_opts)

typedef struct td_fn td_fn;

/* `body` and `env` must stay valid as long as the function. opts may be NULL.
 *
 *   returns  NULL after a failure
 *   owns     the caller, until td_fn_drop, which comes before td_close
 *   since    0.2
 */
TD_API td_fn *td_aot_function(td_ctx *cx, td_body *body, void *env,
                              const td_aot_opts *opts);
/* The same for a graph from text; it must outlive the function. */
TD_API td_fn *td_aot_graph(const td_graph *g, const td_aot_opts *opts);
TD_API void   td_fn_drop(td_fn *f); /* NULL is fine; histories keep what they need */

/* Calls it. out[0..n_out) gets as many results as there is room for; those that are no
 * tensors are nil there (td_invoke_values has them).
 *
 *   returns  false after a failure: out is all nil
 *   owns     results belong to the innermost scope
 *   aliases  as the body's results do
 *   fails    as the body does; TD_E_TRACE when it cannot be captured
 *   grad     as the body's
 *   since    0.2
 */
TD_API bool td_invoke(td_fn *f, td_values args, td_tensor **out, int n_out);
TD_API int  td_invoke_values(td_fn *f, td_values args, td_value *out, int n_out);
TD_API int  td_fn_specializations(const td_fn *f);

/* What was compiled so far and why it is as it is, for people: what was captured,
 * which inputs are written back and how, what results are, what is kept for backward
 * or computed again, memory, guards, time (docs/explain.md). td_explain_json says the
 * same for programs. Both write at most cap bytes with the final NUL and return the
 * length they want, 0 when memory is exhausted.
 *   since  0.2 */
TD_API size_t td_explain(const td_fn *f, char *out, size_t cap);
TD_API size_t td_explain_json(const td_fn *f, char *out, size_t cap);

#ifdef __cplusplus
}
#endif

#endif
