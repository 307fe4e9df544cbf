/* sparse.c -- products of a sparse matrix of 4096 x 4096 with 1 % of its elements, and
 * of the same matrix as a plain tensor. peer_sparse.py measures PyTorch's. Argument:
 * threads. */
#include "bench.h"

#include <stdlib.h>
#include <tandem/tandem.h>

enum { SIZE = 4096, RUNS = 15 };

/* The least milliseconds of RUNS products a @ x. */
static double product(td_ctx *cx, td_tensor *a, td_tensor *x) {
    double best = 1e9;
    for (int k = 0; k < RUNS; k++) {
        td_scope_begin(cx, "run");
        double start = bench_now();
        td_mm(a, x);
        double ms = (bench_now() - start) * 1e3;
        if (ms < best) best = ms;
        td_scope_end(cx, "run", NULL);
    }
    return best;
}

/* ...of td_sparse_mm and its gradients. */
static double both_ways(td_ctx *cx, td_tensor *a, td_tensor *x) {
    double best = 1e9;
    for (int k = 0; k < RUNS; k++) {
        td_scope_begin(cx, "run");
        td_tensor *p = td_requires_grad_(td_detach(a));
        td_tensor *q = td_requires_grad_(td_detach(x));
        double     start = bench_now();
        td_backward_with(TD_LIST(td_sparse_mm(p, q)), TD_LIST(x), NULL);
        double ms = (bench_now() - start) * 1e3;
        if (ms < best) best = ms;
        td_scope_end(cx, "run", NULL);
    }
    return best;
}

int main(int argc, char **argv) {
    td_set_threads(argc > 1 ? atoi(argv[1]) : 1);
    td_ctx    *cx = td_open();
    td_tensor *at = td_lt(td_rand(cx, TD_SHAPE(SIZE, SIZE)), 0.01);
    td_tensor *d = td_mul(td_randn(cx, TD_SHAPE(SIZE, SIZE)), at);
    td_tensor *csr = td_to_sparse_csr(d), *coo = td_to_sparse(d);
    for (int n = 16; n <= 256; n *= 4) {
        td_scope_begin(cx, "columns");
        td_tensor *x = td_randn(cx, TD_SHAPE(SIZE, n));
        printf(
            "%d columns: csr %.2f ms, coo %.2f, plain %.2f, csr with backward %.2f\n",
            n, product(cx, csr, x), product(cx, coo, x), product(cx, d, x),
            both_ways(cx, csr, x));
        td_scope_end(cx, "columns", NULL);
    }
    bool ok = td_ok(cx);
    if (!ok) printf("%s\n", td_message(cx));
    td_close(cx);
    return !ok;
}
