/* device_kernels.c -- kernels of ops on a device (src/device), on the one for tests
 * with TD_TEST_KERNELS: draws are those of the CPU to the bit, a value out of range
 * is reported, halves with odd sizes are padded, a training step of GPT-2 leaves the
 * device nowhere, and docs/cuda.md lists exactly the ops that run on the host. NVRTC
 * compiles every text, where it is. `device_kernels print` prints that list;
 * `device_kernels PART` runs one part of: list draws range families padding gpt2. */
#include "ops/device_kernel.h"
#include "tandem/tandem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int       passed, failed;
static td_device dev = {TD_TEST, 0};

static void check(bool ok, const char *what) {
    if (!ok) printf("FAIL %s\n", what);
    ok ? passed++ : failed++;
}

static uint64_t on_host(td_ctx *cx) {
    td_device_counts n = {0};
    td_device_counters(cx, dev, &n);
    return n.on_host;
}

/* ---- draws -------------------------------------------------------------- */

typedef td_tensor *draw_fn(td_ctx *cx, td_dtype dt);

static td_tensor *uniform(td_ctx *cx, td_dtype dt) {
    return td_op_uniform_(td_t(td_zeros(cx, TD_SHAPE(7, 9), dt)), -2, 3);
}
static td_tensor *normal(td_ctx *cx, td_dtype dt) {
    return td_randn(cx, TD_SHAPE(3, 37), dt);
}
static td_tensor *exponential(td_ctx *cx, td_dtype dt) {
    return td_op_exponential_(td_zeros(cx, TD_SHAPE(50), dt), 0.5);
}
static td_tensor *integers(td_ctx *cx, td_dtype dt) {
    return td_randint(cx, -5, 100, TD_SHAPE(41), dt);
}
static td_tensor *coins(td_ctx *cx, td_dtype dt) {
    return td_op_bernoulli_(td_zeros(cx, TD_SHAPE(5, 13), dt), 0.3);
}
static td_tensor *each(td_ctx *cx, td_dtype dt) {
    return td_bernoulli(td_full(cx, TD_SHAPE(33), 0.7, dt));
}
static td_tensor *dropout(td_ctx *cx, td_dtype dt) {
    return td_dropout(td_arange(cx, 0, 60, 1, dt), 0.25);
}
static td_tensor *choices(td_ctx *cx, td_dtype dt) {
    return td_multinomial(td_add(td_arange(cx, 0, 30, 1, dt), 1.0), 12);
}
static td_tensor *choices_again(td_ctx *cx, td_dtype dt) {
    return td_multinomial(td_view(td_arange(cx, 0, 30, 1, dt), TD_SHAPE(2, 15)), 9,
                          true);
}

static void check_draw(td_ctx *cx, const char *name, draw_fn *fn, td_dtype dt) {
    char       what[80];
    td_tensor *x[2];
    snprintf(what, sizeof what, "%s of %s", name, td_dtype_name(dt));
    for (int i = 0; i < 2; i++) {
        td_set_default_device(cx, i ? dev : (td_device){TD_CPU, 0});
        td_seed(cx, 11);
        uint64_t was = on_host(cx);
        fn(cx, dt); /* the next draw goes on behind this one */
        x[i] = fn(cx, dt);
        check(!i || on_host(cx) == was, what);
    }
    td_set_default_device(cx, (td_device){TD_CPU, 0});
    check(td_equal(td_to_device(x[1], td_default_device(cx)), x[0]), what);
    check(td_ok(cx), td_ok(cx) ? "" : td_message(cx));
    td_clear(cx);
}

static void check_draws(td_ctx *cx) {
    static const td_dtype floats[] = {TD_F64, TD_F32, TD_F16, TD_BF16};
    for (int i = 0; i < 4; i++) {
        check_draw(cx, "uniform", uniform, floats[i]);
        check_draw(cx, "normal", normal, floats[i]);
        check_draw(cx, "exponential", exponential, floats[i]);
        check_draw(cx, "coins", coins, floats[i]);
        check_draw(cx, "coins, each its own", each, floats[i]);
        check_draw(cx, "dropout", dropout, floats[i]);
        check_draw(cx, "choices", choices, floats[i]);
        check_draw(cx, "choices with replacement", choices_again, floats[i]);
    }
    check_draw(cx, "integers", integers, TD_I64);
    check_draw(cx, "integers", integers, TD_I8);
    check_draw(cx, "integers", integers, TD_F16);
}

/* ---- values out of range ------------------------------------------------ */

static bool reports(td_ctx *cx, const char *op) {
    bool says = !td_device_sync(cx, dev) && td_error(cx) == TD_E_INDEX &&
                strstr(td_message(cx), op);
    td_clear(cx);
    return says && td_device_sync(cx, dev);
}

static void check_range(td_ctx *cx) {
    td_tensor *table = td_to_device(td_ones(cx, TD_SHAPE(4, 3)), dev);
    td_tensor *wrong = td_to_device(td_full(cx, TD_SHAPE(2), 4.0, TD_I64), dev);
    td_embedding(table, wrong);
    check(reports(cx, "embedding"), "an index of a row that is not there");
    td_index_select(table, 0, wrong);
    check(td_is_nil(td_to_device(table, (td_device){TD_CPU, 0})) || !td_ok(cx),
          "a copy to the host reports it");
    td_clear(cx);
    td_cross_entropy(table, td_to_device(td_full(cx, TD_SHAPE(4), 9.0, TD_I64), dev));
    check(reports(cx, "nll_loss"), "a class that is not there");
    td_multinomial(td_to_device(td_zeros(cx, TD_SHAPE(3)), dev), 1);
    check(reports(cx, "multinomial"), "weights that are all 0");
    td_op_index_add_(table, 0,
                     td_to_device(td_full(cx, TD_SHAPE(1), -1.0, TD_I64), dev),
                     td_to_device(td_ones(cx, TD_SHAPE(1, 3)), dev), td_value_int(1));
    check(reports(cx, "index_add"), "a negative index of index_add");
}

/* ---- products of odd sizes ---------------------------------------------- */

static void check_padding(td_ctx *cx, td_dtype dt, bool turned) {
    td_tensor *a =
        td_to(td_randn(cx, TD_SHAPE(turned ? 131 : 520, turned ? 520 : 131)), dt);
    td_tensor *b = td_to(td_randn(cx, TD_SHAPE(131, 257)), dt);
    td_tensor *x = turned ? td_t(a) : a,
              *want = td_mm(td_to(x, TD_F32), td_to(b, TD_F32));
    td_tensor *da = td_to_device(a, dev), *db = td_to_device(b, dev);
    uint64_t   was = on_host(cx);
    td_tensor *got =
        td_to_device(td_mm(turned ? td_t(da) : da, db), (td_device){TD_CPU, 0});
    check(on_host(cx) == was, "a product of odd sizes stays on the device");
    check(td_allclose(td_to(got, TD_F32), want, 0.02, 0.2), "a product of odd sizes");
    check(td_ok(cx), td_ok(cx) ? "" : td_message(cx));
}

/* ---- families of ops ---------------------------------------------------- */

typedef td_tensor *op_fn(td_tensor *x);

static td_tensor *turned(td_tensor *x, int64_t n) {
    return td_reshape(td_op_remainder(td_arange(td_ctx_of(x), 0, n, 1, TD_I64),
                                      td_value_int(5)),
                      TD_SHAPE(n));
}
static td_tensor *group_norm(td_tensor *x) { return td_group_norm(x, 2); }
static td_tensor *batch_norm(td_tensor *x) {
    td_dtype   dt = td_dtype_of(x);
    td_tensor *mean = td_zeros(td_ctx_of(x), TD_SHAPE(4), dt);
    td_tensor *var = td_ones(td_ctx_of(x), TD_SHAPE(4), dt);
    td_tensor *y = td_batch_norm(x, NULL, NULL, mean, var, true);
    return td_add(y, td_batch_norm(x, NULL, NULL, mean, var, false));
}
static td_tensor *conv(td_tensor *x) { return td_conv2d(x, td_narrow(x, 2, 0, 3)); }
static td_tensor *conv_turned(td_tensor *x) {
    return td_conv_transpose2d(x, td_narrow(x, 2, 0, 2), NULL, TD_DIMS(2));
}
static td_tensor *max_pool(td_tensor *x) {
    return td_max_pool2d(x, TD_DIMS(2), TD_DIMS(1));
}
static td_tensor *mean_pool(td_tensor *x) { return td_avg_pool2d(x, TD_DIMS(3, 2)); }
static td_tensor *grid_pool(td_tensor *x) {
    return td_adaptive_avg_pool2d(x, TD_DIMS(3, 4));
}
static td_tensor *sorted(td_tensor *x) {
    td_tensor *at, *y = td_op_sort(x, 2, false, false, &at);
    return td_add(y, td_cumsum(td_gather(x, 2, at), 3));
}
static td_tensor *products(td_tensor *x) { return td_cumprod(x, 1); }
static td_tensor *log_sums(td_tensor *x) { return td_logcumsumexp(x, -1); }
static td_tensor *greatest(td_tensor *x) {
    td_tensor *at, *y = td_max_dim(x, 3, &at);
    return td_add(y, td_to(td_argmin(x, 3), td_dtype_of(y)));
}
static td_tensor *sizes(td_tensor *x) {
    return td_add(td_norm(x), td_add(td_norm(x, 3.0), td_norm(x, 1.0, TD_DIMS(2, 3))));
}
static td_tensor *columns(td_tensor *x) {
    td_tensor *y = td_reshape(x, TD_SHAPE(-1, 36));
    return td_sum(td_cat(TD_LIST(y, y, y, y, y), 0), TD_DIMS(0));
}
static td_tensor *log_softmax(td_tensor *x) { return td_log_softmax(x, 1); }
static td_tensor *by_two(td_tensor *x) {
    td_tensor *at = turned(x, 4);
    return td_op_index(x, (td_tensors){(td_tensor *[]){at, at}, 2});
}
static td_tensor *added(td_tensor *x) {
    td_tensor *y = td_reshape(x, TD_SHAPE(36, -1));
    return td_index_add(td_zeros_like(td_narrow(y, 0, 0, 5)), 0, turned(x, 36), y);
}
static td_tensor *scattered(td_tensor *x) {
    td_tensor *y = td_reshape(x, TD_SHAPE(-1));
    return td_scatter_add(td_zeros_like(y), 0, turned(x, 576), y);
}
static td_tensor *triangle(td_tensor *x) { return td_mul(td_tril(x), td_triu(x, -1)); }
static td_tensor *moved(td_tensor *x) {
    return td_roll(td_flip(td_constant_pad_nd(x, TD_DIMS(1, 2), 0.5), TD_DIMS(3)),
                   TD_DIMS(2), TD_DIMS(2));
}

static const struct {
    const char *name;
    op_fn      *fn;
} families[] = {{"group norm", group_norm},
                {"batch norm", batch_norm},
                {"conv2d", conv},
                {"conv_transpose2d", conv_turned},
                {"max_pool2d", max_pool},
                {"avg_pool2d", mean_pool},
                {"adaptive pool", grid_pool},
                {"sort, gather, cumsum", sorted},
                {"cumprod", products},
                {"logcumsumexp", log_sums},
                {"max and argmin", greatest},
                {"norms", sizes},
                {"sums of columns", columns},
                {"log_softmax", log_softmax},
                {"index", by_two},
                {"index_add", added},
                {"scatter_add", scattered},
                {"triangles", triangle},
                {"pad, flip, roll", moved}};

/* The result and the gradient of a family on the device are those of the CPU. */
static void check_family(td_ctx *cx, size_t i, td_dtype dt) {
    td_tensor *r[2], *g[2], *at = td_to(td_randn(cx, TD_SHAPE(4, 4, 6, 6)), dt);
    char       what[80];
    double     near = dt == TD_F64 ? 1e-10 : dt == TD_F32 ? 1e-4 : 0.1;
    snprintf(what, sizeof what, "%s of %s", families[i].name, td_dtype_name(dt));
    for (int k = 0; k < 2; k++) {
        td_device d = k ? dev : (td_device){TD_CPU, 0};
        td_set_default_device(cx, d);
        td_tensor *x = td_requires_grad_(td_clone(td_to_device(at, d)));
        td_tensor *y = families[i].fn(x);
        td_backward(td_sum(td_mul(y, y)));
        r[k] = td_to_device(td_detach(y), (td_device){TD_CPU, 0});
        g[k] = td_to_device(td_grad_of(x), (td_device){TD_CPU, 0});
    }
    td_set_default_device(cx, (td_device){TD_CPU, 0});
    check(td_allclose(r[1], r[0], near, near), what);
    check(td_allclose(g[1], g[0], near, 20 * near), what);
    check(td_ok(cx), td_ok(cx) ? "" : td_message(cx));
    td_clear(cx);
}

/* ---- a step of GPT-2 ---------------------------------------------------- */

/* What a run of the example prints, and the losses alone. */
static void run_gpt2(const char *dir, const char *options, char *all, size_t cap) {
    char   line[2000];
    size_t n = 0, got;
    snprintf(
        line, sizeof line,
        "TD_DEVICE_PATH=%s/.. TD_BACKEND=interp %s/../gpt2 --data docs/cuda.md "
        "--layers 1 --heads 2 --width 32 --context 16 --batch 2 --steps 3 --sample 4 "
        "--eager %s 2>&1",
        dir, dir, options);
    FILE *f = popen(line, "r");
    while (f && n + 1 < cap && (got = fread(all + n, 1, cap - 1 - n, f)) > 0) n += got;
    all[n] = 0;
    if (f) pclose(f);
}

static void check_gpt2(const char *dir) {
    static char host[1 << 14], there[1 << 14];
    run_gpt2(dir, "--device cpu", host, sizeof host);
    run_gpt2(dir, "--device test", there, sizeof there);
    check(!strstr(there, "has no kernel"),
          "a step of GPT-2 has kernels for all its ops");
    if (strstr(there, "has no kernel")) printf("%s\n", there);
    const char *a = host, *b = there;
    for (int i = 0; i < 3; i++) {
        a = a ? strstr(a + 1, "loss ") : NULL;
        b = b ? strstr(b + 1, "loss ") : NULL;
        double x = a ? strtod(a + 5, NULL) : -1, y = b ? strtod(b + 5, NULL) : -2;
        check(x > 0 && x - y < 2e-4 && y - x < 2e-4,
              "a loss of GPT-2 is that of the CPU");
    }
}

/* ---- the list ----------------------------------------------------------- */

/* Names of ops that only the host computes, as docs/cuda.md has them. */
static void write_list(char *to, size_t cap) {
    size_t n = 0, column = 0;
    for (int i = 0; i < TD_OP_COUNT; i++) {
        const char *name = td__row((td_op)i)->name;
        if (td__device_computes((td_op)i)) continue;
        if (column + strlen(name) + 4 > 120) {
            n += (size_t)snprintf(to + n, cap - n, "\n");
            column = 0;
        }
        n += (size_t)snprintf(to + n, cap - n, "%s`%s`", column ? " " : "", name);
        column += strlen(name) + 3;
    }
    snprintf(to + n, cap - n, "\n");
}

static void check_list(void) {
    static char want[1 << 14], text[1 << 17];
    FILE       *f = fopen("docs/cuda.md", "rb");
    size_t      n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    text[n] = 0;
    write_list(want, sizeof want);
    check(strstr(text, want) != NULL,
          "docs/cuda.md lists the ops that run on the host (device_kernels print)");
}

int main(int argc, char **argv) {
    static char dir[500], path[600];
    if (argc > 1 && !strcmp(argv[1], "print")) {
        static char list[1 << 14];
        write_list(list, sizeof list);
        return fputs(list, stdout) < 0;
    }
    const char *slash = strrchr(argv[0], '/');
    snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - argv[0]) : 1,
             slash ? argv[0] : ".");
    snprintf(path, sizeof path, "%s/..", dir);
    setenv("TD_DEVICE_PATH", path, 0);
    setenv("TD_TEST_KERNELS", "1", 1);
    setenv("TD_TEST_NVRTC", "1", 0);
    const char *part = argc > 1 ? argv[1] : "list draws range families padding gpt2";
    td_ctx     *cx = td_open();
    if (strstr(part, "list")) check_list();
    if (strstr(part, "draws")) check_draws(cx);
    if (strstr(part, "range")) check_range(cx);
    for (size_t i = 0;
         i < sizeof families / sizeof *families && strstr(part, "families"); i++) {
        check_family(cx, i, TD_F32);
        check_family(cx, i, i % 2 ? TD_F64 : TD_BF16);
    }
    for (int i = 0; i < 4 && strstr(part, "padding"); i++)
        check_padding(cx, i / 2 ? TD_BF16 : TD_F16, i % 2);
    td_close(cx);
    if (strstr(part, "gpt2")) check_gpt2(dir);
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
