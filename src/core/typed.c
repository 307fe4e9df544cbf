/* typed.c -- types of tensors: registration, and the inner tensors of typed tensors.
 * ops/typed.c computes their ops. */
#include "core/typed.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* ---- registration ------------------------------------------------------- */

static struct {
    pthread_mutex_t    lock;
    _Atomic(td_type *) all[TD_MOST_TYPES];
    atomic_int         n; /* complete ones; changed under the lock */
} types = {.lock = PTHREAD_MUTEX_INITIALIZER};

const td_type *td__type_find(const char *name) {
    int n = atomic_load_explicit(&types.n, memory_order_acquire);
    for (int i = 0; i < n; i++) {
        const td_type *t = atomic_load(&types.all[i]);
        if (!strcmp(t->opts.name, name)) return t;
    }
    return NULL;
}

/* Can texts of graphs contain the name? */
static bool is_name(const char *s) {
    size_t n = s ? strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                             "0123456789_")
                 : 0;
    return n > 0 && n <= 40 && !s[n] && (s[0] > '9' || s[0] < '0');
}

static bool check_opts(td_ctx *cx, const td_type_opts *o) {
    static const char who[] = "td_register_type";
    if (!is_name(o->name))
        return td__fail(cx, TD_E_ARG,
                        "%s: the name must be 1 to 40 letters, digits and _, and begin "
                        "with no digit",
                        who);
    if (o->n_inner < 1 || o->n_inner > TD_MOST_INNER || !o->inner)
        return td__fail(cx, TD_E_ARG,
                        "%s: %s: n_inner is %d, and must be 1 to %d names", who,
                        o->name, o->n_inner, TD_MOST_INNER);
    for (int i = 0; i < o->n_inner; i++)
        if (!is_name(o->inner[i]))
            return td__fail(cx, TD_E_ARG,
                            "%s: %s: inner[%d] must be a name of letters, digits and _",
                            who, o->name, i);
    return o->call || td__fail(cx, TD_E_ARG,
                               "%s: %s: set .call, which computes ops on tensors of "
                               "the type",
                               who, o->name);
}

static bool same_opts(const td_type_opts *a, const td_type_opts *b) {
    bool same = a->n_inner == b->n_inner && a->call == b->call &&
                a->plain == b->plain && a->pack == b->pack && a->coerce == b->coerce &&
                a->version == b->version && a->env == b->env &&
                a->instead == b->instead && a->varies == b->varies;
    for (int i = 0; same && i < a->n_inner; i++)
        same = !strcmp(a->inner[i], b->inner[i]);
    return same;
}

/* A copy with its own strings, in one block. */
static td_type *copy_opts(const td_type_opts *o) {
    size_t n = strlen(o->name) + 1, names = sizeof(char *) * (size_t)o->n_inner;
    for (int i = 0; i < o->n_inner; i++) n += strlen(o->inner[i]) + 1;
    td_type *t = td__zalloc(sizeof *t + names + n);
    if (!t) return NULL;
    const char **list = (const char **)(void *)(t + 1);
    char        *at = (char *)(list + o->n_inner);
    t->opts = *o;
    t->opts.inner = list;
    t->opts.name = strcpy(at, o->name);
    at += strlen(at) + 1;
    for (int i = 0; i < o->n_inner; i++) {
        list[i] = strcpy(at, o->inner[i]);
        at += strlen(at) + 1;
    }
    return t;
}

/* Under the lock, where there is room. NULL: out of memory. */
static const td_type *push_type(const td_type_opts *o) {
    int      n = atomic_load(&types.n);
    td_type *t = copy_opts(o);
    if (!t) return NULL;
    t->nr = n + 1;
    atomic_store(&types.all[n], t);
    atomic_store_explicit(&types.n, n + 1, memory_order_release);
    return t;
}

/* Under the lock. NULL after td__fail. */
static const td_type *add_type(td_ctx *cx, const td_type_opts *o) {
    const td_type *was = td__type_find(o->name);
    if (was && same_opts(&was->opts, o)) return was;
    if (was || atomic_load(&types.n) == TD_MOST_TYPES) {
        td__fail(cx, TD_E_ARG,
                 was ? "td_register_type: there is another type %s already"
                     : "td_register_type: %s: no more types fit",
                 o->name);
        return NULL;
    }
    const td_type *t = push_type(o);
    if (!t) td__fail_memory(cx);
    return t;
}

const td_type *td_register_type(td_ctx *cx, const td_type_opts *opts) {
    static const char who[] = "td_register_type";
    td_type_opts      o = {0};
    if (!TD_ENTER_CTX(cx) || !td_ok(cx) || !td__has(cx, who, "opts", opts) ||
        !td__opts_take(cx, who, &o, sizeof o, opts, "TD_TYPE_OPTS") ||
        !check_opts(cx, &o))
        return NULL;
    pthread_mutex_lock(&types.lock);
    const td_type *t = add_type(cx, &o);
    pthread_mutex_unlock(&types.lock);
    return t;
}

const td_type *td__type_add(const td_type_opts *o) {
    pthread_mutex_lock(&types.lock);
    const td_type *t = td__type_find(o->name);
    if (!t) t = push_type(o);
    pthread_mutex_unlock(&types.lock);
    return t;
}

/* ---- inner tensors ------------------------------------------------------ */

/* An alias that no scope owns, without history and views. */
static td_tensor *bare_alias(td_tensor *t) {
    td_tensor *a = td__tensor_alias(t->cx, t);
    if (!a) return NULL;
    td__ref(a);
    td_drop(a); /* the scope's reference */
    return a;
}

td_typed *td__typed_make(td_ctx *cx, const td_type *type, td_tensor *const *inner,
                         const char *metadata) {
    int       n = type->opts.n_inner;
    size_t    list = sizeof(td_tensor *) * (size_t)n, text = strlen(metadata) + 1;
    td_typed *d = td__zalloc(sizeof *d + list + text);
    if (!d) return td__fail_memory(cx), NULL;
    d->refs = 1;
    d->type = type;
    d->metadata = memcpy((char *)(d + 1) + list, metadata, text);
    for (; d->n < n; d->n++)
        if (!(d->inner[d->n] = bare_alias(inner[d->n]))) {
            td__typed_drop(d);
            return NULL;
        }
    return d;
}

void td__typed_drop(td_typed *d) {
    if (!d || --d->refs > 0) return;
    for (int i = 0; i < d->n; i++) td__unref(d->inner[i]);
    td__free(d);
}

void td__typed_set(td_tensor *t, td_typed *to) {
    td_typed *was = t->typed;
    t->cx->n_typed += (to != NULL) - (was != NULL);
    if (to) to->refs++;
    t->typed = to;
    td__typed_drop(was);
}

td_storage *td__storage_hollow(size_t bytes) {
    td_storage *st = td__storage_make(0, false);
    if (st) st->bytes = bytes;
    return st;
}

bool td__typed_same(const td_typed *a, const td_typed *b) {
    if (!a || !b) return a == b;
    return a == b || (a->type == b->type && !strcmp(a->metadata, b->metadata));
}

bool td__typed_same_inside(const td_typed *a, const td_typed *b) {
    bool same = td__typed_same(a, b);
    for (int i = 0; same && a && i < a->n; i++)
        same = td__typed_same_inside(a->inner[i]->typed, b->inner[i]->typed);
    return same;
}

int td__typed_key(const td_typed *d, int64_t *to) {
    int n = 0;
#define PUT(x) (to ? (void)(to[n] = (int64_t)(x)) : (void)0, n++)
    PUT(d ? d->type->nr : 0);
    if (!d) return n;
    for (const char *s = d->metadata;; s++) {
        PUT(*s);
        if (!*s) break;
    }
    for (int i = 0; i < d->n; i++) {
        const td_tensor *t = d->inner[i];
        PUT(t->dtype | t->rank << 8);
        for (int k = 0; k < t->rank; k++) PUT(t->size[k]);
        for (int k = 0; k < t->rank; k++) PUT(t->stride[k]);
        n += td__typed_key(t->typed, to ? to + n : NULL);
    }
#undef PUT
    return n;
}

bool td__typed_fake(td_tensor *t, const td_typed *d) {
    td_tensor *inner[TD_MOST_INNER];
    for (int i = 0; i < d->n; i++) {
        td_meta m;
        td__tensor_meta(d->inner[i], &m);
        m.offset = 0;
        inner[i] = td__tensor_make(t->cx, &m, true);
        if (!inner[i]) return false;
        if (d->inner[i]->typed && !td__typed_fake(inner[i], d->inner[i]->typed))
            return false;
    }
    td_typed *to = td__typed_make(t->cx, d->type, inner, d->metadata);
    if (!to) return false;
    td__typed_set(t, to);
    td__typed_drop(to);
    return true;
}

const char *td__typed_str(const td_typed *d, char *out, size_t cap) {
    if (!d) snprintf(out, cap, "a plain tensor");
    else if (!d->metadata[0]) snprintf(out, cap, "a %s", d->type->opts.name);
    else snprintf(out, cap, "a %s (\"%.60s\")", d->type->opts.name, d->metadata);
    return out;
}

bool td__typed_leaves(td_tensor *t, td_leaf_fn *fn, void *env) {
    const td_typed *d = t->typed;
    bool            ok = true;
    if (!d) return fn(env, t);
    for (int i = 0; ok && i < d->n; i++) ok = td__typed_leaves(d->inner[i], fn, env);
    return ok;
}

/* Counts *nr down to the part with that number. */
static td_tensor *find_part(td_tensor *t, int *nr) {
    td_tensor *found = NULL;
    if ((*nr)-- == 0) return t;
    for (int i = 0; !found && t->typed && i < t->typed->n; i++)
        found = find_part(t->typed->inner[i], nr);
    return found;
}

td_tensor *td__typed_part(td_tensor *t, int nr) {
    return TD_LIKELY(nr == 0) ? t : find_part(t, &nr);
}

int td__typed_depth(const td_tensor *t) {
    int most = 0;
    for (int i = 0; t->typed && i < t->typed->n; i++) {
        int deep = td__typed_depth(t->typed->inner[i]);
        if (deep > most) most = deep;
    }
    return t->typed ? most + 1 : 0;
}

bool td__fail_typed(const td_tensor *t, const char *who) {
    return td__fail(t->cx, TD_E_ARG,
                    "%s: the tensor is of type %s and has no elements of its own; pass "
                    "one of its inner tensors (td_type_inner)",
                    who, t->typed->type->opts.name);
}

/* ---- properties --------------------------------------------------------- */

/* The tensor that a captured body computes with in place of t. */
static const td_tensor *seen(const td_tensor *t) {
    const td_tensor *copy = TD_UNLIKELY(t->cx->fake) ? td__seen_as(t) : NULL;
    return copy ? copy : t;
}

const td_type *td_type_of(const td_tensor *t) {
    if (!TD_ENTER(t, TENSOR)) return NULL;
    t = seen(t);
    return t->typed ? t->typed->type : NULL;
}

const char *td_type_name(const td_type *type) { return type ? type->opts.name : ""; }

const char *td_type_metadata(const td_tensor *t) {
    if (!TD_ENTER(t, TENSOR)) return "";
    t = seen(t);
    return t->typed ? t->typed->metadata : "";
}

int td_type_inner_count(const td_tensor *t) {
    if (!TD_ENTER(t, TENSOR)) return 0;
    t = seen(t);
    return t->typed ? t->typed->n : 0;
}
