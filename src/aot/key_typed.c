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
static void put_inner(walk *w, const td_tensor *t, int *number);

static void put_typed(walk *w, const td_typed *d, int *number) {
    size_t n = strlen(d->metadata);
    /* not its number: keys of the disk cache have these words */
    put(w, (int64_t)td__hash(d->type->opts.name, strlen(d->type->opts.name),
                             d->type->opts.version));
    put(w, (int64_t)td__hash(d->metadata, n, 1));
    put(w, (int64_t)td__hash(d->metadata, n, 0x5bd1e995));
    for (int i = 0; i < d->n; i++) put_inner(w, d->inner[i], number);
}

static void put_inner(walk *w, const td_tensor *t, int *number) {
    put(w, (int64_t)t->dtype | (int64_t)t->rank << 8 |
               (int64_t)(t->typed != NULL) << 16 | (int64_t)t->st->readonly << 17);
    for (int d = 0; d < t->rank; d++) put(w, t->size[d]);
    for (int d = 0; d < t->rank; d++) put(w, t->stride[d]);
    put(w, t->offset);
    if (t->typed) put_typed(w, t->typed, number);
    else put(w, shares_with(w, t, (*number)++));
}

static bool count(void *env, td_tensor *leaf) {
    (void)leaf;
    ++*(int *)env;
    return true;
}

bool td__key_typed(const td_key_values *all, int i, const td_tensor *t, td_key *to) {
    walk w = {.all = all, .to = to, .ok = true};
    int  number = 0;
    for (int k = 0; k < i; k++) {
        td_tensor *before = all->at(all->env, k);
        if (before) td__typed_leaves(before, count, &number);
    }
    put_typed(&w, t->typed, &number);
    return w.ok;
}
