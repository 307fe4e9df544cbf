/* type_help.h -- a body is called as it is and compiled, on tensors of a type: results,
 * arguments, versions and gradients must agree, in inner tensors too. */
#ifndef TD_TYPE_HELP_H
#define TD_TYPE_HELP_H

#include "type_samples.h"

/* ---- comparing ---------------------------------------------------------- */

/* The same type, sizes and elements, in inner tensors too? */
static inline bool same(td_tensor *a, td_tensor *b) {
    if (!a || !b || td_is_nil(a) || td_is_nil(b)) return false;
    if (td_type_of(a) != td_type_of(b) ||
        strcmp(td_type_metadata(a), td_type_metadata(b)) != 0 ||
        td_rank(a) != td_rank(b) || td_numel(a) != td_numel(b) ||
        td_dtype_of(a) != td_dtype_of(b))
        return false;
    for (int d = 0; d < td_rank(a); d++)
        if (td_size(a, d) != td_size(b, d) || td_stride(a, d) != td_stride(b, d))
            return false;
    for (int i = 0; i < td_type_inner_count(a); i++)
        if (!same(td_type_inner(a, i), td_type_inner(b, i))) return false;
    if (td_type_of(a)) return true;
    td_tensor *x = td_to(a, TD_F64), *y = td_to(b, TD_F64);
    td_tensor *most = td_add(td_mul(td_abs(y), 1e-5), 1e-5); /* sums reorder */
    return td_item(td_all(td_le(td_abs(td_sub(x, y)), most))) != 0;
}

enum { MOST = 4 };

/* A call and all that can be seen of it. */
typedef struct observed {
    td_tensor *arg[MOST], *leaf[MOST], *out[MOST];
    td_tensor *grad[MOST], *second[MOST];
    int        n_arg, n_out;
} observed;

typedef void makes(td_ctx *cx, observed *s); /* fills arg, leaf and n_arg */

/* The sum of all elements of a result, as a plain or typed scalar. */
static inline td_tensor *total(td_tensor *y) { return td_sum(td_mul(y, y)); }

/* Calls the body, or f where it is given, and goes backward twice if order is 2. */
static inline bool watch(td_ctx *cx, td_fn *f, td_body *body, makes *make, int order,
                         observed *s) {
    td_value v[MOST], out[MOST];
    memset(s, 0, sizeof *s);
    td_seed(cx, 7);
    make(cx, s);
    for (int i = 0; i < s->n_arg; i++) v[i] = td_value_tensor(s->arg[i]);
    td_values args = {v, s->n_arg};
    int       n = f ? td_invoke_values(f, args, out, MOST)
                    : td_call_body(cx, body, NULL, args, out, MOST);
    if (n < 0) return false;
    s->n_out = n;
    for (int i = 0; i < n; i++) s->out[i] = out[i].u.t;
    td_grad_opts o = {TD_GRAD_OPTS, .create_graph = order > 1, .allow_unused = true};
    td_tensor   *root = total(s->out[0]), *leaf[MOST];
    int          at[MOST], k = 0;
    for (int i = 0; i < MOST; i++)
        if (s->leaf[i]) at[k] = i, leaf[k++] = s->leaf[i];
    td_tensor *g[MOST] = {0};
    if (order < 1 || !k) return td_ok(cx);
    if (!td_grad((td_tensors){&root, 1}, (td_tensors){leaf, k}, g, &o)) return false;
    for (int i = 0; i < k; i++) s->grad[at[i]] = g[i];
    if (order < 2) return td_ok(cx);
    td_tensor   *again = total(g[0]), *gg[MOST] = {0};
    td_grad_opts last = {TD_GRAD_OPTS, .allow_unused = true};
    if (!td_grad((td_tensors){&again, 1}, (td_tensors){leaf, k}, gg, &last))
        return false;
    for (int i = 0; i < k; i++) s->second[at[i]] = gg[i];
    return td_ok(cx);
}

static inline bool same_or_none(td_tensor *a, td_tensor *b) {
    bool none = !a || td_is_nil(a);
    return none == (!b || td_is_nil(b)) && (none || same(a, b));
}

/* Eager and f, called `times` times, agree in all of that. */
static inline bool agrees(td_ctx *cx, td_fn *f, td_body *body, makes *make, int order,
                          int times) {
    observed e, c;
    bool     ok = watch(cx, NULL, body, make, order, &e);
    for (int k = 0; k < times && ok; k++) {
        ok = watch(cx, f, body, make, order, &c) && e.n_out == c.n_out;
        for (int i = 0; ok && i < e.n_out; i++)
            ok = same(e.out[i], c.out[i]) &&
                 td_requires_grad(e.out[i]) == td_requires_grad(c.out[i]) &&
                 td_version(e.out[i]) == td_version(c.out[i]);
        for (int i = 0; ok && i < e.n_arg; i++)
            ok = same(e.arg[i], c.arg[i]) &&
                 td_version(e.arg[i]) == td_version(c.arg[i]);
        for (int i = 0; ok && i < MOST; i++) {
            ok = same_or_none(e.grad[i], c.grad[i]) &&
                 same_or_none(e.second[i], c.second[i]);
            if (!ok) fprintf(stderr, "a gradient of argument %d differs\n", i);
        }
    }
    if (!ok) fprintf(stderr, "%s\n", td_message(cx));
    return ok && td_ok(cx);
}

/* ...and the body compiled with these options, called twice. */
static inline bool agree_with(td_ctx *cx, td_body *body, makes *make, int order,
                              const td_aot_opts *o) {
    td_fn *f = td_aot_function(cx, body, NULL, o);
    bool   ok = agrees(cx, f, body, make, order, 2) && td_fn_specializations(f) == 1;
    td_fn_drop(f);
    return ok;
}
static inline bool agree(td_ctx *cx, td_body *body, makes *make, int order) {
    return agree_with(cx, body, make, order, NULL);
}

static inline td_tensor *noise(td_ctx *cx, int64_t n, int64_t m) {
    return td_randn(cx, TD_SHAPE(n, m));
}

/* A pair that requires grad, and a plain tensor that does, of n rows. */
static inline void pair_of_rows(td_ctx *cx, observed *s, int64_t n) {
    s->arg[0] = s->leaf[0] =
        td_requires_grad_(make_pair(noise(cx, n, 3), noise(cx, n, 3), "m"));
    s->arg[1] = s->leaf[1] = td_requires_grad_(noise(cx, n, 3));
    s->n_arg = 2;
}
static inline void pair_and_plain(td_ctx *cx, observed *s) { pair_of_rows(cx, s, 2); }

static inline bool smooth(td_call *c) {
    td_tensor *a = td_arg(c, 0), *b = td_arg(c, 1);
    return td_return(c, td_mul(td_tanh(td_mul(a, b)), a), td_sin(b));
}

#endif
