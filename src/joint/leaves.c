/* leaves.c -- inputs that share bytes and become leaves, or cease to be, on the way. Who
 * takes after whom then changes with every write to one of them, and the wrapper knows
 * only how a call begins and ends: two orders of events are refused. */
#include "joint/joint_int.h"

const td_gval *td__joint_written(const td_gnode *n) {
    const td_gval *v = n->in[0].kind == TD_G_VALUE ? n->in[0].u.v : NULL;
    while (v && v->node && td__opinfo(v->node->op)->writes &&
           v->node->in[0].kind == TD_G_VALUE)
        v = v->node->in[0].u.v;
    return v && !v->node ? v : NULL;
}

/* What has happened to an input so far. */
enum { MADE_LEAF = 1, CUT = 2, MOVED = 4, TURNED_BELOW = 8 };

typedef struct events {
    td_joint_run *r;
    uint8_t      *of; /* by input */
    const int    *sharers;
} events;

static bool are_related(const events *e, int i, int k) {
    td_tensor *const *real = e->r->real;
    return i != k && e->sharers[i] && real[i] && real[k] && real[i]->st == real[k]->st;
}

static bool refuse(const events *e, int i, const char *what) {
    return td__fail(
        e->r->cx, TD_E_UNSUPPORTED,
        "@%.60s: input %d, which shares bytes with another input, %s; pass a "
        "clone, or set requires_grad before the call",
        e->r->program->name, i, what);
}

static void note_leaf(events *e, const td_gnode *n, int i) {
    bool on = n->n_in < 2 || n->in[1].u.i != 0;
    e->of[i] = on ? (e->r->real[i] && e->r->real[i]->base ? MADE_LEAF : 0) : CUT;
    for (int k = 0; on && k < e->r->to->n_primals; k++)
        if (are_related(e, k, i)) e->of[k] &= (uint8_t)~TURNED_BELOW;
}

static void note_turn(events *e, const td_gnode *n, int i) {
    if (n->op == TD_OP_set_ && e->of[i] & CUT) e->of[i] |= MOVED;
    for (int k = 0; k < e->r->to->n_primals; k++)
        if (are_related(e, k, i) && e->of[k] & MADE_LEAF) e->of[k] |= TURNED_BELOW;
}

/* A view of what was moved away is written. */
static bool note_write(const events *e, int i) {
    for (int k = 0; k < e->r->to->n_primals; k++)
        if (are_related(e, k, i) && e->of[k] & MOVED)
            return refuse(e, i,
                          "is written after that ceased to be a leaf and was "
                          "set to other bytes");
    return true;
}

static bool note_node(events *e, const td_gnode *n) {
    const td_gval *v =
        n->kind == TD_N_OP && td__opinfo(n->op)->writes ? td__joint_written(n) : NULL;
    if (!v || v->nr >= e->r->to->n_primals) return true;
    if (n->op == TD_OP_requires_grad_) note_leaf(e, n, v->nr);
    else if (td__ops[n->op].flags & TD_OPF_META) note_turn(e, n, v->nr);
    else return note_write(e, v->nr);
    return true;
}

bool td__joint_leaves(td_joint_run *r, const int *sharers) {
    const td_graph *p = r->program;
    events          e = {.r = r, .sharers = sharers};
    bool            ok = true;
    e.of = td__arena_zalloc(&r->to->arena, (size_t)p->inputs.n + 1);
    if (!e.of) return td__fail_memory(r->cx);
    for (int i = 0; ok && i < p->nodes.n; i++) ok = note_node(&e, p->nodes.v[i]);
    for (int i = 0; ok && i < r->to->n_primals; i++)
        if (e.of[i] & TURNED_BELOW)
            ok = refuse(&e, i, "becomes a leaf, and then the geometry of that changes");
    return ok;
}
