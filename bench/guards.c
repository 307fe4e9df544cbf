/* guards.c -- what it costs to evaluate ten compiled guards before a call. */
#include "trace/sym.h"

#include <stdio.h>
#include <time.h>

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

int main(void) {
    enum { CALLS = 2000000 };
    td_ctx    *cx = td_open();
    td_symenv *e = cx ? td__symenv_make(cx) : NULL;
    if (!e) return 1;
    td_tensor *x = td_op_zeros(cx, TD_SHAPE(64, 32), TD_F32);
    td_meta    m;
    td__sym_tensor(e, "x", 0, x, TD_SYM_ALL, &m); /* 2 ranges, 2 strides, the offset */
    td__symenv_begin(e);
    int64_t a = m.size[0], b = m.size[1];
    bool    ok = td__dim_eq(td__dim_mod(a, 8), 0) && td__dim_eq(td__dim_mod(b, 8), 0) &&
              td__dim_lt(b, a) && td__dim_lt(td__dim_mul(a, b), 1 << 20) &&
              !td__dim_eq(td__dim_mul(a, a), td__dim_mul(b, 3));
    td__symenv_end(e);
    td_guard_prog *p = td__guards_compile(e);
    td_value       in = td_value_tensor(x);
    int64_t        failed = 0;
    if (!p || !ok) return 1;
    double start = now_ns();
    for (int i = 0; i < CALLS; i++) failed += td__guards_run(p, &in) != -1;
    double each = (now_ns() - start) / CALLS;
    printf("{\"bench\": \"guards\", \"guards\": %d, \"ns\": %.1f, \"failed\": %lld}\n",
           p->checks.n, each, (long long)failed);
    td__guards_drop(p);
    td__symenv_drop(e);
    td_close(cx);
    return failed != 0;
}
