/* core/callback.h -- the user's code that runs inside a call of the library: bodies,
 * hooks, modes, custom functions, log functions. While it runs, the call needs what it
 * was given: td_close is refused, and td_scope_end ends only scopes begun since. */
#ifndef TD_CALLBACK_H
#define TD_CALLBACK_H

#include "core/core.h"

/* One per callback that runs on this thread, on the caller's stack. */
typedef struct td_callback {
    const td_ctx       *cx;
    int                 scopes; /* open when it began: not its own */
    struct td_callback *outer;
} td_callback;

void               td__callback_begin(td_callback *b, const td_ctx *cx);
void               td__callback_end(const td_callback *b);
/* The innermost one of a context; NULL: none runs. */
const td_callback *td__callback_of(const td_ctx *cx);

/* Evaluates a call of the user's function, as a statement. */
#define TD_CALLBACK(cx, ...)                  \
    do {                                      \
        td_callback callback_;                \
        td__callback_begin(&callback_, (cx)); \
        __VA_ARGS__;                          \
        td__callback_end(&callback_);         \
    } while (0)

#endif
