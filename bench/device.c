/* device.c -- what a device costs: host time of an eager op, elements per second of a
 * pointwise kernel, products. `build/bench/device cuda:0`. */
#include "tandem/tandem.h"

#include <stdio.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds of a call of fn(x), the device included: the best of three rounds of n. */
static double seconds(td_ctx *cx, td_device dev, td_tensor *(*fn)(td_tensor *),
                      td_tensor *x, int n) {
    double best = 1e9;
    fn(x);
    for (int round = 0; round < 3; round++) {
        td_scope_begin(cx, "round");
        td_device_sync(cx, dev);
        double start = now();
        for (int i = 0; i < n; i++) fn(x);
        td_device_sync(cx, dev);
        double took = (now() - start) / n;
        if (took < best) best = took;
        td_scope_end(cx, "round", NULL);
    }
    return best;
}

static td_tensor *add(td_tensor *x) { return td_add(x, x); }
static td_tensor *gelu(td_tensor *x) { return td_gelu(x); }
static td_tensor *sum(td_tensor *x) { return td_sum(x, TD_DIMS(1)); }
static td_tensor *square(td_tensor *x) { return td_mm(x, x); }

int main(int argc, char **argv) {
    td_ctx          *cx = td_open();
    td_device        dev = {TD_CPU, 0};
    td_device_counts n;
    if (argc > 1 && !td_device_parse(argv[1], &dev)) return 2;
    td_tensor *few = td_to_device(td_randn(cx, TD_SHAPE(8, 8)), dev);
    td_tensor *many = td_to_device(td_randn(cx, TD_SHAPE(4096, 8192)), dev);
    td_tensor *m = td_to_device(td_randn(cx, TD_SHAPE(4096, 4096)), dev);
    td_tensor *h = td_to(m, TD_BF16);
    double     bytes = 4.0 * 4096 * 8192, flops = 2.0 * 4096 * 4096 * 4096;
    printf("add of 64 elements: %.2f us\n", 1e6 * seconds(cx, dev, add, few, 1000));
    printf("add of 128 MiB: %.0f GB/s\n",
           2 * bytes / seconds(cx, dev, add, many, 20) * 1e-9);
    printf("gelu of 128 MiB: %.0f GB/s\n",
           2 * bytes / seconds(cx, dev, gelu, many, 20) * 1e-9);
    printf("sum of rows of 128 MiB: %.0f GB/s\n",
           bytes / seconds(cx, dev, sum, many, 20) * 1e-9);
    printf("product 4096 f32: %.1f TFLOP/s\n",
           flops / seconds(cx, dev, square, m, 10) * 1e-12);
    printf("product 4096 bf16: %.1f TFLOP/s\n",
           flops / seconds(cx, dev, square, h, 10) * 1e-12);
    if (td_device_counters(cx, dev, &n))
        printf("peak %.1f MiB, %llu launches, %llu on the host, %llu kernels built\n",
               (double)n.peak / 0x1p20, (unsigned long long)n.launches,
               (unsigned long long)n.on_host, (unsigned long long)n.kernels_built);
    if (!td_ok(cx)) fprintf(stderr, "%s\n", td_message(cx));
    int status = td_ok(cx) ? 0 : 1;
    td_close(cx);
    return status;
}
