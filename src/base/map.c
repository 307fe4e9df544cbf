/* map.c -- strings to pointers: open addressing, linear probing, at most three
 * quarters full. Keys are borrowed and never removed one by one. */
#include "base/base.h"

#include <limits.h>
#include <string.h>

/* The slot that holds `key`, or the free one where it belongs. Needs cap > 0;
 * ends because the table is never full. */
static int find(const td_map *m, const char *key) {
    unsigned mask = (unsigned)m->cap - 1;
    unsigned i = (unsigned)td__hash(key, strlen(key), 0) & mask;
    while (m->slot[i].key && strcmp(m->slot[i].key, key) != 0) i = (i + 1) & mask;
    return (int)i;
}

/* Doubles the table and inserts every key anew; false leaves the map as it was. */
static bool grow(td_map *m) {
    if (m->cap > INT_MAX / 2) return false;
    td_map big = {.n = m->n, .cap = m->cap ? m->cap * 2 : 16};
    big.slot = td__zalloc((size_t)big.cap * sizeof *big.slot);
    if (!big.slot) return false;
    for (int i = 0; i < m->cap; i++)
        if (m->slot[i].key) big.slot[find(&big, m->slot[i].key)] = m->slot[i];
    td__free(m->slot);
    *m = big;
    return true;
}

/* Replaces the value of a key already there, and keeps that key's pointer. */
bool td__map_put(td_map *m, const char *key, void *val) {
    if (m->n >= m->cap / 4 * 3 && !grow(m)) return false;
    int i = find(m, key);
    if (!m->slot[i].key) {
        m->slot[i].key = key;
        m->n++;
    }
    m->slot[i].val = val;
    return true;
}

void *td__map_get(const td_map *m, const char *key) {
    return m->cap ? m->slot[find(m, key)].val : NULL;
}

void td__map_free(td_map *m) {
    td__free(m->slot);
    *m = (td_map){0};
}
