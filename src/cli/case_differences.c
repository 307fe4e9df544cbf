/* case_differences.c -- central differences against the gradients of a case.
 *
 * L is the sum of root * tangent of one backward, with the tangents of the first run.
 * For a leaf x and a direction d with elements in [-1, 1], backward says that L changes
 * by <x.grad, d>; differences of L at x - h d, x and x + h d, for two h, say by how
 * much it does, and how far they can be trusted. */
#include "cli/case_differences.h"
#include "tandem/grad.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_LEAVES = 32, MOST_BACKWARDS = 16, TRIES = 3 };

/* The numbers of one backward: L, and the sum of |root * tangent|. */
typedef struct value {
    double l, size;
} value;

/* Results of the first run of a try, for one backward. */
typedef struct base {
    value   at;
    double *tangents; /* of all roots, one after the other */
    int64_t n;        /* elements of them */
    int     line;
    double  slope[MOST_LEAVES], size[MOST_LEAVES]; /* sum of grad * d, of its terms */
} base;

typedef struct judge {
    td_ctx         *cx;
    const td_gfile *f;
    const td_gcase *c;
    case_verdict   *v;
    int             try;        /* all leaves are shifted in the second and third */
    int             leaf;       /* the one that is moved; -1: the first run */
    double          h;          /* by this times its direction */
    int             n_leaves;   /* of the run so far */
    int             n_base, nr; /* backwards; the current one */
    base            base[MOST_BACKWARDS];
    double    *was[MOST_LEAVES]; /* .grad before the current backward; NULL: none */
    value      now[MOST_BACKWARDS];
    uint64_t   draws;    /* offset of the generator after the first run */
    case_stops stops;    /* where gradients end by intention */
    char       why[200]; /* differences say nothing: the reason */
} judge;

/* A mistake in a derivative shows at other points too. */
#define SMOOTH "not smooth here"
#define LONE "the gradient disagrees at this point alone, and agrees beside it"

/* Records the reason to skip the case: the error of the context, or `what`. */
static bool skip(judge *k, const char *what) {
    if (!k->why[0]) snprintf(k->why, sizeof k->why, "%s", what);
    return false;
}

/* A number in [-1, 1], the same in each run. */
static double direction(int leaf, int64_t e, int try) {
    uint64_t x = (uint64_t)e * 0x9e3779b97f4a7c15u + (uint64_t)(leaf * 8 + try + 1);
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (double)(int64_t)(x ^ x >> 31) / 9223372036854775808.0;
}

/* ---- elements ----------------------------------------------------------- */

/* A tensor's elements, to be freed; NULL after td__fail. */
static double *read_all(td_tensor *t) {
    size_t  n = (size_t)t->numel;
    double *x = td__alloc((n + 1) * sizeof *x);
    if (!x) return td__fail_memory(t->cx), NULL;
    if (td_read(t, TD_F64, x, n * sizeof *x)) return x;
    td__free(x);
    return NULL;
}

/* Moves a new leaf: every leaf by the shift of this try, so that kinks of round numbers
 * are left, and the chosen one along its direction. */
static bool move(judge *k, td_tensor *t, int leaf) {
    double h = k->leaf == leaf ? k->h : 0;
    if (t->st->refs > 1)
        case_stops_note(&k->stops, "a leaf that shares its storage", 0);
    if (td__overlaps_itself(t)) return skip(k, "elements of a leaf share an address");
    if (!k->try && h == 0) return true;
    double *x = read_all(t);
    for (int64_t e = 0; x && e < t->numel; e++)
        x[e] += h * direction(leaf, e, 0) +
                (k->try ? 1e-2 * direction(leaf, e, k->try) : 0);
    bool ok = x && td_write(t, TD_F64, x, sizeof *x * (size_t)t->numel);
    td__free(x);
    return ok;
}

/* The leaves that the last step has made. */
static bool move_new(judge *k, const case_run *run) {
    for (; k->n_leaves < run->leaves.n; k->n_leaves++) {
        td_tensor *t = run->r.val[run->leaves.v[k->n_leaves]->id].u.t;
        if (k->n_leaves >= MOST_LEAVES) return skip(k, "more than 32 leaves");
        if (t->dtype != TD_F64) return skip(k, "a leaf is not f64");
        if (!move(k, t, k->n_leaves)) return false;
    }
    return true;
}

/* ---- one run ------------------------------------------------------------ */

/* Adds root * tangent to *v; the tangents are those of the first run. */
static bool add_products(judge *k, td_tensor *root, const double *g, value *v) {
    double *x = read_all(root);
    for (int64_t e = 0; x && e < root->numel; e++) {
        v->l += x[e] * g[e];
        v->size += fabs(x[e] * g[e]);
    }
    td__free(x);
    return x || td__fail_memory(k->cx);
}

/* Copies the tangents of the first run. */
static bool store_tangents(judge *k, base *b, td_tensors grads) {
    bool ok = true;
    for (int i = 0; i < grads.n; i++) b->n += grads.v[i]->numel;
    b->tangents = td__alloc(((size_t)b->n + 1) * sizeof *b->tangents);
    if (!b->tangents) return td__fail_memory(k->cx);
    double *to = b->tangents;
    for (int i = 0; ok && i < grads.n; i++) {
        td_tensor *t = grads.v[i];
        ok = td_read(t, TD_F64, to, sizeof *to * (size_t)t->numel);
        to += t->numel;
    }
    return ok;
}

/* Before each backward: the value of L. */
static bool before_backward(void *env, td_tensors roots, td_tensors grads) {
    judge *k = env;
    int    nr = k->nr++;
    value *v = &k->now[nr];
    if (nr >= MOST_BACKWARDS) return skip(k, "more than 16 backwards");
    if (k->leaf < 0 && !store_tangents(k, &k->base[nr], grads)) return false;
    const base *b = &k->base[nr];
    int64_t     n = 0;
    *v = (value){0};
    for (int i = 0; i < roots.n; i++) {
        int64_t numel = roots.v[i]->numel;
        if (n + numel > b->n) return skip(k, "sizes depend on the values of leaves");
        if (!add_products(k, roots.v[i], b->tangents + n, v)) return false;
        n += numel;
    }
    return n == b->n || skip(k, "sizes depend on the values of leaves");
}

/* First run: remembers the .grad of every leaf before a backward. */
static bool remember_grads(judge *k, const case_run *run) {
    for (int i = 0; i < k->n_leaves; i++) {
        td_tensor *g = td_grad_of(run->r.val[run->leaves.v[i]->id].u.t);
        td__free(k->was[i]);
        k->was[i] = NULL;
        if (g && !td_is_nil(g) && !(k->was[i] = read_all(g))) return false;
    }
    return true;
}

/* First run: stores the slope along each direction, from the gradients of the backward
 * that has just run. */
static bool store_slopes(judge *k, const case_run *run, int line) {
    base *b = &k->base[k->nr - 1];
    b->line = line;
    b->at = k->now[k->nr - 1];
    for (int i = 0; i < k->n_leaves; i++) {
        td_tensor *g = td_grad_of(run->r.val[run->leaves.v[i]->id].u.t);
        if (!g || td_is_nil(g)) continue;
        double *x = read_all(g);
        if (!x) return false;
        for (int64_t e = 0; e < g->numel; e++) {
            double d = (x[e] - (k->was[i] ? k->was[i][e] : 0)) * direction(i, e, 0);
            b->slope[i] += d;
            b->size[i] += fabs(d);
        }
        td__free(x);
    }
    return true;
}

static bool run_step(judge *k, case_run *run, int i) {
    const td_gstep *s = &k->c->steps.v[i];
    bool            back = s->kind == TD_STEP_BACKWARD, first = k->leaf < 0;
    bool watched = first && (s->kind == TD_STEP_NODE || s->kind == TD_STEP_CALL);
    if (back && first && !remember_grads(k, run)) return false;
    if (watched && !case_stops_begin(&k->stops, k->cx)) return false;
    bool ok = case_step(run, i);
    if (watched) case_stops_end(&k->stops);
    ok = ok && move_new(k, run);
    if (ok && back && first) ok = store_slopes(k, run, s->line);
    /* A gradient that is read as a value and has no history is a constant. */
    if (ok && first && s->kind == TD_STEP_GRAD &&
        !td_requires_grad(run->r.val[s->out[0]->id].u.t))
        case_stops_note(&k->stops, "a gradient without create_graph", s->line);
    return ok;
}

/* Runs the whole case, with the chosen leaf moved. False: k->why has the reason. */
static bool run_case(judge *k) {
    td_ctx      *cx = k->cx;
    case_run     run = {.file = k->f,
                        .c = k->c,
                        .way = &case_eager,
                        .before_backward = before_backward,
                        .before_env = k};
    td_grad_mode mode = {cx->grad_enabled, cx->inference};
    bool         opened = td__scope_push(cx);
    bool         ok = opened && case_begin(&run);
    k->nr = k->n_leaves = 0;
    for (int i = 0; ok && i < k->c->steps.n; i++) ok = run_step(k, &run, i);
    if (k->leaf < 0) k->draws = cx->rng_offset;
    else if (ok && k->draws != cx->rng_offset)
        ok = skip(k, "how many random numbers are drawn depends on the leaves");
    if (!ok && !k->why[0])
        snprintf(k->why, sizeof k->why, "fails in f64: %s", td_message(cx));
    case_end(&run);
    td_no_grad_end(cx, mode);
    if (opened) td__scope_pop(cx, NULL, 0);
    td_clear(cx);
    return ok;
}

/* ---- the verdict -------------------------------------------------------- */

/* L of every backward with the leaf moved by h. */
static bool values_at(judge *k, int leaf, double h, value *to) {
    k->leaf = leaf;
    k->h = h;
    if (!run_case(k)) return false;
    if (k->nr != k->n_base) return skip(k, "backwards depend on the leaves");
    memcpy(to, k->now, sizeof *to * (size_t)k->n_base);
    return true;
}

/* Compares at backward b: at[] are L at -h, -h/2, h/2 and h. */
static bool compare(judge *k, int leaf, int b, value at[4][MOST_BACKWARDS], double h) {
    const base *z = &k->base[b];
    double      wide = (at[3][b].l - at[0][b].l) / (2 * h);
    double      near = (at[2][b].l - at[1][b].l) / h;
    double      slope = (4 * near - wide) / 3, says = z->slope[leaf];
    double      scale = fmax(fmax(fabs(slope), fabs(says)), z->size[leaf]);
    double      noise = 1e-8 * z->at.size + 1e-6 * scale;
    /* One-sided differences differ by h L'' if L is smooth, by a constant at a kink. */
    double      bend = fabs(at[3][b].l - 2 * z->at.l + at[0][b].l) / h;
    double      half = 2 * fabs(at[2][b].l - 2 * z->at.l + at[1][b].l) / h;
    double      slack = 10 * fabs(wide - near) + noise;
    if (!isfinite(slope) || !isfinite(says) || !isfinite(slack))
        return skip(k, "values or gradients are not finite");
    if (half > 0.75 * bend && half > 10 * noise)
        return skip(k, SMOOTH ": differences to both sides disagree");
    if (slack > 1e-2 * scale + 2 * noise)
        return skip(k, SMOOTH ": differences of two step sizes disagree");
    if (fabs(slope - says) <= slack) return true;
    if (k->stops.at[0]) {
        char why[200];
        snprintf(why, sizeof why, "gradients stop at %s", k->stops.at);
        return skip(k, why);
    }
    if (!k->try) return skip(k, LONE);
    k->v->differences++;
    k->v->result = CASE_DIFFERS;
    td__buf_printf(
        &k->v->why,
        "%sline %d: along a random direction of leaf %d backward says %.10g, "
        "differences say %.10g (within %.1g)",
        k->v->why.n ? "; " : "", z->line, leaf, says, slope, slack);
    return true;
}

/* Moves each leaf and compares each backward. False: k->why has the reason. */
static bool judge_leaves(judge *k) {
    static const double steps[4] = {-1, -0.5, 0.5, 1};
    double              h = 1e-5;
    int                 leaves = k->n_leaves;
    value               at[4][MOST_BACKWARDS];
    for (int leaf = 0; leaf < leaves; leaf++) {
        for (int i = 0; i < 4; i++)
            if (!values_at(k, leaf, h * steps[i], at[i])) return false;
        for (int b = 0; b < k->n_base; b++)
            if (!compare(k, leaf, b, at, h)) return false;
    }
    return true;
}

static void forget(judge *k) {
    for (int i = 0; i < MOST_BACKWARDS; i++) td__free(k->base[i].tangents);
    for (int i = 0; i < MOST_LEAVES; i++) td__free(k->was[i]);
    memset(k->base, 0, sizeof k->base);
    memset(k->was, 0, sizeof k->was);
}

/* One try: the first run, then those with moved leaves. */
static bool judge_once(judge *k, int try) {
    k->try = try;
    k->leaf = -1;
    k->why[0] = k->stops.at[0] = 0;
    bool ok = run_case(k);
    k->n_base = k->nr;
    ok = ok && (k->n_base > 0 || skip(k, "no backward")) && judge_leaves(k);
    forget(k);
    return ok;
}

/* Does the function, or a graph in it, call a custom function, or hook a gradient? Then
 * the gradient is the program's own. */
static bool has_custom(const td_graph *g) {
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *n = g->nodes.v[i];
        if (n->kind != TD_N_OP) continue;
        if (n->op == TD_OP_custom || n->op == TD_OP_on_grad) return true;
    }
    for (int i = 0; i < g->nested.n; i++)
        if (has_custom(g->nested.v[i])) return true;
    return false;
}

/* The option of a case that changes gradients on purpose; NULL: none. */
static const char *unfit(const td_gcase *c) {
    bool any = false;
    for (int i = 0; i < c->steps.n; i++) {
        const td_gstep *s = &c->steps.v[i];
        any |= s->kind == TD_STEP_BACKWARD;
        if (s->hooks && strcmp(s->hooks, "clone") != 0)
            return "hooks change saved values";
        if (s->autocast) return "autocast computes in fewer digits";
        if (s->kind == TD_STEP_CALL && has_custom(s->fn))
            return "a custom function or a hook has a derivative of its own";
    }
    return any ? NULL : "no backward";
}

/* Compares at the leaves of the case, and at nearby points if that decides nothing or
 * disagrees. NULL: the verdict is in k->v; else the reason why there is none. */
static const char *judge_points(judge *k) {
    bool ok = judge_once(k, 0), lone = !ok && !strcmp(k->why, LONE);
    for (int i = 1; !ok && i < TRIES && (lone || !strncmp(k->why, SMOOTH, 10)); i++)
        ok = judge_once(k, i);
    if (ok) return lone && k->v->result == CASE_EQUAL ? LONE : NULL;
    return k->why;
}

case_result case_differences(const td_gfile *f, const td_gcase *c, case_verdict *v) {
    td_where here = td_here;
    td_dtype was = f->cx->default_dtype;
    judge   *k = td__zalloc(sizeof *k);
    *v = (case_verdict){.result = CASE_EQUAL};
    const char *why = k ? unfit(c) : "out of memory";
    if (!why) {
        k->cx = f->cx, k->f = f, k->c = c, k->v = v;
        td_clear(f->cx);
        f->cx->default_dtype = TD_F64;
        why = judge_points(k);
        f->cx->default_dtype = was;
    }
    if (why && v->result == CASE_EQUAL) {
        v->result = CASE_SKIPPED;
        td__buf_printf(&v->why, "%s", why);
    }
    td__free(k);
    td_here = here;
    return v->result;
}
