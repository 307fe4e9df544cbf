/* tandem/compiled_backward.h -- backwards through any history as compiled code.
 * docs/compiled-autograd.md is the guide. */
#ifndef TANDEM_COMPILED_BACKWARD_H
#define TANDEM_COMPILED_BACKWARD_H

#include "tandem/aot.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Compiles backwards: td_backward_with and td_grad with opts.with do what they do
 * without it, through code that was made of the whole history: ops that ran eagerly,
 * calls of compiled functions, custom functions. The history of a first backward is
 * traced and compiled; a later one of the same shape (the same ops on the same sizes,
 * with the same numbers) runs that code.
 *
 *     td_backward_fn *with = td_aot_backward(cx, NULL);
 *     for (...) {
 *         td_tensor *loss = loss_of(model, x, y);           // any code
 *         td_backward_with(TD_LIST(loss), (td_tensors){0},
 *                          &(td_backward_opts){TD_BACKWARD_OPTS, .with = with});
 *     }
 *
 * The engine runs hooks, nodes with values of saved-tensor hooks, and custom functions
 * with a payload at their place, and code what is before, between and after them.
 * Another function or env of a hook is the same history. Where code cannot do what the
 * engine does (create_graph), the engine runs the backward, and td_backward_why says
 * why (docs/compiled-autograd.md).
 *
 *   opts     may be NULL. Of its fields these have a meaning: name, inference, limit,
 *            config, decompose, log, pass, stages. TD_E_ARG for others
 *   returns  nil after a failure
 *   owns     the caller, until td_backward_fn_drop or td_close
 *   since    0.1 */
TD_API td_backward_fn *td_aot_backward(td_ctx *cx, const td_aot_opts *opts);
TD_API void            td_backward_fn_drop(td_backward_fn *f); /* NULL is allowed */
/* How many histories were compiled; how many backwards ran as code, but for hooks and
 * nodes that are the engine's; how many the engine ran instead, or a part of them. */
TD_API int             td_backward_histories(const td_backward_fn *f);
TD_API int64_t         td_backward_runs(const td_backward_fn *f);
TD_API int64_t         td_backward_misses(const td_backward_fn *f);
/* Why the engine ran the last of these; "" if there is none. Valid until the next
 * backward. */
TD_API const char     *td_backward_why(const td_backward_fn *f);
/* td_explain of the code for every history, and what the engine runs. Writes
 * and returns as td_explain does. */
TD_API size_t td_backward_explain(const td_backward_fn *f, char *out, size_t cap);

#ifdef __cplusplus
}
#endif
#endif
