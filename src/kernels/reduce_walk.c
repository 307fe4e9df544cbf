/* reduce_walk.c -- the order in which a reduction visits a tensor, and which
 * vector loops this machine gets. */
#include "kernels/reduce.h"
#include "core/cpu.h"
#include "kernels/loops/loops.h"

#include <string.h>

/* Insertion sort by stride, the largest first; equal ones keep their order. */
static void sort_dims(td_walk_dim *d, int n) {
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && d[k - 1].in < d[k].in; k--) {
            td_walk_dim x = d[k];
            d[k] = d[k - 1];
            d[k - 1] = x;
        }
}

/* Merges neighbours that step as one dim does; leaves at least one dim. */
static int join_dims(td_walk_dim *d, int n) {
    int m = 0;
    for (int i = 0; i < n; i++) {
        td_walk_dim *last = m ? &d[m - 1] : NULL;
        if (d[i].size == 1) continue;
        if (last && last->in == td__dim_mul(d[i].in, d[i].size) &&
            last->out == td__dim_mul(d[i].out, d[i].size)) {
            last->size = td__dim_mul(last->size, d[i].size);
            last->in = d[i].in;
            last->out = d[i].out;
        } else d[m++] = d[i];
    }
    if (m == 0) d[m++] = (td_walk_dim){1, 1, 1};
    return m;
}

/* Kept dims are ordered by stride as well: outputs are then written in the order in
 * which the input is read. */
void td__walk_make(td_walk *w, const td_tensor *t, const bool *reduced, bool in_order) {
    int64_t out = 1;
    int     nk = 0, nr = 0;
    w->outs = w->reds = 1;
    for (int i = t->rank - 1; i >= 0; i--) { /* output strides are row-major */
        td_walk_dim d = {t->size[i], t->stride[i], 0};
        if (reduced[i]) {
            w->reds = td__dim_mul(w->reds, d.size);
            w->red[t->rank - 1 - nr++] = d;
        } else {
            d.out = out;
            w->outs = td__dim_mul(w->outs, d.size);
            out = td__dim_mul(out, d.size);
            w->kept[t->rank - 1 - nk++] = d;
        }
    }
    for (int i = 0; i < nk; i++) w->kept[i] = w->kept[t->rank - nk + i];
    for (int i = 0; i < nr; i++) w->red[i] = w->red[t->rank - nr + i];
    sort_dims(w->kept, nk);
    if (!in_order) sort_dims(w->red, nr);
    w->nk = join_dims(w->kept, nk);
    w->nr = join_dims(w->red, nr);
    const td_walk_dim *k = &w->kept[w->nk - 1], *r = &w->red[w->nr - 1];
    w->by_column = k->size > 1 && (r->size == 1 || k->in < r->in);
}

/* Offset of the i-th element of a list of dims, by input or output strides. */
static int64_t offset_of(const td_walk_dim *d, int n, int64_t i, bool out) {
    int64_t at = 0;
    for (int k = n - 1; k > 0; k--) {
        at += i % d[k].size * (out ? d[k].out : d[k].in);
        i /= d[k].size;
    }
    return at + i * (out ? d[0].out : d[0].in);
}

int64_t td__walk_in(const td_walk *w, int64_t place) {
    return offset_of(w->kept, w->nk, place, false);
}

int64_t td__walk_out(const td_walk *w, int64_t place) {
    return offset_of(w->kept, w->nk, place, true);
}

int64_t td__walk_red(const td_walk *w, int64_t i) {
    return offset_of(w->red, w->nr, i, false);
}

/* ---- which loops ------------------------------------------------------- */

extern const td_reduce_loops td__reduce_loops_base;
#if defined(__x86_64__)
extern const td_reduce_loops td__reduce_loops_avx2, td__reduce_loops_avx512;
#endif

/* By the CPU level, which does not change while the process runs. */
static const td_reduce_loops *choose(void) {
#if defined(__x86_64__)
    if (td__cpu_level() == TD_CPU_AVX512) return &td__reduce_loops_avx512;
    if (td__cpu_level() == TD_CPU_AVX2) return &td__reduce_loops_avx2;
#endif
    return &td__reduce_loops_base;
}

const td_reduce_loops *td__reduce_loops(void) {
    static _Atomic(const td_reduce_loops *) chosen;
    const td_reduce_loops *l = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (TD_LIKELY(l != NULL)) return l;
    l = choose();
    atomic_store_explicit(&chosen, l, memory_order_relaxed);
    return l;
}
