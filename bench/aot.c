/* aot.c -- compiled functions: what a warm call costs beside the same body called as
 * it is, what of that is the wrapper's and what the choice of the specialization, and
 * what each stage of compiling takes for programs of many ops, inputs and results. */
#include "bench.h"

#include "aot/aot.h"
#include "tandem/tandem.h"

/* ---- warm calls --------------------------------------------------------- */

static bool small(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1);
    return td_return(c, td_tanh(td_mul(x, w)));
}

/* The last argument is written. */
static bool writing(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1);
    td_add_(td_arg(c, 2), 1.0);
    return td_return(c, td_tanh(td_mul(x, w)));
}

typedef struct warm {
    td_ctx    *cx;
    td_body   *body;
    td_fn     *f; /* NULL: the body as it is */
    td_tensor *in[3];
    int        n;
    bool       back;
} warm;

static void call(warm *k) {
    td_value in[3], y = TD_NONE;
    for (int i = 0; i < k->n; i++) in[i] = td_value_tensor(k->in[i]);
    td_values args = {in, k->n};
    td_scope_begin(k->cx, NULL);
    if (k->f) td_invoke_values(k->f, args, &y, 1);
    else td_call_body(k->cx, k->body, NULL, args, &y, 1);
    if (k->back) {
        td_tensor *root[1] = {y.u.t}, *with[1] = {k->in[0]};
        td_backward_with((td_tensors){root, 1}, (td_tensors){with, 1}, NULL);
        td_zero_grad(k->in[0]);
        td_zero_grad(k->in[1]);
    }
    td_scope_end(k->cx, NULL, NULL);
}

static void calls(void *env, long reps) {
    for (long i = 0; i < reps; i++) call(env);
}

static td_tensor *ones(td_ctx *cx, bool grad) {
    return td_set_requires_grad(td_ones(cx, TD_SHAPE(64)), grad);
}

static bool time_warm(td_ctx *cx, const char *name, td_body *body, int n, bool back) {
    char text[80];
    warm k = {.cx = cx, .body = body, .n = n, .back = back};
    for (int i = 0; i < 3; i++) k.in[i] = ones(cx, back && i < 2);
    snprintf(text, sizeof text, "aot_%s_eager", name);
    bench_print(text, 1e6 * bench_time(calls, &k), "us");
    k.f = td_aot_function(cx, body, NULL, NULL);
    snprintf(text, sizeof text, "aot_%s_compiled", name);
    bench_print(text, 1e6 * bench_time(calls, &k), "us");
    td_fn_drop(k.f);
    return td_ok(cx);
}

/* ---- the wrapper alone -------------------------------------------------- */

static td_tensor *made; /* what the code below hands out */

static bool hand_out(void *env, td_ctx *cx, const td_value *in, td_value *out) {
    (void)env, (void)cx, (void)in;
    out[0] = td_value_tensor(made);
    return true;
}
static bool compile_nothing(void *env, const td_graph *g, const td_compile_info *info,
                            td_runner *code) {
    (void)env, (void)g, (void)info;
    *code = (td_runner){.run = hand_out};
    return true;
}

static void bare_calls(void *env, long reps) {
    warm    *k = env;
    td_value in[2] = {td_value_tensor(k->in[0]), td_value_tensor(k->in[1])}, y;
    for (long i = 0; i < reps; i++) td_invoke_values(k->f, (td_values){in, 2}, &y, 1);
}

static bool time_wrapper(td_ctx *cx) {
    static const td_backend nothing = {.name = "nothing", .compile = compile_nothing};
    td_aot_opts             o = {TD_AOT_OPTS, .forward = &nothing, .backward = &nothing,
                                 .inference = &nothing};
    warm k = {.cx = cx, .in = {ones(cx, false), ones(cx, false)}, .n = 2};
    made = td_keep(ones(cx, false));
    k.f = td_aot_function(cx, small, NULL, &o);
    bench_print("aot_wrapper", 1e6 * bench_time(bare_calls, &k), "us");
    td_fn_drop(k.f);
    td_drop(made);
    return td_ok(cx);
}

/* ---- the choice of a specialization ------------------------------------- */

static void fit_calls(void *env, long reps) {
    warm    *k = env;
    td_value in[2] = {td_value_tensor(k->in[0]), td_value_tensor(k->in[1])};
    for (long i = 0; i < reps; i++) td__fn_prepare(k->f, (td_values){in, 2});
}

static bool time_fit(td_ctx *cx) {
    warm k = {.cx = cx, .in = {ones(cx, true), ones(cx, true)}};
    k.f = td_aot_function(cx, small, NULL, NULL);
    bench_print("aot_fit", 1e6 * bench_time(fit_calls, &k), "us");
    td_fn_drop(k.f);
    return td_ok(cx);
}

/* ---- stages ------------------------------------------------------------- */

typedef struct work {
    int n_ops, n_in, n_out;
} work;

/* Ten ops a step: views and writes among them, every argument read, every eighth step
 * writes one. */
static bool steps(td_call *c) {
    const work *k = td_call_env(c);
    td_tensor  *x = td_arg(c, 0), *w = td_arg(c, 1), *own = td_clone(x);
    td_value   *out = calloc((size_t)k->n_out, sizeof *out);
    int         n = k->n_ops / 10;
    for (int i = 0; i < n; i++) {
        td_tensor *in = td_arg(c, 2 + i % (k->n_in - 2));
        td_tensor *row = td_select(own, 0, i % 4);
        td_add_(td_narrow(row, 0, i % 3, 2), 0.5);
        if (i % 8 == 7) td_mul_(in, 0.5);
        td_tensor *h = td_add(td_mm(x, w), in);
        h = td_mul(td_tanh(h), x);
        h = td_sub(h, row);
        x = td_mul(td_sigmoid(h), 0.5);
        if (out && n - i <= k->n_out) out[n - i - 1] = td_value_tensor(h);
    }
    if (out) out[0] = td_value_tensor(x);
    bool ok = out && td_return_values(c, (td_values){out, k->n_out});
    free(out);
    return ok;
}

static void report(const work *k, const char *stage, double ns) {
    char name[96];
    snprintf(name, sizeof name, "aot_%s_%dk_ops_%d_inputs_%d_results", stage,
             k->n_ops / 1000, k->n_in, k->n_out);
    bench_print(name, 1e-9 * ns, "s");
}

/* Of this thread: what others do on the machine does not count. */
static double cpu_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static void report_all(const work *k, const td_fn *f, double cpu, double warm_cpu) {
    double all = 0;
    for (int i = 0; i < TD_PIPE_FORWARD; i++) {
        report(k, td__stages[i].name, (double)f->specs->ns[i]);
        all += (double)f->specs->ns[i];
    }
    report(k, "all_stages", all);
    report(k, "first_call_cpu", cpu);
    report(k, "warm_call_cpu", warm_cpu);
}

static bool time_stages(work k) {
    td_ctx   *cx = td_open();
    td_value *in = calloc((size_t)k.n_in, sizeof *in), y;
    for (int i = 0; i < k.n_in; i++)
        in[i] = td_value_tensor(td_mul(td_ones(cx, TD_SHAPE(4, 4)), 0.1));
    td_set_requires_grad(in[1].u.t, true);
    td_fn    *f = td_aot_function(cx, steps, &k, NULL);
    td_values args = {in, k.n_in};
    double    best = 1e18, cpu = -cpu_now();
    bool      ok = td_invoke_values(f, args, &y, 1) >= 0;
    cpu += cpu_now();
    for (int i = 0; ok && i < 3; i++) {
        for (int a = 2; a < k.n_in; a++) td_detach_(in[a].u.t);
        td_scope_begin(cx, NULL);
        double spent = -cpu_now();
        ok = td_invoke_values(f, args, &y, 1) >= 0;
        spent += cpu_now();
        if (spent < best) best = spent;
        td_scope_end(cx, NULL, NULL);
    }
    if (ok) report_all(&k, f, cpu, best);
    else fprintf(stderr, "aot: %s\n", td_message(cx));
    td_fn_drop(f);
    free(in);
    td_close(cx);
    return ok;
}

int main(void) {
    static const work all[] = {{1000, 10, 1},
                               {10000, 10, 1},
                               {100000, 10, 1},
                               {20000, 2000, 2000}};
    td_ctx           *cx = td_open();
    if (!cx) return 1;
    bool ok = time_fit(cx) && time_wrapper(cx) &&
              time_warm(cx, "forward", small, 2, false) &&
              time_warm(cx, "forward_backward", small, 2, true) &&
              time_warm(cx, "written", writing, 3, false) &&
              time_warm(cx, "written_backward", writing, 3, true);
    if (!ok) fprintf(stderr, "aot: %s\n", td_message(cx));
    td_close(cx);
    for (int i = 0; ok && i < 4; i++) ok = time_stages(all[i]);
    return !ok;
}
