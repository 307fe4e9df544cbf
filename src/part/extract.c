/* extract.c -- makes the forward and backward graphs of a partition. The forward
 * graph is a copy of the working graph without what it does not need. The backward
 * graph is the working graph itself, with saved values as inputs and its nodes in a
 * new order. */
#include "part/part_int.h"

#include <stdio.h>
#include <string.h>

/* The state of the extraction. */
typedef struct making {
    td_part   *p;
    td_halves *h;
    int32_t   *saved; /* the saved values, in the order of td_halves.saved */
    int        n;
    int32_t   *draw;  /* random forward nodes that are recomputed, as in `order` */
    td_gnode **note;  /* by node: saves the generator's state before it; or NULL */
    td_gval  **state; /* by node: the saved state; or NULL */
    int        n_draws;
    int64_t   *syms; /* symbolic sizes passed as integers */
    int        n_syms;
    int32_t   *order; /* nodes of the backward graph */
    int        n_order;
} making;

/* Renames the graph to "name_end". False after td__fail. */
static bool name_half(td_graph *g, const char *end) {
    const char *name = td__arena_printf(&g->arena, "%s_%s", g->name, end);
    if (!name) return td__fail_memory(g->cx);
    g->name = name;
    return true;
}

/* ---- saved values --------------------------------------------------------- */

static bool is_number(const td_part *p, int v) {
    const td_gval *x = p->maker[v] < 0 ? p->g->inputs.v[v] : NULL;
    return x && x->type && x->type->kind != TD_K_TENSOR;
}

/* Does the output become a tensor? A joint graph from text does not say. */
static bool is_made(const td_part *p, int out) {
    return p->j->fwd && p->j->fwd[out].made;
}

/* By value: 1 + the index of the forward output that it is; 0: none. Of several, the
 * one that becomes a tensor: the caller may write that, so its version is checked. NULL
 * after td__fail. */
static int *outputs_of(const making *m) {
    td_part *p = m->p;
    int     *out = td__part_alloc(p, (size_t)p->n_values, sizeof *out);
    for (int i = p->j->n_fwd - 1; out && i >= 0; i--) {
        const td_garg *a = &p->g->outputs.v[i];
        if (a->kind != TD_G_VALUE) continue;
        int *of = &out[a->u.v->id];
        if (!*of || is_made(p, i) || !is_made(p, *of - 1)) *of = i + 1;
    }
    return out;
}

/* A saved input must still have the elements that forward read. False after td__fail.
 */
static bool check_saved(const td_part *p, int v) {
    if (p->maker[v] >= 0 || !p->written[v]) return true;
    return td__fail(p->cx, TD_E_ARG,
                    "partition: backward reads input %d after forward wrote it; save a "
                    "clone made before the write instead",
                    v);
}

/* Lists tensors in graph order, then numbers. False after td__fail. */
static bool list_saved(making *m) {
    td_part *p = m->p;
    m->saved = td__part_alloc(p, (size_t)p->n_values, sizeof *m->saved);
    m->n_syms = td__part_symbols(p, &m->syms);
    if (!m->saved || m->n_syms < 0) return false;
    for (int v = 0; v < p->n_values; v++)
        if (p->passed[v] && !check_saved(p, v)) return false;
    for (int pass = 0; pass < 2; pass++)
        for (int v = 0; v < p->n_values; v++)
            if (p->passed[v] && is_number(p, v) == (pass == 1)) m->saved[m->n++] = v;
    return true;
}

/* The integer input that is the symbol; -1: none. */
static int input_of(const td_part *p, int64_t symbol) {
    for (int i = 0; i < p->n_primals; i++) {
        const td_gtype *l = p->g->inputs.v[i]->type;
        if (l && l->kind == TD_K_INT && l->offset == symbol) return i;
    }
    return -1;
}

/* Fills td_halves.saved: tensors, generator states, then symbolic sizes. False after
 * td__fail. */
static bool describe_saved(making *m) {
    td_halves *h = m->h;
    td_part   *p = m->p;
    int        next = p->j->n_fwd;
    int        tensors = m->n + m->n_draws;
    h->n_draws = m->n_draws;
    h->n_saved_syms = m->n_syms;
    h->n_saved = tensors + m->n_syms;
    h->saved = td__arena_zalloc(&h->arena, sizeof *h->saved * ((size_t)h->n_saved + 1));
    if (!h->saved) return td__fail_memory(p->cx);
    const int *out = outputs_of(m);
    if (!out) return false;
    for (int i = 0; i < m->n; i++) {
        int v = m->saved[i];
        if (p->maker[v] < 0) h->saved[i] = (td_saved_value){TD_SAVED_PRIMAL, v, 0};
        else if (out[v]) h->saved[i] = (td_saved_value){TD_SAVED_OUTPUT, out[v] - 1, 0};
        else h->saved[i] = (td_saved_value){TD_SAVED_FRESH, next++, 0};
        h->saved[i].bytes = p->bytes[v];
    }
    for (int i = m->n; i < tensors; i++)
        h->saved[i] = (td_saved_value){TD_SAVED_FRESH, next++, 16};
    for (int i = tensors; i < h->n_saved; i++) {
        int in = input_of(p, m->syms[i - tensors]);
        h->saved[i] = in >= 0 ? (td_saved_value){TD_SAVED_PRIMAL, in, 8}
                              : (td_saved_value){TD_SAVED_FRESH, next++, 8};
    }
    h->bytes_saved = p->saved_bytes;
    h->cost_recompute = p->recompute_cost;
    return true;
}

/* ---- the forward graph ---------------------------------------------------- */

/* The value with id v; ids of a node's results are consecutive. */
static td_gval *value_at(const td_part *p, int v) {
    if (p->maker[v] < 0) return p->g->inputs.v[v];
    const td_gnode *n = p->g->nodes.v[p->maker[v]];
    return n->out[v - n->out[0]->id];
}

/* Adds outputs for the saved values that are neither inputs nor outputs already. */
static bool add_saved_outputs(making *m, td_graph *g) {
    for (int i = 0; i < m->h->n_saved; i++) {
        td_garg a = {TD_G_SYM, 0, {0}};
        int     at = i - m->n;
        if (m->h->saved[i].from != TD_SAVED_FRESH) continue;
        if (i < m->n) a = td__garg_value(value_at(m->p, m->saved[i]));
        else if (at < m->n_draws) a = td__garg_value(m->note[m->draw[at]]->out[0]);
        else a.u.i = m->syms[at - m->n_draws];
        if (!td__graph_output(g, a, (td_desc){TD_D_SAVED, i, NULL})) return false;
    }
    return true;
}

/* Copies the working graph, with the nodes that save generator states in place. */
static bool clone_with_states(making *m) {
    td_part   *p = m->p;
    td_graph  *g = p->g;
    td_gnode **was = td__part_take_nodes(p);
    bool       ok = was != NULL;
    if (!ok) return false;
    for (int i = 0; i < p->n_nodes && ok; i++)
        ok = (!m->note[i] || td__vec_push(&g->nodes, m->note[i])) &&
             td__vec_push(&g->nodes, was[i]);
    if (!ok) td__fail_memory(p->cx);
    m->h->fwd = ok ? td__graph_clone(g) : NULL;
    if (p->n_nodes) memcpy(g->nodes.v, was, sizeof *was * (size_t)p->n_nodes);
    g->nodes.n = p->n_nodes;
    return m->h->fwd != NULL;
}

/* Makes the working graph look like the forward graph for the time of a copy, then
 * restores it without the forward outputs. False after td__fail. */
static bool copy_forward(making *m) {
    td_part  *p = m->p;
    td_graph *g = p->g;
    int       n_in = g->inputs.n, n_out = g->outputs.n - p->j->n_fwd;
    td_garg  *grads = td__part_alloc(p, (size_t)n_out, sizeof *grads);
    td_desc  *descs = td__part_alloc(p, (size_t)n_out, sizeof *descs);
    if (!grads || !descs) return false;
    for (int i = 0; i < n_out; i++) {
        grads[i] = g->outputs.v[p->j->n_fwd + i];
        descs[i] = g->out_desc.v[p->j->n_fwd + i];
    }
    g->outputs.n = g->out_desc.n = p->j->n_fwd;
    g->inputs.n = g->in_desc.n = p->n_primals;
    for (int i = 0; i < p->n_nodes; i++) g->nodes.v[i]->dead = !p->in_fwd[i];
    bool ok = add_saved_outputs(m, g) && clone_with_states(m);
    for (int i = 0; i < p->n_nodes; i++) g->nodes.v[i]->dead = false;
    g->inputs.n = g->in_desc.n = n_in;
    g->outputs.n = g->out_desc.n = 0;
    for (int i = 0; i < n_out && ok; i++) ok = td__graph_output(g, grads[i], descs[i]);
    return ok;
}

static bool make_forward(making *m) {
    return copy_forward(m) && name_half(m->h->fwd, "forward");
}

/* ---- the backward graph --------------------------------------------------- */

/* Makes a saved result an input. If its node is recomputed for another result, the node
 * gets an unread value in its place. */
static bool detach_result(td_graph *g, td_gval *v) {
    if (!v->node) return true;
    td_gval *other = td__arena_zalloc(&g->arena, sizeof *other);
    if (!other) return td__fail_memory(g->cx);
    *other = (td_gval){.node = v->node, .nr = v->nr, .type = v->type};
    v->node->out[v->nr] = other;
    v->node = NULL;
    return true;
}

static bool add_input(td_graph *g, td_gval *v, td_desc d) {
    if (!td__vec_push(&g->inputs, v) || !td__vec_push(&g->in_desc, d))
        return td__fail_memory(g->cx);
    return true;
}

/* A saved size is an integer input whose type binds the symbol. */
static bool add_symbol(td_graph *g, int64_t symbol, int i) {
    td_gtype        l = {.kind = TD_K_INT, .storage = -1, .offset = symbol};
    const td_gtype *type = td__graph_type_of(g, l);
    return type && td__graph_input(g, NULL, type, (td_desc){TD_D_SAVED, i, NULL});
}

/* Replaces the inputs: saved tensors, generator states, symbolic sizes, then
 * tangents. */
static bool make_inputs(making *m) {
    td_part  *p = m->p;
    td_graph *g = p->g;
    int       n_tangents = p->j->n_tangents;
    td_gval **in = td__part_alloc(p, (size_t)(m->n + n_tangents), sizeof *in);
    if (!in) return false;
    for (int i = 0; i < m->n; i++) in[i] = value_at(p, m->saved[i]);
    for (int i = 0; i < n_tangents; i++) in[m->n + i] = g->inputs.v[p->n_primals + i];
    td_desc *tangent = td__part_alloc(p, (size_t)n_tangents, sizeof *tangent);
    if (!tangent) return false;
    for (int i = 0; i < n_tangents; i++) tangent[i] = g->in_desc.v[p->n_primals + i];
    g->inputs.n = g->in_desc.n = 0;
    for (int i = 0; i < m->n; i++)
        if (!detach_result(g, in[i]) ||
            !add_input(g, in[i], (td_desc){TD_D_SAVED, i, NULL}))
            return false;
    for (int i = 0; i < m->n_draws; i++) {
        td_gval *v = m->note[m->draw[i]]->out[0];
        v->node = NULL;
        if (!add_input(g, v, (td_desc){TD_D_SAVED, m->n + i, NULL})) return false;
    }
    for (int i = 0; i < m->n_syms; i++)
        if (!add_symbol(g, m->syms[i], m->n + m->n_draws + i)) return false;
    for (int i = 0; i < n_tangents; i++)
        if (!add_input(g, in[m->n + i], tangent[i])) return false;
    return true;
}

/* Computes m->order. False after td__fail. */
static bool order_nodes(making *m) {
    td_part *p = m->p;
    m->order = td__part_alloc(p, (size_t)p->n_nodes, sizeof *m->order);
    m->n_order = m->order ? td__part_order(p, m->order) : -1;
    return m->n_order >= 0;
}

/* Finds random forward nodes that are recomputed, and makes the nodes that save the
 * generator's state for them. False after td__fail. */
static bool find_draws(making *m) {
    td_part  *p = m->p;
    td_graph *g = p->g;
    m->draw = td__part_alloc(p, (size_t)m->n_order, sizeof *m->draw);
    m->note = td__part_alloc(p, (size_t)p->n_nodes, sizeof *m->note);
    m->state = td__part_alloc(p, (size_t)p->n_nodes, sizeof *m->state);
    if (!m->draw || !m->note || !m->state) return false;
    for (int i = 0; i < m->n_order; i++) {
        int at = m->order[i];
        if (!p->fw[at] || !td__gnode_draws(g->nodes.v[at])) continue;
        if (!(m->note[at] = td__rng_save_node(g))) return false;
        m->state[at] = m->note[at]->out[0];
        m->draw[m->n_draws++] = at;
    }
    return true;
}

/* Puts the backward nodes in order; a recomputed random node is wrapped so that it
 * draws from the saved state. */
static bool set_nodes(making *m) {
    td_graph  *g = m->p->g;
    int        n = 0;
    td_gnode **v = td__part_alloc(m->p, 3 * (size_t)m->n_order, sizeof *v);
    if (!v) return false;
    for (int i = 0; i < m->n_order; i++) {
        int      at = m->order[i];
        td_gval *state = m->state[at];
        v[n++] = g->nodes.v[at];
        if (state && !td__rng_wrap(g, g->nodes.v[at], state, &v[n - 1])) return false;
        if (state) n += 2;
    }
    g->nodes.n = 0;
    for (int i = 0; i < n; i++)
        if (!td__vec_push(&g->nodes, v[i])) return td__fail_memory(g->cx);
    return true;
}

static void drop_consts(td_graph *g) { /* they are inputs now */
    for (int i = 0; i < g->consts.n; i++) td__unref(g->consts.v[i]);
    g->consts.n = 0;
}

/* Turns the working copy itself into the backward half, so that it is not copied again;
 * p no longer owns it. */
static bool make_backward(making *m) {
    td_graph *g = m->p->g;
    if (!name_half(g, "backward") || !make_inputs(m) || !set_nodes(m)) return false;
    drop_consts(g);
    td__graph_pack(g);
    m->h->bwd = g;
    m->p->g = NULL;
    return true;
}

/* Makes both graphs; without tangents and gradients, the forward graph only. */
static bool make_halves(making *m) {
    td_part *p = m->p;
    bool     any = p->j->n_tangents > 0 || p->g->outputs.n > p->j->n_fwd;
    if (!list_saved(m) || !order_nodes(m) || !find_draws(m) || !describe_saved(m))
        return false;
    if (p->o->make_notes && !td__part_notes(p, m->h)) return false;
    if (!make_forward(m) || !td__graph_verify(m->h->fwd, TD_STAGE_HALF)) return false;
    if (!any) return true;
    return make_backward(m) && td__graph_verify(m->h->bwd, TD_STAGE_HALF);
}

/* Builds both halves from p->saved. The working copy is used up. */
td_halves *td__part_extract(td_part *p) {
    td_halves *h = td__zalloc(sizeof *h);
    if (!h) return td__fail_memory(p->cx), NULL;
    h->cx = p->cx;
    h->n_fwd = p->j->n_fwd;
    making m = {.p = p, .h = h};
    if (make_halves(&m)) return h;
    td__halves_drop(h);
    return NULL;
}

/* ---- a second backward half for an existing forward half ------------------ */

static bool fail_unsaved(const td_part *p, const char *what) {
    return td__fail(p->cx, TD_E_UNSUPPORTED,
                    "@%.60s: a backward that starts at some of the results alone needs "
                    "%s, which the forward code did not save; call td_backward once "
                    "for all results, or compile a function that returns only these",
                    p->j->g->name, what);
}

/* Finds the states that forward saved for nodes that draw, which repeat their draws. */
static bool find_states(making *m) {
    td_part *p = m->p;
    m->state = td__part_alloc(p, (size_t)p->n_nodes, sizeof *m->state);
    if (!m->state) return false;
    for (int i = 0; i < m->n_order; i++) {
        int at = m->order[i];
        if (p->bwd_only[at] || !td__gnode_draws(p->g->nodes.v[at])) continue;
        const td_gnode *note = at ? p->g->nodes.v[at - 1] : NULL;
        if (!note || note->op != TD_OP_random_state || !p->saved[note->out[0]->id])
            return fail_unsaved(p, "random numbers");
        m->state[at] = note->out[0];
    }
    return true;
}

/* The half takes all values that h saves, in their order, whether it reads them or
 * not. */
static bool take_kept(making *m, const td_halves *h) {
    td_part        *p = m->p;
    const td_graph *g = p->g;
    m->n = h->n_saved - h->n_saved_syms;
    m->n_syms = h->n_saved_syms;
    m->saved = td__part_alloc(p, (size_t)m->n, sizeof *m->saved);
    m->syms = td__part_alloc(p, (size_t)m->n_syms, sizeof *m->syms);
    if (!m->saved || !m->syms) return false;
    for (int i = 0; i < m->n; i++) {
        bool primal = h->saved[i].from == TD_SAVED_PRIMAL;
        m->saved[i] =
            primal ? h->saved[i].index : g->outputs.v[h->saved[i].index].u.v->id;
        p->saved[m->saved[i]] = true;
    }
    for (int i = 0; i < m->n_syms; i++) {
        const td_gdim *d =
            td__gdim_at(h->bwd, h->bwd->inputs.v[m->n + i]->type->offset);
        m->syms[i] = td__gdim_symbol(p->g, d->letter, d->nr);
    }
    return td_ok(p->cx);
}

/* Fails if the half reads a forward value that h does not save. */
static bool check_reads(making *m) {
    td_part *p = m->p;
    int64_t *syms;
    for (int v = 0; v < p->n_primals; v++)
        if (p->passed[v] && !p->saved[v]) return fail_unsaved(p, "an argument");
    for (int i = 0; i < m->n; i++)
        p->passed[m->saved[i]] = true; /* symbols are bound by them */
    int n = td__part_symbols(p, &syms);
    for (int i = 0; i < n; i++) {
        int k = 0;
        while (k < m->n_syms && m->syms[k] != syms[i]) k++;
        if (k == m->n_syms) return fail_unsaved(p, "a size");
    }
    return n >= 0;
}

/* Makes only the backward half, for the saved values of h: for another set of missing
 * tangents. Fails if it needs a value that h does not save. */
td_graph *td__part_extract_backward(td_part *p, const td_halves *h) {
    td_halves to = {.cx = p->cx};
    making    m = {.p = p, .h = &to};
    td_graph *g = p->g;
    if (!take_kept(&m, h)) return NULL;
    td__part_walk(p);
    if (!check_reads(&m) || !order_nodes(&m) || !find_states(&m)) return NULL;
    int first = p->j->n_fwd, n = g->outputs.n - first;
    memmove(g->outputs.v, g->outputs.v + first, sizeof *g->outputs.v * (size_t)n);
    memmove(g->out_desc.v, g->out_desc.v + first, sizeof *g->out_desc.v * (size_t)n);
    g->outputs.n = g->out_desc.n = n;
    if (make_backward(&m) && td__graph_verify(to.bwd, TD_STAGE_HALF)) return to.bwd;
    td__graph_drop(to.bwd);
    return NULL;
}
