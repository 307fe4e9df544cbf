/* tags.c -- what checkpoint regions and effects settle before anything is weighed:
 * firm[] (never done twice) and again[] (done twice, as a region asks). */
#include "part/part_int.h"

static bool wants_again(const td_gnode *n) {
    td_policy policy = TD_TAG_POLICY(n->tags);
    return policy == TD_PREFER_RECOMPUTE || policy == TD_MUST_RECOMPUTE;
}

/* Reads an input that is written, itself or through views. */
static bool reads_written(const td_part *p, int i) {
    for (int k = p->read_at[i]; k < p->read_at[i + 1]; k++) {
        int root = p->root[p->reads[k]];
        if (p->maker[root] < 0 && p->written[root]) return true;
    }
    return false;
}

/* Inputs the forward half or its caller writes. */
static void find_written(const td_part *p) {
    if (p->from >= 0) return; /* a step writes at its end */
    for (int i = 0; i < p->n_primals && p->j->written; i++)
        p->written[i] = p->j->written[i];
    for (int i = 0; i < p->n_nodes; i++) {
        const td_gnode  *n = p->g->nodes.v[i];
        const td_schema *s = &td__opinfo(n->op)->s;
        for (int k = 0; k < n->n_in && p->fw[i]; k++)
            if (s->in[k].write && n->in[k].kind == TD_G_VALUE)
                p->written[p->root[n->in[k].u.v->id]] = true;
    }
}

/* Only backward wants it, but it reads an input that is written by then: forward
 * computes it, and it is kept. */
static bool is_now_or_never(const td_part *p, int i) {
    return !p->late[i] && !p->view[i] && reads_written(p, i);
}

static td_why why_firm(const td_part *p, int i) {
    const td_gnode *n = p->g->nodes.v[i];
    td_policy       policy = TD_TAG_POLICY(n->tags);
    if (td__opinfo(n->op)->writes || (!p->view[i] && reads_written(p, i)))
        return TD_WHY_EFFECT;
    if (policy == TD_MUST_SAVE) return TD_WHY_MUST_SAVE;
    if (policy == TD_PREFER_SAVE) return TD_WHY_PREFER_SAVE;
    return td__gnode_draws(n) && !wants_again(n) ? TD_WHY_RANDOM : TD_WHY_FREE;
}

/* What a view shows is kept in its place. */
static void keep_result(td_part *p, int i, int v, td_why why) {
    int at = p->view[i] ? p->maker[p->root[v]] : i;
    if (at < 0 || p->firm[at] == TD_WHY_EFFECT) return;
    p->firm[at] = (uint8_t)why;
    p->again[at] = false;
}

/* A region's result that a later region reads is kept, or the one would be done
 * again inside the other, and so on to the first. */
static void keep_seams(td_part *p, int i) {
    const td_gnode *n = p->g->nodes.v[i];
    for (int k = 0; k < n->n_out; k++) {
        int v = n->out[k]->id;
        for (int u = p->user_at[v]; u < p->user_at[v + 1]; u++) {
            int by = p->users[u];
            if (p->again[by] &&
                TD_TAG_REGION(p->g->nodes.v[by]->tags) > TD_TAG_REGION(n->tags))
                keep_result(p, i, v, TD_WHY_SEAM);
        }
    }
}

void td__part_tags(td_part *p) {
    bool any = false;
    find_written(p);
    for (int i = 0; i < p->n_nodes; i++) {
        if (!p->fw[i]) {
            if (is_now_or_never(p, i)) p->firm[i] = TD_WHY_EFFECT;
            continue;
        }
        p->firm[i] = (uint8_t)why_firm(p, i);
        p->again[i] = p->firm[i] == TD_WHY_FREE && wants_again(p->g->nodes.v[i]);
        any |= p->g->nodes.v[i]->tags != 0;
    }
    for (int i = 0; i < p->n_nodes && any; i++) {
        bool wish = p->firm[i] == TD_WHY_MUST_SAVE || p->firm[i] == TD_WHY_PREFER_SAVE;
        if (!wish || !p->view[i]) continue;
        for (int k = 0; k < p->g->nodes.v[i]->n_out; k++)
            keep_result(p, i, p->g->nodes.v[i]->out[k]->id, (td_why)p->firm[i]);
        p->firm[i] = TD_WHY_FREE;
    }
    for (int i = 0; i < p->n_nodes && any; i++)
        if (p->again[i]) keep_seams(p, i);
}
