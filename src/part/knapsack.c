/* knapsack.c -- which values to save if not all fit: the exact answer for every bound
 * at once by dynamic programming, and an order by value per weight for the greedy
 * answer. */
#include "part/part_int.h"

#include <stdlib.h>

/* The bit in `taken` for (item, bound). */
static size_t bit_of(const td_sack *s, int item, int bound) {
    return (size_t)item * ((size_t)s->cap + 1) + (size_t)bound;
}

/* An item is taken only if that is strictly better, so ties are deterministic. */
bool td__sack_fill(td_sack *s, td_arena *a) {
    size_t bits = bit_of(s, s->n, 0);
    s->best = td__arena_zalloc(a, sizeof *s->best * ((size_t)s->cap + 1));
    s->taken = td__arena_zalloc(a, bits / 8 + 1);
    if (!s->best || !s->taken) return false;
    for (int i = 0; i < s->n; i++) {
        int w = s->weight[i];
        for (int b = s->cap; b >= w; b--) {
            double with = s->best[b - w] + s->value[i];
            if (with <= s->best[b]) continue;
            size_t bit = bit_of(s, i, b);
            s->best[b] = with;
            s->taken[bit / 8] |= (uint8_t)(1u << bit % 8);
        }
    }
    return true;
}

/* Reads the choice for a bound back from the table of bits, from the last item to the
 * first. */
void td__sack_pick(const td_sack *s, int bound, bool *take) {
    for (int i = s->n - 1; i >= 0; i--) {
        size_t bit = bit_of(s, i, bound);
        take[i] = s->taken[bit / 8] >> bit % 8 & 1;
        if (take[i]) bound -= s->weight[i];
    }
}

typedef struct ranked {
    double  worth;
    int32_t item;
} ranked;

/* Ties by index, so that the order is the same on every machine. */
static int by_worth(const void *x, const void *y) {
    const ranked *a = x, *b = y;
    if (a->worth != b->worth) return a->worth > b->worth ? -1 : 1;
    return (a->item > b->item) - (a->item < b->item);
}

/* The greedy order: value per weight, highest first. */
bool td__sack_order(const td_sack *s, int32_t *order, td_arena *a) {
    ranked *r = td__arena_alloc(a, sizeof *r * ((size_t)s->n + 1));
    if (!r) return false;
    for (int i = 0; i < s->n; i++)
        r[i] = (ranked){s->value[i] / (s->weight[i] > 0 ? s->weight[i] : 1e-9), i};
    if (s->n) qsort(r, (size_t)s->n, sizeof *r, by_worth);
    for (int i = 0; i < s->n; i++) order[i] = r[i].item;
    return true;
}
