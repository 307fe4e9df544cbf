/* tags.c -- the decisions of checkpoint regions and effects, before costs are compared:
 * firm[] (must be saved) and must_recompute[]. */
#include "part/part_int.h"

/* Is its checkpoint policy to recompute? */
static bool wants_recompute(const td_gnode *n) {
    td_policy policy = TD_TAG_POLICY(n->tags);
    return policy == TD_PREFER_RECOMPUTE || policy == TD_MUST_RECOMPUTE;
}

/* Does it read an input that forward writes, directly or through views? */
static bool reads_written(const td_part *p, int i) {
    for (int k = p->read_at[i]; k < p->read_at[i + 1]; k++) {
        int root = p->root[p->reads[k]];
        if (p->maker[root] < 0 && p->written[root]) return true;
    }
    return false;
}

/* Marks the inputs that the forward graph or the epilogue writes. */
static void find_written(const td_part *p) {
    if (p->from >= 0) return; /* a step writes at its end */
    for (int i = 0; i < p->n_primals && p->j->primals; i++)
        p->written[i] = p->j->primals[i].written;
    for (int i = 0; i < p->n_nodes; i++) {
        const td_gnode  *n = p->g->nodes.v[i];
        const td_schema *s = &td__opinfo(n->op)->s;
        for (int k = 0; k < n->n_in && p->fw[i]; k++)
            if (s->in[k].write && n->in[k].kind == TD_G_VALUE)
                p->written[p->root[n->in[k].u.v->id]] = true;
    }
}

/* Only backward needs it, but it reads an input that is written by then: forward
 * computes it, and it is saved. */
static bool must_run_in_forward(const td_part *p, int i) {
    return !p->bwd_only[i] && !p->view[i] && reads_written(p, i);
}

/* The reason why node i must be saved; TD_REASON_FREE: none. */
static td_reason reason_firm(const td_part *p, int i) {
    const td_gnode *n = p->g->nodes.v[i];
    td_policy       policy = TD_TAG_POLICY(n->tags);
    if (td__gnode_has_effect(n)) return TD_REASON_EFFECT;
    if (td__opinfo(n->op)->writes || (!p->view[i] && reads_written(p, i)))
        return TD_REASON_EFFECT;
    if (policy == TD_MUST_SAVE || policy == TD_MUST_OFFLOAD) return TD_REASON_MUST_SAVE;
    if (policy == TD_PREFER_SAVE) return TD_REASON_PREFER_SAVE;
    return td__gnode_draws(n) && !wants_recompute(n) ? TD_REASON_RANDOM
                                                     : TD_REASON_FREE;
}

/* Saves value v; of a view, its base. _wrap and _inner compute nothing and are never
 * saved: the values they read are. */
static void save_value(td_part *p, int v, td_reason why) {
    int at = p->maker[v];
    if (at >= 0 && p->view[at]) at = p->maker[p->root[v]];
    if (at < 0 || p->firm[at] == TD_REASON_EFFECT) return;
    for (int k = p->read_at[at]; k < p->read_at[at + 1] && p->view[at]; k++)
        save_value(p, p->reads[k], why);
    if (p->view[at]) return;
    p->firm[at] = (uint8_t)why;
    p->must_recompute[at] = false;
}

/* A region's result that a later region reads is saved; otherwise recomputing one
 * region would recompute the one before it, and so on to the first. */
static void save_seams(td_part *p, int i) {
    const td_gnode *n = p->g->nodes.v[i];
    for (int k = 0; k < n->n_out; k++) {
        int v = n->out[k]->id;
        for (int u = p->user_at[v]; u < p->user_at[v + 1]; u++) {
            int by = p->users[u];
            if (p->must_recompute[by] &&
                TD_TAG_REGION(p->g->nodes.v[by]->tags) > TD_TAG_REGION(n->tags))
                save_value(p, v, TD_REASON_SEAM);
        }
    }
}

/* Applies checkpoint policies. A policy on a view is moved to its base; results of
 * one region that another region reads are saved (docs/partition.md, checkpoint
 * regions). */
void td__part_tags(td_part *p) {
    bool any = false;
    find_written(p);
    for (int i = 0; i < p->n_nodes; i++) {
        if (!p->fw[i]) {
            if (must_run_in_forward(p, i)) p->firm[i] = TD_REASON_EFFECT;
            continue;
        }
        p->firm[i] = (uint8_t)reason_firm(p, i);
        p->must_recompute[i] =
            p->firm[i] == TD_REASON_FREE && wants_recompute(p->g->nodes.v[i]);
        any |= p->g->nodes.v[i]->tags != 0;
    }
    for (int i = 0; i < p->n_nodes && any; i++) {
        bool policy =
            p->firm[i] == TD_REASON_MUST_SAVE || p->firm[i] == TD_REASON_PREFER_SAVE;
        if (!policy || !p->view[i]) continue;
        for (int k = 0; k < p->g->nodes.v[i]->n_out; k++)
            save_value(p, p->g->nodes.v[i]->out[k]->id, (td_reason)p->firm[i]);
        p->firm[i] = TD_REASON_FREE;
    }
    for (int i = 0; i < p->n_nodes && any; i++)
        if (p->must_recompute[i]) save_seams(p, i);
}
