/* key_diff.c -- keys as text: the properties that a specialization relies on, and the
 * first difference between a call and a specialization. aot.h has the layout of keys.
 */
#include "core/device.h"
#include "aot/aot.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- reading a key ------------------------------------------------------ */

/* One value of a key: an argument, a closed-over tensor, a gradient or a base. */
typedef struct key_item {
    int            owner; /* the value whose .grad it is; -1: no gradient */
    td_kind        kind;
    int64_t        bits; /* td_key_bit of a tensor, or the bits of a number */
    int64_t        alias;
    int            rank;
    const int64_t *size, *stride;
    int64_t        offset;    /* if TD_KEY_OFFSET */
    int64_t        rest;      /* if TD_KEY_REST */
    int64_t        object;    /* if TD_KEY_OBJECT */
    int            read_rank; /* if TD_KEY_READ: -1: it was read in the sizes it has */
    const int64_t *read;      /* ...else in these */
    int            n_typed;   /* if TD_KEY_TYPED: words about inner tensors, */
    const int64_t *typed;     /* ...these: type, two of metadata, the rest */
} key_item;

/* Decodes the item at word *at and moves *at past it. */
static key_item next_item(const td_key *k, int *at) {
    key_item s = {.owner = -1};
    if (k->v[*at] == TD_KEY_GRAD) {
        s.owner = (int)k->v[*at + 1];
        *at += 2;
    }
    s.kind = (td_kind)k->v[(*at)++];
    if (s.kind == TD_K_NONE) return s;
    s.bits = k->v[(*at)++];
    if (s.kind != TD_K_TENSOR) return s;
    s.alias = k->v[(*at)++];
    s.rank = (int)(s.bits >> TD_KEY_RANK & 255);
    s.size = k->v + *at;
    s.stride = s.size + s.rank;
    *at += 2 * s.rank;
    if (s.bits >> TD_KEY_OFFSET & 1) s.offset = k->v[(*at)++];
    if (s.bits >> TD_KEY_REST & 1) s.rest = k->v[(*at)++];
    if (s.bits >> TD_KEY_OBJECT & 1) s.object = k->v[(*at)++];
    s.read_rank = s.bits >> TD_KEY_READ & 1 ? (int)k->v[(*at)++] : -1;
    s.read = k->v + *at;
    if (s.read_rank > 0) *at += s.read_rank;
    if (s.bits >> TD_KEY_TYPED & 1) {
        s.n_typed = (int)k->v[(*at)++];
        s.typed = k->v + *at;
        *at += s.n_typed;
    }
    return s;
}

/* The words of the item at word `at`, which may be anything; 0: they are none. */
static int item_words(const td_key *k, int at) {
    const int64_t *v = k->v + at;
    int            left = k->n - at, n = left > 0 && v[0] == TD_KEY_GRAD ? 2 : 0;
    if (left < n + 1 || (n && (v[1] < 0 || v[1] >= k->n))) return 0;
    int64_t kind = v[n++];
    if (kind == TD_K_NONE) return n;
    if (left < ++n || kind < 0 || kind > UINT8_MAX) return 0;
    if (kind != TD_K_TENSOR) return n;
    int64_t bits = v[n - 1], rank = bits >> TD_KEY_RANK & 255;
    if (rank > TD_MAX_RANK || left < ++n || v[n - 1] < 0 || v[n - 1] > 2 * k->n)
        return 0;
    n += 2 * (int)rank + (int)(bits >> TD_KEY_OFFSET & 1) +
         (int)(bits >> TD_KEY_REST & 1) + (int)(bits >> TD_KEY_OBJECT & 1);
    if (bits >> TD_KEY_READ & 1) {
        if (left < ++n || v[n - 1] < -1 || v[n - 1] > TD_MAX_RANK) return 0;
        n += v[n - 1] > 0 ? (int)v[n - 1] : 0;
    }
    if (bits >> TD_KEY_TYPED & 1) { /* a type and two words of metadata at least */
        if (left < ++n || v[n - 1] < 3 || v[n - 1] > left) return 0;
        n += (int)v[n - 1];
    }
    return n <= left ? n : 0;
}

bool td__key_valid(const td_key *k) {
    int at = 2, words = 1;
    if (k->n < 2 || k->v[0] < 0 || k->v[0] > k->n || k->v[1] < 0) return false;
    for (; words && at < k->n; at += words) words = item_words(k, at);
    return words != 0;
}

static td_dtype dtype_of(const key_item *s) { return (td_dtype)(s->bits & 255); }

static uint8_t device_of(const key_item *s) {
    return (uint8_t)(s->bits >> TD_KEY_DEVICE & 255);
}

static bool has(const key_item *s, td_key_bit bit) { return s->bits >> bit & 1; }

static bool is_base(const key_item *s) {
    return s->kind == TD_K_TENSOR && has(s, TD_KEY_BASE);
}

/* How messages name an item: "argument 2", "closed-over tensor 0", "the gradient of
 * fc1.weight", "the base of a view". */
typedef struct subject {
    const td_fn   *f;    /* names members, and... */
    const td_spec *spec; /* ...closed-over tensors; both NULL: all have numbers */
    int            i, n_args;
    bool           grad, base;
} subject;

/* The name of closed-over tensor k, a member of a module that the body used; NULL:
 * none. */
static const char *closed_name(const td_spec *s, int k) {
    const td_graph *g = s ? s->program : NULL;
    char            number[24];
    snprintf(number, sizeof number, "c%d", k);
    for (int i = 0; g && i < g->inputs.n; i++) {
        const td_desc *d = &g->in_desc.v[i];
        const char    *name = g->inputs.v[i]->name;
        if (d->kind == TD_D_CONST && d->index == k)
            return name && strcmp(name, number) != 0 ? name : NULL;
    }
    return NULL;
}

static const char *subject_text(subject s, char out[120]) {
    const char *of = s.grad ? "the gradient of " : "";
    const char *closed = s.i >= s.n_args ? closed_name(s.spec, s.i - s.n_args) : NULL;
    char        arg[80];
    if (s.base) snprintf(out, 120, "the base of a view");
    else if (s.i < s.n_args && s.f)
        snprintf(out, 120, "%s%s", of, td__arg_name(s.f, s.i, arg));
    else if (s.i < s.n_args) snprintf(out, 120, "%sargument %d", of, s.i);
    else if (closed) snprintf(out, 120, "%s%.80s", of, closed);
    else snprintf(out, 120, "%sclosed-over tensor %d", of, s.i - s.n_args);
    return out;
}

/* The name of item s, the i-th of key `of`, whose first word counts arguments. */
static subject subject_of(const key_item *s, int i, const td_key *of) {
    return (subject){NULL,          NULL,          s->owner < 0 ? i : s->owner,
                     (int)of->v[0], s->owner >= 0, is_base(s)};
}

/* ---- differences -------------------------------------------------------- */

/* What to print when a flag of a tensor changes. */
typedef struct flag_text {
    td_key_bit  bit;
    const char *now, *no_more;
} flag_text;

static const flag_text flags[] = {
    {TD_KEY_NEEDS, "requires grad now", "no longer requires grad"},
    {TD_KEY_LEAF, "is a leaf now", "is no longer a leaf"},
    {TD_KEY_NUMBER, "is a number that varies now", "is no longer a number that varies"},
    {TD_KEY_INFERENCE, "is an inference tensor now",
     "is no longer an inference tensor"},
    {TD_KEY_VIEW, "is a view now", "is no longer a view"},
    {TD_KEY_READONLY, "is read-only now", "is no longer read-only"},
    {TD_KEY_STALE, "is a stale view now (its base was written)",
     "is no longer a stale view"},
    {TD_KEY_OWN, "is a view that requires grad by itself now",
     "is no longer a view that requires grad by itself"},
    {TD_KEY_APART, "is a view whose grad_fn is not its base's now",
     "is no longer a view whose grad_fn is not its base's"},
    {TD_KEY_MOVED, "is a view whose base has another storage now",
     "is no longer a view whose base has another storage"},
    {TD_KEY_OBJECT, "is an object now", "is no longer an object"},
    {TD_KEY_TYPED, "is of a type now", "is no longer of a type"},
    {TD_KEY_READ, "is a leaf that an op has read now",
     "is no longer a leaf that an op has read"},
};

/* Each differ_ function appends the first difference it finds and returns true, or
 * returns false. */
static bool differ_flags(td_buf *b, const char *who, const key_item *now,
                         const key_item *was) {
    for (int i = 0; i < TD_COUNT(flags); i++) {
        bool a = has(now, flags[i].bit), c = has(was, flags[i].bit);
        if (a == c) continue;
        td__buf_printf(b, "%s %s", who, a ? flags[i].now : flags[i].no_more);
        return true;
    }
    int64_t made = now->bits >> TD_KEY_CREATION & 15;
    if (made == (was->bits >> TD_KEY_CREATION & 15)) return false;
    td__buf_printf(b, "%s is a view made in another way (grad mode, or by split)", who);
    return true;
}

/* An alias word is 2 * (index of the other argument + 1), plus 1 if it is the same
 * tensor; 0: shares with none before it. */
static bool differ_alias(td_buf *b, subject s, const key_item *now,
                         const key_item *was) {
    char who[120], other[120];
    if (now->alias == was->alias) return false;
    const key_item *one = now->alias ? now : was;
    subject         k = s;
    k.i = (int)((one->alias - 1) / 2);
    k.grad = k.base = false;
    bool same = one->alias & 1;
    if (now->alias && same)
        td__buf_printf(b, "%s is the same tensor as %s now", subject_text(s, who),
                       subject_text(k, other));
    else if (now->alias)
        td__buf_printf(b, "%s and %s share storage now", subject_text(k, other),
                       subject_text(s, who));
    else
        td__buf_printf(b, "%s and %s no longer %s", subject_text(k, other),
                       subject_text(s, who),
                       same ? "are the same tensor" : "share storage");
    return true;
}

/* Do words of the call and of the specialization differ? Guards check TD_KEY_ANY. */
static bool words_differ(int64_t now, int64_t was) {
    return now != was && was != TD_KEY_ANY;
}

/* Compares sizes or strides; v[0] is the call's, v[1] the specialization's. */
static bool differ_dims(td_buf *b, const char *who, const char *what, int rank,
                        const int64_t *const v[2]) {
    for (int d = 0; d < rank; d++) {
        if (!words_differ(v[0][d], v[1][d])) continue;
        td__buf_printf(b, "%s: %s %" PRId64 " at dim %d, was %" PRId64, who, what,
                       v[0][d], d, v[1][d]);
        return true;
    }
    return false;
}

/* Offset, the storage after the last element, the sizes in which a leaf was read. */
static bool differ_rest(td_buf *b, const char *who, const key_item *now,
                        const key_item *was) {
    bool read = now->read_rank == was->read_rank;
    bool offset = words_differ(now->offset, was->offset),
         rest = words_differ(now->rest, was->rest);
    for (int d = 0; d < now->read_rank && read; d++)
        read = !words_differ(now->read[d], was->read[d]);
    if (offset)
        td__buf_printf(b,
                       "%s begins at element %" PRId64 " of its storage, was %" PRId64,
                       who, now->offset, was->offset);
    else if (rest)
        td__buf_printf(b, "the storage of %s has another size after it", who);
    else if (now->object != was->object)
        td__buf_printf(b, "%s is an object of another type or key", who);
    else if (!read)
        td__buf_printf(b, "%s is a leaf that was first read in other sizes now", who);
    return offset || rest || now->object != was->object || !read;
}

/* Type, metadata, inner tensors. That one of the two is plain is a flag. */
static bool differ_typed(td_buf *b, const char *who, const key_item *now,
                         const key_item *was) {
    size_t n = sizeof *now->typed * (size_t)now->n_typed;
    if (now->n_typed == was->n_typed && (!n || !memcmp(now->typed, was->typed, n)))
        return false;
    bool type = !now->n_typed || !was->n_typed || now->typed[0] != was->typed[0];
    bool meta = !type && memcmp(now->typed + 1, was->typed + 1, 2 * sizeof *now->typed);
    td__buf_printf(b, "%s has %s", who,
                   type   ? "another type"
                   : meta ? "other metadata"
                          : "inner tensors of other sizes, strides, types or aliases");
    return true;
}

/* In the order of likelihood: dtype, rank, sizes, aliasing, flags, strides, offset. */
static bool differ_tensor(td_buf *b, subject s, const key_item *now,
                          const key_item *was) {
    char           who[120];
    const int64_t *sizes[2] = {now->size, was->size};
    const int64_t *strides[2] = {now->stride, was->stride};
    subject_text(s, who);
    if (device_of(now) != device_of(was)) {
        td__buf_printf(b, "%s: on %s, was on %s", who, td__device_str(device_of(now)),
                       td__device_str(device_of(was)));
        return true;
    }
    if (dtype_of(now) != dtype_of(was)) {
        td__buf_printf(b, "%s: dtype %s, was %s", who, td_dtype_name(dtype_of(now)),
                       td_dtype_name(dtype_of(was)));
        return true;
    }
    if (now->rank != was->rank) {
        td__buf_printf(b, "%s: %d dims, were %d", who, now->rank, was->rank);
        return true;
    }
    if (differ_dims(b, who, "size", now->rank, sizes) || differ_alias(b, s, now, was) ||
        differ_flags(b, who, now, was) ||
        differ_dims(b, who, "stride", now->rank, strides) ||
        differ_rest(b, who, now, was))
        return true;
    return differ_typed(b, who, now, was);
}

static void number_text(td_buf *b, const key_item *s) {
    double f;
    memcpy(&f, &s->bits, sizeof f);
    if (s->kind == TD_K_FLOAT) td__buf_printf(b, "%g", f);
    else if (s->kind == TD_K_BOOL) td__buf_add(b, s->bits ? "true" : "false");
    else td__buf_printf(b, "%" PRId64, s->bits);
}

static const char *kind_word(td_kind kind) {
    switch (kind) {
    case TD_K_NONE: return "absent";
    case TD_K_TENSOR: return "a tensor";
    case TD_K_INT: return "an int";
    case TD_K_FLOAT: return "a float";
    case TD_K_BOOL: return "a bool";
    default: return "something else";
    }
}

/* Prints how item s of two keys differs; false: it does not. */
static bool differ_value(td_buf *b, subject s, const key_item *now,
                         const key_item *was) {
    char who[120];
    if (s.grad && now->kind != was->kind) {
        td__buf_printf(b, "%s is %s now", subject_text(s, who),
                       now->kind == TD_K_NONE ? "gone" : "there");
        return true;
    }
    if (now->kind != was->kind) {
        td__buf_printf(b, "%s is %s, was %s", subject_text(s, who),
                       kind_word(now->kind), kind_word(was->kind));
        return true;
    }
    if (now->kind == TD_K_TENSOR) return differ_tensor(b, s, now, was);
    if (now->kind == TD_K_NONE || now->bits == was->bits) return false;
    td__buf_printf(b, "%s is ", subject_text(s, who));
    number_text(b, now);
    td__buf_add(b, ", was ");
    number_text(b, was);
    return true;
}

static const char *default_dtype(int64_t modes) {
    return td_dtype_name((td_dtype)(modes >> TD_KEY_DTYPE & 255));
}

/* "off", or the dtype. */
static const char *autocast(int64_t modes) {
    int64_t state = modes >> TD_KEY_AUTOCAST & 255;
    return state ? td_dtype_name((td_dtype)(state - 1)) : "off";
}

/* Words 1 of both keys. A trace refuses TD_KEY_HOOKED and TD_KEY_PASSES, so `was` has
 * neither. */
static bool differ_modes(td_buf *b, int64_t now, int64_t was) {
    if ((now ^ was) & 1) td__buf_printf(b, "grad mode %s", now & 1 ? "on" : "off");
    else if ((now ^ was) & 2)
        td__buf_printf(b, "inference mode %s", now & 2 ? "on" : "off");
    else if (now >> TD_KEY_HOOKED)
        td__buf_add(b, "a tensor whose gradient the body computes has gradient hooks");
    else if (now >> TD_KEY_PASSES)
        td__buf_add(b, "the history of one tensor passes now through another whose "
                       "gradient the body computes");
    else if ((now ^ was) >> TD_KEY_AUTOCAST)
        td__buf_printf(b, "autocast %s, was %s", autocast(now), autocast(was));
    else if ((now ^ was) >> TD_KEY_MAKES & 63)
        td__buf_printf(b, "default device %s, was %s",
                       td__device_str((uint8_t)(now >> TD_KEY_MAKES & 63)),
                       td__device_str((uint8_t)(was >> TD_KEY_MAKES & 63)));
    else if (now != was)
        td__buf_printf(b, "default dtype %s, was %s", default_dtype(now),
                       default_dtype(was));
    return now != was;
}

/* The last resort: keys of different lengths, or a word without a text of its own. */
static void differ_words(td_buf *b, const td_key *now, const td_key *was) {
    int i = 0;
    if (now->n != was->n) {
        td__buf_printf(b,
                       "the key has %d words, had %d: a different number of tensors "
                       "share storage or have a .grad",
                       now->n, was->n);
        return;
    }
    while (i < now->n && !words_differ(now->v[i], was->v[i])) i++;
    if (i < now->n)
        td__buf_printf(b, "word %d of the key is %" PRId64 ", was %" PRId64, i,
                       now->v[i], was->v[i]);
}

/* Prints the first difference of two keys: number of arguments, modes, then item by
 * item. */
void td__key_difference(td_buf *b, const td_fn *f, const td_spec *s) {
    const td_key *now = &f->key, *was = &s->key;
    int           at = 2, old = 2;
    if (now->v[0] != was->v[0]) {
        td__buf_printf(b, "%" PRId64 " arguments, were %" PRId64, now->v[0], was->v[0]);
        return;
    }
    if (differ_modes(b, now->v[1], was->v[1])) return;
    for (int i = 0; at < now->n && old < was->n; i++) {
        key_item a = next_item(now, &at), c = next_item(was, &old);
        subject  who = subject_of(&a, i, now);
        who.f = f;
        who.spec = s;
        if (differ_value(b, who, &a, &c)) return;
    }
    differ_words(b, now, was);
}

/* The td_key_change of two items that differ. */
static td_key_change change_of(const key_item *now, const key_item *was) {
    if (now->kind != was->kind || now->owner >= 0) return TD_CHANGE_OTHER;
    if (now->kind != TD_K_TENSOR) return TD_CHANGE_NUMBER;
    bool same = dtype_of(now) == dtype_of(was) && now->rank == was->rank;
    for (int d = 0; same && d < now->rank; d++)
        if (now->size[d] != was->size[d]) return TD_CHANGE_SIZE;
    return TD_CHANGE_OTHER;
}

/* The kind of the first difference, by which the next trace decides whether to make
 * sizes symbolic. */
td_key_change td__key_change(const td_key *now, const td_key *was) {
    td_buf b = {0};
    int    at = 2, old = 2;
    if (now->v[0] != was->v[0] || now->v[1] != was->v[1]) return TD_CHANGE_OTHER;
    for (int i = 0; at < now->n && old < was->n; i++) {
        key_item a = next_item(now, &at), c = next_item(was, &old);
        bool     differ = differ_value(&b, subject_of(&a, i, now), &a, &c);
        td__buf_free(&b);
        if (differ) return change_of(&a, &c);
        b = (td_buf){0};
    }
    return TD_CHANGE_OTHER;
}

/* The number of words that differ; keys of different length are far apart. */
int td__key_distance(const td_key *a, const td_key *b) {
    int n = 0;
    if (a->n != b->n) return 1 << 20;
    for (int i = 0; i < a->n; i++) n += a->v[i] != b->v[i];
    return n;
}

/* ---- a key in words ----------------------------------------------------- */

/* "[4,*]": * is a size that guards check. */
static void dims_text(td_buf *b, const char *ends, const int64_t *v, int n) {
    td__buf_addn(b, ends, 1);
    for (int d = 0; d < n; d++) {
        if (d) td__buf_add(b, ",");
        if (v[d] < 0) td__buf_add(b, "*");
        else td__buf_printf(b, "%" PRId64, v[d]);
    }
    td__buf_add(b, ends + 1);
}

/* Are the strides those of a contiguous tensor? Before a symbolic size only the
 * symbols' own strides are known, so the rest counts as dense. */
static bool is_dense(const key_item *s) {
    int64_t step = 1;
    for (int d = s->rank - 1; d >= 0; d--) {
        if (s->stride[d] >= 0 && s->stride[d] != step) return false;
        if (s->size[d] < 0) return true;
        step *= s->size[d];
    }
    return true;
}

/* Appends a tensor's type, flags and aliasing. */
static void tensor_text(td_buf *b, subject s, const key_item *t) {
    static const char *const made[] = {NULL, "one of several views",
                                       "made under no_grad", "made in inference mode",
                                       "made by a custom function"};
    char                     other[120];
    int64_t                  how = t->bits >> TD_KEY_CREATION & 15;
    if (has(t, TD_KEY_NUMBER)) { /* passed as a tensor (numbers.c) */
        td__buf_add(b, t->rank ? "an int that varies" : "a float that varies");
        if (t->rank && t->size[0] >= 0) td__buf_printf(b, ": %" PRId64, t->size[0]);
        return;
    }
    td__buf_add(b, td_dtype_name(dtype_of(t)));
    dims_text(b, "[]", t->size, t->rank);
    if (!is_dense(t)) dims_text(b, "{}", t->stride, t->rank);
    if (has(t, TD_KEY_OFFSET)) td__buf_printf(b, "+%" PRId64, t->offset);
    if (has(t, TD_KEY_NEEDS))
        td__buf_printf(b, ", requires grad, %sa leaf",
                       has(t, TD_KEY_LEAF) ? "" : "not ");
    if (has(t, TD_KEY_VIEW)) td__buf_add(b, ", a view");
    if (how > 0 && how < TD_COUNT(made)) td__buf_printf(b, ", %s", made[how]);
    if (has(t, TD_KEY_INFERENCE)) td__buf_add(b, ", an inference tensor");
    if (has(t, TD_KEY_READONLY)) td__buf_add(b, ", read-only");
    if (has(t, TD_KEY_STALE)) td__buf_add(b, ", a stale view");
    if (has(t, TD_KEY_MOVED)) td__buf_add(b, ", its base in another storage");
    if (has(t, TD_KEY_APART)) td__buf_add(b, ", its grad_fn not its base's");
    if (!t->alias) return;
    subject k = s;
    k.i = (int)((t->alias - 1) / 2);
    k.grad = k.base = false;
    td__buf_printf(b, ", %s %s",
                   t->alias & 1 ? "the same tensor as" : "shares storage with",
                   subject_text(k, other));
}

/* Calls fn with one line for the modes and one for each argument. */
void td__key_each(const td_key *k, void (*fn)(void *env, const char *text), void *env) {
    td_buf b = {0};
    char   who[120];
    if (k->n < 2) return;
    td__buf_printf(&b, "grad mode %s%s, default dtype %s", k->v[1] & 1 ? "on" : "off",
                   k->v[1] & 2 ? ", inference mode" : "", default_dtype(k->v[1]));
    if (k->v[1] >> TD_KEY_AUTOCAST & 255)
        td__buf_printf(&b, ", autocast %s", autocast(k->v[1]));
    fn(env, td__buf_str(&b));
    for (int i = 0, at = 2; at < k->n; i++) {
        key_item v = next_item(k, &at);
        subject  s = subject_of(&v, i, k);
        b.n = 0;
        td__buf_printf(&b, "%s: ", subject_text(s, who));
        if (v.kind == TD_K_TENSOR) tensor_text(&b, s, &v);
        else if (v.kind == TD_K_NONE) td__buf_add(&b, "absent");
        else if (s.grad) td__buf_add(&b, "there");
        else number_text(&b, &v);
        fn(env, td__buf_str(&b));
    }
    td__buf_free(&b);
}
