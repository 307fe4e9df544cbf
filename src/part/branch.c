/* branch.c -- a cond through which gradients pass: each branch is joined and
 * partitioned as a region is (region.c), and passes values to its backward half, so
 * that an expensive branch runs once.
 *
 * An op has one list of results, whichever branch runs. So the forward halves are
 * padded: they return the results, then a list of values for backward with the same
 * types in both. The entry of a value that only the other branch saves is an
 * uninitialized tensor, which nothing reads. Values of the two branches with equal
 * types share an entry.
 *
 * If a branch has no halves, cond stays as it is, and its backward recomputes the
 * branch (trace/control_vjp.c). */
#include "part/region.h"
#include "trace/trace.h"

#include <stdio.h>

/* The list of values that the branches of a cond pass to their backward. */
typedef struct td_handover {
    td_region_parts *of[2];     /* yes, no */
    td_graph        *padded[2]; /* their forward halves with the list; owned */
    int              n_out;     /* results of cond */
    int              n, n_all;  /* length of the list; outputs of the padded halves */
    int64_t         *saved;     /* by entry: the output of the padded halves */
    td_gtype        *type;      /* by entry */
    int             *from[2];   /* by entry: the output of the half; -1: none */
    int             *at[2];     /* by saved value of the half: the entry, or -1 - i for
                                 * operand i */
} td_handover;

void td__handover_drop(td_handover *h) {
    for (int b = 0; h && b < 2; b++) td__graph_drop(h->padded[b]);
    td__free(h);
}

/* ---- the list ----------------------------------------------------------- */

static int n_saved(const td_region_parts *r) { return r->h ? r->h->n_saved : 0; }

/* An empty list, all arrays in one allocation. NULL after td__fail. */
static td_handover *make_hand(td_region_parts *yes, td_region_parts *no) {
    size_t       n = (size_t)(n_saved(yes) + n_saved(no)) + 1;
    size_t       each = sizeof(td_gtype) + sizeof(int64_t) + 4 * sizeof(int);
    size_t       strides = sizeof(int64_t) * TD_MAX_RANK;
    td_handover *h = td__zalloc(sizeof *h + n * (each + strides));
    if (!h) return td__fail_memory(yes->body->cx), NULL;
    int64_t *stride;
    h->of[0] = yes;
    h->of[1] = no;
    h->type = (td_gtype *)(void *)(h + 1);
    h->saved = (int64_t *)(void *)(h->type + n);
    stride = h->saved + n;
    h->from[0] = (int *)(void *)(stride + n * TD_MAX_RANK);
    h->from[1] = h->from[0] + n;
    h->at[0] = h->from[1] + n;
    h->at[1] = h->at[0] + n;
    h->n_out = h->n_all = yes->j->n_results;
    for (size_t i = 0; i < n; i++) {
        h->from[0][i] = h->from[1][i] = -1;
        h->type[i].stride = stride + i * TD_MAX_RANK;
    }
    return h;
}

/* The type of an entry for a value of type l: without gaps, with its own storage. */
static void set_type(td_gtype *to, const td_gtype *l) {
    int64_t *stride = (int64_t *)(uintptr_t)to->stride;
    *to = *l;
    if (td__gtype_is_packed(l))
        for (int d = 0; d < l->rank; d++) stride[d] = l->stride[d];
    else td__strides_dense(l->rank, l->size, stride);
    to->stride = stride;
}

static bool same_type(const td_gtype *a, const td_gtype *b) {
    return a->dtype == b->dtype && a->rank == b->rank &&
           td__dims_identical(a->size, b->size, a->rank) &&
           td__dims_identical(a->stride, b->stride, a->rank);
}

/* Does eager save this result whichever branch runs? Then the result itself is saved.
 * The caller may write another result, and eager's backward still works: a copy of that
 * one is saved. */
static bool is_saved(const td_handover *h, int result) {
    int n = 0;
    for (int b = 0; b < 2 && result >= 0; b++)
        for (int i = 0; i < h->n_out; i++) {
            const td_joint *j = h->of[b]->j;
            const td_fwd   *f = &j->fwd[i];
            n += f->result == result && f->saved &&
                 td__set_any(f->saved, td__set_words(j->n_tangents));
        }
    return n == 2;
}

/* The entry for output `out` of the forward half of branch b. */
static int entry_for(td_handover *h, int b, int out) {
    td_gtype *l = &h->type[h->n];
    int       nr = out < h->n_out ? h->of[b]->j->fwd[out].result : -1;
    bool      result = is_saved(h, nr);
    set_type(l, h->of[b]->forward->outputs.v[out].u.v->type);
    for (int i = 0; i < h->n; i++)
        if (result ? h->saved[i] == nr
                   : h->saved[i] >= h->n_out && h->from[b][i] < 0 &&
                         same_type(&h->type[i], l)) {
            h->from[b][i] = out;
            return i;
        }
    h->from[b][h->n] = out;
    h->saved[h->n] = result ? nr : h->n_all++;
    return h->n++;
}

static void fill_hand(td_handover *h) {
    for (int b = 0; b < 2; b++)
        for (int i = 0; i < n_saved(h->of[b]); i++) {
            td_saved_value s = h->of[b]->h->saved[i];
            bool           primal = s.from == TD_SAVED_PRIMAL;
            h->at[b][i] = primal ? -1 - s.index : entry_for(h, b, s.index);
        }
}

/* ---- the forward halves ------------------------------------------------- */

/* One branch during the capture of one of its graphs. */
typedef struct job {
    const td_handover    *h;
    int                   b;
    const td_region_back *back; /* its backward half; NULL: no gradients */
    const td_vjp         *v;
    const int            *operand; /* by operand: its index among the arguments */
    const int            *tangent; /* by result, likewise; -1: did not arrive */
    const bool           *gives;   /* by operand: the graph returns its gradient */
    int                   list;    /* the argument index of the first entry */
} job;

/* Entry i of the list, from the outputs of the half. */
static td_tensor *give_entry(const job *j, int i, const td_value *out) {
    const td_gtype *l = &j->h->type[i];
    td_ints         size = {l->size, l->rank}, stride = {l->stride, l->rank};
    td_ctx         *cx = j->h->of[0]->body->cx;
    if (j->h->from[j->b][i] >= 0) return td__lay_out(out[j->h->from[j->b][i]].u.t, l);
    return td__empty_on(cx, l->device, size, stride, (td_dtype)l->dtype);
}

/* The body of a padded half: returns the results, then the entries that are not
 * results. */
static bool padded_body(td_call *c) {
    const job         *j = td_call_env(c);
    const td_handover *h = j->h;
    const td_graph    *f = h->of[j->b]->forward;
    size_t             n = (size_t)(f->outputs.n + h->n_all + 1);
    td_value          *out = td__zalloc(sizeof *out * n), *to;
    if (!out) return td__fail_memory(f->cx);
    to = out + f->outputs.n;
    bool ok = td__graph_replay(f, td__call_args(c).v, out);
    for (int i = 0; i < h->n_out && ok; i++) to[h->of[j->b]->j->fwd[i].result] = out[i];
    for (int i = 0; i < h->n && ok; i++) {
        if (h->saved[i] < h->n_out) continue;
        td_tensor *t = give_entry(j, i, out);
        ok = !td_is_nil(t);
        to[h->saved[i]] = td_value_tensor(t);
    }
    ok = ok && td_return_values(c, (td_values){to, h->n_all});
    td__free(out);
    return ok;
}

/* Captures body for branch j->b on tensors like ts, without gradients. */
static td_graph *capture(td_body *body, job *j, td_tensors ts, const char *what) {
    td_ctx   *cx = j->h->of[0]->body->cx;
    td_value *in = td__zalloc(sizeof *in * ((size_t)ts.n + 1));
    td_graph *g = NULL;
    char      name[40];
    int       n = 0;
    bool      was = cx->grad_enabled, ok = true;
    if (!in) return td__fail_memory(cx), NULL;
    cx->grad_enabled = false;
    snprintf(name, sizeof name, "%s_%s", j->b ? "no" : "yes", what);
    for (; n < ts.n && ok; n++) {
        in[n] = td_value_tensor(td__template(ts.v[n], false));
        ok = in[n].u.t != NULL;
    }
    if (ok) g = td__capture(cx, body, j, (td_values){in, n});
    cx->grad_enabled = was;
    td__free(in);
    if (g && (g->name = td__graph_str(g, name)) && td__graph_dce(g)) return g;
    td__graph_drop(g);
    return NULL;
}

/* Makes the list of yes and no for operands like ts. False after td__fail. yes->hand is
 * NULL if the list would contain only operands. */
static bool hand_over(td_region_parts *yes, td_region_parts *no, td_tensors ts) {
    td_handover *h = make_hand(yes, no);
    if (!h) return false;
    fill_hand(h);
    bool ok = true;
    for (int b = 0; b < 2 && h->n && ok; b++) {
        job j = {.h = h, .b = b};
        ok = (h->padded[b] = capture(padded_body, &j, ts, "forward")) != NULL;
    }
    if (ok && h->n) return (yes->hand = h), true;
    td__handover_drop(h);
    return ok;
}

/* ---- cond in a joint trace ---------------------------------------------- */

static bool may_split(const td_graph *g) {
    for (int i = 0; i < g->inputs.n; i++)
        if (td__graph_holds(g, i)) return false;
    return !td__graph_draws(g);
}

static bool needs_grad(td_tensors ts) {
    for (int i = 0; i < ts.n; i++)
        if (td__needs_grad(ts.v[i])) return true;
    return false;
}

static bool has_halves(const td_region_parts *r) {
    return !r->inlined && !td__graph_is_typed(r->forward);
}

/* Finds or makes the list that the branches of call c pass to backward. *to NULL: none.
 * False after td__fail. */
static bool find_hand(td_opcall *c, td_handover **to) {
    td_graph  *yes = c->in[TD_COND_YES].u.g, *no = c->in[TD_COND_NO].u.g;
    td_tensors ts = {c->in[TD_COND_OPERANDS].u.ts, (int)c->in[TD_COND_OPERANDS].n};
    *to = NULL;
    if (yes == no || !needs_grad(ts) || !may_split(yes) || !may_split(no)) return true;
    td_region_parts *y = td__region_for(yes, ts, true);
    td_region_parts *n = y && has_halves(y) ? td__region_for(no, ts, true) : NULL;
    if (!y || (has_halves(y) && !n)) return false;
    if (!n || !has_halves(n) || y->j->n_results != n->j->n_results) return true;
    if (!y->hand && !hand_over(y, n, ts)) return false;
    if (y->hand && y->hand->of[1] == n) *to = y->hand;
    return true;
}

/* Calls op, whose first results are those of c. */
static bool call_as(td_opcall *c, td_op op, const td_value *in, int n_in, int n) {
    int         m = c->in[TD_COND_YES].u.g->outputs.n;
    td_tensor **out =
        td__arena_zalloc(&c->cx->scratch, sizeof *out * ((size_t)(m + n) + 1));
    if (!out) return td__fail_memory(c->cx);
    if (td__call_list(c->cx, op, in, n_in, out, m + n) < 0 || !td__call_results(c, m))
        return false;
    for (int i = 0; i < m; i++) c->out[i] = out[i];
    return true;
}

/* Calls cond_forward if the branches pass values to backward, else cond. */
static bool call_split(td_opcall *c) {
    td_handover *h;
    if (!find_hand(c, &h)) return false;
    if (!h) return call_as(c, TD_OP_cond, c->in, c->n_in, 0);
    td_value in[TD_COND_ARGS] = {[TD_COND_PRED] = c->in[TD_COND_PRED],
                                 [TD_COND_YES] = c->in[TD_COND_YES],
                                 [TD_COND_NO] = c->in[TD_COND_NO],
                                 [TD_COND_OPERANDS] = c->in[TD_COND_OPERANDS],
                                 [TD_COND_YES_FORWARD] = td__value_graph(h->padded[0]),
                                 [TD_COND_NO_FORWARD] = td__value_graph(h->padded[1]),
                                 [TD_COND_SAVED] =
                                     td__value_ints((td_ints){h->saved, h->n})};
    return call_as(c, TD_OP_cond_forward, in, TD_COND_ARGS, h->n);
}

bool td__split_cond(td_opcall *c) {
    if (!td__scope_push(c->cx)) return false;
    bool ok = call_split(c);
    td__scope_pop(c->cx, c->out, ok ? c->n_out : 0);
    return ok;
}

/* ---- its derivative ----------------------------------------------------- */

static td_tensor *zeros_like(td_ctx *cx, td_geom g) {
    return td__zeros_on(cx, g.device, td__geom_sizes(&g), (td_dtype)g.dtype);
}

/* The argument index of input i of the backward half: a saved value or, after those, a
 * tangent; -1: it did not arrive. */
static int place_of(const job *j, int i) {
    const td_region_parts *r = j->h->of[j->b];
    if (i >= n_saved(r)) return j->tangent[r->tangents[i - n_saved(r)]];
    int at = j->h->at[j->b][i];
    return at < 0 ? j->operand[-1 - at] : j->list + at;
}

static bool give_inputs(td_call *c, const job *j, td_value *in) {
    const td_graph *g = j->back->g;
    for (int i = 0; i < g->inputs.n; i++) {
        const td_gtype *l = g->inputs.v[i]->type;
        int             at = place_of(j, i);
        td_tensor      *t =
            at < 0 ? zeros_like(g->cx, l->geom) : td__lay_out(td_arg(c, at), l);
        if (td_is_nil(t)) return false;
        in[i] = td_value_tensor(t);
    }
    return true;
}

/* The gradients of the operands in j->gives; zeros where this branch has none. */
static bool give_grads(td_call *c, const job *j, const td_value *in,
                       const td_value *out, td_tensor **to) {
    td_value ops = j->v->in[TD_COND_OPERANDS];
    int      n = 0;
    for (uint32_t i = 0; i < ops.n; i++) {
        const td_tensor *t = ops.u.ts[i];
        int64_t          at = j->back ? j->back->grads[i] : TD_GRAD_NONE;
        if (!j->gives[i]) continue;
        to[n] = at >= 0                ? out[at].u.t
                : td__region_gives(at) ? in[TD_GRAD_INPUT - at].u.t
                                       : zeros_like(t->cx, td__geom_of(t));
        if (td_is_nil(to[n++])) return false;
    }
    return td__private_grads(c, to, n);
}

/* The body of a backward graph. */
static bool backward_body(td_call *c) {
    const job      *j = td_call_env(c);
    const td_graph *g = j->back ? j->back->g : NULL;
    size_t          n_in = g ? (size_t)g->inputs.n : 0;
    size_t          n_out = g ? (size_t)g->outputs.n : 0;
    size_t          m = j->v->in[TD_COND_OPERANDS].n;
    td_value       *in =
        td__zalloc(sizeof *in * (n_in + n_out + m + 1) + sizeof(td_tensor *) * (m + 1));
    if (!in) return td__fail_memory(j->v->cx);
    td_value   *out = in + n_in, *to = out + n_out;
    td_tensor **grads = (td_tensor **)(void *)(to + m + 1);
    int         n = 0;
    bool        ok = !g || (give_inputs(c, j, in) && td__graph_replay(g, in, out));
    ok = ok && give_grads(c, j, in, out, grads);
    for (size_t i = 0; i < m && ok; i++)
        if (j->gives[i]) {
            to[n] = td_value_tensor(grads[n]);
            n++;
        }
    ok = ok && td_return_values(c, (td_values){to, n});
    td__free(in);
    return ok;
}

/* Does a gradient of a result of this branch arrive? */
static bool arrives(const td_region_parts *r, td_tensor *const *g) {
    for (int i = 0; r->h && i < r->j->n_tangents; i++)
        if (g[r->tangents[i]]) return true;
    return false;
}

/* Is operand i among the values that a branch saves? */
static bool saves_operand(const td_handover *h, int i) {
    for (int b = 0; b < 2; b++)
        for (int k = 0; k < n_saved(h->of[b]); k++)
            if (h->at[b][k] == -1 - i) return true;
    return false;
}

/* The derivative with its arrays: the arguments of the backward cond are operands that
 * a branch saves, the list, and the gradients that arrived. */
static bool run_rule(const td_vjp *v, job *j, const td_region_back *const *back,
                     td_tensor **ts, int *places, bool *gives) {
    td_value           ops = v->in[TD_COND_OPERANDS];
    const td_handover *h = j->h;
    int                n = 0, n_grads = 0, *tangent = places + ops.n;
    for (int i = 0; i < (int)ops.n; i++) {
        for (int b = 0; b < 2; b++)
            gives[i] |= back[b] && td__region_gives(back[b]->grads[i]);
        n_grads += gives[i] &= v->list_need[TD_COND_OPERANDS][i];
        places[i] = n;
        if (saves_operand(h, i)) ts[n++] = ops.u.ts[i];
    }
    j->list = n;
    for (int i = 0; i < h->n; i++) ts[n++] = v->out[h->n_out + i];
    for (int i = 0; i < h->n_out; i++) {
        tangent[i] = v->g[i] ? n : -1;
        if (v->g[i]) ts[n++] = v->g[i];
    }
    if (!n_grads) return true;
    *j = (job){h, 0, back[0], v, places, tangent, gives, j->list};
    td_graph *g[2] = {capture(backward_body, j, (td_tensors){ts, n}, "backward"), NULL};
    j->b = 1;
    j->back = back[1];
    if (g[0]) g[1] = capture(backward_body, j, (td_tensors){ts, n}, "backward");
    td_value in[] = {v->in[TD_COND_PRED], td__value_graph(g[0]), td__value_graph(g[1]),
                     td__value_tensors((td_tensors){ts, n})};
    td_tensor **out = ts + n;
    bool        ok = g[1] && td__call_list(v->cx, TD_OP_cond, in, 4, out, n_grads) >= 0;
    for (uint32_t i = 0; ok && i < ops.n; i++)
        if (gives[i]) v->list_grad[TD_COND_OPERANDS][i] = *out++;
    td__graph_drop(g[0]);
    td__graph_drop(g[1]);
    return ok;
}

/* A cond of the backward halves of both branches, with the same predicate. Gradients of
 * gradients need the ops of the branches, and so do typed gradients: these recompute
 * the branches. */
bool td__vjp_cond_forward(td_vjp *v) {
    td_region_parts *r = NULL;
    for (r = v->in[TD_COND_YES].u.g->parts.env; r; r = r->next)
        if (r->hand && r->hand->padded[0] == v->in[TD_COND_YES_FORWARD].u.g) break;
    bool typed = false;
    for (int i = 0; i < v->n_out; i++) typed |= v->g[i] && v->g[i]->typed;
    if (v->cx->grad_enabled || !r || typed) return td__vjp_cond(v);
    if (v->in[TD_COND_PRED].kind != TD_K_TENSOR) return true;
    const td_region_back *back[2] = {NULL, NULL};
    job                   j = {.h = r->hand};
    for (int b = 0; b < 2; b++)
        if (arrives(j.h->of[b], v->g) && !(back[b] = td__region_back(j.h->of[b], v->g)))
            return false;
    size_t      n = v->in[TD_COND_OPERANDS].n, m = (size_t)v->n_out;
    size_t      tensors = 2 * n + 2 * m + 1;
    td_tensor **ts =
        td__zalloc(sizeof *ts * tensors + sizeof(int) * (n + m + 1) + n + 1);
    if (!ts) return td__fail_memory(v->cx);
    int *places = (int *)(void *)(ts + tensors);
    bool ok = run_rule(v, &j, back, ts, places, (bool *)(places + n + m + 1));
    td__free((void *)ts);
    return ok;
}
