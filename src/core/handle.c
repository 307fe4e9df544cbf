/* handle.c -- objects of the public interface: their memory, which keeps its
 * tag after they are freed; nil objects; the check at every public function and
 * its messages. */
#include "core/core.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* How many freed objects of a kind stay recognizable at least. */
#ifdef TD_DEBUG_LIFETIMES
enum { HANDLES_KEPT = 4096, CONTEXTS_KEPT = 64 };
#else
enum { HANDLES_KEPT = 64, CONTEXTS_KEPT = 8 };
#endif

static const char *const kind_names[TD_H_COUNT] = {
    [TD_H_CTX] = "context",
    [TD_H_TENSOR] = "tensor",
    [TD_H_MODULE] = "module",
    [TD_H_FN] = "compiled function",
    [TD_H_OPTIM] = "optimizer",
    [TD_H_LOADER] = "loader",
    [TD_H_EXPORTED] = "exported graph",
    [TD_H_STAGED] = "stage",
    [TD_H_SAFETENSORS] = "safetensors file",
    [TD_H_TREE] = "tree",
    [TD_H_GFILE] = "graph file",
    [TD_H_GRAPH] = "graph",
    [TD_H_PROGRAM] = "program",
    [TD_H_FLAT] = "flat list of a module",
    [TD_H_NODE] = "autograd node",
    [TD_H_CALL] = "call of a body",
    [TD_H_MODE_CALL] = "op call of a mode",
    [TD_H_SPLIT] = "split of a joint graph",
    [TD_H_FCALL] = "call of a custom function",
    [TD_H_FACTS] = "facts",
    [TD_H_BACKWARD] = "compiled backward",
    [TD_H_STORE] = "store",
};

/* ---- memory of freed objects -------------------------------------------- */

/* A freed object: its handle stays, the memory after it is a link. */
typedef struct freed {
    td_handle     handle;
    struct freed *next;
} freed;

/* By kind: freed objects, oldest first. Contexts of all threads share them. */
static struct {
    pthread_mutex_t lock;
    freed          *first[TD_H_COUNT], *last[TD_H_COUNT];
    int             n[TD_H_COUNT];
    uint32_t        serial;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int kept_of(td_handle_kind kind) {
    return kind == TD_H_CTX ? CONTEXTS_KEPT : HANDLES_KEPT;
}

/* The oldest freed object of the kind, if enough others stay recognizable. */
static freed *take_oldest(td_handle_kind kind) {
    freed *f = pool.n[kind] > kept_of(kind) ? pool.first[kind] : NULL;
    if (!f) return NULL;
    pool.first[kind] = f->next;
    if (!f->next) pool.last[kind] = NULL;
    pool.n[kind]--;
    return f;
}

void *td__handle_make(td_ctx *cx, td_handle_kind kind, size_t bytes) {
    pthread_mutex_lock(&pool.lock);
    td_handle *h = (td_handle *)take_oldest(kind);
    uint32_t   serial = ++pool.serial ? pool.serial : ++pool.serial;
    pthread_mutex_unlock(&pool.lock);
    if (h) {
        td__unpoison(h, bytes);
        memset(h, 0, bytes);
    } else if (!(h = td__zalloc(bytes))) {
        if (cx) td__fail_memory(cx);
        return NULL;
    }
    *h = (td_handle){TD_TAG_LIVE | kind, serial, cx};
    return h;
}

uint32_t td__handle_last(void) {
    pthread_mutex_lock(&pool.lock);
    uint32_t last = pool.serial;
    pthread_mutex_unlock(&pool.lock);
    return last;
}

/* The memory goes to the end of a queue and is reused oldest first, so that stale
 * handles are recognized for a while (docs/lifetimes.md). */
void td__handle_free(void *object, td_handle_kind kind) {
    freed *f = object;
    if (!f) return;
    f->handle.tag = TD_TAG_FREED | kind;
    f->next = NULL;
    pthread_mutex_lock(&pool.lock);
    if (pool.last[kind]) pool.last[kind]->next = f;
    else pool.first[kind] = f;
    pool.last[kind] = f;
    pool.n[kind]++;
    pthread_mutex_unlock(&pool.lock);
}

/* ---- objects that the user must free ------------------------------------ */

void *td__handle_own(void *object, void (*end)(void *object)) {
    td_owned *o = object;
    if (!o) return NULL;
    o->end = end;
    o->prev = NULL;
    o->next = o->cx->owned_objects;
    if (o->next) o->next->prev = o;
    o->cx->owned_objects = o;
    return o;
}

void td__handle_disown(void *object) {
    td_owned *o = object;
    if (!o->end) return;
    if (o->prev) o->prev->next = o->next;
    else o->cx->owned_objects = o->next;
    if (o->next) o->next->prev = o->prev;
    o->end = NULL;
    o->prev = o->next = NULL;
}

/* Ending an object may end others, so each round starts from the newest one
 * left. An object with parents is ended by them. */
void td__handles_end(td_ctx *cx) {
    for (td_owned *o; (o = cx->owned_objects);) {
        while (o->parents && o->next) o = o->next;
        void (*end)(void *) = o->end;
        td__handle_disown(o);
        end(o);
    }
}

/* ---- the current context and the nil objects ---------------------------- */

TD_HOT_LOCAL td_ctx *td__named_ctx;
TD_HOT_LOCAL td_ctx *td__capturing;

td_ctx *td__current_ctx(void) {
    return td__is_live(td__named_ctx, TD_H_CTX) ? td__named_ctx : td__ctx_orphan();
}

/* Is it an object of this library, live, nil or freed? */
static bool is_ours(const td_handle *h) {
    uint32_t state = h->tag & ~TD_TAG_KIND;
    return (state == TD_TAG_LIVE || state == TD_TAG_NIL || state == TD_TAG_FREED) &&
           (h->tag & TD_TAG_KIND) < TD_H_COUNT;
}

td_ctx *td__ctx_of_any(const void *object) {
    const td_handle *h = object;
    return h && is_ours(h) && td__is_live(h->cx, TD_H_CTX) ? h->cx : td__current_ctx();
}

void *td__nil_of(td_ctx *cx, td_handle_kind kind) {
    if (!td__is_live(cx, TD_H_CTX)) cx = td__current_ctx();
    if (kind == TD_H_TENSOR) return &cx->nil;
    return &cx->nils[kind];
}

void td__nil_tensors(td_ctx *cx, td_tensor **out, int n) {
    for (int i = 0; out && i < n; i++) out[i] = TD_NIL(cx, TENSOR);
}

void td__nil_values(td_ctx *cx, td_value *out, int n) {
    for (int i = 0; out && i < n; i++) out[i] = td_value_tensor(TD_NIL(cx, TENSOR));
}

bool td__no_room(td_ctx *cx, const char *who, int n) {
    if (n < 0)
        return td__fail(cx, TD_E_ARG,
                        "%s: the length of out is %d; it must not be negative", who, n);
    return td__fail(cx, TD_E_ARG,
                    "%s: out is NULL, but there are %d results to store in it", who, n);
}

bool td__no_list(td_ctx *cx, const char *who, const void *v, int n) {
    if (!v && n > 0)
        return td__fail(cx, TD_E_ARG, "%s: a list of %d entries has address NULL", who,
                        n);
    return td__fail(cx, TD_E_ARG,
                    "%s: a list has length %d; a length must not be negative", who, n);
}

bool td__has(td_ctx *cx, const char *who, const char *what, bool given) {
    return given || td__fail(cx, TD_E_ARG, "%s: %s is NULL", who, what);
}

/* ---- the check at every entry ------------------------------------------- */

static const char *article(const char *noun) {
    return strchr("aeiou", noun[0]) ? "an" : "a";
}

static bool refuse_freed(td_ctx *to, const td_handle *h, td_handle_kind kind,
                         const char *who) {
    char text[400];
    if (kind == TD_H_TENSOR) td__released_text((const td_tensor *)h, text, sizeof text);
    else if (kind == TD_H_CTX)
        snprintf(text, sizeof text, "this context was closed already");
    else
        snprintf(text, sizeof text, "this %s was freed%s", kind_names[kind],
                 td__is_live(h->cx, TD_H_CTX) ? " already"
                                              : " when its context closed");
    return td__fail(to, TD_E_ARG, "%s: %s", who, text);
}

/* The error that made the object nil is recorded until td_clear; after that,
 * using nil is an error of its own. A nil tensor may also mean "none", which is
 * no error. */
static bool refuse_nil(const td_handle *h, td_handle_kind kind, const char *who) {
    td_ctx *cx = h->cx;
    if (kind == TD_H_TENSOR) return td__refuse_nil(h, kind, who);
    if (!td__is_live(cx, TD_H_CTX) || cx->code != TD_OK) return false;
    return td__fail(cx, TD_E_ARG,
                    "%s: the %s is nil: the call that should have made it failed, or "
                    "found an earlier error not cleared yet; check td_ok there",
                    who, kind_names[kind]);
}

/* A live object of another context, in a captured body. The error is the body's. */
static bool refuse_other(td_handle_kind kind, const char *who) {
    const char *what = kind == TD_H_CTX ? "call" : kind_names[kind];
    return td__fail(td__capturing, TD_E_TRACE,
                    "%s: this %s is in another context than the captured body, and "
                    "later calls would not repeat what the body does there. Share "
                    "tensors with td_share(td_call_ctx(call), tensor) and compute in "
                    "the body's context, or compute outside of the body",
                    who, what);
}

bool td__refuse_in(td_ctx *cx, const void *object, td_handle_kind kind,
                   const char *who) {
    const td_handle *h = object;
    const char      *name = kind_names[kind];
    if (td__is_live(h, kind)) return refuse_other(kind, who);
    if (!h) return td__fail(cx, TD_E_ARG, "%s: the %s is NULL", who, name);
    if (h->tag == (TD_TAG_NIL | kind)) return refuse_nil(h, kind, who);
    if (h->tag == (TD_TAG_FREED | kind)) return refuse_freed(cx, h, kind, who);
    const char *is = is_ours(h) ? kind_names[h->tag & TD_TAG_KIND] : NULL;
    return td__fail(cx, TD_E_ARG, "%s: this is %s %s, not %s %s", who,
                    is ? article(is) : "no object", is ? is : "of this library",
                    article(name), name);
}

bool td__refuse(const void *object, td_handle_kind kind, const char *who) {
    return td__refuse_in(td__ctx_of_any(object), object, kind, who);
}

bool td__may_free(const void *object, td_handle_kind kind, const char *who) {
    const td_handle *h = object;
    if (!h || h->tag == (TD_TAG_NIL | kind)) return false;
    if (h->tag == (TD_TAG_FREED | kind) && kind != TD_H_CTX &&
        !td__is_live(h->cx, TD_H_CTX))
        return false;
    return td__is_live(object, kind) || td__refuse(object, kind, who);
}

bool td_is_nil(const void *object) {
    const td_handle *h = object;
    return !h || (h->tag & ~TD_TAG_KIND) != TD_TAG_LIVE;
}

/* ---- options ------------------------------------------------------------ */

bool td__opts_take(td_ctx *cx, const char *who, void *to, size_t bytes,
                   const void *opts, const char *macro) {
    memset(to, 0, bytes);
    if (!opts) return true;
    size_t given = *(const size_t *)opts;
    if (given <= sizeof given || given > (size_t)1 << 16)
        return td__fail(cx, TD_E_ARG,
                        "%s: the options have size %zu; begin them with their macro: "
                        "{%s, .field = value}",
                        who, given, macro);
    memcpy(to, opts, given < bytes ? given : bytes);
    return true;
}
