/* key.c -- what a call looks like, as a list of words. Two calls with the same words
 * run the same code. A list is written, to be remembered, or held against one that
 * was: the same walk, which then stops at the first word that differs. */
#include "aot/aot.h"

#include <string.h>

/* The values a key speaks of: arguments, the tensors closed over, gradients that
 * these keep, then what those that share bytes and take gradients are views of. */
typedef struct subject {
    td_values       args;
    const td_spec  *spec;
    const td_graph *program; /* captured; NULL: none yet, or it is the user's graph */
    const td_graph *closed;  /* whose consts are the tensors closed over; NULL: none */
    const td_graph *guarded; /* whose inputs' symbolic sizes guards look after; NULL */
    const td_kin   *kin;     /* by value */
    int             n_bases;
    bool            offsets, views;
    bool            any;     /* sizes do not count */
    int             tensors; /* arguments that were tensors, so far */
    td_key         *to;      /* written, or */
    const td_key   *with;    /* ...compared, from `at` on */
    int             at;
} subject;

/* The next word. False: it is another, or there is no memory. */
static inline bool put(subject *s, int64_t word) {
    if (s->with) return s->at < s->with->n && s->with->v[s->at++] == word;
    return td__vec_push(s->to, word);
}

static int count_given(const subject *s) {
    return s->args.n + (s->closed ? s->closed->consts.n : 0);
}
/* Without bases. */
static int count(const subject *s) { return count_given(s) + s->spec->owners.n; }

/* Of consts, gradients that are kept, and bases. */
static td_tensor *tensor_behind(const subject *s, int i);

/* NULL when the i-th is no tensor, or a gradient that is not there. */
static inline td_tensor *tensor_at(const subject *s, int i) {
    if (i >= s->args.n) return tensor_behind(s, i);
    return s->args.v[i].kind == TD_K_TENSOR ? s->args.v[i].u.t : NULL;
}

static td_tensor *tensor_behind(const subject *s, int i) {
    int given = count_given(s);
    if (i >= count(s)) return tensor_at(s, s->kin[i].view)->base;
    if (i < given) return s->closed->consts.v[i - s->args.n];
    const td_tensor *owner = tensor_at(s, s->spec->owners.v[i - given]);
    return owner ? td__own_grad(owner) : NULL;
}

/* The value that input nr of the program is. */
static int value_of(const subject *s, int nr) {
    const td_desc *d = &s->program->in_desc.v[nr];
    if (d->kind == TD_D_CONST && d->index >= 0) return s->args.n + d->index;
    for (int i = 0, at = 0; i < s->args.n; i++)
        if (tensor_at(s, i) && at++ == nr) return i;
    return s->args.n;
}

bool td__key_owners(td_spec *spec, td_values args) {
    const td_graph *p = spec->program;
    subject         s = {.args = args, .spec = spec, .program = p, .closed = p};
    bool            ok = true;
    spec->owners.n = spec->bare.n = spec->reached.n = 0;
    for (int i = 0; p && ok && i < p->inputs.n; i++)
        if (p->in_desc.v[i].kind == TD_D_OWN_GRAD)
            ok = td__vec_push(&spec->owners, value_of(&s, p->in_desc.v[i].index));
    for (int i = 0; p && ok && i < p->bare.n; i++)
        ok = td__vec_push(&spec->bare, value_of(&s, p->bare.v[i]));
    /* td_grad ends in what is wanted; td_backward adds to a gradient that it read, or
     * found absent, or that the body replaced */
    for (int i = 0; ok && i < spec->owners.n; i++)
        ok = td__vec_push(&spec->reached, spec->owners.v[i]);
    for (int i = 0; ok && i < spec->bare.n; i++)
        ok = td__vec_push(&spec->reached, spec->bare.v[i]);
    for (int i = 0; p && ok && i < p->wanted.n; i++)
        ok = td__vec_push(&spec->reached, value_of(&s, p->wanted.v[i]));
    for (int i = p ? td__graph_results(p) : 0; p && ok && i < p->outputs.n; i++)
        ok = td__vec_push(&spec->reached, value_of(&s, p->out_desc.v[i].index));
    return ok;
}

/* ---- who shares bytes --------------------------------------------------- */

static bool make_room(td_kins *k, int n) {
    n *= 2; /* each may have a base */
    if (n <= k->room) return true;
    size_t slots = 16;
    while (slots < 3 * (size_t)n) slots *= 2; /* bytes, and tensors that share them */
    td_kin      *kin = td__alloc(sizeof *kin * (size_t)n);
    td_kin_slot *slot = td__zalloc(sizeof *slot * slots);
    if (!kin || !slot) {
        td__free(kin);
        td__free(slot);
        return false;
    }
    td__kins_free(k);
    *k = (td_kins){kin, slot, n, slots - 1, 0};
    return true;
}

void td__kins_free(td_kins *k) {
    td__free(k->kin);
    td__free(k->slot);
    *k = (td_kins){0};
}

/* The first value with that key: i itself when it is new. */
static int first_of(td_kins *k, const void *key, int i) {
    size_t at = (size_t)((uintptr_t)key * 0x9e3779b97f4a7c15u >> 20) & k->mask;
    for (;; at = (at + 1) & k->mask) {
        td_kin_slot *s = &k->slot[at];
        if (s->stamp == k->stamp && s->key == key) return s->first;
        if (s->stamp == k->stamp) continue;
        *s = (td_kin_slot){key, k->stamp, i};
        return i;
    }
}

/* The first value that is t, value i, in the bytes of value `first`. */
static int same_as(td_kins *k, const subject *s, const td_tensor *t, int first, int i) {
    if (first == i || tensor_at(s, first) == t) return first;
    return first_of(k, t, i);
}

/* Storages made of the same memory count as one. Slots of earlier calls have other
 * stamps: nothing is cleared. */
static bool find_kin(td_kins *k, const subject *s) {
    int n = count(s);
    if (!make_room(k, n)) return false;
    k->stamp++;
    for (int i = 0; i < n; i++) {
        const td_tensor *t = tensor_at(s, i);
        k->kin[i] = (td_kin){i, i, -1, false};
        if (!t) continue;
        int first = first_of(k, t->st->data ? t->st->data : (const void *)t->st, i);
        k->kin[i].first = first;
        k->kin[i].same = same_as(k, s, t, first, i);
        if (k->kin[i].same != first) k->kin[i].shared = k->kin[first].shared = true;
    }
    return true;
}

/* Is there another tensor in its bytes? */
static bool is_shared(const subject *s, int i) {
    return s->kin[i].shared || s->kin[s->kin[i].first].shared;
}

/* May a history come to be among the arguments? */
static bool any_needs(const subject *s) {
    if (s->views) return true;
    for (int i = 0, n = count(s); i < n; i++)
        if (tensor_at(s, i) && td__needs_grad(tensor_at(s, i))) return true;
    return false;
}

/* Writes into one of several views move the history of the tensor they are views of, or
 * give it one where any argument has. A view of another making than the plain one, or
 * with a history of its own, is traced with its base in any case. */
static void find_bases(td_kins *k, subject *s) {
    int n = count(s), needs = -1; /* not asked yet */
    s->kin = k->kin;
    for (int i = 0; i < n; i++) {
        td_tensor *t = tensor_at(s, i);
        if (!t || !t->base) continue;
        if (t->creation == TD_MADE_PLAIN && !td__is_apart(t)) {
            if (!is_shared(s, i)) continue;
            if (needs < 0) needs = any_needs(s);
            if (!needs) continue;
        }
        int first = k->kin[i].first, at = n + s->n_bases++;
        k->kin[at] = (td_kin){first, same_as(k, s, t->base, first, at), i, true};
    }
}

/* How a tensor is related to those before it: 2k + 1, the same as the k-th; 2k + 2,
 * in the bytes of the k-th, which is the first there; 0, neither. */
static int64_t alias_word(const subject *s, int i) {
    const td_kin *k = &s->kin[i];
    if (k->first == i) return 0;
    return k->same != i ? 2 * k->same + 1 : 2 * k->first + 2;
}

/* ---- words -------------------------------------------------------------- */

static int64_t bit(td_key_bit at, bool on) { return (int64_t)on << at; }

/* Flags of a tensor that eager's rules look at. */
static int64_t nature(const subject *s, td_tensor *t) {
    bool needs = td__needs_grad(t);
    bool view = t->base && (needs || s->views);
    bool stale =
        view && t->seen != td__version(t); /* asking for its history may fail */
    return (int64_t)t->dtype | (int64_t)t->rank << TD_KEY_RANK |
           bit(TD_KEY_NEEDS, needs) |
           bit(TD_KEY_LEAF, needs && (stale ? !td__has_node(t) : td_is_leaf(t))) |
           bit(TD_KEY_INFERENCE, td_is_inference(t)) | bit(TD_KEY_VIEW, view) |
           (int64_t)(t->base ? t->creation : 0) << TD_KEY_CREATION |
           bit(TD_KEY_NUMBER, (t->flags & TD_TF_NUMBER) != 0) |
           bit(TD_KEY_READONLY, t->st->readonly) | bit(TD_KEY_STALE, stale) |
           bit(TD_KEY_MOVED, t->base && t->base->st != t->st) |
           bit(TD_KEY_OWN, view && needs && t->flags & TD_TF_NEEDS_GRAD) |
           bit(TD_KEY_APART, view && td__is_apart(t));
}

/* The look of the next argument where guards count; NULL: none. */
static const td_look *next_look(subject *s, int i) {
    if (!s->guarded || i >= s->args.n) return NULL;
    int at = s->program ? s->tensors : i;
    return at < s->guarded->inputs.n ? s->guarded->inputs.v[at]->look : NULL;
}

static int64_t known(const subject *s, const td_look *l, int64_t want, int64_t is) {
    return s->any || (l && td__dim_is_sym(want)) ? TD_KEY_ANY : is;
}

/* Bytes of its storage behind its last element: whether as_strided reads there, and
 * resize_ grows, goes by them. Of a tensor with symbolic sizes a trace knows only
 * whether there are any. */
static int64_t rest_of(const td_tensor *t, const td_look *l) {
    int64_t last = t->offset;
    bool    symbolic = false;
    for (int d = 0; d < t->rank; d++) {
        if (t->size[d] > 0) last += (t->size[d] - 1) * t->stride[d];
        symbolic |= l && td__dim_is_sym(l->size[d]);
    }
    int64_t end = t->numel ? last + 1 : 0;
    int64_t rest = (int64_t)t->st->bytes - end * td__dtype_bytes[t->dtype];
    return symbolic ? rest != 0 : rest;
}

static bool put_tensor(subject *s, int i, td_tensor *t) {
    bool           offset = s->offsets || is_shared(s, i);
    const td_look *l = next_look(s, i);
    s->tensors++;
    if (!put(s, nature(s, t) | bit(TD_KEY_OFFSET, offset) |
                    bit(TD_KEY_REST, s->offsets) | bit(TD_KEY_BASE, i >= count(s))) ||
        !put(s, alias_word(s, i)))
        return false;
    if (l && l->rank != t->rank) l = NULL;
    for (int d = 0; d < t->rank; d++)
        if (!put(s, known(s, l, l ? l->size[d] : 0, t->size[d]))) return false;
    /* Also where there is one element: results keep such strides. */
    for (int d = 0; d < t->rank; d++)
        if (!put(s, known(s, l, l ? l->stride[d] : 0, t->stride[d]))) return false;
    if (offset && !put(s, known(s, l, l ? l->offset : 0, t->offset))) return false;
    return !s->offsets || put(s, s->any ? TD_KEY_ANY : rest_of(t, l));
}

static bool put_value(subject *s, int i) {
    td_tensor *t = tensor_at(s, i);
    if (t) return put(s, TD_K_TENSOR) && put_tensor(s, i, t);
    if (i >= s->args.n) return put(s, TD_K_NONE);
    td_value v = s->args.v[i];
    int64_t  bits = v.u.i;
    if (v.kind == TD_K_TENSOR) v.kind = TD_K_NONE;
    if (v.kind == TD_K_FLOAT) memcpy(&bits, &v.u.f, sizeof bits);
    return put(s, v.kind) && (v.kind == TD_K_NONE || put(s, bits));
}

/* What follows is the gradient of the i-th. */
static bool put_owner(subject *s, int i) { return put(s, TD_KEY_GRAD) && put(s, i); }

static bool put_presence(subject *s, int i) {
    const td_tensor *t = tensor_at(s, i);
    bool             there = t && td__own_grad(t);
    return put(s, there ? TD_K_BOOL : TD_K_NONE) && (!there || put(s, 1));
}

static int64_t modes_word(const td_ambient *a) {
    td_modes m = td__modes_of(a);
    return (int64_t)m.grad | (int64_t)m.inference << 1 |
           (int64_t)m.default_dtype << TD_KEY_DTYPE |
           (int64_t)m.autocast << TD_KEY_AUTOCAST;
}

/* Does the history of one value pass through another, whose gradient a td_grad in the
 * body computes? */
static bool any_passes(const subject *s, td_ctx *cx) {
    const td_graph *p = s->program;
    for (int k = 0; p && k < p->wanted.n; k++) {
        td_tensor *to = tensor_at(s, value_of(s, p->wanted.v[k]));
        for (int i = 0, n = count_given(s); to && i < n; i++) {
            td_tensor *t = tensor_at(s, i);
            if (t && td__needs_grad(t) && td__history_passes(t, to) > 0) return true;
        }
    }
    return !td_ok(cx);
}

/* Has a tensor hooks that a backward in the body would run? */
static bool any_hooked(const subject *s) {
    for (int i = 0; i < s->spec->reached.n; i++) {
        const td_tensor *t = tensor_at(s, s->spec->reached.v[i]);
        if (t && td__grad_hooked(t, true)) return true;
    }
    return false;
}

static bool put_all(td_fn *f, subject *s, const td_spec *spec) {
    s->spec = spec;
    s->program = spec->program;
    s->closed = s->any ? NULL : td__spec_program(f, spec);
    s->offsets = spec->offsets;
    s->views = spec->views;
    const td_joint *j = spec->plan ? spec->plan->j : spec->j;
    if (spec->guards && j) s->guarded = j->g;
    int64_t modes = modes_word(&f->cx->ambient);
    if (TD_UNLIKELY(s->program && s->program->wanted.n > 0))
        modes |= bit(TD_KEY_PASSES, any_passes(s, f->cx));
    modes |= bit(TD_KEY_HOOKED, any_hooked(s));
    if (!put(s, s->args.n) || !put(s, modes)) return false;
    if (!find_kin(&f->kins, s)) return td__fail_memory(f->cx);
    find_bases(&f->kins, s);
    int given = count_given(s);
    for (int i = 0; i < given; i++)
        if (!put_value(s, i)) return false;
    for (int i = 0; i < spec->owners.n; i++)
        if (!put_owner(s, spec->owners.v[i]) || !put_value(s, given + i)) return false;
    for (int i = 0; i < spec->bare.n; i++)
        if (!put_owner(s, spec->bare.v[i]) || !put_presence(s, spec->bare.v[i]))
            return false;
    for (int i = 0; i < s->n_bases; i++)
        if (!put_value(s, count(s) + i)) return false;
    return true;
}

bool td__key_make(td_fn *f, td_key *k, td_values args, const td_spec *spec) {
    subject s = {.args = args, .to = k};
    k->n = 0;
    return put_all(f, &s, spec) || td__fail_memory(f->cx);
}

bool td__key_make_any(td_fn *f, td_key *k, td_values args) {
    const td_spec none = {.views = true};
    subject       s = {.args = args, .to = k, .any = true};
    k->n = 0;
    return put_all(f, &s, &none) || td__fail_memory(f->cx);
}

bool td__key_fits(td_fn *f, td_values args, const td_spec *spec) {
    subject s = {.args = args, .with = &spec->key};
    return put_all(f, &s, spec) && s.at == spec->key.n;
}
