/* dce.c -- dead code: nodes go when nobody reads their results. Effects stay: writes,
 * and random draws too, for they move the generator on. A region without nodes goes
 * with them. */
#include "graph/graph_int.h"

static void mark_live(void *env, td_gval *v) { ((bool *)env)[v->id] = true; }

static bool is_live(const td_gnode *n, const bool *live) {
    if (td__gnode_is_fixed(n)) return true;
    for (int i = 0; i < n->n_out; i++)
        if (live[n->out[i]->id]) return true;
    return false;
}

/* enter ... leave with nothing living between them, inner ones first. */
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

bool td__graph_dce(td_graph *g) {
    td_arena room = {0};
    bool    *live = td__pass_room(g, &room, (size_t)g->n_values, sizeof *live);
    int32_t *open = td__pass_room(g, &room, (size_t)g->nodes.n, sizeof *open);
    if (live && open) {
        for (int i = 0; i < g->outputs.n; i++)
            td__garg_each(&g->outputs.v[i], mark_live, live);
        for (int i = g->nodes.n - 1; i >= 0; i--) {
            td_gnode *n = g->nodes.v[i];
            if (n->dead) continue;
            n->dead = !is_live(n, live);
            for (int k = 0; k < n->n_in && !n->dead; k++)
                td__garg_each(&n->in[k], mark_live, live);
        }
        drop_empty_regions(g, open);
        td__graph_pack(g);
    }
    td__arena_free(&room);
    return live && open;
}
