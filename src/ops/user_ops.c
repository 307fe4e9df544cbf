/* user_ops.c -- ops that programs register: rows behind those of the library, made from
 * td_op_opts. The functions of such a row are the same for all; they find the user's
 * by the row of the call. Rows are never removed, so that graphs may name them. */
#include "ops/call.h"
#include "core/callback.h"
#include "core/handle.h"
#include "tandem/user_op.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* A registered op. def is first: td_opcall.def leads to the rest. */
typedef struct user_op {
    td_opdef          def;
    td_opinfo         info;
    td_op_opts        opts; /* the strings are the op's own */
    const td_formula *shape[TD_MAX_RESULTS];
    uint64_t          mark; /* stands for the op in cached graphs */
} user_op;

static _Atomic(user_op *) ops[TD_MOST_USER_OPS];
static atomic_int         n_ops; /* complete ones; changed under `lock` */
static pthread_mutex_t    lock = PTHREAD_MUTEX_INITIALIZER;

static user_op *at(td_op op) { return atomic_load(&ops[op - TD_OP_COUNT - 1]); }

const td_opdef *td__user_row(td_op op) { return &at(op)->def; }
td_opinfo      *td__user_info(td_op op) { return &at(op)->info; }

td_op td__user_op_find(const char *name) {
    int n = atomic_load_explicit(&n_ops, memory_order_acquire);
    for (int i = 0; i < n; i++)
        if (!strcmp(atomic_load(&ops[i])->def.name, name))
            return (td_op)(TD_OP_COUNT + 1 + i);
    return TD_OP_COUNT;
}

bool td__op_exists(td_op op) {
    return op < TD_OP_COUNT ||
           (op > TD_OP_COUNT && (int)(op - TD_OP_COUNT) <= atomic_load(&n_ops));
}

uint64_t td__user_op_mark(td_op op) { return at(op)->opts.version ? at(op)->mark : 0; }

static const user_op *of_call(const td_opdef *def) { return (const user_op *)def; }

/* ---- shapes ------------------------------------------------------------- */

/* A tensor without elements like t, for formulas to run on. */
static bool add_fake(td_ctx *cx, td_value *v, td_meta *m) {
    td__tensor_meta(v->u.t, m);
    td_tensor *t = td__tensor_make(cx, m, true);
    if (t) *v = td_value_tensor(t);
    return t != NULL;
}

/* Computes the formulas on fake arguments. */
static bool run_shapes(td_opcall *c, const user_op *u) {
    td_value       in[TD_MAX_ARGS];
    td_meta        metas[TD_MAX_ARGS];
    const td_meta *in_meta[TD_MAX_ARGS] = {0};
    bool           ok = true;
    for (int i = 0; ok && i < c->n_in; i++) {
        in[i] = c->in[i];
        if (!td__in(c, i)) continue;
        ok = add_fake(c->cx, &in[i], &metas[i]);
        in_meta[i] = &metas[i];
    }
    td_vjp v = {
        .cx = c->cx, .def = c->def, .info = c->info, .in = in, .in_meta = in_meta};
    for (int i = 0; ok && i < c->n_out; i++) {
        td_tensor *t = td__formula_eval(u->shape[i], &v);
        ok = t && !td_is_nil(t);
        if (ok) td__tensor_meta(t, &c->meta[i]);
    }
    return ok;
}

static bool shapes_by_formula(td_opcall *c, const user_op *u) {
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

static bool shapes_by_function(td_opcall *c, const user_op *u) {
    td_op_result *to =
        td__arena_zalloc(&c->cx->scratch, sizeof *to * (size_t)(c->n_out + 1));
    if (!to) return td__fail_memory(c->cx);
    td_op_run r = {.cx = c->cx,
                   .env = u->opts.env,
                   .in = c->in,
                   .n_in = c->n_in,
                   .n_out = c->n_out,
                   .result = to};
    if (!call_user(c, u->opts.shape_fn, &r, "its shape_fn")) return false;
    for (int i = 0; i < c->n_out; i++) {
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

static bool check_dtypes(td_opcall *c, const user_op *u) {
    for (int i = 0; u->opts.dtypes && i < c->n_in; i++) {
        const td_tensor *t = td__in(c, i);
        if (t && !(u->opts.dtypes & TD_ONLY(t->dtype)))
            return td__op_fail(c, TD_E_DTYPE,
                               "argument %s is %s; the op was registered for other "
                               "dtypes (td_op_opts.dtypes)",
                               c->info->s.in[i].name, td__type_str(t));
    }
    return true;
}

/* Results are row-major, whatever the shape came from. */
static bool give_shapes(td_opcall *c) {
    const user_op *u = of_call(c->def);
    bool ok = check_dtypes(c, u) && (u->opts.shape_fn ? shapes_by_function(c, u)
                                     : c->n_out       ? shapes_by_formula(c, u)
                                                      : true);
    for (int i = 0; ok && i < c->n_out; i++) {
        c->meta[i].strided = false;
        c->meta[i].offset = 0;
    }
    return ok;
}

/* ---- kernels ------------------------------------------------------------ */

/* Row-major copies of arguments that are not, unless the op takes any strides. */
static bool make_dense(td_opcall *c, const user_op *u, td_value *in) {
    for (int i = 0; i < c->n_in; i++) {
        td_tensor *t = td__in(c, i);
        in[i] = c->in[i];
        if (!t || u->opts.strided || td__is_dense(t->rank, t->size, t->stride))
            continue;
        in[i] = td_value_tensor(td_op_clone(t, true));
        if (td_is_nil(in[i].u.t)) return false;
    }
    return true;
}

/* Ops that a kernel calls on its results count no writes: the results are new. */
static void set_versions(const td_opcall *c, uint64_t *v, bool back) {
    for (int i = 0; i < c->n_out; i++)
        if (back) atomic_store(&c->out[i]->st->version, v[i]);
        else v[i] = td__version(c->out[i]);
}

static bool run_kernel(td_opcall *c) {
    const user_op *u = of_call(c->def);
    td_value       in[TD_MAX_ARGS];
    uint64_t       versions[TD_MAX_RESULTS];
    if (!td__scope_push(c->cx)) return false;
    td_op_run     r = {.cx = c->cx,
                       .env = u->opts.env,
                       .in = in,
                       .n_in = c->n_in,
                       .n_out = c->n_out,
                       .out = c->out};
    td_mode_scope o = td__modes_enter_plain(c->cx, NULL);
    set_versions(c, versions, false);
    bool ok = make_dense(c, u, in) && call_user(c, u->opts.kernel, &r, "its kernel");
    set_versions(c, versions, true);
    td__modes_leave(c->cx, &o);
    td__scope_pop(c->cx, NULL, 0);
    return ok;
}

/* ---- derivatives -------------------------------------------------------- */

static bool run_backward(td_vjp *v) {
    const user_op *u = of_call(v->def);
    td_op_run      r = {.cx = v->cx,
                        .env = u->opts.env,
                        .in = v->in,
                        .n_in = v->info->s.n_in,
                        .n_out = v->n_out,
                        .out = v->out,
                        .g = v->g,
                        .need = v->need,
                        .grad = v->grad};
    bool           ok;
    TD_CALLBACK(v->cx, ok = u->opts.backward(&r));
    if (!ok && td_ok(v->cx))
        td__fail(v->cx, TD_E_GRAD, "%s: its backward returned false", v->def->name);
    return ok && td_ok(v->cx);
}

/* The derivative of an op that was registered without one. */
static bool fail_backward(td_vjp *v) {
    return td__fail(v->cx, TD_E_GRAD,
                    "%s: the op was registered without a derivative; give "
                    "td_op_opts.derivative or .backward, or pass td_detach of its "
                    "arguments",
                    v->def->name);
}

/* ---- registering -------------------------------------------------------- */

static bool is_word(const char *s) {
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_");
    return n && !s[n] && !strchr("0123456789", s[0]) && s[n - 1] != '_';
}

/* What a registered op must be: see td_op_opts. */
static bool check_schema(td_ctx *cx, const td_schema *s, const td_op_opts *o) {
    static const char who[] = "td_register_op";
    const char       *name = s->name;
    if (!is_word(name))
        return td__fail(cx, TD_E_ARG,
                        "%s: the name %s must consist of a-z, 0-9 and _, begin with a "
                        "letter and not end with _",
                        who, name);
    for (int i = 0; i < s->n_in; i++) {
        if (s->in[i].alias || s->in[i].write)
            return td__fail(cx, TD_E_ARG,
                            "%s: %s: argument %s is written or aliased; registered ops "
                            "compute new tensors (td_op_opts.in_place adds %s_)",
                            who, name, s->in[i].name, name);
        if (s->in[i].type == TD_T_GRAPH || s->in[i].type == TD_T_TENSORS ||
            s->in[i].type == TD_T_OPT_TENSORS)
            return td__fail(cx, TD_E_ARG,
                            "%s: %s: argument %s is a list of tensors or a graph; pass "
                            "single tensors",
                            who, name, s->in[i].name);
    }
    for (int i = 0; i < s->n_out; i++)
        if (s->out[i].type != TD_T_TENSOR || s->out[i].alias)
            return td__fail(cx, TD_E_ARG,
                            "%s: %s: result %d must be a new tensor, not a list or an "
                            "alias",
                            who, name, i);
    if (!o->kernel || (s->n_out && !o->shape == !o->shape_fn))
        return td__fail(cx, TD_E_ARG,
                        "%s: %s: set .kernel, and one of .shape and .shape_fn", who,
                        name);
    if (!s->n_out && !o->effect)
        return td__fail(cx, TD_E_ARG,
                        "%s: %s: an op without results needs an .effect, or nothing "
                        "would call it",
                        who, name);
    if (o->derivative && o->backward)
        return td__fail(cx, TD_E_ARG, "%s: %s: set one of .derivative and .backward",
                        who, name);
    if (o->in_place &&
        (s->n_out != 1 || !s->n_in || s->in[0].type != TD_T_TENSOR || o->effect))
        return td__fail(
            cx, TD_E_ARG,
            "%s: %s: .in_place needs a tensor as first argument, one result "
            "and no effect",
            who, name);
    return true;
}

/* Stands for everything that decides what a graph with the op computes. */
static uint64_t mark_of(const td_op_opts *o) {
    const char *text[] = {o->schema, o->shape, o->derivative, o->saves};
    uint64_t    n[] = {o->effect, o->dtypes, o->strided, o->in_place, o->version};
    uint64_t    h = td__hash(n, sizeof n, 7);
    for (size_t i = 0; i < TD_COUNT(text); i++)
        h = text[i] ? td__hash(text[i], strlen(text[i]), h + i) : h + 31 + i;
    return h | 1;
}

static bool same_functions(const td_op_opts *a, const td_op_opts *b) {
    return a->kernel == b->kernel && a->shape_fn == b->shape_fn &&
           a->backward == b->backward && a->env == b->env;
}

/* A copy of s behind *to, which moves on; NULL stays NULL. */
static const char *take_text(char **to, const char *s) {
    if (!s) return NULL;
    size_t n = strlen(s) + 1;
    char  *at = memcpy(*to, s, n);
    *to += n;
    return at;
}

/* A copy of the options with its own texts, and the row made from them. */
static user_op *make_op(const td_op_opts *o, const td_schema *s) {
    const char *text[] = {s->name,  o->schema,     o->doc,
                          o->shape, o->derivative, o->saves};
    size_t      n = 0;
    for (size_t i = 0; i < TD_COUNT(text); i++) n += text[i] ? strlen(text[i]) + 1 : 0;
    user_op *u = td__zalloc(sizeof *u + n);
    if (!u) return NULL;
    char *at = (char *)(u + 1);
    u->opts = *o;
    u->def.name = take_text(&at, s->name);
    u->def.schema = u->opts.schema = take_text(&at, o->schema);
    u->def.doc = u->opts.doc = take_text(&at, o->doc);
    u->opts.shape = take_text(&at, o->shape);
    u->def.vjp = u->opts.derivative = take_text(&at, o->derivative);
    u->def.saves = u->opts.saves = take_text(&at, o->saves);
    u->def.shape = give_shapes;
    u->def.cpu = run_kernel;
    if (!o->derivative) u->def.vjp_fn = o->backward ? run_backward : fail_backward;
    u->def.flags = o->effect ? TD_OPF_EFFECT : 0;
    u->mark = mark_of(o);
    return u;
}

/* The row NAME_: writes what NAME computes into its first argument. */
static user_op *make_writer(const user_op *of) {
    size_t   n = strlen(of->def.name);
    user_op *u = td__zalloc(sizeof *u + n + 2);
    if (!u) return NULL;
    char *name = (char *)(u + 1);
    memcpy(name, of->def.name, n);
    name[n] = '_';
    u->def = (td_opdef){.name = name,
                        .doc = of->def.doc,
                        .pure = of->def.name,
                        .vjp = TD_VIA_PURE};
    u->opts = of->opts;
    u->mark = of->mark + 2;
    return u;
}

/* One formula for each result, separated by `;`. */
static bool parse_shapes(user_op *u, char *msg, size_t cap) {
    const char *p = u->opts.shape;
    for (int i = 0; p && i < u->info.s.n_out; i++) {
        char   text[256];
        size_t n = strcspn(p, ";");
        if (n >= sizeof text) return snprintf(msg, cap, "shape: too long"), false;
        memcpy(text, p, n);
        text[n] = 0;
        u->shape[i] = td__formula_parse(text, &u->info.s, false, msg, cap);
        if (!u->shape[i]) return false;
        bool last = i == u->info.s.n_out - 1;
        if (last == (p[n] == ';'))
            return snprintf(msg, cap, "shape: %d formulas are needed, separated by ;",
                            u->info.s.n_out),
                   false;
        p += n + 1;
    }
    return true;
}

/* Adds the row, which then belongs to the table. Called under `lock`. */
static bool add_row(td_ctx *cx, user_op *u) {
    int  i = atomic_load(&n_ops);
    char msg[200] = "";
    bool ok = u != NULL;
    if (!ok) return td__fail_memory(cx);
    if (i == TD_MOST_USER_OPS) {
        ok =
            td__fail(cx, TD_E_ARG, "td_register_op: %d ops are registered, no more fit",
                     TD_MOST_USER_OPS);
    } else {
        atomic_store(&ops[i], u);
        ok = td__table_add((td_op)(TD_OP_COUNT + 1 + i), msg, sizeof msg) &&
             parse_shapes(u, msg, sizeof msg);
        if (!ok) td__fail(cx, TD_E_ARG, "td_register_op: %s: %s", u->def.name, msg);
    }
    if (ok) atomic_store_explicit(&n_ops, i + 1, memory_order_release);
    else td__free(u);
    return ok;
}

/* With the name not taken yet. */
static bool add_op(td_ctx *cx, const td_op_opts *o, const td_schema *s) {
    user_op *u = make_op(o, s);
    if (!add_row(cx, u)) return false;
    return !o->in_place || add_row(cx, make_writer(u));
}

/* Is the name free? An op that is the same counts as added; *there says so. */
static bool check_name(td_ctx *cx, const td_op_opts *o, const char *name, bool *there) {
    td_op op = td__op_find(name);
    if (op == TD_OP_COUNT) return true;
    *there = op > TD_OP_COUNT && at(op)->mark == mark_of(o) &&
             same_functions(&at(op)->opts, o);
    return *there || td__fail(cx, TD_E_ARG,
                              "td_register_op: there is another op %s already", name);
}

bool(td_register_op)(td_ctx *cx, const td_op_opts *opts) {
    static const char who[] = "td_register_op";
    td_op_opts        o = {0};
    td_schema         s;
    char              msg[200];
    if (!TD_ENTER_CTX(cx) || !td_ok(cx) || !td__has(cx, who, "opts", opts) ||
        !td__opts_take(cx, who, &o, sizeof o, opts, "TD_OP_OPTS") ||
        !td__has(cx, who, "opts.schema", o.schema))
        return false;
    if (!td__table_init()) return td__fail(cx, TD_E_ARG, "%s", td__table_why());
    if (!td__schema_parse(o.schema, &s, msg, sizeof msg))
        return td__fail(cx, TD_E_ARG, "%s: %s", who, msg);
    if (!check_schema(cx, &s, &o)) return false;
    bool there = false;
    pthread_mutex_lock(&lock);
    bool ok = check_name(cx, &o, s.name, &there);
    if (ok && !there) ok = add_op(cx, &o, &s);
    pthread_mutex_unlock(&lock);
    return ok;
}

/* ---- calling ------------------------------------------------------------ */

bool(td_call_op)(td_ctx *cx, const char *name, td_values args, td_tensor **out,
                 int n_out) {
    static const char who[] = "td_call_op";
    td__nil_tensors(cx, out, n_out);
    if (!TD_ENTER_CTX(cx) || !td_ok(cx) || !td__has(cx, who, "the name", name) ||
        !td__has_list(cx, who, args.v, args.n) || !td__has_room(cx, who, out, n_out))
        return false;
    if (!td__table_init()) return td__fail(cx, TD_E_ARG, "%s", td__table_why());
    td_op op = td__op_find(name);
    if (op != TD_OP_COUNT && td__row(op)->flags & TD_OPF_NESTS)
        return td__fail(cx, TD_E_ARG,
                        "td_call_op: op %s takes graphs; call td_cond, td_while or "
                        "td_function",
                        name);
    if (op == TD_OP_COUNT) {
        const char *near = td__op_near(name);
        return td__fail(cx, TD_E_ARG, "td_call_op: there is no op %.60s%s%s", name,
                        near ? "; did you mean " : "", near ? near : "");
    }
    const td_schema *s = &td__opinfo(op)->s;
    bool             list = s->n_out == 1 && s->out[0].type == TD_T_TENSORS;
    if (args.n > s->n_in || (!list && n_out != s->n_out))
        return td__fail(
            cx, TD_E_ARG,
            "td_call_op: %s: arguments: %d, at most %d are allowed; results: "
            "%d, and out is for %d",
            s->name, args.n, s->n_in, s->n_out, n_out);
    return list ? td__call_list(cx, op, args.v, args.n, out, n_out) >= 0
                : td__call(cx, op, args.v, args.n, out, n_out);
}
