/* tandem/mode.h -- modes: functions that hear every op call of a context before it is
 * computed, and may look, change, replace or refuse it. docs/modes.md is the guide.
 *
 *     static bool count(void *env, td_heard *h) {
 *         ++*(int *)env;
 *         return td_heard_go(h);
 *     }
 *     int      n = 0;
 *     td_mode_hook m = {.name = "count", .call = count, .env = &n};
 *     td_mode_push(cx, &m);
 *     ...
 *     td_mode_pop(cx, &m);
 *
 * Modes form a stack; the one pushed last hears first. Ops called inside a mode's
 * function are heard by the modes below it only. Composite ops (docs/ops.md) are
 * heard as their parts, unless the mode asks for them whole. */
#ifndef TANDEM_MODE_H
#define TANDEM_MODE_H

#include "tandem/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_heard td_heard; /* one op call, while a mode hears it */

/* Answers the call: with td_heard_go, with td_heard_answer for each result, or with
 * false after td_fail. */
typedef bool td_mode_fn(void *env, td_heard *h);

typedef struct td_mode_hook {
    const char *name TD_0;
    td_mode_fn *call TD_0;
    void *env        TD_0;
    bool composites  TD_0; /* hears composite ops whole */
    void *link       TD_0; /* Tandem's; starts as NULL */
} td_mode_hook;

/* `m` stays yours and must stay where it is until it is popped, or the context closes
 * with it. False when memory is exhausted or m is pushed already. */
TD_API bool td_mode_push(td_ctx *cx, td_mode_hook *m);
/* The innermost mode only: TD_E_ARG otherwise. */
TD_API bool td_mode_pop(td_ctx *cx, td_mode_hook *m);

/* ---- simpler ops -------------------------------------------------------- */

/* From here to _end ops are replaced by simpler ones. `ops` are names with commas
 * between, or "all"; a composite not named keeps its parts as they are. False after
 * an error: a name that is no op's, or an op that is as simple as can be. Regions nest,
 * in the order of the other modes. */
TD_API bool td_decompose_begin(td_ctx *cx, const char *ops);
TD_API bool td_decompose_end(td_ctx *cx);

/* ---- while hearing a call ----------------------------------------------- */

TD_API td_ctx     *td_heard_ctx(const td_heard *h);
TD_API const char *td_heard_name(const td_heard *h); /* "mul_" */
TD_API int         td_heard_args(const td_heard *h); /* how many, defaults filled in */
TD_API td_value    td_heard_arg(const td_heard *h, int i); /* schema order */
TD_API const char *td_heard_arg_name(const td_heard *h, int i);
TD_API bool       td_heard_writes(const td_heard *h, int i); /* argument i is written */
/* Puts another value in the place of argument i, of a kind the op takes. */
TD_API bool       td_heard_change(td_heard *h, int i, td_value v);
/* The modes below, then the kernel. Once. */
TD_API bool       td_heard_go(td_heard *h);
/* Answers with the op's parts, or with ops simpler than its kernel: the mode hears
 * them, so that they may fall further. docs/ops.md says what is simpler than what. */
TD_API bool       td_heard_has_simpler(const td_heard *h);
TD_API bool       td_heard_simpler(td_heard *h);
/* After td_heard_go, or td_heard_answer: how many, and the i-th. */
TD_API int        td_heard_results(const td_heard *h);
TD_API td_tensor *td_heard_result(const td_heard *h, int i);
/* Makes t result i, in place of going on or afterwards. */
TD_API bool       td_heard_answer(td_heard *h, int i, td_tensor *t);

#ifdef __cplusplus
}
#endif

#endif
