/* run_code.c -- runs the forward code of a call. Inputs that are the call's own are
 * dropped by the code if nothing else of the call reads them afterwards.
 *
 * The code may write inputs itself (keep_mutations). How often it bumps their version
 * counters depends on the backend. The epilogue counts the writes as eager does, so the
 * counters are reset after the code. */
#include "runtime/plan.h"

/* ---- making a plan ------------------------------------------------------ */

static void need(td_plan *p, int input) {
    if (input >= 0) p->late[input] = true;
}

/* Inputs that the epilogue reads (all of them where their sizes are symbols), that are
 * saved, or that take gradients. */
static bool find_late(td_plan *p) {
    const td_joint *j = p->j;
    p->late = td__arena_zalloc(&p->j->arena, (size_t)j->epilogue->inputs.n + 1);
    if (!p->late) return td__fail_memory(p->cx);
    td__graph_reads(j->epilogue, p->late);
    for (int i = 0; j->epilogue->dims.n && i < j->n_primals; i++) need(p, i);
    for (int i = 0; p->h && i < j->n_targets; i++) need(p, j->targets[i].input);
    for (int i = 0; i < p->n_saves; i++)
        if (p->saves[i].out < 0) need(p, p->saves[i].index);
    return true;
}

/* Lists the primals that the forward graph writes; the call needs them afterwards. */
static bool find_written(td_plan *p) {
    const td_graph *g = td__plan_forward(p);
    size_t          n = (size_t)g->inputs.n + 1;
    bool           *writes = td__arena_zalloc(&p->j->arena, n);
    p->inside = td__arena_alloc(&p->j->arena, sizeof *p->inside * n);
    if (!p->inside || !writes) return td__fail_memory(p->cx);
    td__graph_written_inputs(g, writes);
    for (int i = 0; i < p->j->n_primals; i++) {
        if (!writes[i]) continue;
        p->inside[p->n_inside++] = i;
        p->late[i] = true;
    }
    return true;
}

bool td__plan_inputs(td_plan *p) { return find_late(p) && find_written(p); }

/* ---- version counters ---------------------------------------------------- */

static td_storage *written(const td_pcall *c, int i) {
    return c->in[c->p->inside[i]].u.t->st;
}

/* Storages that the code itself writes: the epilogue counts these writes, so the
 * counters are restored after the code. */
static void save_counts(td_pcall *c) {
    for (int i = 0; i < c->p->n_inside; i++)
        c->counts[i] =
            atomic_load_explicit(&written(c, i)->version, memory_order_relaxed);
}

static void restore_counts(const td_pcall *c) {
    for (int i = 0; i < c->p->n_inside; i++)
        atomic_store_explicit(&written(c, i)->version, c->counts[i],
                              memory_order_relaxed);
}

/* ---- the code ----------------------------------------------------------- */

/* Runs the forward code. With `own` the caller gave up references (td_invoke_boxed):
 * the code drops what nothing of the call needs later. give: scratch, by primal. */
static bool run(td_pcall *c, bool *give) {
    td_plan     *p = c->p;
    td_half_code h = {td__plan_forward(p), p->fwd_form, &p->fwd};
    if (!c->own) return td__plan_run(p, &h, c->in, NULL, c->vals);
    for (int i = 0; i < p->j->n_primals; i++)
        give[i] = c->own[i] && !p->late[i] && c->in[i].kind == TD_K_TENSOR;
    bool ok = td__plan_run(p, &h, c->in, give, c->vals);
    for (int i = 0; i < p->j->n_primals; i++) {
        if (!give[i]) continue;
        c->in[i] = TD_NONE;
        c->own[i] = false;
    }
    return ok;
}

bool td__plan_code(td_pcall *c) {
    bool few[64], *give = few;
    int  n = c->own ? c->p->j->n_primals : 0;
    if (n > TD_COUNT(few) && !(give = td__alloc((size_t)n)))
        return td__fail_memory(c->p->cx);
    save_counts(c);
    bool ok = run(c, give);
    if (ok) restore_counts(c);
    if (give != few) td__free(give);
    return ok;
}
