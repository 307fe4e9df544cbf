/* case_compare.c -- compares what two runs of a case show: elements, types, flags,
 * versions, gradients, and which values are the same tensor or share storage. */
#include "core/device.h"
#include "cli/case_check.h"

#include "core/typed.h"

#include "tandem/grad.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_DESCRIBED = 3 }; /* differences described; further ones are counted */

/* Records a difference; the first MOST_DESCRIBED are described, the others counted. */
void case_differ(const case_pair *p, const char *fmt, ...) {
    td_buf *b = &p->v->why;
    char    text[400];
    va_list ap;
    p->v->result = CASE_DIFFERS;
    if (p->v->differences++ >= MOST_DESCRIBED) return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    td__buf_printf(b, "%sline %d", b->n ? "; " : "", p->line);
    if (p->written) td__buf_printf(b, ", %%%s written", p->written);
    td__buf_printf(b, ": %s", text);
}

/* ---- names -------------------------------------------------------------- */

static const char *name_in(td_gval *const *out, int n, int id) {
    for (int i = 0; i < n; i++)
        if (out[i]->id == id && out[i]->name) return out[i]->name;
    return NULL;
}

const char *case_value_name(const td_gcase *c, int id) {
    const char *name = NULL;
    for (int i = 0; !name && i < c->steps.n; i++) {
        const td_gstep *s = &c->steps.v[i];
        name = s->kind == TD_STEP_NODE ? name_in(s->node->out, s->node->n_out, id)
                                       : name_in(s->out, s->n_out, id);
    }
    return name ? name : "?";
}

static td_tensor *tensor_at(const case_run *r, int i) {
    td_value v = r->r.val[i];
    return v.kind == TD_K_TENSOR ? v.u.t : NULL;
}

/* ---- elements ----------------------------------------------------------- */

/* The machine epsilon of a float dtype; 0 for others. */
static double unit_of(td_dtype dt) {
    switch (td__real_of(dt)) {
    case TD_F64: return 0x1p-52;
    case TD_F32: return 0x1p-23;
    case TD_F16: return 0x1p-10;
    case TD_BF16: return 0x1p-7;
    default: return 0;
    }
}

enum {
    COARSE = 8,   /* tolerance in units of the coarsest dtype, for reordered sums */
    NATIVE = 512, /* tolerance in units for norms and losses in fused loops */
    THIRD = 16    /* factor for third derivatives */
};

/* The epsilon of the coarsest dtype that the node casts to; 0: none. Losses convert
 * integers to the default float dtype. */
static double unit_named(const td_gnode *n) {
    double unit = 0;
    if (n->kind == TD_N_ENTER && n->region == TD_R_AUTOCAST_BF16)
        return unit_of(TD_BF16);
    if (n->kind == TD_N_ENTER && n->region == TD_R_AUTOCAST_F16) return unit_of(TD_F16);
    for (int i = 1; i < n->n_in; i++) {
        if (n->in[i].kind != TD_G_DTYPE) continue;
        td_dtype dt = n->in[i].u.dt;
        if (n->in[0].kind == TD_G_VALUE) unit = fmax(unit, unit_of(dt));
        if (!td__is_float(dt) && dt != TD_BOOL) unit = fmax(unit, unit_of(TD_F32));
    }
    return unit;
}

/* The coarsest dtype that an op of the file or autocast casts to: gradients that pass
 * such a cast may differ by its rounding. */
static double coarsest_named(const td_gfile *f, const td_gcase *c) {
    double unit = 0;
    for (int i = 0; i < c->steps.n; i++)
        if (c->steps.v[i].autocast)
            unit = fmax(unit, unit_of(strcmp(c->steps.v[i].autocast, "f16") ? TD_BF16
                                                                            : TD_F16));
    for (int i = 0; i < f->graphs.n; i++)
        for (int k = 0; k < f->graphs.v[i]->nodes.n; k++)
            unit = fmax(unit, unit_named(f->graphs.v[i]->nodes.v[k]));
    return unit;
}

/* The epsilon of the coarsest float dtype among values and casts: gradients may pass
 * through it. */
static double coarsest(const case_run *r) {
    double unit = coarsest_named(r->file, r->c);
    for (int i = 0; i < r->r.g->n_values; i++)
        if (r->r.val[i].kind == TD_K_TENSOR)
            unit = fmax(unit, unit_of((td_dtype)r->r.val[i].u.t->dtype));
    return unit;
}

/* Near a pole, third derivatives are differences of infinities: both runs give inf or
 * nan. */
static bool are_infinite(const case_pair *p, td_dtype dt, const char *pa,
                         const char *pb) {
    return p->other->higher > 1 && td__is_float(dt) && !isfinite(td__load_f(dt, pa)) &&
           !isfinite(td__load_f(dt, pb));
}

/* Equal within `slack`, relative to the larger or 1; 0: equal to the bit, all NaNs
 * alike. */
static bool near(td_dtype dt, const char *pa, const char *pb, double slack) {
    if (td__is_complex(dt)) {
        td_dtype part = td__real_of(dt);
        size_t   next = td__dtype_bytes[part];
        return near(part, pa, pb, slack) && near(part, pa + next, pb + next, slack);
    }
    if (!td__is_float(dt)) return td__load_i(dt, pa) == td__load_i(dt, pb);
    double a = td__load_f(dt, pa), b = td__load_f(dt, pb);
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    if (a == b) return slack > 0 || signbit(a) == signbit(b);
    if (slack <= 0 || isinf(a) || isinf(b)) return false;
    return fabs(a - b) <= slack * fmax(1, fmax(fabs(a), fabs(b)));
}

void case_advance(const td_tensor *x, const td_tensor *y, int64_t *at, int64_t *a,
                  int64_t *b) {
    for (int d = x->rank - 1; d >= 0; d--) {
        *a += x->stride[d];
        *b += y->stride[d];
        if (++at[d] < x->size[d]) return;
        *a -= x->stride[d] * at[d];
        *b -= y->stride[d] * at[d];
        at[d] = 0;
    }
}

/* Does this byte belong to an element of t that is NaN? For a copy from a device the
 * element is unknown: then, has t any NaN? */
static bool is_nan_at(const td_tensor *t, const char *byte) {
    if (t->st->device)
        return td_item(td_op_any(td_op_isnan((td_tensor *)(uintptr_t)t), TD_ALL,
                                 false)) != 0;
    int64_t at[TD_MAX_RANK] = {0}, a = 0, b = 0;
    int64_t item = (int64_t)td__dtype_bytes[t->dtype];
    for (int64_t i = 0; i < t->numel; i++) {
        const char *e = td__ptr(t) + a * item;
        if (byte >= e && byte < e + item && isnan(td__load_f((td_dtype)t->dtype, e)))
            return true;
        case_advance(t, t, at, &a, &b);
    }
    return false;
}

/* The bits of a NaN are unspecified. So a value that views them as another dtype may
 * differ where, in both runs, the bytes belong to a NaN of a float value. */
static bool bits_of_nan(const case_pair *p, const td_tensor *x, const char *pa,
                        const char *pb) {
    for (size_t i = 0; i < td__dtype_bytes[x->dtype]; i++) {
        bool found = pa[i] == pb[i];
        for (int k = 0; k < p->eager->r.g->n_values && !found; k++) {
            const td_tensor *a = tensor_at(p->eager, k), *b = tensor_at(p->other, k);
            found = a && b && a->dtype == b->dtype && a->dtype != x->dtype &&
                    td__is_float((td_dtype)a->dtype) && is_nan_at(a, pa + i) &&
                    is_nan_at(b, pb + i);
        }
        if (!found) return false;
    }
    return true;
}

static bool same_bytes(const td_tensor *x, const td_tensor *y) {
    size_t n = (size_t)x->numel * td__dtype_bytes[x->dtype];
    return td__is_dense(x->rank, x->size, x->stride) &&
           td__is_dense(y->rank, y->size, y->stride) &&
           !memcmp(td__ptr(x), td__ptr(y), n);
}

/* The first element that differs, in row-major order; -1: none. *pa and *pb point to
 * it. */
static int64_t find_element(const case_pair *p, const td_tensor *x, const td_tensor *y,
                            double slack, const char **pa, const char **pb) {
    int64_t at[TD_MAX_RANK] = {0}, a = 0, b = 0;
    size_t  item = td__dtype_bytes[x->dtype];
    if (x->numel == 0 || !td__ptr(x) || !td__ptr(y) || same_bytes(x, y)) return -1;
    for (int64_t i = 0; i < x->numel; i++) {
        *pa = td__ptr(x) + a * (int64_t)item;
        *pb = td__ptr(y) + b * (int64_t)item;
        if (memcmp(*pa, *pb, item) && !near((td_dtype)x->dtype, *pa, *pb, slack) &&
            !bits_of_nan(p, x, *pa, *pb) &&
            !are_infinite(p, (td_dtype)x->dtype, *pa, *pb))
            return i;
        case_advance(x, y, at, &a, &b);
    }
    return -1;
}

/* The relative difference; infinite if one of the two is no number. */
static double distance(double u, double v) {
    double off = fabs(u - v) / fmax(1, fmax(fabs(u), fabs(v)));
    if (u == v || (isnan(u) && isnan(v))) return 0;
    return isfinite(off) ? off : INFINITY;
}

/* The largest relative difference; infinite if one element is no number. */
static double farthest(const td_tensor *x, const td_tensor *y) {
    int64_t  at[TD_MAX_RANK] = {0}, a = 0, b = 0;
    int64_t  item = (int64_t)td__dtype_bytes[x->dtype];
    td_dtype dt = (td_dtype)x->dtype;
    double   most = 0;
    for (int64_t i = 0; i < x->numel; i++) {
        const char *u = td__ptr(x) + a * item, *v = td__ptr(y) + b * item;
        most = fmax(most, distance(td__load_f(dt, u), td__load_f(dt, v)));
        most = fmax(most, distance(td__load_imag(dt, u), td__load_imag(dt, v)));
        case_advance(x, y, at, &a, &b);
    }
    return most;
}

/* Values agree to the bit, except for the slack of the way: gradients may be summed in
 * another order, and native code has the differences that docs/numerics.md lists. */
static void compare_on_host(const case_pair *p, const char *name, const char *what,
                            const td_tensor *x, const td_tensor *y) {
    const char *pa, *pb;
    td_dtype    dt = (td_dtype)x->dtype;
    bool        inside = p->gradient && case_has_control(p->eager->c);
    bool        grad = *what || inside || p->other->higher;
    double      units = grad ? p->other->way->grad_slack : p->other->way->slack;
    bool        native = td__config(x->cx)->backend != TD_BACKEND_INTERP;
    if (native && p->other->way->saves_copies) units = fmax(units, NATIVE);
    if (p->other->higher > 1) units *= THIRD;
    double slack = units * unit_of(dt);
    if (grad && units > 0) slack = fmax(slack, COARSE * coarsest(p->eager));
    int64_t i = find_element(p, x, y, slack, &pa, &pb);
    if (i < 0) return;
    p->v->off = fmax(p->v->off, td__is_differentiable(dt) ? farthest(x, y) : INFINITY);
    if (td__is_complex(dt))
        case_differ(p, "%%%s%s: element %lld is %.17g%+.17gi, %s %.17g%+.17gi", name,
                    what, (long long)i, td__load_f(dt, pa), td__load_imag(dt, pa),
                    p->other->way->name, td__load_f(dt, pb), td__load_imag(dt, pb));
    else if (td__is_float(dt))
        case_differ(p, "%%%s%s: element %lld is %.17g, %s %.17g", name, what,
                    (long long)i, td__load_f(dt, pa), p->other->way->name,
                    td__load_f(dt, pb));
    else
        case_differ(p, "%%%s%s: element %lld is %lld, %s %lld", name, what,
                    (long long)i, (long long)td__load_i(dt, pa), p->other->way->name,
                    (long long)td__load_i(dt, pb));
}

/* The same for tensors of any device; false after td__fail. */
static bool compare_elements(const case_pair *p, const char *name, const char *what,
                             td_tensor *x, td_tensor *y) {
    td_ctx *cx = x->cx;
    if (TD_LIKELY(!(x->st->device | y->st->device) || x->st->fake))
        return compare_on_host(p, name, what, x, y), true;
    if (!td__scope_push(cx)) return false;
    const td_tensor *a = td__on_host(x), *b = a ? td__on_host(y) : NULL;
    if (b) compare_on_host(p, name, what, a, b);
    td__scope_pop(cx, NULL, 0);
    return b != NULL;
}

/* ---- tensors ------------------------------------------------------------ */

/* Strides of dims with fewer than two elements do not matter. */
static bool same_strides(const td_tensor *x, const td_tensor *y) {
    for (int d = 0; d < x->rank; d++)
        if (x->stride[d] != y->stride[d] && x->size[d] > 1 && x->numel > 0)
            return false;
    return true;
}

/* False: dtype or sizes differ, nothing else can be compared. */
static bool compare_sizes(const case_pair *p, const char *name, const char *what,
                          const td_tensor *x, const td_tensor *y) {
    bool same = x->dtype == y->dtype && x->rank == y->rank;
    for (int d = 0; same && d < x->rank; d++) same = x->size[d] == y->size[d];
    if (!same)
        case_differ(p, "%%%s%s is %s, %s %s", name, what, td__type_str(x),
                    p->other->way->name, td__type_str(y));
    return same;
}

/* Compares strides, too, except of a gradient that passed a branch or loop: these
 * depend on which ops ran (docs/beyond.md). */
static bool compare_geometry(const case_pair *p, const char *name, const char *what,
                             const td_tensor *x, const td_tensor *y) {
    bool same = compare_sizes(p, name, what, x, y);
    if (x->st->device != y->st->device)
        case_differ(p, "%%%s%s is on %s, %s on %s", name, what,
                    td__device_str(x->st->device), p->other->way->name,
                    td__device_str(y->st->device));
    bool passed = p->gradient && case_has_control(p->eager->c);
    if (same && !passed && !same_strides(x, y))
        case_differ(p, "%%%s%s has strides %s, %s %s", name, what,
                    td__sizes_str(x->rank, x->stride), p->other->way->name,
                    td__sizes_str(y->rank, y->stride));
    return same;
}

/* Compares the elements of x and y; of typed tensors, their inner tensors in type,
 * metadata and geometry. The strides of inner tensors of a gradient are chosen by the
 * type, depending on the strides of the tangent. */
static void compare_contents(const case_pair *p, const char *name, const char *what,
                             const td_tensor *x, const td_tensor *y) {
    char inner[200], a[120], b[120];
    if (!td__typed_same(x->typed, y->typed)) {
        case_differ(p, "%%%s%s is %s, %s %s", name, what,
                    td__typed_str(x->typed, a, sizeof a), p->other->way->name,
                    td__typed_str(y->typed, b, sizeof b));
        return;
    }
    if (!x->typed && !compare_elements(p, name, what, (td_tensor *)(uintptr_t)x,
                                       (td_tensor *)(uintptr_t)y))
        case_differ(p, "%%%s%s could not be copied to the host", name, what);
    for (int i = 0; x->typed && i < x->typed->n; i++) {
        const td_tensor *u = x->typed->inner[i], *v = y->typed->inner[i];
        snprintf(inner, sizeof inner, "%.120s%s inner %s", name, what,
                 x->typed->type->opts.inner[i]);
        bool grad = *what || p->gradient || p->other->higher;
        if (grad ? compare_sizes(p, inner, "", u, v)
                 : compare_geometry(p, inner, "", u, v))
            compare_contents(p, inner, *what ? " " : "", u, v);
    }
}

static void compare_flag(const case_pair *p, const char *name, const char *flag, bool a,
                         bool b) {
    if (a != b)
        case_differ(p, "%%%s %s %s, %s %s", name, a ? "has" : "does not have", flag,
                    p->other->way->name, b ? "does" : "does not");
}

static bool is_zero_leaf(void *env, td_tensor *leaf) {
    (void)env;
    return td_item(td_op_count_nonzero(leaf, TD_ALL)) == 0;
}

/* Are all elements zero, also those of inner tensors? */
static bool is_zero(td_tensor *t) { return td__typed_leaves(t, is_zero_leaf, NULL); }

/* Is g, a gradient that the other run does not have, zero and behind a branch? Eager
 * knows which operands the branch that ran uses, compiled code those of all branches
 * (docs/beyond.md). */
static bool is_branch_zero(const case_pair *p, td_tensor *g) {
    return case_has_control(p->eager->c) && is_zero(g);
}

static void compare_gradient(const case_pair *p, const char *name, td_tensor *x,
                             td_tensor *y) {
    td_tensor *a = x->ag ? td_grad_of(x) : NULL, *b = y->ag ? td_grad_of(y) : NULL;
    bool       in_a = a && !td_is_nil(a), in_b = b && !td_is_nil(b);
    bool vain = in_a && p->other->higher && is_zero(a); /* see is_harmless_history */
    if (in_a == in_b || !(vain || is_branch_zero(p, in_a ? a : b)))
        compare_flag(p, name, "a gradient", in_a, in_b);
    if (!in_a || !in_b || !compare_geometry(p, name, "'s gradient", a, b)) return;
    compare_contents(p, name, "'s gradient", a, b);
}

static bool is_zero_or_nan_leaf(void *env, td_tensor *leaf) {
    (void)env;
    return td_item(td_op_count_nonzero(leaf, TD_ALL)) ==
           td_item(td_op_sum(td_op_isnan(leaf), TD_ALL, false, TD_I64));
}

/* Are all gradients of t with respect to the leaves of the case absent or zero? Behind
 * a branch or loop, zeros become NaN at a pole (docs/beyond.md). *failed: they cannot
 * be computed any more, after a write or a backward. */
static bool has_zero_gradients(const case_run *r, td_tensor *t, bool *failed) {
    bool         control = case_has_control(r->c);
    bool         zero = td__is_float((td_dtype)t->dtype);
    td_tensor   *ones = td_op_ones_like(t, (td_dtype)t->dtype);
    td_grad_opts o = {TD_GRAD_OPTS, .retain_graph = true, .allow_unused = true};
    o.grads = (td_tensors){&ones, 1};
    for (int i = 0; i < r->leaves.n && zero; i++) {
        td_tensor *leaf = tensor_at(r, r->leaves.v[i]->id), *g = NULL;
        if (!leaf || !td_requires_grad(leaf)) continue;
        zero = td_grad((td_tensors){&t, 1}, (td_tensors){&leaf, 1}, &g, &o);
        if (!zero || !g || td_is_nil(g)) continue;
        zero = control ? td__typed_leaves(g, is_zero_or_nan_leaf, NULL) : is_zero(g);
    }
    *failed = !td_ok(t->cx);
    td_clear(t->cx);
    return zero;
}

/* May one run have a history that the other lacks? Eager's tape passes through views
 * that a graph does not have, and a gradient behind a branch or loop requires grad if
 * it would after other branches or iterations (docs/beyond.md); without effect on any
 * gradient, that is no difference. */
static bool is_harmless_history(const case_pair *p, td_tensor *x, td_tensor *y) {
    bool a = td_requires_grad(x), b = td_requires_grad(y);
    bool behind = p->gradient && b && case_has_control(p->eager->c);
    if (a == b || !(p->other->higher || behind)) return false;
    bool failed = false;
    bool vain = (p->written && p->v->vain) ||
                has_zero_gradients(a ? p->eager : p->other, a ? x : y, &failed);
    vain |= failed && p->v->vain; /* they were zero before */
    p->v->vain |= vain;
    return vain;
}

static void compare_history(const case_pair *p, const char *name, td_tensor *x,
                            td_tensor *y) {
    if (!is_harmless_history(p, x, y)) {
        compare_flag(p, name, "requires_grad", td_requires_grad(x),
                     td_requires_grad(y));
        compare_flag(p, name, "is_leaf", td_is_leaf(x), td_is_leaf(y));
    }
    compare_flag(p, name, "is_inference", td_is_inference(x), td_is_inference(y));
    compare_gradient(p, name, x, y);
}

/* Everything that docs/check.md lists for one tensor. Reading the history of a stale
 * view may fail; that error is the same on both sides and is cleared. */
static void compare_tensors(const case_pair *p, const char *name, td_tensor *x,
                            td_tensor *y) {
    const char *way = p->other->way->name;
    if (compare_geometry(p, name, "", x, y)) compare_contents(p, name, "", x, y);
    if (td_version(x) != td_version(y) && !p->gradient)
        case_differ(p, "%%%s has version %llu, %s %llu", name,
                    (unsigned long long)td_version(x), way,
                    (unsigned long long)td_version(y));
    compare_history(p, name, x, y);
    td_clear(x->cx);
}

static void compare_values(const case_pair *p, const char *name, td_value a,
                           td_value b) {
    bool same = a.kind == b.kind;
    if (same && a.kind == TD_K_TENSOR) compare_tensors(p, name, a.u.t, b.u.t);
    else if (same && a.kind == TD_K_FLOAT)
        same = a.u.f == b.u.f || (isnan(a.u.f) && isnan(b.u.f));
    else if (same && a.kind != TD_K_NONE) same = a.u.i == b.u.i;
    if (!same) case_differ(p, "%%%s is another value", name);
}

/* ---- aliasing ----------------------------------------------------------------- */

/* The first value that is the same tensor, or has the same storage. */
static int first_like(const case_run *r, int i, bool storage) {
    td_tensor *t = tensor_at(r, i);
    for (int k = 0; k < i; k++) {
        td_tensor *u = tensor_at(r, k);
        if (u && (storage ? u->st == t->st : u == t)) return k;
    }
    return i;
}

/* Aliasing is compared as "the first value with the same tensor, or storage": addresses
 * differ between the runs. */
static void compare_alias(const case_pair *p, int i, bool storage) {
    int         a = first_like(p->eager, i, storage);
    int         b = first_like(p->other, i, storage);
    const char *name = case_value_name(p->eager->c, i);
    const char *verb = storage ? "shares storage with" : "is the same tensor as";
    const char *way = p->other->way->name;
    if (a == b) return;
    if (a == i)
        case_differ(p, "%%%s %s %%%s only %s", name, verb,
                    case_value_name(p->eager->c, b), way);
    else
        case_differ(p, "%%%s %s %%%s, not %s", name, verb,
                    case_value_name(p->eager->c, a), way);
}

/* Is the value a result of a call, perhaps under another name? */
static bool is_output(const case_run *r, int id) {
    const td_gcase *c = r->c;
    for (int i = 0; i < c->steps.n; i++)
        for (int k = 0; k < c->steps.v[i].n_out; k++)
            if (c->steps.v[i].kind == TD_STEP_CALL &&
                tensor_at(r, c->steps.v[i].out[k]->id) == tensor_at(r, id))
                return true;
    return false;
}

static bool shares_at(const case_pair *p, int k, int i) {
    td_tensor *a = tensor_at(p->eager, k), *b = tensor_at(p->other, k);
    return a && b && a->st == tensor_at(p->eager, i)->st &&
           b->st == tensor_at(p->other, i)->st;
}

/* The absolute offset of an output in a storage of its own is unspecified; only its
 * distance to other values in that storage counts. Tensors without elements have no
 * offset to compare. */
static void compare_offset(const case_pair *p, int i) {
    int of = first_like(p->eager, i, true);
    while (of < i && (!shares_at(p, of, i) || !tensor_at(p->eager, of)->numel)) of++;
    int64_t a = tensor_at(p->eager, i)->offset, b = tensor_at(p->other, i)->offset;
    if (is_output(p->eager, first_like(p->eager, i, true))) {
        a -= tensor_at(p->eager, of)->offset;
        b -= tensor_at(p->other, of)->offset;
    }
    if (a == b || tensor_at(p->eager, i)->numel == 0) return;
    case_differ(p, "%%%s has offset %lld, %s %lld", case_value_name(p->eager->c, i),
                (long long)a, p->other->way->name, (long long)b);
}

/* Closed-over tensors that the function may have written. */
static void compare_consts(const case_pair *p) {
    int n = p->eager->consts.n < p->other->consts.n ? p->eager->consts.n
                                                    : p->other->consts.n;
    for (int i = 0; i < n; i++) {
        const case_consts *a = &p->eager->consts.v[i], *b = &p->other->consts.v[i];
        for (int k = 0; k < a->fn->consts.n; k++)
            compare_tensors(p, "(const)", a->copy[k], b->copy[k]);
    }
}

/* Is value id the gradient of an argument, which a call with grads=true returns behind
 * its results, and which passed a branch? */
static bool is_branch_gradient(const td_gstep *s, int id) {
    if (s->kind != TD_STEP_CALL || !s->grads || !s->control) return false;
    for (int i = td__graph_results(s->fn); i < s->n_out; i++)
        if (s->out[i]->id == id) return true;
    return false;
}

/* A gradient's version is not compared: how often the engine writes it is
 * unspecified. Nor is that of one behind a branch (docs/beyond.md). */
static bool is_gradient(const td_gcase *c, int id) {
    for (int i = 0; i < c->steps.n; i++) {
        const td_gstep *s = &c->steps.v[i];
        if (is_branch_gradient(s, id)) return true;
        if (s->kind == TD_STEP_GRAD && s->out[0]->id == id) return true;
    }
    return false;
}

/* Has tangent t the layout in which the backward of result `of` is traced? */
static bool has_traced_layout(const td_tensor *t, const td_tensor *of) {
    int64_t stride[TD_MAX_RANK];
    td__strides_like(of->rank, of->size, of->stride, stride);
    for (int d = 0; d < t->rank; d++)
        if (t->size[d] != 1 && t->stride[d] != stride[d]) return false;
    return t->offset == 0;
}

/* Is the .grad of a value in this storage? td_grad_of fails for some stale views, which
 * is no error of the case. */
static bool is_in_grad(const case_run *r, const td_storage *st) {
    bool is = false;
    for (int i = 0; i < r->r.g->n_values && !is; i++) {
        td_tensor *t = tensor_at(r, i), *g = t && t->ag ? td_grad_of(t) : NULL;
        is = g && !td_is_nil(g) && g->st == st;
        if (t) td_clear(t->cx);
    }
    return is;
}

bool case_took_tangent(const case_pair *p, const td_gstep *s) {
    for (int i = 0; i < s->n_roots && s->n_args > s->n_roots; i++) {
        int              at = s->args[s->n_roots + i].u.v->id;
        const td_tensor *of = tensor_at(p->eager, s->args[i].u.v->id);
        const td_tensor *a = tensor_at(p->eager, at), *b = tensor_at(p->other, at);
        if (of && a && b && a->numel && !has_traced_layout(a, of) &&
            is_in_grad(p->eager, a->st) && !is_in_grad(p->other, b->st))
            return true;
    }
    return false;
}

/* Compares all values of the two runs after a step. */
void case_compare(case_pair *p) {
    for (int i = 0; i < p->eager->r.g->n_values; i++) {
        const td_value *a = p->eager->r.val, *b = p->other->r.val;
        if (a[i].kind == TD_K_NONE && b[i].kind == TD_K_NONE) continue;
        p->gradient = is_gradient(p->eager->c, i);
        compare_values(p, case_value_name(p->eager->c, i), a[i], b[i]);
        if (a[i].kind != TD_K_TENSOR || b[i].kind != TD_K_TENSOR) continue;
        compare_alias(p, i, false);
        compare_alias(p, i, true);
        compare_offset(p, i);
    }
    p->gradient = false;
    compare_consts(p);
}
