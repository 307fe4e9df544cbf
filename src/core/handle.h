/* core/handle.h -- the common start of every opaque object of the public
 * interface: a tag that says its kind and whether it is live, nil or freed, and
 * its context. Every public function checks the tag of each object it is given,
 * with TD_ENTER, before it reads anything else. So NULL, nil, freed objects and
 * objects of another kind are caught at one point, and the rest of the library
 * sees only live objects.
 *
 * The memory of a freed object stays readable and keeps its tag: it is reused
 * only for objects of the same kind, oldest first, after many others of the
 * kind were freed. */
#ifndef TD_HANDLE_H
#define TD_HANDLE_H

#include "base/base.h"
#include "tandem/tensor.h"

typedef enum td_handle_kind {
    TD_H_CTX,
    TD_H_TENSOR,
    TD_H_MODULE,
    TD_H_FN,
    TD_H_OPTIM,
    TD_H_LOADER,
    TD_H_EXPORTED,
    TD_H_STAGED,
    TD_H_SAFETENSORS,
    TD_H_TREE,
    TD_H_GFILE,
    TD_H_GRAPH,
    TD_H_PROGRAM,
    TD_H_FLAT,
    TD_H_NODE,
    TD_H_CALL,
    TD_H_MODE_CALL,
    TD_H_SPLIT,
    TD_H_FCALL,
    TD_H_FACTS,
    TD_H_BACKWARD,
    TD_H_STORE,
    TD_H_COUNT
} td_handle_kind;

/* tag = state | kind */
#define TD_TAG_LIVE 0x7d5a1000u
#define TD_TAG_NIL 0x7d5a2000u
#define TD_TAG_FREED 0x7d5a3000u
#define TD_TAG_KIND 0xffu

/* serial of a tensor: 0 while a scope or the user owns it; afterwards how it
 * was released (core.h, TD_RELEASED_...). Of other kinds: a unique number,
 * which tells two objects apart that had the same memory. */
typedef struct td_handle {
    uint32_t tag, serial;
    td_ctx  *cx;
} td_handle;

/* The first member of an object's struct; its fields are the struct's own. */
#define TD_HANDLE_FIELDS          \
    union {                       \
        td_handle handle;         \
        struct {                  \
            uint32_t tag, serial; \
            td_ctx  *cx;          \
        };                        \
    }

/* An object that the user must free; td_close ends it otherwise. */
typedef struct td_owned {
    TD_HANDLE_FIELDS;
    struct td_owned *prev, *next; /* in the context's list, newest first */
    void (*end)(void *object);    /* frees it; NULL: not in the list */
    int parents;                  /* objects that end it when they end */
} td_owned;
#define TD_OWNED_FIELDS                        \
    union {                                    \
        td_owned owned;                        \
        struct {                               \
            uint32_t  tag, serial;             \
            td_ctx   *cx;                      \
            td_owned *owned_prev, *owned_next; \
            void (*owned_end)(void *object);   \
            int parents;                       \
        };                                     \
    }

static inline bool td__is_live(const void *object, td_handle_kind kind) {
    const td_handle *h = object;
    return TD_LIKELY(h != NULL) && TD_LIKELY(h->tag == (TD_TAG_LIVE | kind));
}
/* The context whose body is being captured on this thread; NULL: none. What the body
 * does in another context is not recorded, so later calls would not repeat it:
 * td__enter refuses objects of other contexts meanwhile. td_share takes a tensor from
 * there, and objects may be freed. */
extern TD_HOT_LOCAL td_ctx *td__capturing;

static inline bool td__is_usable(const void *object, td_handle_kind kind) {
    return td__is_live(object, kind) &&
           (TD_LIKELY(!td__capturing) ||
            ((const td_handle *)object)->cx == td__capturing);
}
/* Records why the object cannot be used. For nil nothing is recorded: its error
 * was. Always returns false. */
bool               td__refuse(const void *object, td_handle_kind kind, const char *who);
static inline bool td__enter(const void *object, td_handle_kind kind, const char *who) {
    return TD_LIKELY(td__is_usable(object, kind)) || td__refuse(object, kind, who);
}
/* td__refuse for calls that have a context from another argument: the error
 * goes there, even if the object's own context is another one or closed. */
bool               td__refuse_in(td_ctx *cx, const void *object, td_handle_kind kind,
                                 const char *who);
static inline bool td__enter_in(td_ctx *cx, const void *object, td_handle_kind kind,
                                const char *who) {
    return TD_LIKELY(td__is_usable(object, kind)) ||
           td__refuse_in(cx, object, kind, who);
}
/* May this public function use the object? Errors name the function. */
#define TD_ENTER(object, KIND) td__enter((object), TD_H_##KIND, __func__)

/* The context this thread named last in a call, open or closed. Thread-local, because
 * it serves calls that have no context. */
extern TD_HOT_LOCAL td_ctx *td__named_ctx;

/* TD_ENTER for a context, which becomes the thread's current one. */
static inline bool td__enter_ctx(const td_ctx *cx, const char *who) {
    if (!td__enter(cx, TD_H_CTX, who)) return false;
    td__named_ctx = (td_ctx *)(uintptr_t)cx;
    return true;
}
#define TD_ENTER_CTX(cx) td__enter_ctx((cx), __func__)
/* The context that receives errors of calls without one: the thread's last
 * named one if it is open, else the orphan. Never NULL. */
td_ctx *td__current_ctx(void);
/* The context of an object that may be NULL, nil or freed; by default the
 * current one. */
td_ctx *td__ctx_of_any(const void *object);

/* The nil object of a kind; cx may be NULL or closed. */
void *td__nil_of(td_ctx *cx, td_handle_kind kind);
#define TD_NIL(cx, KIND) td__nil_of((cx), TD_H_##KIND)
#define TD_NIL_BY(object, KIND) td__nil_of(td__ctx_of_any(object), TD_H_##KIND)
/* Fills out[0..n) with nil tensors; out may be NULL. */
void               td__nil_tensors(td_ctx *cx, td_tensor **out, int n);
void               td__nil_values(td_ctx *cx, td_value *out, int n);
bool               td__no_room(td_ctx *cx, const char *who, int n);
bool               td__no_list(td_ctx *cx, const char *who, const void *v, int n);
/* Is out usable for n results? False after td__fail: n < 0, or out is NULL and n is
 * not 0. */
static inline bool td__has_room(td_ctx *cx, const char *who, const void *out, int n) {
    return TD_LIKELY((out && n >= 0) || n == 0) || td__no_room(cx, who, n);
}
/* May v[0..n) be read? False after td__fail. */
static inline bool td__has_list(td_ctx *cx, const char *who, const void *v, int n) {
    return TD_LIKELY((v && n >= 0) || n == 0) || td__no_list(cx, who, v, n);
}
/* Fails with "who: what is NULL" unless given. */
bool td__has(td_ctx *cx, const char *who, const char *what, bool given);

/* A zeroed live object, in no list; NULL after td__fail. `bytes` is the same
 * for all objects of a kind. */
void    *td__handle_make(td_ctx *cx, td_handle_kind kind, size_t bytes);
uint32_t td__handle_last(void); /* the serial of the object made last */
void     td__handle_free(void *object, td_handle_kind kind); /* NULL is fine */
/* Hands the object to the user: td_close calls end(object) if the user did not
 * free it. */
void    *td__handle_own(void *object, void (*end)(void *object));
void     td__handle_disown(void *object);
void     td__handles_end(td_ctx *cx); /* ends all that is owned, newest first */
/* Shall a user's free function free it? NULL, nil and objects that td_close
 * ended are ignored; an object freed before, or a closed context, is an error. */
bool     td__may_free(const void *object, td_handle_kind kind, const char *who);
#define TD_MAY_FREE(object, KIND) td__may_free((object), TD_H_##KIND, __func__)

/* The handle of an object on the stack, alive until TD_ENDED. */
#define TD_LIVE(KIND, cx) \
    { TD_TAG_LIVE | TD_H_##KIND, 0, (cx) }
#define TD_ENDED(object, KIND) ((object)->tag = TD_TAG_FREED | TD_H_##KIND)

/* A weak reference: valid while the object lives. */
typedef struct td_weak {
    const td_handle *h;
    uint32_t         serial;
} td_weak;
static inline td_weak td__weak(const void *object) {
    const td_handle *h = object;
    return (td_weak){h, h ? h->serial : 0};
}
static inline bool td__weak_live(td_weak w, td_handle_kind kind) {
    return td__is_live(w.h, kind) && w.h->serial == w.serial;
}

/* Copies an options struct, whose first field is its size: the fields that
 * caller and library both know; the rest of *to is zero. NULL gives all zeros.
 * False after td__fail: the size is missing; `macro` sets it. */
bool td__opts_take(td_ctx *cx, const char *who, void *to, size_t bytes,
                   const void *opts, const char *macro);

#endif
