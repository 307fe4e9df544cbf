/* part.c -- the two partitioners. The default keeps what backward reads of forward;
 * min-cut weighs keeping against computing again, within a budget, and gives way to
 * the default where it would need more memory at once. */
#include "part/part_int.h"

#include <math.h>
#include <string.h>

td_part_opts td__part_defaults(void) {
    return (td_part_opts){.budget = 1,
                          .cse = true,
                          .recompute_views = true,
                          .ban_far_apart = true,
                          .ban_long_chains = true,
                          .ban_materialized = true,
                          .ban_reductions = true,
                          .free_params = true,
                          .keep_notes = true};
}

void td__halves_drop(td_halves *h) {
    if (!h) return;
    td__graph_drop(h->fwd);
    td__graph_drop(h->bwd);
    td__arena_free(&h->arena);
    td__free(h);
}

/* ---- joint graphs from text --------------------------------------------- */

bool td__joint_over(td_graph *g, td_joint *j) {
    *j = (td_joint){.cx = g->cx, .g = g};
    if (!td__graph_verify(g, TD_STAGE_JOINT)) return false;
    for (int i = 0; i < g->inputs.n; i++) {
        if (g->in_desc.v[i].kind == TD_D_TANGENT) j->n_tangents++;
        else if (j->n_tangents)
            return td__fail(g->cx, TD_E_ARG,
                            "joint graph @%.60s: input %d stands behind a tangent; a "
                            "constant must come in as an input before them",
                            g->name, i);
    }
    j->n_primals = g->inputs.n - j->n_tangents;
    while (j->n_fwd < g->outputs.n && g->out_desc.v[j->n_fwd].kind != TD_D_GRAD)
        j->n_fwd++;
    j->n_targets = g->outputs.n - j->n_fwd;
    return true;
}

/* ---- choices ------------------------------------------------------------ */

/* By placement: every value up to the last forward node, unless a checkpoint wants it
 * again, or it is a view. */
void td__part_keep_all(td_part *p) {
    int last = td__part_last_forward(p);
    p->all = true;
    for (int i = 0; i < p->n_nodes; i++) {
        const td_gnode *n = p->g->nodes.v[i];
        bool            keep = i <= last && !p->late[i] && !p->again[i] && !p->view[i];
        p->why[i] = p->firm[i];
        for (int k = 0; k < n->n_out; k++) p->saved[n->out[k]->id] = keep;
    }
}

static bool choose_cut(td_part *p) {
    p->all = false;
    return td__part_bans(p, td__part_usual_bans(p->o)) && td__part_cut(p);
}

/* ---- both --------------------------------------------------------------- */

bool td__part_measure(td_part *p, int64_t *peak) {
    td__part_walk(p);
    td__part_walk_forward(p);
    return td__part_peak(p, peak);
}

/* The cut, unless it needs more memory at once than keeping all does; then less than
 * that, where the budget asks for it. */
static bool choose_least(td_part *p, td_halves *said) {
    if (!choose_cut(p) || !td__part_measure(p, &said->peak)) return false;
    if (said->peak > said->peak_most) {
        said->fell_back = true;
        td__part_keep_all(p);
        if (!td__part_measure(p, &said->peak)) return false;
    }
    if (p->o->budget >= 1) return true;
    if (!td__part_budget(p, said->peak_most) || !td__part_measure(p, &said->peak))
        return false;
    said->fell_back = p->all;
    return true;
}

static bool choose(td_part *p, bool cut, td_halves *said) {
    td__part_keep_all(p);
    if (!td__part_measure(p, &said->peak)) return false;
    said->peak_most = said->peak;
    said->bytes_most = p->kept_bytes;
    return !cut || choose_least(p, said);
}

static td_halves *split(const td_joint *j, const td_part_opts *o, bool cut) {
    td_part   p;
    td_halves said = {0}, *h = NULL;
    bool      ok = td__part_open(&p, j, o, 0) && choose(&p, cut, &said);
    if (ok) h = td__part_extract(&p);
    td__part_close(&p);
    if (!h) return NULL;
    h->peak = said.peak;
    h->peak_most = said.peak_most;
    h->bytes_most = said.bytes_most;
    h->fell_back = said.fell_back;
    return h;
}

static bool check_opts(const td_joint *j, const td_part_opts *o) {
    if (o->budget >= 0 && o->budget <= 1) return true;
    return td__fail(j->cx, TD_E_ARG,
                    "partition: the memory budget is %g; give a number from 0 (keep "
                    "inputs only) to 1 (keep what makes backward fastest)",
                    o->budget);
}

td_halves *td__part_default(const td_joint *j, const td_part_opts *opts) {
    return check_opts(j, opts) ? split(j, opts, false) : NULL;
}

td_halves *td__part_mincut(const td_joint *j, const td_part_opts *opts) {
    return check_opts(j, opts) ? split(j, opts, true) : NULL;
}
