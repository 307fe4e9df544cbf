/* capture.c -- what it costs to capture a program of many ops, to make it functional
 * and to find its facts: seconds per stage, and bytes the graphs hold per op. The
 * program is a mix: a fifth of the ops are views, a tenth write through views, of
 * arguments too, the rest are pointwise ops and products. */
#include "bench.h"

#include "aot/facts.h"
#include "joint/joint.h"

#include "tandem/tandem.h"

#include <malloc.h>

typedef struct work {
    int n_ops, n_in;
} work;

/* A step of ten ops on x, where `buf` is written. */
static td_tensor *ten_ops(td_tensor *x, td_tensor *w, td_tensor *buf, int64_t i) {
    td_tensor *row = td_select(buf, 0, i % 4);
    td_tensor *part = td_narrow(row, 0, i % 3, 2);
    td_add_(part, 0.5);
    td_tensor *h = td_mm(x, w);
    h = td_add(h, buf);
    h = td_tanh(h);
    h = td_mul(h, x);
    h = td_sub(h, row);
    h = td_sigmoid(h);
    return td_mul(h, 0.5);
}

static bool body(td_call *c) {
    const work *k = td_call_env(c);
    td_tensor  *x = td_arg(c, 0), *w = td_arg(c, 1), *own = NULL;
    for (int64_t i = 0; i < k->n_ops / 10; i++) {
        if (i % 8 == 0) own = td_clone(x);
        td_tensor *in = td_arg(c, (int)(2 + i % (k->n_in - 2)));
        x = ten_ops(x, w, i % 8 == 7 ? in : own, i);
    }
    return td_return(c, x, own);
}

static double held(void) {
    struct mallinfo2 m = mallinfo2();
    return (double)m.uordblks + (double)m.hblkhd;
}

static void report(const work *k, const char *stage, double value, const char *unit) {
    char name[80];
    snprintf(name, sizeof name, "capture_%s_%dk_ops_%d_inputs", stage, k->n_ops / 1000,
             k->n_in);
    bench_print(name, value, unit);
}

/* Seconds of the three stages; the least of several rounds. */
typedef struct spent {
    double capture, functional, facts, capture_bytes, functional_bytes;
} spent;

static bool once(td_ctx *cx, work *k, td_value *in, spent *s) {
    double    m0 = held(), t0 = bench_now();
    td_graph *g = td__capture(cx, body, k, (td_values){in, k->n_in});
    double    t1 = bench_now(), m1 = held();
    if (!g) return false;
    td_joint *f = td__functional_form(g, in, NULL);
    double    t2 = bench_now(), m2 = held();
    td_facts *facts = f ? td__facts(g, in, true) : NULL;
    double    t3 = bench_now();
    bool      ok = facts != NULL;
    if (t1 - t0 < s->capture) s->capture = t1 - t0;
    if (t2 - t1 < s->functional) s->functional = t2 - t1;
    if (t3 - t2 < s->facts) s->facts = t3 - t2;
    s->capture_bytes = (m1 - m0) / k->n_ops;
    s->functional_bytes = (m2 - m1) / k->n_ops;
    td__facts_drop(facts);
    td__joint_drop(f);
    td__graph_drop(g);
    return ok;
}

static bool measure(work k) {
    td_ctx   *cx = td_open();
    td_value *in = cx ? calloc((size_t)k.n_in, sizeof *in) : NULL;
    spent     s = {1e9, 1e9, 1e9, 0, 0};
    bool      ok = in != NULL;
    for (int i = 0; ok && i < k.n_in; i++)
        in[i] = td_value_tensor(td_ones(cx, TD_SHAPE(4, 4)));
    for (int round = 0; ok && round < (k.n_ops > 20000 ? 3 : 10); round++)
        ok = once(cx, &k, in, &s);
    if (ok) {
        report(&k, "record", s.capture, "s");
        report(&k, "functionalize", s.functional, "s");
        report(&k, "facts", s.facts, "s");
        report(&k, "record_bytes_per_op", s.capture_bytes, "B");
        report(&k, "functional_bytes_per_op", s.functional_bytes, "B");
    } else fprintf(stderr, "capture: %s\n", cx ? td_message(cx) : "no memory");
    free(in);
    if (cx) td_close(cx);
    return ok;
}

int main(void) {
    static const work all[] = {{1000, 10}, {10000, 10}, {100000, 10}, {10000, 2000}};
    for (int i = 0; i < 4; i++)
        if (!measure(all[i])) return 1;
    return 0;
}
