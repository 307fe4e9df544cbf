/* fault.c -- makes the nth allocation fail, and stops on a broken invariant. Every base
 * function that may fail calls td__fault_now first. While fault injection is off, that
 * costs one relaxed load, so it is part of every build. */
#include "base/base.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static atomic_bool  armed;  /* read alone on the fast path */
static atomic_llong target; /* index of the allocation that fails */
static atomic_bool  lasting;
static atomic_llong seen; /* allocations since the last arming */

void td__fault_arm(int64_t n, bool sticky) {
    atomic_store(&armed, false);
    if (n < 0) return;
    atomic_store(&seen, 0);
    atomic_store(&target, n);
    atomic_store(&lasting, sticky);
    atomic_store(&armed, true);
}

int64_t td__fault_count(void) { return (int64_t)atomic_load(&seen); }

/* Thread-safe; the index counts allocations of all threads. */
bool td__fault_now(void) {
    if (TD_LIKELY(!atomic_load_explicit(&armed, memory_order_relaxed))) return false;
    long long index = atomic_fetch_add(&seen, 1);
    long long fails = atomic_load(&target);
    return index == fails || (index > fails && atomic_load(&lasting));
}

void td__assert_failed(const char *cond, const char *file, int line) {
    fprintf(stderr, "%s:%d: broken invariant: %s\n", file, line, cond);
    abort();
}
