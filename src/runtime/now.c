/* now.c -- symbolic sizes as they are in one call: numbers in the place of symbols, for
 * everything the plan does besides running code. */
#include "runtime/plan.h"

bool td__now_make(td_pcall *c) {
    td_plan *p = c->p;
    c->j = p->j;
    if (p->j->g->dims.n == 0) return true;
    td_now *n = td__zalloc(sizeof *n);
    if (!n) return td__fail_memory(p->cx);
    n->refs = 1;
    c->now = n;
    c->j = &n->j;
    n->kept = td__arena_zalloc(&n->arena, sizeof *n->kept * ((size_t)p->n_keep + 1));
    if (!n->kept) return td__fail_memory(p->cx);
    return td__joint_at(p->j, c->in, &n->arena, &n->j);
}

void td__now_drop(td_now *n) {
    if (!n || --n->refs > 0) return;
    td__arena_free(&n->arena);
    td__free(n);
}
