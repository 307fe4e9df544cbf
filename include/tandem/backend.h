/* tandem/backend.h -- what compiles graphs: backends and the code that they return,
 * what is being compiled, and callbacks around it. tandem/aot.h takes them as options;
 * docs/own-backend.md has the contract and an example. */
#ifndef TANDEM_BACKEND_H
#define TANDEM_BACKEND_H

#include "tandem/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- backends ----------------------------------------------------------- */

/* Which graph is compiled: forward, backward, or a graph without backward. TD_JOINT:
 * forward and backward before they are partitioned, or all stages. */
typedef enum td_half { TD_FORWARD, TD_BACKWARD, TD_INFERENCE, TD_JOINT } td_half;

/* What is being compiled, for backends that name files or log. `size` is that of the
 * library's struct; fields are added at the end. */
typedef struct td_compile_info {
    size_t      size;
    int         id; /* number of the function, unique in the process */
    int         nr; /* number of the specialization */
    td_half     half;
    const char *name;  /* "layer" or "f"; "layer'" for its gradients of gradients */
    const char *stage; /* "specialize": all stages; "passes", "partition", "compile
                        * forward", "compile backward", "compile inference" */
    int         order; /* 0: the function; 1: gradients of its gradients, ... */
} td_compile_info;

/* What is being compiled, in a callback that compiling calls: a pass, a partitioner, a
 * decomposition, a backend, td_on_compile. NULL elsewhere, and in bodies.
 *
 *   owns   the library; valid until the callback returns
 *   since  0.1 */
TD_API const td_compile_info *td_compiling(td_ctx *cx);

/* Compiled code of a graph. in[] has one value per input of the graph; tensors are
 * borrowed, and may be written only where the graph writes them. A missing tangent is
 * TD_K_NONE, and the graph does not read it. run fills out[], one
 * value per output: new tensors in the innermost scope, inputs, or numbers, as the
 * graph says. False after td_fail. */
typedef struct td_runner {
    bool (*run)(void *env, td_ctx *cx, const td_value *in, td_value *out) TD_0;
    void (*drop)(void *env) TD_0; /* may be NULL */
    void *env TD_0;
    /* As run, but the code owns input i if own[i]: it must td_drop it once, as early as
     * possible, and also when it fails, but not if out[] has this tensor itself. In
     * forward these are arguments of td_invoke_boxed; in backward saved values and
     * tangents that nobody else refers to (the setting donated_buffers), which the code
     * may overwrite as well. NULL: the caller drops them after run. */
    bool (*take)(void *env, td_ctx *cx, const td_value *in, const bool *own,
                 td_value *out) TD_0;
} td_runner;

/* Appends n bytes of code to the entry `to` of the cache. False: it is too long, or
 * memory is exhausted. */
typedef bool td_code_put(void *to, const void *bytes, size_t n);

/* Compiles graphs. The graph stays valid as long as the code. False after td_fail.
 * `drop` is called once, when neither the function nor a history made by it needs the
 * backend; a backend given for several halves counts once.
 *
 * A backend with version, save and load has its code cached on disk: before compile,
 * load is called with the bytes that save wrote for an equal graph, by a backend of the
 * same name and version, in this or another process. docs/own-backend.md has an
 * example.
 *
 *   version  stands for the backend: where name and version are the same, so is the
 *            code. NULL: nothing is cached
 *   save     calls put once or several times. False: this code is not cached, which
 *            is no failure of the call
 *   load     makes code of the bytes, which are valid during the call only. False, also
 *            after td_fail: the error is cleared, and compile is called */
typedef struct td_backend {
    const char *name TD_0;
    bool (*compile)(void *env, const td_graph *g, const td_compile_info *info,
                    td_runner *code) TD_0;
    void *env TD_0;
    void (*drop)(void *env) TD_0; /* may be NULL */
    const char *version TD_0;
    bool (*save)(void *env, const td_runner *code, td_code_put *put, void *to) TD_0;
    bool (*load)(void *env, const td_graph *g, const td_compile_info *info,
                 const void *bytes, size_t n, td_runner *code) TD_0;
} td_backend;

/* ---- callbacks around compiling ------------------------------------------ */

/* How compiling ended. */
typedef struct td_compiled {
    size_t size;
    bool   ok;    /* false: the context has the error */
    bool   found; /* read from the cache on disk, the remote cache, or a file */
    double seconds;
} td_compiled;

/* Called before and after each specialization is compiled (info->stage is
 * "specialize"), and, inside that or at the first backward, each graph by its backend
 * ("compile forward", ...). Each begin has its end, also after a failure. Calls that
 * find their code in memory compile nothing. Of a function in stages the first pair is
 * that of td_stage_compile. */
typedef struct td_on_compile {
    void (*begin)(void *env, const td_compile_info *info) TD_0; /* may be NULL */
    void (*end)(void *env, const td_compile_info *info,
                const td_compiled *how) TD_0; /* may be NULL */
    void *env TD_0;
    void (*drop)(void *env) TD_0; /* as that of a backend; may be NULL */
} td_on_compile;

#ifdef __cplusplus
}
#endif

#endif
