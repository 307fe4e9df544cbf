/* write_counts.c -- versions of tensors that a backward writes, by custom functions and
 * hooks. The code writes each of them once, by copy_; eager may write one several
 * times, or one storage that several inputs share. A node _bump of the graph has the
 * difference, and the version is set by it after the code. */
#include "core/typed.h"
#include "runtime/plan.h"

#include <stdatomic.h>

bool td__back_find_counts(td_back *b) {
    td_graph *g = b->g;
    size_t    n = 0;
    for (int i = 0; i < g->nodes.n; i++) n += g->nodes.v[i]->op == TD_OP__bump;
    if (TD_LIKELY(n == 0)) return true;
    b->counts = td__arena_zalloc(&g->arena, sizeof *b->counts * n);
    if (!b->counts) return td__fail_memory(g->cx);
    b->n_counts = 0;
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *k = g->nodes.v[i];
        if (k->op != TD_OP__bump) continue;
        b->counts[b->n_counts++] =
            (td_write_count){.input = k->in[0].u.v->nr, .more = k->in[1].u.i};
    }
    return true;
}

/* The tensor that a write to input i of the graph changes; NULL: none. */
static td_tensor *written(const td_value *in, int n_saved, td_tensor *const *g, int i) {
    if (i >= n_saved) return g[i - n_saved];
    return in[i].kind == TD_K_TENSOR ? in[i].u.t : NULL;
}

static td_storage *storage_of(const td_value *in, int n_saved, td_tensor *const *g,
                              int i) {
    const td_tensor *t = written(in, n_saved, g, i);
    return t ? t->st : NULL;
}

/* Each write of a tensor of a type writes its inner tensors. */
static void count_inside(const td_tensor *t, int64_t more) {
    for (int i = 0; t->typed && i < t->typed->n; i++) {
        const td_tensor *inner = t->typed->inner[i];
        atomic_fetch_add(&inner->st->version, (uint64_t)more);
        count_inside(inner, more);
    }
}

void td__back_save_counts(const td_back *b, const td_value *in, int n_saved,
                          td_tensor *const *g) {
    for (int i = 0; i < b->n_counts; i++) {
        td_write_count *k = &b->counts[i];
        k->t = written(in, n_saved, g, k->input);
        if (!(k->st = k->t ? k->t->st : NULL)) continue;
        td__storage_keep(k->st);
        k->then = atomic_load(&k->st->version) + (uint64_t)k->more;
        for (int w = 0; w < b->g->inputs.n; w++)
            k->then += b->writes[w] && storage_of(in, n_saved, g, w) == k->st;
    }
}

void td__back_set_counts(const td_back *b, bool ok) {
    for (int i = 0; i < b->n_counts; i++) {
        td_write_count *k = &b->counts[i];
        if (ok && k->st) {
            atomic_store(&k->st->version, k->then);
            count_inside(k->t, k->more);
        }
        td__storage_drop(k->st);
        k->st = NULL;
    }
}
