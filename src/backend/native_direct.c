/* native_direct.c -- native code that is kernels alone, over inputs and new tensors
 * that are all outputs, as that of most small functions: it runs without a td_replay,
 * whose values and read counts would cost a short kernel more than its elements. What
 * is decided here once, a run of native_run.c finds out each time. */
#include "backend/native.h"

static bool is_simple(const td_native *c, const td_launch *k) {
    if (k->on || k->inner || !k->metas || k->b.writes.n || k->b.params.n ||
        k->b.draws.n || k->b.run_numbers.n)
        return false;
    for (int i = 0; i < k->b.makes.n; i++)
        if (!k->metas[i].count || td__memory_range(c, k->b.makes.v[i])) return false;
    return true;
}

static bool are_simple(const td_native *c) {
    for (int i = 0; i < c->steps.n; i++)
        if (c->steps.v[i].node || !is_simple(c, &c->launches[c->steps.v[i].launch]))
            return false;
    return c->steps.n > 0 && c->steps.n == c->n_launches && c->g->dims.n == 0 &&
           !c->mem.any && !c->interpreted;
}

/* The place in td_direct_code.made of a value that a step before `steps` makes; -1:
 * none does. */
static int made_at(const td_native *c, int steps, const td_gval *v) {
    for (int i = 0, at = 0; i < steps; i++) {
        const td_launch *k = &c->launches[c->steps.v[i].launch];
        for (int j = 0; j < k->b.makes.n; j++, at++)
            if (k->b.makes.v[j] == v) return at;
    }
    return -1;
}

static bool set_outputs(const td_native *c, td_direct_code *d) {
    const td_graph *g = c->g;
    for (int i = 0; i < g->outputs.n; i++) {
        const td_garg *a = &g->outputs.v[i];
        d->out[i] = a->kind == TD_G_VALUE ? made_at(c, c->steps.n, a->u.v) : -1;
        if (d->out[i] < 0) return false;
    }
    return true;
}

/* The pointers of step i from `to` on. */
static bool set_pointers(const td_native *c, int step, td_direct_ptr *to) {
    const td_launch *k = &c->launches[c->steps.v[step].launch];
    for (int i = 0; i < k->b.bytes.n; i++) {
        const td_bytes *y = &k->b.bytes.v[i];
        int             made = made_at(c, step + 1, y->v);
        int64_t         item = td__dtype_bytes[y->dtype], at = y->offset.c * item;
        if ((made < 0 && y->v->node) || y->offset.p >= 0) return false;
        to[i] = (td_direct_ptr){made < 0 ? y->v->nr : -1, made, at, at + item};
    }
    return true;
}

static bool fill(const td_native *c, td_direct_code *d) {
    int n_ptr = 0, n_made = 0;
    for (int i = 0; i < c->n_launches; i++) {
        n_ptr += c->launches[i].b.bytes.n;
        n_made += c->launches[i].b.makes.n;
    }
    d->out = td__alloc(sizeof *d->out * (size_t)(c->g->outputs.n + 1));
    d->ptr = td__alloc(sizeof *d->ptr * (size_t)(n_ptr + 1));
    d->made = td__alloc(sizeof *d->made * (size_t)(n_made + 1));
    d->reads = td__zalloc((size_t)c->g->inputs.n + 1);
    bool ok = d->out && d->ptr && d->made && d->reads && set_outputs(c, d);
    for (int i = 0, at = 0; ok && i < c->steps.n; i++) {
        ok = set_pointers(c, i, d->ptr + at);
        at += c->launches[c->steps.v[i].launch].b.bytes.n;
    }
    for (int i = 0; ok && i < n_ptr; i++)
        if (d->ptr[i].in >= 0) d->reads[d->ptr[i].in] = true;
    return ok;
}

void td__direct_free(td_direct_code *d) {
    if (!d) return;
    td__free(d->out);
    td__free(d->ptr);
    td__free(d->made);
    td__free(d->reads);
    td__free(d);
}

td_direct_code *td__direct_make(const td_native *c) {
    td_direct_code *d = are_simple(c) ? td__zalloc(sizeof *d) : NULL;
    if (!d || fill(c, d)) return d;
    td__direct_free(d);
    return NULL;
}

/* Are the inputs that kernels read tensors, of the layout that these were made for? */
static bool inputs_fit(const td_native *c, const td_value *in) {
    const td_graph *g = c->g;
    for (int i = 0; i < g->inputs.n; i++) {
        const td_gval  *v = g->inputs.v[i];
        const td_value *x = &in[i];
        if (!c->direct->reads[i]) continue;
        if (x->kind != TD_K_TENSOR || x->u.t->flags & TD_TF_NIL ||
            !td__native_fits(g, v->type, x->u.t, NULL))
            return false;
    }
    return true;
}

static bool run_launch(const td_native *c, td_launch *k, const td_value *in,
                       const td_direct_ptr *ptr, td_tensor **made) {
    td_ctx *cx = c->g->cx;
    td__span_begin(cx, k->label);
    for (int i = 0; i < k->b.makes.n; i++) {
        made[i] = td__tensor_counted(cx, &k->metas[i].as, k->metas[i].count);
        if (!made[i]) return false;
    }
    for (int i = 0; i < k->b.bytes.n; i++) {
        const td_direct_ptr *p = &ptr[i];
        const td_tensor     *t = p->in >= 0 ? in[p->in].u.t : c->direct->made[p->made];
        k->ptr[i] = td__native_pointer(t, p->at, p->end);
    }
    if (!td__launch_run(c, k)) return false;
    td__native_note_launch(cx, k);
    td__span_end(cx, k->label);
    return true;
}

/* Advances no version and draws nothing; the order of new tensors is that of
 * native_run.c. */
td_direct td__native_direct(void *env, const td_value *in, td_value *out) {
    const td_native      *c = env;
    const td_direct_code *d = c->direct;
    const td_direct_ptr  *ptr = d->ptr;
    td_tensor           **made = d->made;
    bool                  ok = true;
    if (!inputs_fit(c, in)) return TD_DIRECT_NOT;
    for (int i = 0; ok && i < c->steps.n; i++) {
        td_launch *k = &c->launches[c->steps.v[i].launch];
        ok = run_launch(c, k, in, ptr, made);
        ptr += k->b.bytes.n;
        made += k->b.makes.n;
    }
    for (int i = 0; i < c->g->outputs.n; i++)
        out[i] = td_value_tensor(ok ? d->made[d->out[i]] : td_nil(c->g->cx));
    return ok ? TD_DIRECT_DONE : TD_DIRECT_FAILED;
}
