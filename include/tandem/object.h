/* tandem/object.h -- objects of the program as arguments of compiled functions and of
 * registered ops: a counter, a file, a connection. An object is a tensor without
 * elements that carries a pointer, so it goes where tensors go: through td_invoke,
 * captures, forward and backward code. Only kernels of registered ops read it.
 *
 *     static bool count(const td_op_run *r) {          // "my_count(Object n) -> ()"
 *         int *n = td_object_data(r->in[0].u.t, "counter");
 *         return n && ++*n;
 *     }
 *     td_tensor *o = td_object(cx, &(td_object_opts){TD_OBJECT_OPTS,
 *         .type = "counter", .data = &n});
 *     td_invoke(f, TD_ARGS(x, o), &y, 1);
 *
 * docs/user-ops.md has the rules. */
#ifndef TANDEM_OBJECT_H
#define TANDEM_OBJECT_H

#include "tandem/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_object_opts {
    TD_SIZE(td_object_opts);
    const char *type TD_0; /* at most 39 of a-z, 0-9, _: in graphs and keys */
    void *data       TD_0; /* not NULL */
    /* Called when no tensor, saved value or context refers to the object any more, in
     * the thread that dropped the last one; NULL: nothing is called. */
    void (*drop)(void *data) TD_0;
    /* Stands for the object in keys: a compiled function has code of its own for each.
     * 0: all objects of the type share code. */
    uint64_t key TD_0;
} td_object_opts;
#define TD_OBJECT_OPTS .td_object_opts_size = sizeof(td_object_opts)

/* A tensor u8[0] of the innermost scope that carries the object. Ops may not write it;
 * a clone of it carries nothing.
 *   fails  TD_E_ARG  no type or no data. drop is not called then */
TD_API td_tensor *td_object(td_ctx *cx, const td_object_opts *opts);
/* The pointer. NULL after a failure: TD_E_ARG, t carries no object of the type;
 * TD_E_TRACE, t is an argument of a body that is captured: its object is not known. */
TD_API void      *td_object_data(const td_tensor *t, const char *type);

#ifdef __cplusplus
}
#endif
#endif
