/* leaves.c -- what becomes of inputs on the way. The wrapper knows how a call begins
 * and ends, which is not enough for some orders of events, and those are refused:
 * leaves that come and go among inputs that share bytes, whose relatives take after one
 * or the other with every write; geometry that changes with and without gradients; and
 * a history that ends and begins anew while a view has the old one. */
#include "joint/joint_int.h"

const td_gval *td__joint_written(const td_gnode *n) {
    const td_gval *v = n->in[0].kind == TD_G_VALUE ? n->in[0].u.v : NULL;
    while (v && v->node && td__opinfo(v->node->op)->writes &&
           v->node->in[0].kind == TD_G_VALUE)
        v = v->node->in[0].u.v;
    return v && !v->node ? v : NULL;
}

/* What has happened to an input so far. */
enum {
    MADE_LEAF = 1,
    CUT = 2, /* no longer a leaf */
    MOVED = 4,
    TURNED_BELOW = 8,
    TURNED = 16,        /* with gradients */
    TURNED_UNSEEN = 32, /* without */
    VIEWED = 64,
    ENDED = 128,   /* detached, when it had a view */
    CUT_OUT = 256, /* shows any elements now: as_strided_, with gradients */
    NEW_LEAF = 512 /* no view, and required no grad before */
};

typedef struct events {
    td_joint_run *r;
    uint16_t     *of; /* by input */
    const int    *sharers;
    unsigned      unseen; /* open regions, a bit each: without gradients */
} events;

static bool are_related(const events *e, int i, int k) {
    td_tensor *const *real = e->r->real;
    return i != k && e->sharers[i] && real[i] && real[k] && real[i]->st == real[k]->st;
}

static bool refuse(const events *e, int i, const char *what) {
    return td__fail(e->r->cx, TD_E_UNSUPPORTED, "@%.60s: input %d%s; pass a clone",
                    e->r->program->name, i, what);
}

/* A view that was written behind its back takes after its base when it is next asked:
 * by the call, or, if nobody asks before that has no history any more, never. */
static bool note_cut(const events *e, int i) {
    td_tensor *const *real = e->r->real;
    if (real[i] && real[i]->creation == TD_MADE_PLAIN && td__is_behind(real[i]) &&
        !td__has_node(real[i]))
        return refuse(e, i,
                      " is a view whose base has got a history since, and ceases to "
                      "require grad");
    for (int k = 0; real[i] && td__needs_grad(real[i]) && k < e->r->to->n_primals; k++)
        if (real[k] && real[k]->base == real[i] && td__is_behind(real[k]) &&
            real[k]->creation == TD_MADE_PLAIN)
            return refuse(e, k,
                          " is a view of one that was written since and that ceases to "
                          "require grad");
    return true;
}

static void note_leaf(events *e, const td_gnode *n, int i) {
    bool on = !td__gnode_lets_go(n);
    bool view = e->r->real[i] && e->r->real[i]->base;
    e->of[i] &= TURNED | TURNED_UNSEEN | VIEWED | ENDED | CUT_OUT;
    bool came = e->r->real[i] && td__needs_grad(e->r->real[i]);
    e->of[i] |= !on ? CUT : view ? MADE_LEAF : came ? 0 : NEW_LEAF;
    for (int k = 0; on && k < e->r->to->n_primals; k++)
        if (are_related(e, k, i)) e->of[k] &= (uint16_t)~TURNED_BELOW;
}

/* A view that was written behind its back has the history of such a leaf from the
 * moment it is asked, and the sizes the leaf had then. */
static bool turns_new_leaf(const events *e, int i) {
    td_tensor *const *real = e->r->real;
    for (int k = 0; e->of[i] & NEW_LEAF && e->unseen && k < e->r->to->n_primals; k++)
        if (real[k] && real[k]->base == real[i] &&
            real[k]->seen != td__version(real[k]))
            return !refuse(e, i, " becomes a leaf and is turned, and has a view");
    return false;
}

static bool note_turn(events *e, const td_gnode *n, int i) {
    if (turns_new_leaf(e, i)) return false;
    e->of[i] |= e->unseen ? TURNED_UNSEEN : TURNED;
    if (n->op == TD_OP_set_ && e->of[i] & CUT) e->of[i] |= MOVED;
    if (n->op == TD_OP_as_strided_ && !e->unseen) e->of[i] |= CUT_OUT;
    for (int k = 0; k < e->r->to->n_primals; k++)
        if (are_related(e, k, i) && e->of[k] & MADE_LEAF) e->of[k] |= TURNED_BELOW;
    return true;
}

/* Its history is then where its base no longer has elements. */
static bool base_is_cut(const events *e, int i) {
    const td_tensor *t = e->r->real[i];
    for (int k = 0; t && t->base && !e->unseen && k < e->r->to->n_primals; k++)
        if (e->r->real[k] == t->base && e->of[k] & CUT_OUT && td__needs_grad(t))
            return true;
    return false;
}

static bool note_write(const events *e, int i) {
    if (base_is_cut(e, i))
        return refuse(e, i,
                      ", a view, is written after its base was given other elements");
    for (int k = 0; k < e->r->to->n_primals; k++)
        if ((k == i ? e->sharers[i] : are_related(e, k, i)) && e->of[k] & MOVED)
            return refuse(e, i,
                          " is written after one that it shares bytes with ceased to "
                          "be a leaf and was set to others");
    return true;
}

static void note_region(events *e, const td_gnode *n) {
    bool off = n->region == TD_R_NO_GRAD || n->region == TD_R_INFERENCE;
    e->unseen = n->kind == TD_N_ENTER ? e->unseen * 2 + off : e->unseen / 2;
}

/* A view that set_ has parted from its base is none for the trace. */
static bool is_parted(const td_tensor *t) {
    return t && t->base && t->base->st != t->st;
}

/* One tensor may be several inputs; what happens to it is told of the first. */
static int first_named(const events *e, int i) {
    int k = 0;
    while (k < i && (!e->r->real[k] || e->r->real[k] != e->r->real[i])) k++;
    return k;
}

static bool note_node(events *e, const td_gnode *n) {
    const td_opinfo *info = td__opinfo(n->op);
    if (n->kind != TD_N_OP) return note_region(e, n), true;
    const td_gval *v = n->n_in ? td__joint_written(n) : NULL;
    if (!v || v->nr >= e->r->to->n_primals) return true;
    int i = first_named(e, v->nr);
    if (!info->writes) {
        bool view = info->composite || td__ops[n->op].flags & TD_OPF_VIEW;
        e->of[i] |= view ? VIEWED : 0;
        return true;
    }
    if (n->op == TD_OP_requires_grad_ && e->of[i] & ENDED)
        return refuse(e, i,
                      " is detached and becomes a leaf, while a view of it has the old "
                      "history");
    if (n->op == TD_OP_detach_ && is_parted(e->r->real[i]))
        return td__fail(e->r->cx, TD_E_GRAD,
                        "detach_: a view cannot be detached in place; use detach");
    if (n->op == TD_OP_requires_grad_) note_leaf(e, n, i);
    if (n->op == TD_OP_detach_) e->of[i] |= e->of[i] & VIEWED ? CUT | ENDED : CUT;
    if (n->op == TD_OP_detach_ || n->op == TD_OP_requires_grad_)
        return !(e->of[i] & CUT) || note_cut(e, i);
    if (td__ops[n->op].flags & TD_OPF_META) return note_turn(e, n, i);
    return note_write(e, i);
}

static bool judge(const events *e, int i) {
    const td_tensor *t = e->r->real[i];
    bool             both = e->of[i] & TURNED && e->of[i] & TURNED_UNSEEN;
    if (both && t && td__needs_grad(t))
        return refuse(e, i, " is turned both with and without gradients");
    return !(e->of[i] & TURNED_BELOW) ||
           refuse(e, i, ", a view, becomes a leaf, and then its base is turned");
}

bool td__joint_leaves(td_joint_run *r, const int *sharers) {
    const td_graph *p = r->program;
    events          e = {.r = r, .sharers = sharers, .unseen = !p->cx->grad_enabled};
    bool            ok = true;
    e.of = td__arena_zalloc(&r->to->arena, sizeof *e.of * ((size_t)p->inputs.n + 1));
    if (!e.of) return td__fail_memory(r->cx);
    for (int i = 0; ok && i < p->nodes.n; i++) ok = note_node(&e, p->nodes.v[i]);
    for (int i = 0; ok && i < r->to->n_primals; i++) ok = judge(&e, i);
    return ok;
}
