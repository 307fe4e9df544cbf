/* tandem/mode.h -- modes: functions that receive every op call of a context before it
 * is computed, and may read, change, replace or refuse it. docs/modes.md is the guide.
 *
 *     static bool count(void *env, td_mode_call *h) {
 *         ++*(int *)env;
 *         return td_mode_call_go(h);
 *     }
 *     int      n = 0;
 *     td_mode_hook m = {.name = "count", .call = count, .env = &n};
 *     td_mode_push(cx, &m);
 *     ...
 *     td_mode_pop(cx, &m);
 *
 * Modes form a stack; the one pushed last is called first. Ops called inside a mode's
 * function reach the modes below it only. Composite ops (docs/ops.md) are
 * passed on as their parts, unless the mode asks for them whole. */
#ifndef TANDEM_MODE_H
#define TANDEM_MODE_H

#include "tandem/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_mode_call td_mode_call; /* an op call that a mode has received */

/* Answers the call: with td_mode_call_go, with td_mode_call_answer for each result, or
 * with false after td_fail. */
typedef bool td_mode_fn(void *env, td_mode_call *h);

typedef struct td_mode_hook {
    const char *name TD_0;
    td_mode_fn *call TD_0;
    void *env        TD_0;
    bool composites  TD_0; /* receives composite ops whole */
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

/* ---- while a call is handled ------------------------------------------- */

TD_API td_ctx     *td_mode_call_ctx(const td_mode_call *h);
TD_API const char *td_mode_call_name(const td_mode_call *h); /* "mul_" */
TD_API int td_mode_call_args(const td_mode_call *h); /* how many, defaults filled in */
TD_API td_value    td_mode_call_arg(const td_mode_call *h, int i); /* schema order */
TD_API const char *td_mode_call_arg_name(const td_mode_call *h, int i);
/* Is argument i written? */
TD_API bool        td_mode_call_writes(const td_mode_call *h, int i);
/* Puts another value in the place of argument i, of a kind the op takes. */
TD_API bool        td_mode_call_change(td_mode_call *h, int i, td_value v);
/* The modes below, then the kernel. Once. */
TD_API bool        td_mode_call_go(td_mode_call *h);
/* Answers with the op's parts, or with ops simpler than its kernel: the mode gets
 * them, so that they may fall further. docs/ops.md says what is simpler than what. */
TD_API bool        td_mode_call_has_simpler(const td_mode_call *h);
TD_API bool        td_mode_call_simpler(td_mode_call *h);
/* After td_mode_call_go, or td_mode_call_answer: how many, and the i-th. */
TD_API int         td_mode_call_results(const td_mode_call *h);
TD_API td_tensor  *td_mode_call_result(const td_mode_call *h, int i);
/* Makes t result i, in place of going on or afterwards. */
TD_API bool        td_mode_call_answer(td_mode_call *h, int i, td_tensor *t);

#ifdef __cplusplus
}
#endif

#endif
