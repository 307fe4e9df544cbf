/* dce.c -- dead code elimination. Removes nodes whose results nothing reads,
 * unless they have an effect: writes, random draws (they advance the
 * generator), ops that eager fails at for certain values, reads of stale views.
 * Empty regions and unused consts are removed too, and nested graphs are cleaned. */
#include "graph/graph_int.h"

static void mark_live(void *env, td_gval *v) { ((bool *)env)[v->id] = true; }

/* Values written so far, in program order, to find reads of stale views. If the storage
 * of an input or an output was written through another value, or its flags changed,
 * then reading it gives it the grad_fn of its base, which is observable afterwards. */
typedef struct stale_reads {
    TD_VEC(const td_gval *) written;
    const bool *output; /* by value id: it is an output */
    bool        found;  /* the node at hand has such a read */
    bool        failed;
} stale_reads;

static void note_write(void *env, td_gval *v) {
    stale_reads *s = env;
    if (v->type && v->type->storage >= 0 && !td__vec_push(&s->written, v))
        s->failed = true;
}

static void find_stale(void *env, td_gval *v) {
    stale_reads *s = env;
    if ((v->node && !s->output[v->id]) || !v->type) return;
    for (int i = 0; i < s->written.n && !s->found; i++)
        s->found =
            s->written.v[i] != v && s->written.v[i]->type->storage == v->type->storage;
}

/* Sets stays[i] for each node that reads a stale view. */
static bool mark_stale_reads(td_graph *g, const bool *output, bool *stays) {
    stale_reads s = {.output = output};
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *n = g->nodes.v[i];
        if (n->dead || n->kind != TD_N_OP) continue;
        s.found = false;
        for (int k = 0; k < n->n_in; k++) td__garg_each(&n->in[k], find_stale, &s);
        stays[i] = s.found;
        const td_schema *schema = &td__opinfo(n->op)->s;
        for (int k = 0; k < n->n_in; k++)
            if (schema->in[k].write) td__garg_each(&n->in[k], note_write, &s);
    }
    td__vec_free(&s.written);
    return !s.failed || td__fail_memory(g->cx);
}

static bool is_live(const td_gnode *n, const bool *live) {
    if (td__gnode_stays(n)) return true;
    for (int i = 0; i < n->n_out; i++)
        if (live[n->out[i]->id]) return true;
    return false;
}

/* Removes regions without live nodes, inner ones first. open[] is a stack of
 * region begins; -1: the region has a live node. */
static void drop_empty_regions(td_graph *g, int32_t *open) {
    int depth = 0;
    for (int i = 0; i < g->nodes.n; i++) {
        td_gnode *n = g->nodes.v[i];
        if (n->dead) continue;
        if (n->kind == TD_N_ENTER) open[depth++] = i;
        else if (n->kind == TD_N_OP)
            for (int k = depth - 1; k >= 0 && open[k] >= 0; k--) open[k] = -1;
        else if (depth > 0 && open[--depth] >= 0) {
            g->nodes.v[open[depth]]->dead = true;
            n->dead = true;
        }
    }
}

/* Does the descriptor's index refer to an input? */
static bool is_about_input(const td_graph *g, const td_desc *d) {
    return (d->kind == TD_D_UPDATE || d->kind == TD_D_META_UPDATE ||
            d->kind == TD_D_OWN_GRAD) &&
           d->index >= 0 && d->index < g->inputs.n;
}

/* Updates all references to input `from`, which becomes input `to`. */
static void move_input(td_graph *g, int from, int to) {
    for (int i = 0; i < g->out_desc.n && from != to; i++)
        if (is_about_input(g, &g->out_desc.v[i]) && g->out_desc.v[i].index == from)
            g->out_desc.v[i].index = to;
    for (int i = from + 1; i < g->in_desc.n && from != to; i++)
        if (is_about_input(g, &g->in_desc.v[i]) && g->in_desc.v[i].index == from)
            g->in_desc.v[i].index = to;
    for (int k = 0; k < TD_NOTED && from != to; k++)
        for (int i = 0; i < g->noted[k].n; i++)
            if (g->noted[k].v[i] == from) g->noted[k].v[i] = to;
}

/* Marks inputs that descriptors and the lists of inputs refer to as live. */
static void mark_meant(td_graph *g, bool *live) {
    for (int i = 0; i < g->out_desc.n; i++)
        if (is_about_input(g, &g->out_desc.v[i]))
            live[g->inputs.v[g->out_desc.v[i].index]->id] = true;
    for (int i = 0; i < g->in_desc.n; i++)
        if (is_about_input(g, &g->in_desc.v[i]))
            live[g->inputs.v[g->in_desc.v[i].index]->id] = true;
    for (int k = 0; k < TD_NOTED; k++)
        for (int i = 0; i < g->noted[k].n; i++)
            live[g->inputs.v[g->noted[k].v[i]]->id] = true;
}

/* Removes consts that nothing reads: the graph owns them and no caller passes
 * them. The remaining inputs and tensors move up; place[i] is 1 + the new index
 * of const i, 0: removed. */
static void drop_consts(td_graph *g, bool *live, int32_t *place) {
    int kept = 0, n = g->inputs.n, consts = 0;
    mark_meant(g, live);
    for (int i = 0; i < n; i++) {
        const td_desc *d = &g->in_desc.v[i];
        if (d->kind != TD_D_CONST || d->index < 0 || d->index >= g->consts.n) continue;
        bool goes = td__is_const_input(g, i) && !live[g->inputs.v[i]->id];
        if (!goes) place[d->index] = 1;
    }
    for (int i = 0; i < g->consts.n; i++) {
        td_tensor *t = g->consts.v[i];
        if (place[i]) g->consts.v[consts] = t, place[i] = ++consts;
        else td__unref(t);
    }
    for (int i = 0; i < n; i++) {
        td_desc *d = &g->in_desc.v[i];
        if (d->kind == TD_D_CONST && d->index >= 0 && d->index < g->consts.n) {
            if (!place[d->index]) continue;
            d->index = place[d->index] - 1;
        }
        move_input(g, i, kept);
        g->inputs.v[kept] = g->inputs.v[i];
        g->in_desc.v[kept++] = *d;
    }
    g->inputs.n = g->in_desc.n = kept;
    g->consts.n = consts;
}

/* Marks backwards from the outputs and from nodes with effects. Ops that may fail
 * because of values are effects too: eager would fail there. Empty regions and unread
 * constants go with them, and nested graphs are cleaned in turn. */
bool td__graph_dce(td_graph *g) {
    td_arena scratch = {0};
    bool    *live = td__pass_alloc(g, &scratch, (size_t)g->n_values, sizeof *live);
    int32_t *open = td__pass_alloc(g, &scratch, (size_t)g->nodes.n, sizeof *open);
    int32_t *place = td__pass_alloc(g, &scratch, (size_t)g->consts.n, sizeof *place);
    bool    *stays = td__pass_alloc(g, &scratch, (size_t)g->nodes.n, sizeof *stays);
    bool     ok = live && open && place && stays;
    for (int i = 0; ok && i < g->outputs.n; i++)
        td__garg_each(&g->outputs.v[i], mark_live, live);
    ok = ok && mark_stale_reads(g, live, stays);
    if (ok) {
        for (int i = g->nodes.n - 1; i >= 0; i--) {
            td_gnode *n = g->nodes.v[i];
            if (n->dead) continue;
            n->dead = !stays[i] && !is_live(n, live);
            for (int k = 0; k < n->n_in && !n->dead; k++)
                td__garg_each(&n->in[k], mark_live, live);
        }
        drop_empty_regions(g, open);
        drop_consts(g, live, place);
        td__graph_pack(g);
    }
    td__arena_free(&scratch);
    for (int i = 0; ok && i < g->nested.n; i++) ok = td__graph_dce(g->nested.v[i]);
    return ok;
}
