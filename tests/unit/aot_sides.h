/* aot_sides.h -- a scene is played twice, once with the body called as it is and once
 * with the function compiled of it. What it tells of must be the same text. */
#ifndef TD_AOT_SIDES_H
#define TD_AOT_SIDES_H

#include "tandem/tandem.h"
#include "td_test.h"

#include <stdarg.h>

typedef struct side {
    td_ctx     *cx;
    td_body    *body;
    void       *env;
    td_aot_opts opts;
    td_fn      *fn; /* NULL: the eager side */
    size_t      n;
    char        text[1 << 14];
} side;

typedef void scene(side *s);

__attribute__((format(printf, 2, 3))) static inline void say(side *s, const char *fmt,
                                                             ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(s->text + s->n, sizeof s->text - s->n, fmt, ap);
    va_end(ap);
    if (n > 0 && s->n + (size_t)n < sizeof s->text) s->n += (size_t)n;
}

/* Calls the body, or the function. */
static inline bool ask(side *s, td_values args, td_tensor **out, int n_out) {
    td_value v[16];
    int      n = s->fn ? td_invoke_values(s->fn, args, v, n_out)
                       : td_call_body(s->cx, s->body, s->env, args, v, n_out);
    for (int i = 0; i < n_out; i++) {
        bool t = n > i && v[i].kind == TD_K_TENSOR && v[i].u.t;
        out[i] = t ? v[i].u.t : td_nil(s->cx);
    }
    return n >= 0;
}

static inline td_tensor *ask1(side *s, td_values args) {
    td_tensor *y = td_nil(s->cx);
    ask(s, args, &y, 1);
    return y;
}

/* Elements, and whether a gradient has a history. How the engine adds gradients up,
 * and so their counters and strides, is its own business. */
static inline void tell_grad(side *s, const char *what, td_tensor *t) {
    double v[64];
    if (td_is_nil(t)) {
        say(s, "%s: nil\n", what);
        return;
    }
    say(s, "%s: %s[", what, td_requires_grad(t) ? "g " : "");
    int n = td_numel(t) <= 64 ? (int)td_numel(t) : 0;
    if (!td_read(t, TD_F64, v, sizeof *v * (size_t)n)) n = 0;
    for (int i = 0; i < n; i++) say(s, " %.5g", v[i] + 0.0);
    say(s, " ]\n");
}

/* Geometry, flags and counter too. */
static inline void tell(side *s, const char *what, td_tensor *t) {
    tell_grad(s, what, t);
    if (td_is_nil(t)) return;
    for (int d = 0; d < td_rank(t); d++)
        say(s, " %d/%d", (int)td_size(t, d), (int)td_stride(t, d));
    say(s, "%s%s%s v%d\n", td_is_leaf(t) ? " leaf" : "", td_is_view(t) ? " view" : "",
        td_is_inference(t) ? " inference" : "", (int)td_version(t));
}

/* How it went; clears the failure. */
static inline void tell_error(side *s, const char *words) {
    const char *m = td_message(s->cx);
    say(s, "error %s%s\n", td_code_name(td_error(s->cx)),
        !words || strstr(m, words) ? "" : m);
    td_clear(s->cx);
}

static inline void play(side *s, scene *go, bool compiled) {
    s->cx = td_open();
    s->n = 0;
    s->text[0] = 0;
    s->opts.size = sizeof s->opts;
    s->fn = compiled ? td_aot_function(s->cx, s->body, s->env, &s->opts) : NULL;
    td_seed(s->cx, 7);
    go(s);
    if (!td_ok(s->cx)) say(s, "left: %s\n", td_message(s->cx));
    td_fn_drop(s->fn);
    td_close(s->cx);
}

/* Plays the scene with the body on both sides; both must tell the same. */
static inline void check_with(scene *go, td_body *body, void *env,
                              const td_aot_opts *opts) {
    static side eager, compiled;
    eager = (side){.body = body, .env = env};
    compiled = eager;
    if (opts) compiled.opts = *opts;
    play(&eager, go, false);
    play(&compiled, go, true);
    CHECK(strlen(eager.text) > 0);
    TD_CHECK_THAT(!strstr(eager.text, "left:"), "%s", eager.text);
    CHECK_STR(compiled.text, eager.text);
}

static inline void check_scene(scene *go, td_body *body) {
    static const td_aot_opts cuts[] = {{TD_AOT_OPTS, .partition = TD_PARTITION_DEFAULT},
                                       {TD_AOT_OPTS, .partition = TD_PARTITION_MINCUT},
                                       {TD_AOT_OPTS, .keep_mutations = true}};
    for (int i = 0; i < 3; i++) check_with(go, body, NULL, &cuts[i]);
}

/* ---- tensors ------------------------------------------------------------ */

/* f64, so that rounding does not show; every element another: 0.1 k + first. */
static inline td_tensor *values(td_ctx *cx, td_ints shape, double first) {
    double v[64] = {0};
    int    n = 1;
    for (int d = 0; d < shape.n; d++) n *= (int)shape.v[d];
    for (int i = 0; i < n && i < 64; i++) v[i] = first + 0.1 * i;
    return td_from(cx, TD_F64, shape, v);
}

static inline td_tensor *leaf(td_ctx *cx, td_ints shape, double first) {
    return td_set_requires_grad(values(cx, shape, first), true);
}

/* ---- bodies ------------------------------------------------------------- */

/* x, w, seen: seen is written, and the results are one tensor seen two ways. */
static inline bool layer_body(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1), *seen = td_arg(c, 2);
    td_add_(seen, td_mean(x, TD_DIMS(0), false));
    td_tensor *h = td_tanh(td_add(td_matmul(x, w), seen));
    return td_return(c, h, td_transpose(h, 0, 1));
}

static inline bool product_body(td_call *c) {
    return td_return(c, td_mul(td_arg(c, 0), td_arg(c, 1)));
}

#endif
