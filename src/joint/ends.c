/* ends.c -- what a program leaves, in values alone: for each input what its elements,
 * or its geometry, are in the end, and for each result a forward output. Who runs the
 * graph without its epilogue, as exports do, works with these. */
#include "joint/joint_int.h"

static bool refuse(const td_joint_run *r, int i, const char *what) {
    return td__fail(r->cx, TD_E_UNSUPPORTED, "@%.60s: input %d %s", r->program->name, i,
                    what);
}

/* ---- places ------------------------------------------------------------- */

static const td_storage *came_in(const td_joint_run *r, int i) {
    return r->f.in.v[r->nr[i]].st;
}

static bool stays(const td_joint_run *r, int i) {
    td_geom now = td__geom_of(r->outer[i]);
    return came_in(r, i) == r->outer[i]->st && td__geom_same(&now, &r->geom[i]);
}

/* Does the geometry at the end show all the elements the input came with? */
static bool shows_all(const td_geom *was, const td_geom *end) {
    return td__geom_covers(end, was) &&
           td__dim_eq(td__numel(was->rank, was->size), td__numel(end->rank, end->size));
}

/* Is there another input, put back itself, that shows all this one shows? Of those that
 * show the same it is the first. */
static bool is_covered(const td_joint_run *r, int i) {
    for (int k = 0; k < r->to->n_primals; k++) {
        const td_tensor *t = r->outer[k];
        if (!t || t == r->outer[i] || came_in(r, k) != came_in(r, i) || !stays(r, k))
            continue;
        bool first = k < i || !td__geom_covers_bytes(&r->geom[i], &r->geom[k]);
        if (first && td__geom_covers_bytes(&r->geom[k], &r->geom[i])) return true;
    }
    return false;
}

/* ---- inputs ------------------------------------------------------------- */

/* A forward output that the input is written with, and that a tangent comes in for. */
static int differentiated(const td_joint_run *r, int i) {
    const td_joint *j = r->to;
    for (int k = j->g->outputs.n - 1; k >= 0; k--) {
        const td_desc *d = &j->g->out_desc.v[k];
        if (d->kind == TD_D_UPDATE && d->index == i && j->fwd[k].tangent >= 0) return k;
    }
    return -1;
}

/* The value as a forward output: that which the epilogue writes, if it is the same. */
static bool give(td_joint_run *r, int i, td_tensor *value, int *out) {
    td_joint *j = r->to;
    td_gval  *v = value ? td__record_value(&r->rec, &value, "an update") : NULL;
    if (!v) return false;
    for (int k = 0; k < j->g->outputs.n; k++) {
        const td_desc *d = &j->g->out_desc.v[k];
        bool own = d->kind == TD_D_UPDATE ? d->index == i : d->kind == TD_D_BASE;
        if (own && j->g->outputs.v[k].u.v == v) return *out = k, true;
    }
    *out = j->g->outputs.n;
    j->fwd[*out] = TD_FWD_UNREAD;
    r->values[*out] = value;
    return td__graph_output(j->g, td__garg_value(v), (td_desc){TD_D_UPDATE, i, NULL});
}

/* Elements go back where they came from, or into the geometry the input ends with,
 * where that shows them all, or both. */
static bool give_elements(td_joint_run *r, int i, td_end *e, bool moved) {
    bool data = td__func_writes(&r->f, r->nr[i]) > 0;
    bool one = e->meta && !moved && shows_all(&r->geom[i], &e->geom);
    if (r->write[i]) return true; /* by the graph */
    if (data && !e->meta && differentiated(r, i) < 0 && is_covered(r, i)) return true;
    if (data && !one && !give(r, i, td__func_given_value(&r->f, r->nr[i]), &e->out))
        return false;
    return !e->meta || !(data || moved) ||
           give(r, i, td__func_value(&r->f, r->outer[i]), &e->now);
}

/* Has it begun or ceased to require grad, by a word of the program's? */
static bool is_flagged(const td_joint_run *r, int i) {
    td_tensor *t = r->outer[i];
    bool       leaf = t->flags & TD_TF_NEEDS_GRAD && !td__has_node(t);
    bool       other = td__needs_grad(t) != td__needs_grad(r->real[i]) ||
                 (leaf && !td__joint_is_leaf(r->real[i]));
    for (int k = 0; other && k < r->log.all.n; k++)
        if (r->log.all.v[k].kind == TD_EV_FLAG && r->log.all.v[k].t == t) return true;
    return false;
}

/* The state of input i after the program: moved to another storage, other geometry,
 * changed flags, new elements. A tensor that is passed twice has one end, at its first
 * index. */
static bool find_end(td_joint_run *r, int i) {
    td_end     *e = &r->opts.ends->in[i];
    td_storage *st = r->outer[i]->st;
    bool        moved = st != came_in(r, i);
    for (int k = 0; k < i; k++)
        if (r->outer[k] == r->outer[i]) return true; /* passed twice */
    if (td__func_writes_outside(&r->f, r->nr[i]))
        return refuse(r, i,
                      "lies in a storage in which elements are written that no input "
                      "shows; pass the base as an input");
    if (!td__geom_copy(r->cx, &r->to->arena, &e->geom, r->outer[i])) return false;
    e->flagged = is_flagged(r, i);
    e->meta = moved || !td__geom_same(&r->geom[i], &e->geom);
    for (int k = 0; moved && k < r->to->n_primals; k++)
        e->shares |= r->outer[k] && came_in(r, k) == st;
    if (!give_elements(r, i, e, moved)) return false;
    td__geom_keep(r->to->g, &e->geom);
    return true;
}

/* ---- results ------------------------------------------------------------ */

/* A result that is a number: a constant of the graph, or a symbolic size. */
static bool give_number(td_joint_run *r, int i, int *out) {
    td_joint *j = r->to;
    td_value  v = r->out[i];
    td_garg   a = {0};
    if (v.kind == TD_K_FLOAT) {
        a.kind = TD_G_FLOAT;
        a.u.f = v.u.f;
    } else if (v.kind == TD_K_BOOL || v.kind == TD_K_INT) {
        bool sym = v.kind == TD_K_INT && td__dim_is_sym(v.u.i) && td__dim_tracing();
        a.kind = v.kind == TD_K_BOOL ? TD_G_BOOL : sym ? TD_G_SYM : TD_G_INT;
        a.u.i = sym ? td__graph_dim(j->g, v.u.i) : v.u.i;
    }
    *out = j->g->outputs.n;
    j->fwd[*out] = TD_FWD_UNREAD;
    r->numbers[*out] = v.kind == TD_K_INT ? v.u.i : 0;
    return td__graph_output(j->g, a, r->program->out_desc.v[i]);
}

/* -1 for a tensor that is no new one. */
static bool find_result(td_joint_run *r, int i) {
    int *out = &r->opts.ends->out[i];
    *out = -1;
    if (r->out[i].kind != TD_K_TENSOR || !r->out[i].u.t) return give_number(r, i, out);
    for (int k = 0; k < r->log.all.n; k++) {
        const td_event *e = &r->log.all.v[k];
        if (e->kind == TD_EV_MADE && e->kept && e->t == r->out[i].u.t) *out = e->out_nr;
    }
    return true;
}

/* Only exports need ends (opts.ends): they have no epilogue, so that the final state of
 * inputs becomes outputs. */
bool td__joint_ends(td_joint_run *r) {
    td_joint *j = r->to;
    td_arena *a = &j->arena;
    size_t    n = (size_t)j->n_primals + 1, m = (size_t)j->n_results + 1;
    td_ends  *to = r->opts.ends;
    if (!to) return true;
    to->in = td__arena_zalloc(a, sizeof *to->in * n);
    to->out = td__arena_zalloc(a, sizeof *to->out * m);
    if (!to->in || !to->out) return td__fail_memory(r->cx);
    for (int i = 0; i < j->n_primals; i++) {
        to->in[i].out = to->in[i].now = -1;
        if (r->outer[i] && !find_end(r, i)) return false;
    }
    for (int i = 0; i < j->n_results; i++)
        if (!find_result(r, i)) return false;
    return true;
}
