/* key.c -- what a call looks like, as a list of words. Two calls with the same words
 * run the same code. */
#include "aot/aot.h"

#include <string.h>

static bool add(td_ctx *cx, td_key *k, int64_t word) {
    return td__vec_push(k, word) || td__fail_memory(cx);
}

/* How an input is related to those before it: the same tensor, or one that shares its
 * bytes. */
static int64_t alias_word(td_values args, int i) {
    const td_tensor *t = args.v[i].u.t;
    for (int k = 0; k < i; k++) {
        const td_tensor *u = args.v[k].u.t;
        if (args.v[k].kind != TD_K_TENSOR || !u) continue;
        if (u == t) return 2 * k + 1;
        if (u->st == t->st || (u->st->data && u->st->data == t->st->data))
            return 2 * k + 2;
    }
    return 0;
}

static bool shared(td_values args, int i) {
    const td_tensor *t = args.v[i].u.t;
    for (int k = 0; k < args.n; k++) {
        const td_tensor *u = args.v[k].u.t;
        if (k != i && args.v[k].kind == TD_K_TENSOR && u && u->st == t->st) return true;
    }
    return false;
}

/* Flags of a tensor that eager's rules look at. */
static int64_t nature(td_tensor *t) {
    bool needs = td__needs_grad(t);
    bool view = t->base && needs;
    return (int64_t)t->dtype | (int64_t)t->rank << 8 | (int64_t)needs << 16 |
           (int64_t)(needs && td_is_leaf(t)) << 17 | (int64_t)td_is_inference(t) << 18 |
           (int64_t)view << 19 | (int64_t)(t->base ? t->creation : 0) << 20 |
           (int64_t)((t->flags & TD_TF_NUMBER) != 0) << 24 |
           (int64_t)t->st->readonly << 25;
}

static bool add_tensor(td_ctx *cx, td_key *k, td_values args, int i, bool offsets) {
    td_tensor *t = args.v[i].u.t;
    bool       ok = add(cx, k, nature(t)) && add(cx, k, alias_word(args, i));
    for (int d = 0; ok && d < t->rank; d++) ok = add(cx, k, t->size[d]);
    for (int d = 0; ok && d < t->rank; d++)
        ok = add(cx, k, t->size[d] == 1 ? -1 : t->stride[d]);
    if (ok && (offsets || shared(args, i))) ok = add(cx, k, t->offset);
    return ok;
}

static bool add_value(td_ctx *cx, td_key *k, td_values args, int i, bool offsets) {
    td_value v = args.v[i];
    if (v.kind == TD_K_TENSOR && !v.u.t) v = TD_NONE;
    if (!add(cx, k, v.kind)) return false;
    switch (v.kind) {
    case TD_K_TENSOR: return add_tensor(cx, k, args, i, offsets);
    case TD_K_INT:
    case TD_K_BOOL: return add(cx, k, v.u.i);
    case TD_K_FLOAT: {
        int64_t bits;
        memcpy(&bits, &v.u.f, sizeof bits);
        return add(cx, k, bits);
    }
    default: return true;
    }
}

bool td__key_make(td_ctx *cx, td_key *k, td_values args, bool offsets) {
    k->n = 0;
    bool ok = add(cx, k, args.n) &&
              add(cx, k,
                  (int64_t)cx->grad_enabled | (int64_t)cx->inference << 1 |
                      (int64_t)cx->default_dtype << 8);
    for (int i = 0; ok && i < args.n; i++) ok = add_value(cx, k, args, i, offsets);
    return ok;
}
