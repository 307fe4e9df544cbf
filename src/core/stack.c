/* stack.c -- the bounds of a thread's stack, looked up once per thread. */
#include "core/stack.h"

#include <pthread.h>

/* Stack space reserved for one level and the ops inside it. The largest frame has 48
 * KB, which the compiler checks; sanitizers make frames several times as large. */
#if defined(__has_feature)
#define HAS(x) __has_feature(x) /* clang */
#else
#define HAS(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    HAS(address_sanitizer) || HAS(thread_sanitizer)
enum { RESERVE = 768 * 1024 };
#else
enum { RESERVE = 96 * 1024 };
#endif

typedef struct bounds {
    bool      known; /* looked up; low == high: the bounds are unknown */
    uintptr_t low, high;
} bounds;

static bounds look_up(void) {
    bounds         b = {.known = true};
    pthread_attr_t a;
    void          *at = NULL;
    size_t         n = 0, guard = 0;
    if (pthread_getattr_np(pthread_self(), &a) != 0) return b;
    if (pthread_attr_getstack(&a, &at, &n) == 0 &&
        pthread_attr_getguardsize(&a, &guard) == 0 && n > guard) {
        b.low = (uintptr_t)at + guard;
        b.high = (uintptr_t)at + n;
    }
    pthread_attr_destroy(&a);
    return b;
}

bool td__stack_holds(td_ctx *cx, const char *who) {
    static _Thread_local bounds mine; /* a stack is its thread's */
    uintptr_t                   here = (uintptr_t)__builtin_frame_address(0);
    if (!mine.known) mine = look_up();
    if (here < mine.low || here >= mine.high || here - mine.low > RESERVE) return true;
    return td__fail(cx, TD_E_UNSUPPORTED,
                    "%s: branches, loops or functions nest too deep for the stack of "
                    "this thread: %zu KB of %zu KB are left; nest fewer levels, or use "
                    "a thread with a larger stack (pthread_attr_setstacksize, ulimit "
                    "-s)",
                    who, (size_t)(here - mine.low) / 1024,
                    (size_t)(mine.high - mine.low) / 1024);
}
