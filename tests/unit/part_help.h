/* part_help.h -- what the unit tests of the partitioners share: cutting graphs given
 * as text, and running the halves against the joint graph. */
#ifndef TD_PART_HELP_H
#define TD_PART_HELP_H

#include "graph_help.h"
#include "part_gen.h"

#define MAX_IO 80

/* Inputs like the graph's, drawn from seed 5; sizes that are symbols are 3, 4, ... */
static inline void make_inputs(const td_graph *g, td_value *in) {
    td_seed(g->cx, 5);
    for (int i = 0; i < g->inputs.n; i++) {
        const td_gtype *l = g->inputs.v[i]->type;
        int64_t         size[TD_MAX_RANK];
        if (l->kind == TD_K_INT || l->kind == TD_K_FLOAT) {
            in[i] = l->kind == TD_K_INT ? td_value_int(3) : td_value_float(1.5);
            continue;
        }
        for (int d = 0; d < l->rank; d++) {
            const td_gdim *s = td__gdim_at(g, l->size[d]);
            size[d] = s ? 3 + s->nr : l->size[d];
        }
        in[i] = td_value_tensor(td_op_randn(g->cx, (td_ints){size, l->rank}, TD_F32));
    }
}

/* Runs a half node by node. */
static inline bool run_half(const td_graph *g, const td_value *in, td_value *out) {
    td_replay r;
    bool      ok = td__replay_begin(&r, g);
    for (int i = 0; i < g->inputs.n && ok; i++)
        ok = td__replay_set(&r, g->inputs.v[i], in[i]);
    for (int i = 0; i < g->nodes.n && ok; i++) ok = td__replay_node(&r, g->nodes.v[i]);
    for (int i = 0; i < g->outputs.n && ok; i++) {
        ok = td__replay_arg(&r, &g->outputs.v[i], &out[i]);
        if (ok && out[i].kind == TD_K_TENSOR) td_keep(out[i].u.t);
    }
    td__replay_end(&r);
    return ok;
}

static inline bool same_bits(td_value a, td_value b) {
    if (a.kind != b.kind) return false;
    if (a.kind != TD_K_TENSOR) return a.kind == TD_K_NONE || a.u.i == b.u.i;
    td_tensor *x = td_op_contiguous(a.u.t), *y = td_op_contiguous(b.u.t);
    if (x->dtype != y->dtype || x->numel != y->numel || x->rank != y->rank)
        return false;
    for (int d = 0; d < x->rank; d++)
        if (x->size[d] != y->size[d]) return false;
    return !memcmp(td__ptr(x), td__ptr(y),
                   (size_t)x->numel * td__dtype_bytes[x->dtype]);
}

static inline td_value kept_value(const td_saved_value *k, const td_value *in,
                                  const td_value *out) {
    return k->from == TD_SAVED_PRIMAL ? in[k->index] : out[k->index];
}

/* Forward, then backward as a caller would; all[] gets outputs and gradients. */
static inline bool run_halves(const td_halves *h, const td_value *in, int n_primals,
                              td_value *all) {
    td_value out[MAX_IO * 8], late[MAX_IO * 8];
    int      n_tangents = h->bwd ? h->bwd->inputs.n - h->n_saved : 0;
    if (!run_half(h->fwd, in, out)) return false;
    for (int i = 0; i < h->n_fwd; i++) all[i] = out[i];
    if (!h->bwd) return true;
    for (int i = 0; i < h->n_saved; i++) late[i] = kept_value(&h->saved[i], in, out);
    for (int i = 0; i < n_tangents; i++) late[h->n_saved + i] = in[n_primals + i];
    return run_half(h->bwd, late, all + h->n_fwd);
}

/* The halves compute what the joint graph does, to the bit. */
static inline void check_same(const td_joint *j, const td_halves *h) {
    td_ctx  *cx = j->cx;
    td_value in[MAX_IO], want[MAX_IO], got[MAX_IO];
    CHECK(j->g->inputs.n <= MAX_IO && j->g->outputs.n <= MAX_IO && h->n_saved < 400);
    td_scope_begin(cx, "same");
    make_inputs(j->g, in);
    td_seed(cx, 9);
    CHECK(run_half(j->g, in, want));
    make_inputs(j->g, in); /* it may have written them */
    td_seed(cx, 9);
    CHECK(run_halves(h, in, j->n_primals, got));
    CHECK_OK(cx);
    for (int i = 0; i < j->g->outputs.n; i++) CHECK(same_bits(want[i], got[i]));
    td_scope_end(cx, "same", NULL);
}

/* A cut of a joint graph given as text. */
typedef struct cut {
    td_ctx    *cx;
    td_gfile  *f;
    td_joint   j;
    td_halves *h;
} cut;

static inline cut cut_with(const char *text, bool mincut, td_part_opts o) {
    cut c = {.cx = td_open()};
    c.f = parse(c.cx, text);
    CHECK_OK(c.cx);
    CHECK(td__graph_infer(c.f->graphs.v[0]));
    CHECK_OK(c.cx);
    CHECK(td__joint_over(c.f->graphs.v[0], &c.j));
    c.h = mincut ? td__part_mincut(&c.j, &o) : td__part_default(&c.j, &o);
    CHECK_OK(c.cx);
    check_same(&c.j, c.h);
    return c;
}

static inline void cut_end(cut *c) {
    td__halves_drop(c->h);
    td__gfile_drop(c->f);
    td_close(c->cx);
}

/* Names of what is kept, or computed again, in order. */
static inline const char *noted(const td_halves *h, bool saved) {
    static char text[2000];
    text[0] = 0;
    for (int i = 0; i < h->n_notes; i++) {
        if (h->notes[i].saved != saved) continue;
        if (text[0]) strcat(text, " ");
        strcat(text, h->notes[i].value);
    }
    return text;
}
static inline const char *kept_names(const td_halves *h) { return noted(h, true); }
static inline const char *again_names(const td_halves *h) { return noted(h, false); }

static inline int count_op(const td_graph *g, td_op op) {
    int n = 0;
    for (int i = 0; i < g->nodes.n; i++) n += g->nodes.v[i]->op == op;
    return n;
}

#endif
