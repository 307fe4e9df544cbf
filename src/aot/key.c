/* key.c -- the key of a call (layout in aot.h). One walk over the values writes a
 * key, or compares it with a key word by word and stops at the first difference.
 * Comparison is on the path of every call, so it allocates nothing in the steady
 * state. */
#include "aot/aot.h"

#include <string.h>

/* The walk's state. Values are numbered: arguments, closed-over tensors, gradients
 * that the program reads, then bases of views. */
typedef struct subject {
    td_values       args;
    const td_spec  *spec;
    const td_graph *program;   /* captured; NULL: not yet, or it is the user's graph */
    const td_graph *closed;    /* its consts are the closed-over tensors; NULL: none */
    const td_graph *guarded;   /* guards check its symbolic sizes; NULL: no guards */
    const td_arg_alias *group; /* by value */
    int                 given; /* arguments and closed-over tensors */
    int                 n;     /* all values but the bases */
    int                 n_bases;
    bool                offsets, views, reads;
    bool                marks;   /* marked dims must be symbols */
    bool                any;     /* write TD_KEY_ANY for sizes, strides and offsets */
    int                 tensors; /* tensor arguments walked so far */
    td_key             *to;      /* write the key here; NULL: compare it with */
    const int64_t      *next;    /* ...the words from here */
    const int64_t      *end;     /* ...to here */
} subject;

/* Writes or compares the next word. False: it differs, or out of memory. */
static inline bool put(subject *s, int64_t word) {
    if (TD_LIKELY(s->next != s->end)) return *s->next++ == word;
    return s->to && td__vec_push(s->to, word);
}

/* The same for a list of words. */
static inline bool put_list(subject *s, const int64_t *v, int n) {
    const int64_t *at = s->next;
    if (!n) return true; /* nothing may be known yet: NULL */
    if (TD_UNLIKELY(s->end - at < n)) {
        for (int i = 0; i < n; i++)
            if (!put(s, v[i])) return false;
        return true;
    }
    s->next = at + n;
    for (int i = 0; i < n; i++)
        if (at[i] != v[i]) return false;
    return true;
}

static void count_values(subject *s) {
    s->given = s->args.n + (s->closed ? s->closed->consts.n : 0);
    s->n = s->given + s->spec->grads_read.n;
}

/* Declared here because a gradient or base is found through another value. */
static td_tensor *tensor_after_args(const subject *s, int i);

/* The tensor of value i; NULL: it is no tensor, or the gradient does not exist. */
static inline td_tensor *tensor_at(const subject *s, int i) {
    if (i >= s->args.n) return tensor_after_args(s, i);
    return s->args.v[i].kind == TD_K_TENSOR ? s->args.v[i].u.t : NULL;
}

/* The tensor of a value that is no argument: a const, a gradient or a base. */
static td_tensor *tensor_after_args(const subject *s, int i) {
    if (i >= s->n) return tensor_at(s, s->group[i].view)->base;
    if (i < s->given) return s->closed->consts.v[i - s->args.n];
    const td_tensor *owner = tensor_at(s, s->spec->grads_read.v[i - s->given]);
    return owner ? td__own_grad(owner) : NULL;
}

/* The number of the value that is input nr of the program. */
static int value_of(const subject *s, int nr) {
    const td_desc *d = &s->program->in_desc.v[nr];
    if (d->kind == TD_D_CONST && d->index >= 0) return s->args.n + d->index;
    for (int i = 0, at = 0; i < s->args.n; i++)
        if (tensor_at(s, i) && at++ == nr) return i;
    return s->args.n;
}

/* Finds the tensors whose .grad the body reads, finds absent, or replaces: for these
 * the key of a call has a word for whether a gradient exists. */
bool td__key_find_grads(td_spec *spec, td_values args) {
    const td_graph *p = spec->program;
    subject         s = {.args = args, .spec = spec, .program = p, .closed = p};
    bool            ok = true;
    spec->grads_read.n = spec->grads_absent.n = spec->grad_targets.n = 0;
    count_values(&s);
    for (int i = 0; p && ok && i < p->inputs.n; i++)
        if (p->in_desc.v[i].kind == TD_D_OWN_GRAD)
            ok = td__vec_push(&spec->grads_read, value_of(&s, p->in_desc.v[i].index));
    for (int i = 0; p && ok && i < p->noted[TD_NOTED_BARE].n; i++)
        ok = td__vec_push(&spec->grads_absent,
                          value_of(&s, p->noted[TD_NOTED_BARE].v[i]));
    /* The targets of a backward inside: td_grad's inputs (wanted), and for td_backward
     * every tensor whose .grad it read, found absent, or that the body replaced. */
    for (int i = 0; ok && i < spec->grads_read.n; i++)
        ok = td__vec_push(&spec->grad_targets, spec->grads_read.v[i]);
    for (int i = 0; ok && i < spec->grads_absent.n; i++)
        ok = td__vec_push(&spec->grad_targets, spec->grads_absent.v[i]);
    for (int i = 0; p && ok && i < p->noted[TD_NOTED_WANTED].n; i++)
        ok = td__vec_push(&spec->grad_targets,
                          value_of(&s, p->noted[TD_NOTED_WANTED].v[i]));
    for (int i = p ? td__graph_results(p) : 0; p && ok && i < p->outputs.n; i++)
        ok = td__vec_push(&spec->grad_targets, value_of(&s, p->out_desc.v[i].index));
    return ok;
}

/* ---- values by storage --------------------------------------------------- */

/* Makes room for n values and their bases. False: out of memory. */
static bool reserve(td_arg_aliases *k, int n) {
    n *= 2; /* each may have a base */
    if (n <= k->cap) return true;
    size_t slots = 16;
    while (slots < 3 * (size_t)n) slots *= 2; /* bytes, and tensors that share them */
    td_arg_alias  *group = td__alloc(sizeof *group * (size_t)n);
    td_alias_slot *slot = td__zalloc(sizeof *slot * slots);
    if (!group || !slot) {
        td__free(group);
        td__free(slot);
        return false;
    }
    td__arg_aliases_free(k);
    *k = (td_arg_aliases){group, slot, n, slots - 1, 0};
    return true;
}

void td__arg_aliases_free(td_arg_aliases *k) {
    td__free(k->group);
    td__free(k->slot);
    *k = (td_arg_aliases){0};
}

/* The first value with that table key; i itself if the key is new. */
static int first_of(td_arg_aliases *k, const void *key, int i) {
    size_t at = (size_t)((uintptr_t)key * 0x9e3779b97f4a7c15u >> 20) & k->mask;
    for (;; at = (at + 1) & k->mask) {
        td_alias_slot *s = &k->slot[at];
        if (s->stamp == k->stamp && s->key == key) return s->first;
        if (s->stamp == k->stamp) continue;
        *s = (td_alias_slot){key, k->stamp, i};
        return i;
    }
}

/* The first value that is tensor t (value i), whose storage begins with value
 * `first`. */
static int same_as(td_arg_aliases *k, const subject *s, const td_tensor *t, int first,
                   int i) {
    if (first == i || tensor_at(s, first) == t) return first;
    return first_of(k, t, i);
}

/* Groups the values by storage. Two storages over the same memory count as one.
 * False: out of memory. */
static bool find_groups(td_arg_aliases *k, const subject *s) {
    int n = s->n;
    if (!reserve(k, n)) return false;
    k->stamp++;
    for (int i = 0; i < n; i++) {
        const td_tensor *t = tensor_at(s, i);
        k->group[i] = (td_arg_alias){i, i, -1, false};
        if (!t) continue;
        int first = first_of(k, t->st->data ? t->st->data : (const void *)t->st, i);
        k->group[i].first = first;
        k->group[i].same = same_as(k, s, t, first, i);
        if (k->group[i].same != first)
            k->group[i].shared = k->group[first].shared = true;
    }
    return true;
}

/* Does another tensor among the values share its storage? */
static bool is_shared(const subject *s, int i) {
    return s->group[i].shared || s->group[s->group[i].first].shared;
}

/* Can the call give a history to one of its values? Then bases of views matter. */
static bool any_needs(const subject *s) {
    if (s->views) return true;
    for (int i = 0, n = s->n; i < n; i++)
        if (tensor_at(s, i) && td__needs_grad(tensor_at(s, i))) return true;
    return false;
}

/* Adds the bases whose state decides what the call does. A write through one of
 * several views changes the base's history, or gives it one if any value requires
 * grad. A view that was made under no_grad, by split or by a custom function, or that
 * has its own grad_fn, is always traced with its base. */
static void find_bases(td_arg_aliases *k, subject *s) {
    int n = s->n, needs = -1; /* not computed yet */
    s->group = k->group;
    for (int i = 0; i < n; i++) {
        td_tensor *t = tensor_at(s, i);
        if (!t || !t->base) continue;
        if (t->creation == TD_MADE_PLAIN && !td__is_apart(t)) {
            if (!is_shared(s, i)) continue;
            if (needs < 0) needs = any_needs(s);
            if (!needs) continue;
        }
        int first = k->group[i].first, at = n + s->n_bases++;
        k->group[at] =
            (td_arg_alias){first, same_as(k, s, t->base, first, at), i, true};
    }
}

/* The alias word of value i; aot.h has its encoding. */
static int64_t alias_word(const subject *s, int i) {
    const td_arg_alias *k = &s->group[i];
    if (k->first == i) return 0;
    return k->same != i ? 2 * k->same + 1 : 2 * k->first + 2;
}

/* ---- words -------------------------------------------------------------- */

static int64_t bit(td_key_bit at, bool on) { return (int64_t)on << at; }

/* The accumulation node of t, if it matters; NULL: it does not, or there is none. */
static const td_node *read_of(const subject *s, const td_tensor *t) {
    return s->reads && t->flags & TD_TF_NEEDS_GRAD ? td__known_accumulator(t) : NULL;
}

/* The bits word of a tensor: dtype, rank and the flags that eager's rules depend on. */
static int64_t bits_word(const subject *s, td_tensor *t) {
    bool needs = td__needs_grad(t);
    bool plain = !(t->flags & (TD_TF_INFERENCE | TD_TF_NUMBER)) && !t->st->readonly &&
                 !t->st->device;
    if (TD_LIKELY(!t->base && plain && !t->cx->fake)) /* the common case, for speed */
        return (int64_t)t->dtype | (int64_t)t->rank << TD_KEY_RANK |
               bit(TD_KEY_NEEDS, needs) | bit(TD_KEY_LEAF, needs && !td__has_node(t));
    bool view = t->base && (needs || s->views);
    bool stale = view && t->seen != td__version(t); /* then td_is_leaf may fail */
    return (int64_t)t->dtype | (int64_t)t->rank << TD_KEY_RANK |
           bit(TD_KEY_NEEDS, needs) |
           bit(TD_KEY_LEAF, needs && (stale ? !td__has_node(t) : td_is_leaf(t))) |
           bit(TD_KEY_INFERENCE, td_is_inference(t)) |
           bit(TD_KEY_NUMBER, t->flags & TD_TF_NUMBER) | bit(TD_KEY_VIEW, view) |
           (int64_t)(t->base ? t->creation : 0) << TD_KEY_CREATION |
           bit(TD_KEY_READONLY, t->st->readonly) | bit(TD_KEY_STALE, stale) |
           bit(TD_KEY_MOVED, t->base && t->base->st != t->st) |
           bit(TD_KEY_OWN, view && needs && t->flags & TD_TF_NEEDS_GRAD) |
           bit(TD_KEY_APART, view && td__is_apart(t)) |
           bit(TD_KEY_OBJECT, t->st->object) | /* which is read-only */
           (int64_t)t->st->device << TD_KEY_DEVICE;
}

/* The type of argument i as the guarded graph has it; NULL: guards do not concern it.
 */
static const td_gtype *guarded_type(subject *s, int i) {
    if (!s->guarded || i >= s->args.n) return NULL;
    int at = s->program ? s->tensors : i;
    return at < s->guarded->inputs.n ? s->guarded->inputs.v[at]->type : NULL;
}

/* The word for a size, stride or offset: TD_KEY_ANY if guards check it. */
static int64_t size_word(const subject *s, const td_gtype *l, int64_t want,
                         int64_t is) {
    return s->any || (l && td__dim_is_sym(want)) ? TD_KEY_ANY : is;
}

/* Sizes or strides; want NULL: guards concern none. */
static bool put_sizes(subject *s, const int64_t *want, const int64_t *is, int n) {
    if (TD_LIKELY(!want && !s->any)) return put_list(s, is, n);
    for (int d = 0; d < n; d++)
        if (!put(s, s->any || td__dim_is_sym(want[d]) ? TD_KEY_ANY : is[d]))
            return false;
    return true;
}

/* Bytes of the storage after the tensor's last element. as_strided may read them, and
 * resize_ grows the storage only beyond them. With symbolic sizes a trace
 * distinguishes only 0 from more. */
static int64_t rest_of(const td_tensor *t, const td_gtype *l) {
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

/* The sizes in which leaf t was read: rank and sizes, or -1 for its own. */
static bool put_sizes_read(subject *s, const td_tensor *t, const td_geom *g) {
    bool same = g->rank == t->rank && td__dims_same(g->size, t->size, t->rank);
    if (!put(s, same ? -1 : g->rank)) return false;
    for (int d = 0; d < g->rank && !same; d++)
        if (!put(s, g->size[d])) return false;
    return true;
}

static td_tensor *value_at(const void *env, int i) { return tensor_at(env, i); }

/* What a tensor of a type consists of. */
static bool put_typed(subject *s, int i, const td_tensor *t, const td_gtype *l) {
    td_key        words = {0};
    td_key_values all = {value_at, s, s->n};
    bool          ok =
        td__key_typed(&all, i, t, l ? l->of : NULL, s->any, &words) && put(s, words.n);
    for (int k = 0; ok && k < words.n; k++) ok = put(s, words.v[k]);
    td__vec_free(&words);
    return ok;
}

/* The words of a tensor: flags, alias, sizes, strides, and the offset if it matters. A
 * size that is a symbol in the program is TD_KEY_ANY: guards check it instead. */
static bool put_tensor(subject *s, int i, td_tensor *t) {
    bool            offset = s->offsets || is_shared(s, i);
    const td_gtype *l = guarded_type(s, i);
    const td_node  *read = read_of(s, t);
    s->tensors++;
    if (!put(s, bits_word(s, t) | bit(TD_KEY_OFFSET, offset) |
                    bit(TD_KEY_REST, s->offsets) | bit(TD_KEY_BASE, i >= s->n) |
                    bit(TD_KEY_READ, read) | bit(TD_KEY_TYPED, t->typed != NULL)) ||
        !put(s, alias_word(s, i)))
        return false;
    if (l && l->rank != t->rank) l = NULL;
    if (TD_UNLIKELY(t->marks) && s->marks && i < s->args.n && !td__marks_served(t, l))
        return false;
    if (!put_sizes(s, l ? l->size : NULL, t->size, t->rank)) return false;
    /* Also where there is one element: results keep such strides. */
    if (!put_sizes(s, l ? l->stride : NULL, t->stride, t->rank)) return false;
    if (offset && !put(s, size_word(s, l, l ? l->offset : 0, t->offset))) return false;
    if (s->offsets && !put(s, s->any ? TD_KEY_ANY : rest_of(t, l))) return false;
    bool object = TD_UNLIKELY(t->st->readonly) && t->st->object;
    if (object && !put(s, (int64_t)t->st->object_key)) return false;
    if (read && !put_sizes_read(s, t, &read->out_type[0])) return false;
    return TD_LIKELY(!t->typed) || put_typed(s, i, t, l);
}

/* A value's words; what is no argument and no tensor is an absent gradient. */
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

/* Introduces the gradient of value i. */
static bool put_grad_of(subject *s, int i) { return put(s, TD_KEY_GRAD) && put(s, i); }

/* Whether value i has a .grad, without its type. */
static bool put_presence(subject *s, int i) {
    const td_tensor *t = tensor_at(s, i);
    bool             there = t && td__own_grad(t);
    return put(s, there ? TD_K_BOOL : TD_K_NONE) && (!there || put(s, 1));
}

/* Grad mode, inference mode, default device and dtype, and autocast as bits. */
static int64_t modes_word(const td_ambient *a) {
    td_modes m = td__modes_of(a);
    return (int64_t)m.grad | (int64_t)m.inference << 1 |
           (int64_t)m.device << TD_KEY_MAKES |
           (int64_t)m.default_dtype << TD_KEY_DTYPE |
           (int64_t)m.autocast << TD_KEY_AUTOCAST;
}

/* Does the history of a value that gradients of a td_grad in the body reach pass
 * through another whose gradient it computes? Then that depends on history outside of
 * the program. */
static bool any_passes(const subject *s, td_ctx *cx) {
    static const td_input_list none;
    const td_graph            *p = s->program;
    const td_input_list       *wanted = p ? &p->noted[TD_NOTED_WANTED] : &none;
    const td_input_list       *reached = p ? &p->noted[TD_NOTED_REACHED] : &none;
    for (int k = 0; k < wanted->n; k++) {
        td_tensor *to = tensor_at(s, value_of(s, wanted->v[k]));
        for (int i = 0; to && i < reached->n; i++) {
            td_tensor *t = tensor_at(s, value_of(s, reached->v[i]));
            if (t && td__needs_grad(t) && td__history_passes(t, to) > 0) return true;
        }
    }
    return !td_ok(cx);
}

/* Does a target of the body's backward have gradient hooks? Compiled code would skip
 * them. */
static bool any_hooked(const subject *s) {
    for (int i = 0; i < s->spec->grad_targets.n; i++) {
        const td_tensor *t = tensor_at(s, s->spec->grad_targets.v[i]);
        if (t && td__grad_hooked(t, true)) return true;
    }
    return false;
}

/* The whole walk. False: a word differs, or out of memory (then td__fail may not have
 * run). */
static bool put_all(td_fn *f, subject *s, const td_spec *spec) {
    s->spec = spec;
    s->program = spec->program;
    s->closed = s->any ? NULL : td__spec_program(f, spec);
    s->offsets = spec->offsets;
    s->views = spec->views;
    s->reads = spec->reads;
    const td_joint *j = spec->plan ? spec->plan->j : spec->j;
    if (spec->guards && j) s->guarded = j->g;
    count_values(s);
    int64_t modes = modes_word(&f->cx->ambient);
    if (TD_UNLIKELY(s->program && s->program->noted[TD_NOTED_WANTED].n > 0))
        modes |= bit(TD_KEY_PASSES, any_passes(s, f->cx));
    modes |= bit(TD_KEY_HOOKED, any_hooked(s));
    if (!put(s, s->args.n) || !put(s, modes)) return false;
    if (!find_groups(&f->aliases, s)) return td__fail_memory(f->cx);
    find_bases(&f->aliases, s);
    for (int i = 0; i < s->given; i++)
        if (!put_value(s, i)) return false;
    for (int i = 0; i < spec->grads_read.n; i++)
        if (!put_grad_of(s, spec->grads_read.v[i]) || !put_value(s, s->given + i))
            return false;
    for (int i = 0; i < spec->grads_absent.n; i++)
        if (!put_grad_of(s, spec->grads_absent.v[i]) ||
            !put_presence(s, spec->grads_absent.v[i]))
            return false;
    for (int i = 0; i < s->n_bases; i++)
        if (!put_value(s, s->n + i)) return false;
    return true;
}

bool td__key_make(td_fn *f, td_key *k, td_values args, const td_spec *spec) {
    subject s = {.args = args, .to = k};
    k->n = 0;
    return put_all(f, &s, spec) || td__fail_memory(f->cx);
}

/* A key in which every size is TD_KEY_ANY: the part of the cache key that must be equal
 * for all sizes. */
bool td__key_make_any(td_fn *f, td_key *k, td_values args) {
    const td_spec none = {.views = true};
    subject       s = {.args = args, .to = k, .any = true};
    k->n = 0;
    return put_all(f, &s, &none) || td__fail_memory(f->cx);
}

bool td__key_fits(td_fn *f, td_values args, const td_spec *spec) {
    const td_key *k = &spec->key;
    subject       s = {.args = args, .next = k->v, .end = k->n ? k->v + k->n : k->v};
    s.marks = !f->inner && td__marks_count(spec);
    return put_all(f, &s, spec) && s.next == s.end;
}
