/* nest_same.c -- finds equal nests before they are written as C: twelve equal layers
 * give one kernel. Two nests are equal if everything that emit.c reads is. */
#include "backend/native.h"

#include <string.h>

static void add(td_buf *b, const void *p, size_t n) { td__buf_addn(b, p, n); }

static void add_extents(td_buf *b, const td_extent *e, int n) {
    for (int i = 0; i < n; i++) {
        add(b, &e[i].c, sizeof e[i].c);
        add(b, &e[i].p, sizeof e[i].p);
    }
}

/* Field by field: padding bytes are undefined. */
static void add_stmt(td_buf *b, const td_nest *n, const td_stmt *s) {
    const uint8_t head[] = {s->kind, s->dtype, s->compute, s->how,
                            s->n,    s->masks, s->wide,    s->stride != NULL};
    add(b, head, sizeof head);
    add(b, &s->ptr, sizeof s->ptr);
    add(b, &s->op, sizeof s->op);
    add(b, s->a, sizeof *s->a * s->n);
    add(b, &s->num.i, sizeof s->num.i);
    if (s->stride) add_extents(b, s->stride, n->n_dims);
    if (s->p) add(b, s->p, sizeof *s->p);
}

/* The bytes that identify a nest. */
static void nest_key(td_buf *b, const td_nest *n) {
    add(b, &n->n_dims, sizeof n->n_dims);
    add(b, &n->n_outer, sizeof n->n_outer);
    add_extents(b, n->size, n->n_dims);
    for (int i = 0; i < n->ptr.n; i++) {
        const uint8_t p[] = {n->ptr.v[i].dtype, n->ptr.v[i].written};
        add(b, p, sizeof p);
    }
    for (int i = 0; i < n->stmt.n; i++) add_stmt(b, n, &n->stmt.v[i]);
}

/* ---- hash table ----------------------------------------------------------- */

/* The slot of a key, or the empty slot where it goes. */
static int *slot_of(td_same *t, const td_buf *key, uint64_t hash) {
    for (size_t i = (size_t)hash & (size_t)(t->cap - 1);;
         i = (i + 1) & (size_t)(t->cap - 1)) {
        const td_same_key *k = t->slot[i] ? &t->key.v[t->slot[i] - 1] : NULL;
        if (!k || (k->hash == hash && k->text.n == key->n &&
                   !memcmp(td__buf_str(&k->text), td__buf_str(key), key->n)))
            return &t->slot[i];
    }
}

static bool grow(td_same *t) {
    int  cap = t->cap ? 2 * t->cap : 64;
    int *slot = td__zalloc(sizeof *slot * (size_t)cap);
    if (!slot) return false;
    td__free(t->slot);
    t->slot = slot;
    t->cap = cap;
    for (int i = 0; i < t->key.n; i++)
        *slot_of(t, &t->key.v[i].text, t->key.v[i].hash) = i + 1;
    return true;
}

/* The first launch with an equal nest, or `launch` itself: equal kernels are emitted
 * once. The whole text is compared, not only the hash. */
int td__same_find(td_same *t, const td_nest *n, int launch) {
    td_same_key k = {.launch = launch};
    nest_key(&k.text, n);
    k.hash = td__hash(td__buf_str(&k.text), k.text.n, 0);
    bool fits = 2 * (t->key.n + 1) <= t->cap || grow(t);
    int *at = fits && !k.text.failed ? slot_of(t, &k.text, k.hash) : NULL;
    int  found = at && *at ? t->key.v[*at - 1].launch : launch;
    if (at && !*at && td__vec_push(&t->key, k)) {
        *at = t->key.n;
        return launch;
    }
    td__buf_free(&k.text); /* known; or out of memory: the kernel is written twice */
    return found;
}

void td__same_free(td_same *t) {
    for (int i = 0; i < t->key.n; i++) td__buf_free(&t->key.v[i].text);
    td__vec_free(&t->key);
    td__free(t->slot);
}
