/* ptrmap.c -- a hash map from pointers to pointers: open addressing with linear
 * probing, a power of two of slots, at most half of them used. Entries are
 * never removed. */
#include "trace/trace.h"

#include <string.h>

/* The slot of key, or the free one where it belongs. */
static int slot_of(const td_ptrmap *m, const void *key) {
    uint64_t h = (uint64_t)(uintptr_t)key * 0x9E3779B97F4A7C15u;
    int      i = (int)(h >> 33) & (m->cap - 1);
    while (m->key[i] && m->key[i] != key) i = (i + 1) & (m->cap - 1);
    return i;
}

void *td__ptrmap_get(const td_ptrmap *m, const void *key) {
    return m->cap ? m->val[slot_of(m, key)] : NULL;
}

/* Doubles the table; on failure the map is unchanged. */
static bool grow(td_ptrmap *m) {
    td_ptrmap big = {.cap = m->cap ? 2 * m->cap : 16};
    size_t    n = (size_t)big.cap;
    big.key = td__zalloc(n * sizeof *big.key);
    big.val = td__zalloc(n * sizeof *big.val);
    if (!big.key || !big.val) {
        td__ptrmap_free(&big);
        return false;
    }
    for (int i = 0; i < m->cap; i++) {
        if (!m->key[i]) continue;
        int k = slot_of(&big, m->key[i]);
        big.key[k] = m->key[i];
        big.val[k] = m->val[i];
    }
    big.n = m->n;
    td__ptrmap_free(m);
    *m = big;
    return true;
}

bool td__ptrmap_put(td_ptrmap *m, const void *key, void *val) {
    if (2 * (m->n + 1) > m->cap && !grow(m)) return false;
    int i = slot_of(m, key);
    if (!m->key[i]) m->n++;
    m->key[i] = key;
    m->val[i] = val;
    return true;
}

void td__ptrmap_free(td_ptrmap *m) {
    td__free(m->key);
    td__free(m->val);
    *m = (td_ptrmap){0};
}
