/* aot_boxed.c -- arguments handed over with the call: each is freed after its last
 * use, so that the call needs less memory at once. */
#include <stdio.h>
#include <tandem/tandem.h>

enum { N = 6, ROWS = 256 };

static bool chain(td_module *m, td_call *c) {
    (void)m;
    td_tensor *h = td_arg(c, 0);
    for (int i = 1; i < N; i++) h = td_mm(h, td_arg(c, i));
    return td_return(c, h);
}

static const td_module_type type = {.name = "Chain", .forward = chain};

/* A tensor that only the caller references: kept, and its scope has ended. */
static td_tensor *ours(td_ctx *cx) {
    td_scope_begin(cx, "make");
    td_tensor *t = td_keep(td_ones(cx, TD_SHAPE(ROWS, ROWS)));
    td_scope_end(cx, "make", NULL);
    return t;
}

static size_t peak(td_ctx *cx, td_fn *f, bool boxed) {
    td_tensor *args[N], *y;
    td_value   v[N];
    for (int i = 0; i < N; i++) v[i] = td_value_tensor(args[i] = ours(cx));
    td_scope_begin(cx, "call");
    td_memory_peak_reset();
    if (boxed) td_invoke_boxed(f, args, N, &y, 1);
    else td_invoke(f, (td_values){v, N}, &y, 1);
    size_t most = td_memory_peak();
    td_scope_end(cx, "call", NULL);
    for (int i = 0; i < N; i++) td_drop(args[i]); /* NULL where they are gone */
    return most;
}

int main(void) {
    td_ctx    *cx = td_open();
    td_module *m = td_module_make(cx, &type);
    td_fn     *f = td_aot_module_flat(m, NULL);
    peak(cx, f, false); /* compiles */
    size_t plain = peak(cx, f, false), boxed = peak(cx, f, true);
    printf("most bytes at once: %zu, boxed %zu\n", plain, boxed);
    bool ok = td_ok(cx) && boxed < plain;
    if (!td_ok(cx)) fprintf(stderr, "%s\n", td_message(cx));
    td_fn_drop(f);
    td_module_free(m);
    td_close(cx);
    return !ok;
}
