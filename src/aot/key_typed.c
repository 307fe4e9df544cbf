/* key_typed.c -- the words of a key for an argument of a type: type, metadata, and the
 * geometry and aliases of inner tensors. */
#include "aot/aot.h"
#include "core/typed.h"

#include <string.h>

/* The tensors of a call, in the order of its key. */
typedef struct walk {
    const td_key_values *all;
    td_key              *to;
    const td_storage    *st; /* searched for */
    int                  at, self, found;
    bool                 any; /* sizes are TD_KEY_ANY */
    bool                 ok;
} walk;

static const void *bytes_of(const td_storage *st) {
    return st->data ? st->data : (const void *)st;
}

/* Compares one tensor with elements; they are numbered over the whole call. */
static bool compare(void *env, td_tensor *leaf) {
    walk *w = env;
    if (w->at != w->self && bytes_of(leaf->st) == bytes_of(w->st)) w->found = w->at;
    w->at++;
    return w->found < 0;
}

static void put(walk *w, int64_t word) { w->ok = w->ok && td__vec_push(w->to, word); }

/* The first other tensor of the call, inner ones included, with the same storage: all
 * values count, because a later plain argument may share with an inner tensor. */
static int64_t shares_with(walk *w, const td_tensor *leaf, int self) {
    w->st = leaf->st;
    w->at = 0;
    w->self = self;
    w->found = -1;
    for (int i = 0; i < w->all->n && w->found < 0; i++) {
        td_tensor *t = w->all->at(w->all->env, i);
        if (t) td__typed_leaves(t, compare, w);
    }
    return w->found;
}

/* *number counts the tensors with elements before it. */
static void put_inner(walk *w, const td_tensor *t, const td_gtype *l, int *number);

static void put_typed(walk *w, const td_typed *d, const td_gtyped *of, int *number) {
    size_t n = strlen(d->metadata);
    /* not its number: keys of the disk cache have these words */
    put(w, (int64_t)td__hash(d->type->opts.name, strlen(d->type->opts.name),
                             d->type->opts.version));
    put(w, (int64_t)td__hash(d->metadata, n, 1));
    put(w, (int64_t)td__hash(d->metadata, n, 0x5bd1e995));
    put(w, d->n);
    for (int i = 0; i < d->n; i++)
        put_inner(w, d->inner[i], of && i < of->n ? of->inner[i] : NULL, number);
}

/* A size, stride or offset; guards check one that is a symbol. */
static void put_dim(walk *w, const td_gtype *l, int64_t want, int64_t is) {
    put(w, w->any || (l && td__dim_is_sym(want)) ? TD_KEY_ANY : is);
}

static void put_inner(walk *w, const td_tensor *t, const td_gtype *l, int *number) {
    if (l && l->rank != t->rank) l = NULL;
    put(w, (int64_t)t->dtype | (int64_t)t->rank << 8 |
               (int64_t)(t->typed != NULL) << 16 | (int64_t)t->st->readonly << 17);
    for (int d = 0; d < t->rank; d++) put_dim(w, l, l ? l->size[d] : 0, t->size[d]);
    for (int d = 0; d < t->rank; d++) put_dim(w, l, l ? l->stride[d] : 0, t->stride[d]);
    put_dim(w, l, l ? l->offset : 0, t->offset);
    if (t->typed) put_typed(w, t->typed, l ? l->of : NULL, number);
    else put(w, shares_with(w, t, (*number)++));
}

static bool count(void *env, td_tensor *leaf) {
    (void)leaf;
    ++*(int *)env;
    return true;
}

/* Compares the words of a type from *at on, which moves past them. */
static bool same_but_sizes(const int64_t *a, const int64_t *b, int n, int *at) {
    const int HEAD = 4; /* type, metadata, metadata, number of inner tensors */
    if (*at + HEAD > n || memcmp(a + *at, b + *at, sizeof *a * (size_t)HEAD))
        return false;
    int64_t inner = a[*at + HEAD - 1];
    *at += HEAD;
    for (int64_t i = 0; i < inner; i++) {
        if (*at >= n || a[*at] != b[*at]) return false;
        bool typed = a[*at] >> 16 & 1;
        *at += 1 + 2 * (int)(a[*at] >> 8 & 255); /* sizes and strides */
        if (*at >= n || a[*at] != b[*at]) return false;
        ++*at; /* the offset, then what it consists of or shares with */
        if (typed ? !same_but_sizes(a, b, n, at) : *at >= n || a[*at] != b[*at])
            return false;
        *at += !typed;
    }
    return true;
}

bool td__key_typed_sizes(const int64_t *a, const int64_t *b, int n) {
    int at = 0;
    return same_but_sizes(a, b, n, &at) && at == n;
}

bool td__key_typed(const td_key_values *all, int i, const td_tensor *t,
                   const td_gtyped *of, bool any, td_key *to) {
    walk w = {.all = all, .to = to, .any = any, .ok = true};
    int  number = 0;
    for (int k = 0; k < i; k++) {
        td_tensor *before = all->at(all->env, k);
        if (before) td__typed_leaves(before, count, &number);
    }
    put_typed(&w, t->typed, of, &number);
    return w.ok;
}
