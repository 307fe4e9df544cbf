/* old_storage.c -- copies of storages as they were before a call wrote them. Gradients
 * of gradients recompute the program from its inputs. Where the program reads elements
 * of a storage that the input it goes by does not show (as_strided, or inputs that
 * overlap), the whole storage is saved, one copy for all inputs in it.
 * Saved-tensor hooks give back the elements of an input, not its storage: a backward
 * that reads beside them is found here, too. */
#include "core/device.h"
#include "runtime/plan.h"

#include <string.h>

/* Does the joint graph read input i, or an inner tensor of it, by an op that depends on
 * its storage, not only on its elements? */
bool td__plan_reads_storage(const td_plan *p, int i) {
    const td_graph *g = p->j->g;
    for (int k = 0; k < g->nodes.n; k++) {
        const td_gval *v = td__joint_addressed(g->nodes.v[k]);
        while (v && v->node && v->node->op == TD_OP__inner) v = v->node->in[0].u.v;
        if (v == g->inputs.v[i]) return true;
    }
    return false;
}

/* ---- storages that hooks replace ---------------------------------------- */

static bool is_plain_view(const td_gnode *n) {
    return n->op == TD_OP_alias || n->op == TD_OP_as_strided;
}

/* The end of the elements, counted from the start of the storage; -1: symbolic. */
static int64_t end_of(const td_gtype *l) {
    return td__geom_is_symbolic(&l->geom) ? -1 : td__geom_last(&l->geom) + 1;
}

/* Has `part` an element between or outside those of `all`, as far as types tell? */
static bool exceeds(const td_gtype *part, const td_gtype *all) {
    int64_t end = end_of(part), most = end_of(all);
    return end < 0 || most < 0 || end > most || part->offset < all->offset ||
           !td__is_packed(all->rank, all->size, all->stride);
}

static void note(void *env, td_gval *v) { ((bool *)env)[v->id] = true; }

/* Sets beside[i] for each input of which an as_strided, whose result is read, shows
 * elements outside of the input. */
bool td__graph_reads_beside(const td_graph *g, bool *beside) {
    bool *read = td__zalloc((size_t)g->n_values + 1);
    if (!read) return td__fail_memory(g->cx);
    for (int i = 0; i < g->outputs.n; i++) td__garg_each(&g->outputs.v[i], note, read);
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        const td_gnode *n = g->nodes.v[i];
        for (int k = 0; k < n->n_in && !is_plain_view(n); k++)
            td__garg_each(&n->in[k], note, read);
    }
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *n = g->nodes.v[i];
        if (n->op != TD_OP_as_strided || !read[n->out[0]->id]) continue;
        const td_gval *v = n->in[0].u.v;
        while (v->node && is_plain_view(v->node)) v = v->node->in[0].u.v;
        if (!v->node && exceeds(n->out[0]->type, v->type)) beside[v->nr] = true;
    }
    td__free(read);
    return true;
}

/* ---- copies ------------------------------------------------------------- */

/* The copy of primal i's storage: that of an earlier one in the same, or a new one. */
static td_storage *copy_storage(td_pcall *c, int i) {
    const td_storage *st = c->in[i].u.t->st;
    for (int k = 0; k < i; k++)
        if (c->old[k] && c->in[k].u.t->st == st) {
            td__storage_keep(c->old[k]->st);
            return c->old[k]->st;
        }
    td_storage *to = st->device && !st->fake ? td__storage_on(st->bytes, st->device)
                                             : td__storage_make(st->bytes, st->fake);
    if (!to) return td__fail_memory(c->p->cx), NULL;
    to->fake = st->fake;
    to->device = st->device;
    if (st->fake || td__storage_copy(c->p->cx, to, st)) return to;
    return td__storage_drop(to), NULL;
}

/* Copies whole storages of inputs that the call writes and that double backward reads
 * beyond their elements. The copies have the geometry of the inputs. */
bool td__plan_copy_storages(td_pcall *c) {
    td_ctx *cx = c->p->cx;
    size_t  n = sizeof *c->old * (size_t)c->p->j->n_primals;
    c->old = td__arena_zalloc(&c->arena, n + sizeof *c->old);
    if (!c->old) return td__fail_memory(cx);
    for (int i = 0; i < c->p->n_saves; i++) {
        const td_save_plan *k = &c->p->saves[i];
        if (!k->copied) continue;
        td_meta m;
        td__tensor_meta(c->in[k->index].u.t, &m);
        td_storage *st = copy_storage(c, k->index);
        if (!st) return false;
        c->old[k->index] = td__tensor_over(cx, st, &m);
        td__storage_drop(st);
        if (!c->old[k->index]) return false;
    }
    return true;
}
