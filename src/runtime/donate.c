/* donate.c -- what becomes of saved values when a backward has read them: freed behind
 * it, or donated to its code, which reuses their memory and frees them on the way. */
#include "runtime/node_frame.h"

bool td__plan_donates(const td_plan *p, int i) {
    return p->saves[i].out >= p->h->n_fwd && !p->saves[i].number;
}

/* Can a value still be read by a backward that eager would not refuse? */
static bool is_needed(const td_frame *f, const td_save_plan *k, int n_out) {
    for (int i = 0; i < n_out; i++)
        if ((!k->used || td__set_has(k->used, i)) &&
            !td__set_meets(f->p->j->tangents[i].clash, f->spent, td__frame_words(f->p)))
            return true;
    return false;
}

/* The tangents that arrived use up the values they read. */
static void spend(const td_frame *f) {
    td__set_join(f->spent, f->now, td__frame_words(f->p));
}

/* A node that is being destroyed has no further backward. What a hook reads stays as
 * long as the node, like the hook of eager: a gradient that is this tensor is not taken
 * over. */
void td__frame_release(td_node *n) {
    const td_frame *f = n->data;
    spend(f);
    for (int i = 0; i < n->n_saved; i++) {
        const td_save_plan *k = &f->p->saves[i];
        if (n->refs <= 0 || (!k->late && !is_needed(f, k, n->n_out)))
            td__saved_free(&n->saved[i]);
    }
}

/* The engine releases the node after its derivative, also where that failed; so values
 * may be counted as used up before it. */
bool td__frame_spend(td_node *n) {
    if (td__walk_retains(n)) return false;
    spend(n->data);
    return true;
}

/* Reference counts decide, not an analysis of the graph: a result that the user has
 * dropped meanwhile is donated, too, and one that a hook retains is not. */
bool td__frame_donate(td_node *n, int i, const td_value *v) {
    const td_frame *f = n->data;
    td_saved       *s = &n->saved[i];
    td_tensor      *t = s->t;
    if (!t || f->p->saves[i].late || v->kind != TD_K_TENSOR || v->u.t != t ||
        t->refs != 1 || atomic_load_explicit(&t->st->refs, memory_order_relaxed) != 1 ||
        is_needed(f, &f->p->saves[i], n->n_out))
        return false;
    s->t = NULL;
    s->flags |= TD_SV_FREED;
    if (td__scope_own(t)) return true;
    td__unref(t);
    return false;
}
