/* from_pytorch.c -- compiles and runs every C line of docs/from-pytorch.md. A line that
 * leaves the context with an error fails. With --values the program prints, for each
 * line that sets r, its number, sizes and sums, which tools/oracle/from_pytorch.py
 * compares with PyTorch's. */
#include <tandem/tandem.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/tandem-rows-XXXXXX", npy[] = "/tmp/tandem-rows-XXXXXX";

/* What the page says exists in its rows. */
typedef struct names {
    td_ctx    *cx;
    td_tensor *x, *y, *p, *w, *b, *i, *t, *mask, *seq, *q, *img, *k, *leaf;
    td_module *net;
    td_optim  *opt;
} names;

static bool body(td_call *c) { return td_return(c, td_tanh(td_arg(c, 0))); }

/* sin(0.7 j + shift) for element j. */
static td_tensor *waves(td_ctx *cx, td_ints shape, double shift) {
    int64_t n = 1;
    for (int d = 0; d < shape.n; d++) n *= shape.v[d];
    td_tensor *j = td_arange(cx, 0, n, 1, TD_F64);
    td_tensor *wave = td_sin(td_add(td_mul(j, 0.7), shift));
    return td_reshape(td_to(wave, TD_F32), shape);
}

static names make_names(td_ctx *cx) {
    names v = {.cx = cx};
    v.x = waves(cx, TD_SHAPE(4, 3), 0);
    v.y = waves(cx, TD_SHAPE(4, 3), 1);
    v.p = td_add(td_abs(waves(cx, TD_SHAPE(4, 3), 2)), 0.1);
    v.w = waves(cx, TD_SHAPE(3, 3), 3);
    v.b = waves(cx, TD_SHAPE(3), 4);
    v.i = td_from(cx, TD_I64, TD_SHAPE(2), (int64_t[]){0, 2});
    v.t = td_from(cx, TD_I64, TD_SHAPE(4), (int64_t[]){0, 2, 1, 2});
    v.mask = td_gt(v.x, 0);
    v.seq = waves(cx, TD_SHAPE(2, 5, 3), 5);
    v.q = waves(cx, TD_SHAPE(2, 2, 5, 4), 6);
    v.img = waves(cx, TD_SHAPE(2, 3, 8, 8), 7);
    v.k = waves(cx, TD_SHAPE(5, 3, 3, 3), 8);
    v.leaf = td_requires_grad_(waves(cx, TD_SHAPE(3), 9));
    v.net = td_nn_linear(cx, 3, 2, NULL);
    v.opt = td_optim_module(v.net, td_adamw(1e-3));
    return v;
}

/* ---- the rows ----------------------------------------------------------- */

static bool print_values;
static int  passed, failed;

/* A weighted sum, so that elements in another order give another number. */
static void show(int line, td_tensor *r) {
    if (!print_values || !r || td_is_nil(r)) return;
    bool       pairs = td_dtype_is_complex(td_dtype_of(r));
    td_tensor *parts = pairs ? td_view_as_real(td_detach(r)) : td_detach(r);
    td_tensor *flat = td_reshape(td_to(parts, TD_F64), TD_SHAPE(-1));
    int64_t    n = td_numel(flat);
    td_tensor *weight = td_arange(td_ctx_of(r), 1, n + 1, 1, TD_F64);
    printf("row %d %s [", line, td_dtype_name(td_dtype_of(r)));
    for (int d = 0; d < td_rank(r); d++)
        printf(d ? ", %lld" : "%lld", (long long)td_size(r, d));
    printf("] %.9g %.9g\n", td_item(td_sum(flat)), td_item(td_dot(flat, weight)));
}

static void count(td_ctx *cx, int line, const char *python) {
    if (td_ok(cx)) passed++;
    else
        failed++, printf("FAIL docs/from-pytorch.md:%d: %s\n     %s\n", line, python,
                         td_message(cx));
    td_clear(cx);
}

#define ROW(line, python, ...)                                                         \
    static void row_##line(names *v) {                                                 \
        td_ctx    *cx = v->cx;                                                         \
        td_tensor *x = v->x, *y = v->y, *p = v->p, *w = v->w, *b = v->b, *i = v->i;    \
        td_tensor *t = v->t, *mask = v->mask, *seq = v->seq, *q = v->q, *img = v->img; \
        td_tensor *k = v->k, *leaf = v->leaf, *parts[3], *r = NULL, *s = NULL;         \
        td_module *net = v->net, *m = NULL;                                            \
        td_optim  *opt = v->opt, *o = NULL;                                            \
        td_fn     *fn = NULL;                                                          \
        int64_t    n = 0;                                                              \
        double     f = 0;                                                              \
        bool       ok = true;                                                          \
        float      floats[12];                                                         \
        char       text[400];                                                          \
        td_scope_begin(cx, NULL);                                                      \
        __VA_ARGS__                                                                    \
        show(line, r);                                                                 \
        count(cx, line, python);                                                       \
        td_optim_free(o);                                                              \
        td_fn_drop(fn);                                                                \
        td_module_free(m);                                                             \
        td_zero_grad(leaf);                                                            \
        td_scope_end(cx, NULL, NULL);                                                  \
        (void)x, (void)y, (void)p, (void)w, (void)b, (void)i, (void)t, (void)mask;     \
        (void)seq, (void)q, (void)img, (void)k, (void)parts, (void)s, (void)n;         \
        (void)f, (void)ok, (void)floats, (void)text, (void)net, (void)opt;             \
    }
#include "from_pytorch_rows.h"
#undef ROW

int main(int argc, char **argv) {
    print_values = argc > 1 && !strcmp(argv[1], "--values");
    int     files[2] = {mkstemp(path), mkstemp(npy)};
    td_ctx *cx = td_open();
    if (!cx || files[0] < 0 || files[1] < 0) return 1;
    names v = make_names(cx);
    if (!td_ok(cx)) printf("FAIL %s\n", td_message(cx)), failed++;
#define ROW(line, ...) row_##line(&v);
#include "from_pytorch_rows.h"
#undef ROW
    td_optim_free(v.opt);
    td_module_free(v.net);
    td_close(cx);
    unlink(path);
    unlink(npy);
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
