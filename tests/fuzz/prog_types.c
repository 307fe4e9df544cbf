/* prog_types.c -- types of tensors that the fuzzer registers, for programs with
 * --with=types: a pair, computed side by side; a diagonal matrix with ops of its own;
 * a rounded tensor, which is computed as a plain one and packed where it is written.
 * They nest. Ops find such tensors among the values of a program as any other. */
#include "prog.h"

#include "core/typed.h"
#include "tandem/tandem.h"

#include <stdio.h>
#include <string.h>

/* ---- the types ---------------------------------------------------------- */

/* Has a pair the sizes of its inner tensors? Where a body states sizes, a call with
 * others makes one that has not, and an op with sizes as arguments fits one only. Of
 * sizes that depend on values the compiled program checks it. */
static bool is_whole(const td_tensor *t) {
    for (int i = 0; t && t->typed && i < t->typed->n; i++) {
        const td_tensor *inner = t->typed->inner[i];
        if (inner->rank != t->rank) return false;
        for (int d = 0; d < t->rank; d++)
            if (!td__dim_expect(t->size[d], TD_DIM_IS_EQ, inner->size[d])) return false;
    }
    return true;
}

static bool pair_call(void *env, td_mode_call *h) {
    const td_type *type = env ? NULL : td__type_find("fz_pair");
    for (int i = 0; i < td_mode_call_args(h); i++) {
        td_value a = td_mode_call_arg(h, i);
        if (a.kind == TD_K_TENSOR && a.u.t && td_type_of(a.u.t) == type &&
            !is_whole(a.u.t)) {
            td_fail(td_mode_call_ctx(h), TD_E_SHAPE,
                    "fz_pair: inner tensors have other sizes");
            return false;
        }
    }
    return td_type_each(h);
}

static td_tensor *diag_plain(void *env, td_tensor *t) {
    (void)env;
    td_tensor *d = td_type_inner(t, 0);
    td_tensor *one = td_to(td_eye(td_ctx_of(t), td_sym_size(t, 0)), td_dtype_of(t));
    return td_mul(one, td_unsqueeze(d, 1));
}

static td_tensor *diag_of(td_tensor *like, td_tensor *d) {
    int64_t n = td_sym_size(d, 0); /* may be a symbol */
    return td_type_make(td_type_of(like), TD_LIST(d), td_type_metadata(like),
                        TD_SHAPE(n, n), (td_ints){0}, td_dtype_of(d));
}

static bool is_one_of(const char *name, const char *const *names) {
    for (; *names; names++)
        if (!strcmp(name, *names)) return true;
    return false;
}

/* Transposes, copies and a product are computed on the diagonal. */
static bool diag_call(void *env, td_mode_call *h) {
    static const char *const views[] = {"transpose", "t", "alias", "detach", NULL};
    const char              *op = td_mode_call_name(h);
    td_value                 a = td_mode_call_arg(h, 0);
    const td_type           *type = env ? NULL : td__type_find("fz_diag");
    td_tensor *x = a.kind == TD_K_TENSOR && td_type_of(a.u.t) == type ? a.u.t : NULL;
    td_tensor *d = x ? td_type_inner(x, 0) : NULL, *to = NULL;
    if (d && is_one_of(op, views)) to = diag_of(x, td_alias(d));
    else if (d && !strcmp(op, "clone")) to = diag_of(x, td_clone(d));
    else if (d && !strcmp(op, "neg")) to = diag_of(x, td_neg(d));
    else if (d && !strcmp(op, "mm") && !td_type_of(td_mode_call_arg(h, 1).u.t))
        to = td_mul(td_unsqueeze(d, 1), td_mode_call_arg(h, 1).u.t);
    return to ? td_mode_call_answer(h, 0, to) : td_type_plain(h);
}

/* A multiple of the step, which is a power of two. */
static td_tensor *rounded_plain(void *env, td_tensor *t) {
    (void)env;
    return td_mul(td_type_inner(t, 0), td_type_inner(t, 1));
}

static td_tensor *rounded_of(td_tensor *like, td_tensor *q, td_tensor *step) {
    return td_type_make(td_type_of(like), TD_LIST(q, step), td_type_metadata(like),
                        td_sym_sizes(q), (td_ints){0}, td_dtype_of(q));
}

static td_tensor *rounded_pack(void *env, td_tensor *plain, td_tensor *like) {
    td_tensor *step = td_type_inner(like, 1);
    (void)env;
    return rounded_of(like, td_round(td_div(plain, step)), td_clone(step));
}

/* Views are views of the rounded numbers; other ops are computed on plain tensors. */
static bool rounded_call(void *env, td_mode_call *h) {
    static const char *const kept[] = {"transpose", "t",      "alias", "detach",
                                       "permute",   "select", "slice", "clone",
                                       "unsqueeze", "view",   NULL};
    const char              *op = td_mode_call_name(h);
    td_tensor               *x = td_mode_call_arg(h, 0).u.t, *q;
    td_value                 in[8];
    int                      n = td_mode_call_args(h);
    (void)env;
    if (!is_one_of(op, kept) || n > 8) return td_type_plain(h);
    for (int i = 0; i < n; i++) in[i] = td_mode_call_arg(h, i);
    in[0] = td_value_tensor(td_type_inner(x, 0));
    if (!td_call_op(td_mode_call_ctx(h), op, (td_values){in, n}, &q, 1)) return false;
    return td_mode_call_answer(h, 0, rounded_of(x, q, td_type_inner(x, 1)));
}

bool prog_register_types(td_ctx *cx) {
    static const char *const parts[] = {"a", "b"};
    static const char *const diagonal[] = {"d"};
    static const char *const rounded[] = {"q", "step"};
    const td_type_opts       all[] = {
              {TD_TYPE_OPTS, .name = "fz_pair", .inner = parts, .n_inner = 2,
               .call = pair_call, .version = 1},
              {TD_TYPE_OPTS, .name = "fz_diag", .inner = diagonal, .n_inner = 1,
               .call = diag_call, .plain = diag_plain, .version = 1},
              {TD_TYPE_OPTS, .name = "fz_rounded", .inner = rounded, .n_inner = 2,
               .call = rounded_call, .plain = rounded_plain, .pack = rounded_pack,
               .version = 1},
    };
    for (int i = 0; i < TD_COUNT(all); i++)
        if (!td_register_type(cx, &all[i])) return false;
    return true;
}

/* ---- tensors of them ---------------------------------------------------- */

/* What one is made of; inner tensors with their names. */
typedef struct wrapping {
    const char *type, *metadata;
    prog_val    inner[2];
    int         n, rank;
    int64_t     size[PROG_LIST];
    td_dtype    dtype;
} wrapping;

static void new_name(prog_world *w, char *name) {
    snprintf(name, PROG_NAME, "%%%c%d", w->letter, w->n_names++);
}

/* Writes the statement of _wrap and makes the tensor; in a case it may require grad. */
static prog_val wrap(prog_world *w, const wrapping *x) {
    td_tensor *in[2] = {x->inner[0].t, x->inner[1].t};
    prog_val   v;
    new_name(w, v.name);
    prog_indent(&w->text, w);
    td__buf_printf(&w->text, "%s = _wrap([%s", v.name, x->inner[0].name);
    if (x->n > 1) td__buf_printf(&w->text, ", %s", x->inner[1].name);
    td__buf_printf(&w->text, "], \"%s\", \"%s\", ", x->type, x->metadata);
    prog_print_ints(&w->text, x->size, x->rank);
    td__buf_printf(&w->text, ", [], %s", td_dtype_name(x->dtype));
    v.t = td_type_make(td__type_find(x->type), (td_tensors){in, x->n}, x->metadata,
                       (td_ints){x->size, x->rank}, (td_ints){0}, x->dtype);
    bool grad = w->is_case && td__is_float(x->dtype) && prog_chance(&w->r, w->grads);
    if (grad && !td_is_nil(td_set_requires_grad(v.t, true)))
        td__buf_add(&w->text, ", requires_grad=true");
    td__buf_add(&w->text, ")\n");
    return v;
}

/* A fresh tensor with elements, now and then with other strides. */
static prog_val element(prog_world *w, td_dtype dt, int rank, const int64_t *size) {
    prog_val v;
    v.t = prog_fresh(w, &w->text, dt, rank, size, v.name);
    if (rank < 2 || !prog_chance(&w->r, 15) || td_is_nil(v.t)) return v;
    char was[PROG_NAME];
    for (int i = 0; i < 3; i++) { /* transposed, copied, transposed back */
        memcpy(was, v.name, sizeof was);
        new_name(w, v.name);
        prog_indent(&w->text, w);
        td__buf_printf(&w->text, "%s = %s(%s%s)\n", v.name,
                       i == 1 ? "contiguous" : "transpose", was,
                       i == 1 ? "" : ", 0, 1");
        v.t = i == 1 ? td_contiguous(v.t) : td_transpose(v.t, 0, 1);
    }
    return v;
}

static prog_val typed(prog_world *w, td_dtype dt, int rank, const int64_t *size,
                      int deep);

/* A plain value of this type, which the new tensor shares; NULL: there is none. */
static const prog_val *shared(prog_world *w, td_dtype dt, int rank,
                              const int64_t *size) {
    for (int tries = 0; tries < 4 && w->vals.n; tries++) {
        const prog_val *v = &w->vals.v[prog_upto(&w->r, w->vals.n)];
        if (!v->t->typed && v->t->dtype == dt && v->t->rank == rank &&
            td__dims_eq(v->t->size, size, rank))
            return v;
    }
    return NULL;
}

/* An inner tensor of a pair: plain, or of a type. */
static prog_val part(prog_world *w, td_dtype dt, int rank, const int64_t *size,
                     int deep) {
    const prog_val *v =
        w->is_case && prog_chance(&w->r, 25) ? shared(w, dt, rank, size) : NULL;
    if (v) return *v;
    return deep < 2 && prog_chance(&w->r, 25) ? typed(w, dt, rank, size, deep + 1)
                                              : element(w, dt, rank, size);
}

/* A tensor of some type of these sizes. */
static prog_val typed(prog_world *w, td_dtype dt, int rank, const int64_t *size,
                      int deep) {
    static const char *const metadata[] = {"", "", "m"};
    wrapping                 x = {.n = 2, .rank = rank, .dtype = dt};
    int                      how = prog_upto(&w->r, 10);
    memcpy(x.size, size, sizeof *size * (size_t)rank);
    x.metadata = metadata[prog_upto(&w->r, TD_COUNT(metadata))];
    if (how < 3 && rank == 2 && size[0] == size[1]) {
        x.type = "fz_diag";
        x.n = 1;
        x.inner[0] = element(w, dt, 1, size);
    } else if (how < 6 && td__is_float(dt)) {
        x.type = "fz_rounded";
        x.inner[0] = element(w, dt, rank, size);
        x.inner[1] =
            (prog_val){.t = td_op_full(w->cx, (td_ints){0}, td_value_float(0.25), dt)};
        new_name(w, x.inner[1].name);
        prog_indent(&w->text, w);
        td__buf_printf(&w->text, "%s = full([], 0.25, %s)\n", x.inner[1].name,
                       td_dtype_name(dt));
    } else {
        x.type = "fz_pair";
        x.inner[0] = part(w, dt, rank, size, deep);
        x.inner[1] = part(w, dt, rank, size, deep);
    }
    return wrap(w, &x);
}

void prog_typed_leaf(prog_world *w) {
    int64_t  size[PROG_LIST];
    int      rank = prog_chance(&w->r, 60) ? 2 : prog_upto(&w->r, 4);
    td_dtype dt = prog_chance(&w->r, 75) ? TD_F32 : prog_dtype(&w->r);
    for (int i = 0; i < rank; i++) size[i] = prog_size(w);
    if (w->vals.n && prog_chance(&w->r, 30)) {
        const td_tensor *as = w->vals.v[prog_upto(&w->r, w->vals.n)].t;
        rank = as->rank <= PROG_LIST ? as->rank : 0;
        dt = (td_dtype)as->dtype;
        memcpy(size, as->size, sizeof *size * (size_t)rank);
    }
    prog_val v = typed(w, dt, rank, size, 0);
    if (td_ok(w->cx)) td__vec_push(&w->vals, v);
    td_clear(w->cx);
}

/* ---- inner tensors in a body -------------------------------------------- */

/* Writes `%v1 = OP(x, REST)` down. */
static prog_val say(prog_world *w, const char *op, const char *x, const char *rest,
                    td_tensor *t) {
    prog_val v = {.t = t};
    new_name(w, v.name);
    prog_indent(&w->text, w);
    td__buf_printf(&w->text, "%s = %s(%s%s)\n", v.name, op, x, rest);
    return v;
}

/* Reads an inner tensor; a body may neither write nor return it, so that only a value
 * computed of it is for other statements. */
static bool read_inner(prog_world *w, const prog_val *x) {
    int        i = prog_upto(&w->r, x->t->typed->n);
    td_tensor *inner = td_type_inner(x->t, i);
    prog_val   a = say(w, "_inner", x->name, i ? ", 1" : ", 0", inner);
    prog_val   b = say(w, "mul", a.name, ", 2", td_op_mul(a.t, td_value_int(2)));
    return td__vec_push(&w->vals, b);
}

/* Makes a pair of values that no other statement reads. */
static bool make_pair(prog_world *w, const prog_val *x) {
    wrapping p = {.type = "fz_pair", .metadata = "", .n = 2, .rank = x->t->rank};
    p.dtype = (td_dtype)x->t->dtype;
    memcpy(p.size, x->t->size, sizeof *p.size * (size_t)p.rank);
    p.inner[0] = say(w, "mul", x->name, ", 2", td_op_mul(x->t, td_value_int(2)));
    p.inner[1] = say(w, "neg", x->name, "", td_op_neg(x->t));
    prog_val v = wrap(w, &p);
    return td__vec_push(&w->vals, v);
}

/* A branch, loop, region or custom function of which an operand is of a type. */
static bool call_with_type(prog_world *w) {
    int how = prog_upto(&w->r, 4);
    w->typed = true;
    bool ok = how == 0 ? prog_custom(w) : how == 1 ? prog_region(w) : prog_branch(w);
    w->typed = false;
    return ok;
}

bool prog_typed_statement(prog_world *w) {
    if (prog_chance(&w->r, 50)) return call_with_type(w);
    const prog_val *x = w->vals.n ? &w->vals.v[prog_upto(&w->r, w->vals.n)] : NULL;
    if (!x || x->t->dtype == TD_BOOL || x->t->rank > PROG_LIST) return false;
    prog_val of = *x; /* the list may move */
    bool     ok = x->t->typed ? read_inner(w, &of) : make_pair(w, &of);
    ok = ok && td_ok(w->cx);
    td_clear(w->cx);
    return ok;
}
