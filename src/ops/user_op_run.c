/* user_op_run.c -- the functions of the rows that programs register: sizes of results,
 * kernels and derivatives, each of which calls the user's. */
#include "ops/user_ops.h"
#include "core/callback.h"

#include <string.h>

static const td_user_op *of_call(const td_opdef *def) {
    return (const td_user_op *)def;
}

/* ---- arguments ---------------------------------------------------------- */

/* What a function of the user gets in the place of an argument; NULL or nil after a
 * failure. */
typedef td_tensor *replacement(td_opcall *c, td_tensor *t);

/* Copies the arguments of a call, each tensor replaced, also in lists. */
static bool replace_tensors(td_opcall *c, td_value *in, replacement *with) {
    for (int i = 0; i < c->n_in; i++) {
        td_value *v = &in[i];
        *v = c->in[i];
        if (v->kind == TD_K_TENSOR) {
            if (td_is_nil(v->u.t = with(c, v->u.t))) return false;
        } else if (v->kind == TD_K_TENSORS) {
            td_tensor **to =
                td__arena_zalloc(&c->cx->scratch, sizeof *to * (v->n + (size_t)1));
            if (!to) return td__fail_memory(c->cx);
            for (uint32_t k = 0; k < v->n; k++)
                if (td_is_nil(to[k] = with(c, v->u.ts[k]))) return false;
            v->u.ts = to;
        }
    }
    return true;
}

/* ---- shapes ------------------------------------------------------------- */

/* A tensor without elements like t, for formulas to run on. */
static td_tensor *fake_of(td_opcall *c, td_tensor *t) {
    td_meta m;
    td__tensor_meta(t, &m);
    return td__tensor_make(c->cx, &m, true);
}

/* The entries of a list of results begin behind the token of a token form. */
static bool reserve_results(td_opcall *c, int n) {
    const td_user_op *u = of_call(c->def);
    td_meta           token = c->meta[0];
    if (!td__call_results(c, n + u->token)) return false;
    if (u->token) c->meta[0] = token;
    return true;
}

/* The formula of a list of results. */
static bool list_by_formula(td_opcall *c, const td_user_op *u, const td_vjp *v) {
    int               n;
    td_tensor *const *like = td__formula_list(u->shape[0], v, &n);
    if (n < 0 && td_ok(c->cx))
        return td__op_fail(c, TD_E_ARG,
                           "the shape \"%s\" gives no list; name an argument of type "
                           "Tensor[], or call an op that returns a list",
                           u->opts.shape);
    if (n < 0 || !reserve_results(c, n)) return false;
    for (int i = 0; i < n; i++) td__tensor_meta(like[i], &c->meta[i + u->token]);
    return true;
}

/* Computes the formulas on fake arguments. */
static bool run_shapes(td_opcall *c, const td_user_op *u) {
    td_value       in[TD_MAX_ARGS];
    td_meta        metas[TD_MAX_ARGS];
    const td_meta *in_meta[TD_MAX_ARGS] = {0};
    bool           ok = replace_tensors(c, in, fake_of);
    for (int i = 0; ok && i < c->n_in; i++) {
        if (!td__in(c, i)) continue;
        td__tensor_meta(in[i].u.t, &metas[i]);
        in_meta[i] = &metas[i];
    }
    td_vjp v = {
        .cx = c->cx, .def = c->def, .info = c->info, .in = in, .in_meta = in_meta};
    if (ok && td__user_op_lists(u)) return list_by_formula(c, u, &v);
    for (int i = u->token; ok && i < c->n_out; i++) {
        td_tensor *t = td__formula_eval(u->shape[i], &v);
        ok = t && !td_is_nil(t);
        if (ok) td__tensor_meta(t, &c->meta[i]);
    }
    return ok;
}

static bool shapes_by_formula(td_opcall *c, const td_user_op *u) {
    td_ctx *cx = c->cx;
    if (!td__scope_push(cx)) return false;
    td_mode_scope o = td__modes_enter_plain(cx, NULL);
    cx->fake = true;
    bool ok = run_shapes(c, u);
    td__modes_leave(cx, &o);
    td__scope_pop(cx, NULL, 0);
    return ok;
}

/* Calls one of the user's functions; a failure without an error gets one. */
static bool call_user(td_opcall *c, td_op_fn *fn, const td_op_run *r,
                      const char *what) {
    bool ok;
    TD_CALLBACK(c->cx, ok = fn(r));
    if (!ok && td_ok(c->cx)) td__op_fail(c, TD_E_ARG, "%s returned false", what);
    return ok && td_ok(c->cx);
}

/* A call of a shape_fn. */
typedef struct shape_call {
    td_opcall    *c;
    td_op_result *to; /* by result, without the token; NULL: no list yet */
} shape_call;

td_op_result *td_op_results(const td_op_run *r, int n) {
    if (!r || !r->call) return NULL;
    shape_call *s = r->call;
    if (n < 0) {
        td__op_fail(s->c, TD_E_ARG, "td_op_results: %d results", n);
        return NULL;
    }
    s->to = td__arena_zalloc(&s->c->cx->scratch, sizeof *s->to * ((size_t)n + 1));
    if (!s->to) td__fail_memory(s->c->cx);
    return s->to && reserve_results(s->c, n) ? s->to : NULL;
}

static bool shapes_by_function(td_opcall *c, const td_user_op *u) {
    shape_call s = {.c = c};
    td_op_run  r = {.cx = c->cx,
                    .env = u->opts.env,
                    .in = c->in + u->token,
                    .n_in = c->n_in - u->token};
    if (td__user_op_lists(u)) r.call = &s;
    else {
        r.n_out = c->n_out - u->token;
        s.to = td__arena_zalloc(&c->cx->scratch, sizeof *s.to * (size_t)(r.n_out + 1));
        if (!s.to) return td__fail_memory(c->cx);
        r.result = s.to;
    }
    if (!call_user(c, u->opts.shape_fn, &r, "its shape_fn")) return false;
    if (!s.to)
        return td__op_fail(c, TD_E_ARG,
                           "its shape_fn did not call td_op_results, which says how "
                           "many results the list has");
    const td_op_result *to = s.to - u->token;
    for (int i = u->token; i < c->n_out; i++) {
        td_meta *m = &c->meta[i];
        if (to[i].rank < 0 || to[i].rank > TD_MAX_RANK ||
            (unsigned)to[i].dtype >= TD_DTYPE_COUNT)
            return td__op_fail(c, TD_E_ARG,
                               "its shape_fn gave result %d rank %d and dtype %d", i,
                               to[i].rank, (int)to[i].dtype);
        m->dtype = to[i].dtype;
        m->rank = to[i].rank;
        for (int d = 0; d < m->rank; d++) {
            m->size[d] = to[i].size[d];
            if (td__dim_is_negative(m->size[d]))
                return td__op_fail(c, TD_E_SHAPE,
                                   "its shape_fn gave dim %d of result %d the size "
                                   "%lld",
                                   d, i, (long long)m->size[d]);
        }
    }
    return true;
}

static bool check_dtype(td_opcall *c, const td_user_op *u, int i, const td_tensor *t) {
    return !t || u->opts.dtypes & TD_ONLY(t->dtype) ||
           td__op_fail(c, TD_E_DTYPE,
                       "argument %s is %s; the op was registered for other dtypes "
                       "(td_op_opts.dtypes)",
                       c->info->s.in[i].name, td__type_str(t));
}

static bool check_dtypes(td_opcall *c, const td_user_op *u) {
    bool ok = true;
    for (int i = u->token; ok && u->opts.dtypes && i < c->n_in; i++) {
        const td_value *v = &c->in[i];
        if (c->info->s.in[i].type == TD_T_OBJECT) continue;
        ok = check_dtype(c, u, i, td__in(c, i));
        for (uint32_t k = 0; ok && v->kind == TD_K_TENSORS && k < v->n; k++)
            ok = check_dtype(c, u, i, v->u.ts[k]);
    }
    return ok;
}

/* A token has no elements: it only says that one call comes after another. */
static void give_token(td_meta *m) {
    m->dtype = TD_U8;
    m->rank = 1;
    m->size[0] = 0;
}

/* Results are row-major, whatever the shape came from. */
bool td__user_op_shape(td_opcall *c) {
    const td_user_op *u = of_call(c->def);
    if (u->token) give_token(&c->meta[0]);
    bool ok = check_dtypes(c, u) && (u->opts.shape_fn      ? shapes_by_function(c, u)
                                     : c->n_out > u->token ? shapes_by_formula(c, u)
                                                           : true);
    for (int i = 0; ok && i < c->n_out; i++) {
        c->meta[i].strided = false;
        c->meta[i].offset = 0;
    }
    return ok;
}

/* ---- kernels ------------------------------------------------------------ */

/* A row-major copy if t is not, unless the op takes any strides. */
static td_tensor *dense_of(td_opcall *c, td_tensor *t) {
    bool any = of_call(c->def)->opts.strided;
    return any || td__is_dense(t->rank, t->size, t->stride) ? t : td_op_clone(t, true);
}

/* Ops that a kernel calls on its results count no writes: the results are new. */
static void set_versions(const td_opcall *c, uint64_t *v, bool back) {
    for (int i = 0; i < c->n_out; i++)
        if (back) atomic_store(&c->out[i]->st->version, v[i]);
        else v[i] = td__version(c->out[i]);
}

bool td__user_op_kernel(td_opcall *c) {
    const td_user_op *u = of_call(c->def);
    td_value          in[TD_MAX_ARGS];
    uint64_t         *versions =
        td__arena_alloc(&c->cx->scratch, sizeof *versions * (size_t)(c->n_out + 1));
    if (!versions) return td__fail_memory(c->cx);
    if (!td__scope_push(c->cx)) return false;
    td_op_run     r = {.cx = c->cx,
                       .env = u->opts.env,
                       .in = in + u->token,
                       .n_in = c->n_in - u->token,
                       .n_out = c->n_out - u->token,
                       .out = c->out + u->token};
    td_mode_scope o = td__modes_enter_plain(c->cx, NULL);
    set_versions(c, versions, false);
    bool ok = replace_tensors(c, in, dense_of) &&
              call_user(c, u->opts.kernel, &r, "its kernel");
    set_versions(c, versions, true);
    td__modes_leave(c->cx, &o);
    td__scope_pop(c->cx, NULL, 0);
    return ok;
}

/* ---- derivatives -------------------------------------------------------- */

bool td__user_op_backward(td_vjp *v) {
    const td_user_op *u = of_call(v->def);
    td_op_run         r = {.cx = v->cx,
                           .env = u->opts.env,
                           .in = v->in,
                           .n_in = v->info->s.n_in,
                           .n_out = v->n_out,
                           .out = v->out,
                           .g = v->g,
                           .need = v->need,
                           .grad = v->grad,
                           .list_need = v->list_need,
                           .list_grad = v->list_grad};
    bool              ok;
    TD_CALLBACK(v->cx, ok = u->opts.backward(&r));
    if (!ok && td_ok(v->cx))
        td__fail(v->cx, TD_E_GRAD, "%s: its backward returned false", v->def->name);
    return ok && td_ok(v->cx);
}

/* The derivative of an op that was registered without one. */
bool td__user_op_no_backward(td_vjp *v) {
    return td__fail(v->cx, TD_E_GRAD,
                    "%s: the op was registered without a derivative; give "
                    "td_op_opts.derivative or .backward, or pass td_detach of its "
                    "arguments",
                    v->def->name);
}
