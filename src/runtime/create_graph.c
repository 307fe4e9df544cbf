/* create_graph.c -- a backward that records a history (create_graph). The gradients are
 * the results of a compiled call of their own, of the next order: it recomputes
 * everything from the primals as they were before the call, with the same random
 * numbers, and its node leads to the edges of this one and to the tangents. */
#include "runtime/node_frame.h"

/* Which primals the code or the epilogue of p reads, or p saves. */
static bool find_reads(td_plan *p) {
    size_t n = (size_t)p->j->g->inputs.n + (size_t)p->j->epilogue->inputs.n;
    if (p->reads) return true;
    if (!(p->reads = td__zalloc(n + 1))) return td__fail_memory(p->cx);
    td__graph_reads(td__plan_forward(p), p->reads);
    td__graph_reads(p->j->epilogue, p->reads);
    for (int i = 0; i < p->n_saves; i++)
        if (p->saves[i].out < 0) p->reads[p->saves[i].index] = true;
    return true;
}

/* Geometry of primal i at the call; with symbolic sizes that of this call. */
static td_geom arrived_as(const td_frame *f, int i) {
    if (f->sizes) return f->sizes->given[i];
    const td_gtype *l = f->p->j->g->inputs.v[i]->type;
    return l ? l->geom : (td_geom){0};
}

/* What primal i, of a type, consisted of at the call; NULL: it was a plain tensor. */
static const td_gtyped *arrived_typed(const td_frame *f, int i) {
    if (f->sizes) return f->sizes->given_typed[i];
    const td_gtype *l = f->p->j->g->inputs.v[i]->type;
    return l ? l->of : NULL;
}

/* Primal i before the call, if the next order, p, reads it: it may have been written
 * since, and eager does not unpack what a backward does not pass. */
static bool old_primal(td_node *n, const td_plan *p, int i, td_value *to) {
    const td_frame *f = n->data;
    int             at = f->p->primal_save[i];
    td_geom         want = arrived_as(f, i);
    if (!p->reads[i])
        return td__size_stand_in(n->cx, p->j->g->dims.n ? &want : NULL, to);
    if (at < 0)
        return td__fail(n->cx, TD_E_UNSUPPORTED,
                        "%s: a gradient of its gradient needs input %d as it was "
                        "before the call, which writes it; pass a clone",
                        f->p->name, i);
    td_tensor *t = td__unpack(n, &n->saved[at]);
    bool       beside = t && n->saved[at].pack && td__plan_reads_storage(f->p, i);
    if (t) t = td__fit_unpacked(n, at, t, &want, arrived_typed(f, i), beside);
    *to = td_value_tensor(t);
    return t != NULL;
}

/* The inputs of the next order: the primals as they were before the call, then the
 * tangents. */
static bool take_inputs(td_node *n, const td_plan *p, td_tensor *const *g,
                        td_value *in) {
    const td_joint *j = ((td_frame *)n->data)->p->j;
    for (int i = 0; i < j->n_primals; i++)
        if (!old_primal(n, p, i, &in[i])) return false;
    for (int i = 0; i < n->n_out; i++)
        if (!td__take_tangent(n, p->j->g, i, g[i], &in[j->n_primals + i])) return false;
    return true;
}

/* Its epilogue wrote tangents. */
static bool write_tangents(const td_node *n, const td_plan *p, td_tensor *const *g,
                           const td_value *in) {
    int at = p->j->n_primals - n->n_out;
    for (int i = 0; i < n->n_out; i++, at++)
        if (p->j->primals[at].written && g[i] && !td__write_tangent(g[i], in[at].u.t))
            return false;
    return true;
}

/* The plan of the next order was traced anew: it counts what this one counts. */
static bool check_plan(const td_node *n, const td_plan *p) {
    const td_frame *f = n->data;
    const td_joint *j = f->p->j;
    return (p->j->n_primals == j->n_primals + j->n_tangents &&
            p->j->n_results == j->n_targets) ||
           td__fail(n->cx, TD_E_UNSUPPORTED,
                    "%s: its gradients of gradients were traced with %d targets, not "
                    "%d; go backward without create_graph",
                    f->p->name, p->j->n_results, j->n_targets);
}

/* Runs the plan of the next order, which may write tangents g. Random ops of the
 * forward are recomputed with the generator's position of the first call; the position
 * is restored afterwards. */
static bool run(td_node *n, td_plan *p, td_tensor *const *g, td_value *in,
                td_value *out) {
    const td_frame *f = n->data;
    td_ctx         *cx = n->cx;
    uint64_t        seed = cx->rng_seed, offset = cx->rng_offset;
    bool            random = td__graph_draws(p->j->g);
    if (random) td__rng_put(cx, f->seed, f->offset);
    p->refs++;
    bool ok = td__plan_call(p, n, in, NULL, out) && write_tangents(n, p, g, in);
    td__plan_drop(p);
    if (random) td__rng_put(cx, seed, offset);
    return ok;
}

/* Backward with create_graph. One plan exists for each pair of sets (missing tangents,
 * tangents that require grad); it is made at first use. */
bool td__node_run_next(td_node *n, td_tensor *const *g, const bool *need,
                       td_tensor **grads) {
    td_frame       *f = n->data;
    const td_joint *j = f->p->j;
    int             words = td__frame_words(f->p);
    size_t          n_values = (size_t)(j->n_primals + n->n_out + j->n_targets) + 1;
    td_value *in = td__zalloc(sizeof *in * n_values + sizeof(uint64_t) * (size_t)words);
    if (!in) return td__fail_memory(n->cx);
    td_value *out = in + j->n_primals + n->n_out;
    uint64_t *grad = (uint64_t *)(void *)(in + n_values);
    for (int i = 0; i < n->n_out; i++)
        if (g[i] && td__needs_grad(g[i])) td__set_add(grad, i);
    td_grad_order o = {f->missing, grad, words};
    uint8_t       fakes = n->cx->takes_fakes; /* compiling makes real tensors, too */
    if (fakes) n->cx->takes_fakes = TD_FAKES_INSIDE;
    td_plan *p = f->p->later.plan(f->p->later.env, &o, f->sizes);
    n->cx->takes_fakes = fakes;
    bool ok = p && check_plan(n, p) && find_reads(p) && take_inputs(n, p, g, in) &&
              run(n, p, g, in, out);
    for (int i = 0; ok && i < j->n_targets; i++)
        if (need[i] && out[i].kind == TD_K_TENSOR &&
            td__set_meets(j->targets[i].from, f->now, words))
            grads[i] = out[i].u.t;
    td__free(in);
    return ok;
}
