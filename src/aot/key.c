/* key.c -- what a call looks like, as a list of words. Two calls with the same words
 * run the same code. */
#include "aot/aot.h"

#include <string.h>

static bool add(td_ctx *cx, td_key *k, int64_t word) {
    return td__vec_push(k, word) || td__fail_memory(cx);
}

/* The values a key speaks of: arguments, then the consts of the program. */
typedef struct subject {
    td_values       args;
    const td_graph *program; /* NULL: none captured yet */
    const td_graph *guarded; /* whose inputs' symbolic sizes guards look after; NULL */
    bool            offsets;
} subject;

static int count(const subject *s) {
    return s->args.n + (s->program ? s->program->consts.n : 0);
}

/* NULL when the i-th is no tensor. */
static td_tensor *tensor_at(const subject *s, int i) {
    if (i >= s->args.n) return s->program->consts.v[i - s->args.n];
    return s->args.v[i].kind == TD_K_TENSOR ? s->args.v[i].u.t : NULL;
}

static bool share_bytes(const td_tensor *a, const td_tensor *b) {
    return a->st == b->st || (a->st->data && a->st->data == b->st->data);
}

/* How a tensor is related to those before it: 2k + 1, the same as the k-th; 2k + 2,
 * in the same bytes; 0, neither. */
static int64_t alias_word(const subject *s, int i) {
    const td_tensor *t = tensor_at(s, i);
    for (int k = 0; k < i; k++) {
        const td_tensor *u = tensor_at(s, k);
        if (u == t) return 2 * k + 1;
        if (u && share_bytes(u, t)) return 2 * k + 2;
    }
    return 0;
}

static bool is_shared(const subject *s, int i) {
    const td_tensor *t = tensor_at(s, i);
    for (int k = 0; k < count(s); k++) {
        const td_tensor *u = tensor_at(s, k);
        if (k != i && u && u != t && share_bytes(u, t)) return true;
    }
    return false;
}

static int64_t bit(td_key_bit at, bool on) { return (int64_t)on << at; }

/* Flags of a tensor that eager's rules look at. */
static int64_t nature(td_tensor *t) {
    bool needs = td__needs_grad(t);
    bool view = t->base && needs;
    bool stale =
        view && t->seen != td__version(t); /* asking for its history may fail */
    return (int64_t)t->dtype | (int64_t)t->rank << TD_KEY_RANK |
           bit(TD_KEY_NEEDS, needs) |
           bit(TD_KEY_LEAF, needs && !stale && td_is_leaf(t)) |
           bit(TD_KEY_INFERENCE, td_is_inference(t)) | bit(TD_KEY_VIEW, view) |
           (int64_t)(t->base ? t->creation : 0) << TD_KEY_CREATION |
           bit(TD_KEY_NUMBER, (t->flags & TD_TF_NUMBER) != 0) |
           bit(TD_KEY_READONLY, t->st->readonly) | bit(TD_KEY_STALE, stale);
}

/* The look of argument i where guards count; NULL: none. */
static const td_look *look_of(const subject *s, int i) {
    int at = 0;
    if (!s->guarded || i >= s->args.n) return NULL;
    for (int k = 0; k < i; k++) at += !s->program || tensor_at(s, k);
    return at < s->guarded->inputs.n ? s->guarded->inputs.v[at]->look : NULL;
}

static int64_t known(const td_look *l, int64_t want, int64_t is) {
    return l && td__dim_is_sym(want) ? TD_KEY_ANY : is;
}

static bool add_tensor(td_ctx *cx, td_key *k, const subject *s, int i) {
    td_tensor *t = tensor_at(s, i);
    bool       offset = s->offsets || is_shared(s, i);
    bool       ok = add(cx, k, nature(t) | bit(TD_KEY_OFFSET, offset)) &&
              add(cx, k, alias_word(s, i));
    const td_look *l = look_of(s, i);
    if (l && l->rank != t->rank) l = NULL;
    for (int d = 0; ok && d < t->rank; d++)
        ok = add(cx, k, known(l, l ? l->size[d] : 0, t->size[d]));
    for (int d = 0; ok && d < t->rank; d++)
        ok = add(cx, k,
                 known(l, l ? l->stride[d] : 0, t->size[d] == 1 ? -1 : t->stride[d]));
    return ok && (!offset || add(cx, k, known(l, l ? l->offset : 0, t->offset)));
}

static bool add_value(td_ctx *cx, td_key *k, const subject *s, int i) {
    if (tensor_at(s, i)) return add(cx, k, TD_K_TENSOR) && add_tensor(cx, k, s, i);
    td_value v = s->args.v[i];
    int64_t  bits = v.u.i;
    if (v.kind == TD_K_TENSOR) v.kind = TD_K_NONE;
    if (v.kind == TD_K_FLOAT) memcpy(&bits, &v.u.f, sizeof bits);
    return add(cx, k, v.kind) && (v.kind == TD_K_NONE || add(cx, k, bits));
}

bool td__key_make(td_ctx *cx, td_key *k, td_values args, const td_spec *spec) {
    subject s = {args, spec->program, NULL, spec->offsets};
    if (spec->guards && spec->plan) s.guarded = spec->plan->j->g;
    k->n = 0;
    bool ok = add(cx, k, args.n) &&
              add(cx, k,
                  (int64_t)cx->grad_enabled | (int64_t)cx->inference << 1 |
                      (int64_t)cx->default_dtype << TD_KEY_DTYPE);
    for (int i = 0; ok && i < count(&s); i++) ok = add_value(cx, k, &s, i);
    return ok;
}
