/* part.c -- the two partitioners. The default saves everything that backward reads.
 * Min-cut weighs saving against recomputing, within a budget, and falls back to the
 * default if its peak memory would be higher. */
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
                          .make_notes = true};
}

void td__halves_drop(td_halves *h) {
    if (!h) return;
    td__graph_drop(h->fwd);
    td__graph_drop(h->bwd);
    td__graph_drop(h->pack);
    td__graph_drop(h->unpack);
    td__halves_drop(h->plain);
    td__arena_free(&h->arena);
    td__free(h);
}

/* ---- joint graphs from text --------------------------------------------- */

/* See part.h: counts tangents and gradients by descriptor. */
bool td__joint_over(td_graph *g, td_joint *j) {
    *j = (td_joint){.cx = g->cx, .g = g};
    if (!td__graph_verify(g, TD_STAGE_JOINT)) return false;
    for (int i = 0; i < g->inputs.n; i++) {
        if (g->in_desc.v[i].kind == TD_D_TANGENT) j->n_tangents++;
        else if (j->n_tangents)
            return td__fail(g->cx, TD_E_ARG,
                            "joint graph @%.60s: input %d follows a tangent; tangents "
                            "must be the last inputs. Pass a constant as an input "
                            "before them",
                            g->name, i);
    }
    j->n_primals = g->inputs.n - j->n_tangents;
    while (j->n_fwd < g->outputs.n && g->out_desc.v[j->n_fwd].kind != TD_D_GRAD)
        j->n_fwd++;
    j->n_targets = g->outputs.n - j->n_fwd;
    return true;
}

/* ---- choices ------------------------------------------------------------ */

/* Saves every value up to the last forward node, except views and nodes that a
 * checkpoint policy recomputes. */
void td__part_save_all(td_part *p) {
    int last = td__part_last_forward(p);
    p->all = true;
    for (int i = 0; i < p->n_nodes; i++) {
        const td_gnode *n = p->g->nodes.v[i];
        bool            keep =
            i <= last && !p->bwd_only[i] && !p->must_recompute[i] && !p->view[i];
        p->reason[i] = p->firm[i];
        for (int k = 0; k < n->n_out; k++) p->saved[n->out[k]->id] = keep;
    }
}

/* p->saved by min-cut. False after td__fail. */
static bool choose_cut(td_part *p) {
    p->all = false;
    return td__part_bans(p, td__part_usual_bans(p->o)) && td__part_cut(p);
}

/* ---- both partitioners ---------------------------------------------------- */

/* The peak memory if p->saved is saved. */
bool td__part_measure(td_part *p, int64_t *peak) {
    td__part_walk(p);
    td__part_walk_forward(p);
    return td__part_peak(p, peak);
}

/* The min-cut, unless its peak is higher than that of saving everything; then, with a
 * budget below 1, a candidate that saves less. */
static bool choose_least(td_part *p, td_halves *report) {
    if (!choose_cut(p) || !td__part_measure(p, &report->peak)) return false;
    if (report->peak > report->peak_most) {
        report->fell_back = true;
        td__part_save_all(p);
        if (!td__part_measure(p, &report->peak)) return false;
    }
    if (p->o->budget >= 1) return true;
    if (!td__part_budget(p, report->peak_most) || !td__part_measure(p, &report->peak))
        return false;
    report->fell_back = p->all;
    return true;
}

/* Chooses p->saved; `report` gets peaks and bytes. False after td__fail. */
static bool choose(td_part *p, bool cut, td_halves *report) {
    td__part_save_all(p);
    if (!td__part_measure(p, &report->peak)) return false;
    report->peak_most = report->peak;
    report->bytes_most = p->saved_bytes;
    return !cut || choose_least(p, report);
}

/* Opens the joint graph, chooses and extracts. NULL after td__fail. */
static td_halves *split(const td_joint *j, const td_part_opts *o, bool cut) {
    td_part   p;
    td_halves report = {0}, *h = NULL;
    bool      ok = td__part_open(&p, j, o, 0) && choose(&p, cut, &report);
    if (ok) h = td__part_extract(&p);
    td__part_close(&p);
    if (!h) return NULL;
    h->peak = report.peak;
    h->peak_most = report.peak_most;
    h->bytes_most = report.bytes_most;
    h->fell_back = report.fell_back;
    return h;
}

static bool check_opts(const td_joint *j, const td_part_opts *o) {
    if (o->budget >= 0 && o->budget <= 1) return true;
    return td__fail(
        j->cx, TD_E_ARG,
        "partition: the memory budget is %g; it must be from 0 (save inputs "
        "only) to 1 (save what makes backward fastest)",
        o->budget);
}

td_halves *td__part_default(const td_joint *j, const td_part_opts *opts) {
    return check_opts(j, opts) ? split(j, opts, false) : NULL;
}

td_halves *td__part_mincut(const td_joint *j, const td_part_opts *opts) {
    return check_opts(j, opts) ? split(j, opts, true) : NULL;
}
