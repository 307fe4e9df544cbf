/* core/callback.h -- user code that runs inside a call of the library: bodies,
 * hooks, modes, custom functions, log functions. While it runs, td_close fails
 * and td_scope_end ends only scopes begun since. */
#ifndef TD_CALLBACK_H
#define TD_CALLBACK_H

#include "core/place.h"

/* One per callback that runs, on the caller's stack, linked from cx->callback. */
typedef struct td_callback {
    td_ctx                       *cx;
    int                           scopes; /* open when it began: not its own */
    struct td_callback           *outer;
    /* What td_compiling returns in it (tandem/aot.h); NULL: nothing. */
    const struct td_compile_info *compiling;
    td_where                      at;    /* the user's call that led to it */
    const td_place               *stack; /* of td__calls_begin; else NULL */
} td_callback;

static inline void td__callback_begin(td_callback *b, td_ctx *cx) {
    *b = (td_callback){cx, cx->scopes.n, cx->callback, NULL, td_here, NULL};
    cx->callback = b;
}
/* No callback: until td__callback_end, ops have the calls of `stack` around them. */
static inline void td__calls_begin(td_callback *b, td_ctx *cx, const td_place *stack) {
    td_callback *o = cx->callback;
    *b = (td_callback){cx, o ? o->scopes : 0, o, o ? o->compiling : NULL, {0}, NULL};
    b->stack = stack ? stack : &td__no_stack;
    cx->callback = b;
}
static inline void td__callback_end(const td_callback *b) {
    b->cx->callback = b->outer;
}

/* Evaluates a call of the user's function, as a statement. */
#define TD_CALLBACK(cx, ...)                  \
    do {                                      \
        td_callback callback_;                \
        td__callback_begin(&callback_, (cx)); \
        __VA_ARGS__;                          \
        td__callback_end(&callback_);         \
    } while (0)

/* The same for a callback of compiling, in which td_compiling returns `info`. */
#define TD_CALLBACK_FOR(cx, info, ...)        \
    do {                                      \
        td_callback callback_;                \
        td__callback_begin(&callback_, (cx)); \
        callback_.compiling = (info);         \
        __VA_ARGS__;                          \
        td__callback_end(&callback_);         \
    } while (0)

/* For TD_CALLBACK_FOR in a function that compiling calls; NULL: it is none. */
static inline const struct td_compile_info *td__compiling(const td_ctx *cx) {
    return cx->callback ? cx->callback->compiling : NULL;
}

#endif
