/* core/handle.h -- what every opaque object of the public interface begins with: a tag
 * that says of which kind it is and whether it is alive, and its context. Every public
 * function checks the tag of each object it is given, with TD_ENTER, before it reads
 * anything else. So NULL, nil, an object that was freed and one of another kind are
 * all recognized at one point, and the rest of the library sees live objects only.
 *
 * The memory of a freed object stays readable and keeps its tag: it is reused for an
 * object of the same kind only, oldest first, after TD_HANDLES_KEPT others of the kind
 * were freed. */
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
    TD_H_HEARD,
    TD_H_SPLIT,
    TD_H_FCALL,
    TD_H_COUNT
} td_handle_kind;

/* tag = state | kind */
#define TD_TAG_LIVE 0x7d5a1000u
#define TD_TAG_NIL 0x7d5a2000u
#define TD_TAG_FREED 0x7d5a3000u
#define TD_TAG_KIND 0xffu

/* A tensor's serial is 0 while a scope or the user owns it, and then tells how it was
 * released (core.h, TD_RELEASED_...). Of other kinds it counts objects: two objects
 * that had the same memory have different serials. */
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

/* An object that td_close ends if the user did not. */
typedef struct td_owned {
    TD_HANDLE_FIELDS;
    struct td_owned *prev, *next; /* of the context's objects, newest first */
    void (*end)(void *object);    /* NULL: not in the list */
    int parents;                  /* objects that end it with them */
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
/* Records why the object cannot be used, unless it is nil: then that was recorded when
 * it was made. Always false. */
bool               td__refuse(const void *object, td_handle_kind kind, const char *who);
static inline bool td__enter(const void *object, td_handle_kind kind, const char *who) {
    return TD_LIKELY(td__is_live(object, kind)) || td__refuse(object, kind, who);
}
/* The same where the call has a context already, of another argument: the failure is
 * recorded there, also when the object's own context is another one or closed. */
bool               td__refuse_in(td_ctx *cx, const void *object, td_handle_kind kind,
                                 const char *who);
static inline bool td__enter_in(td_ctx *cx, const void *object, td_handle_kind kind,
                                const char *who) {
    return TD_LIKELY(td__is_live(object, kind)) || td__refuse_in(cx, object, kind, who);
}
/* May this public function use the object? Errors name the function. */
#define TD_ENTER(object, KIND) td__enter((object), TD_H_##KIND, __func__)

/* The same for a context, which is the thread's current one from now on. */
/* By thread: it is for calls that no context can be found for. */
extern TD_HOT_LOCAL td_ctx *td__named_ctx; /* open or closed; see td__current_ctx */
static inline bool          td__enter_ctx(const td_ctx *cx, const char *who) {
             if (!td__enter(cx, TD_H_CTX, who)) return false;
    td__named_ctx = (td_ctx *)(uintptr_t)cx;
             return true;
}
#define TD_ENTER_CTX(cx) td__enter_ctx((cx), __func__)
/* The context that errors without one belong to: the one this thread named last in a
 * call, while it is open; else the orphan, which is never NULL. */
td_ctx *td__current_ctx(void);
/* The context of an object that may be NULL, nil or freed; else the current one. */
td_ctx *td__ctx_of_any(const void *object);

/* The inert object of a kind; cx may be NULL or closed. */
void *td__nil_of(td_ctx *cx, td_handle_kind kind);
#define TD_NIL(cx, KIND) td__nil_of((cx), TD_H_##KIND)
#define TD_NIL_BY(object, KIND) td__nil_of(td__ctx_of_any(object), TD_H_##KIND)
/* Fills out[0..n) with nil tensors; out may be NULL. */
void               td__nil_tensors(td_ctx *cx, td_tensor **out, int n);
void               td__nil_values(td_ctx *cx, td_value *out, int n);
bool               td__no_room(td_ctx *cx, const char *who, int n);
bool               td__no_list(td_ctx *cx, const char *who, const void *v, int n);
/* May out[0..n) be written? False after td__fail: n results are asked for and there is
 * no room for them. */
static inline bool td__has_room(td_ctx *cx, const char *who, const void *out, int n) {
    return TD_LIKELY(out || n <= 0) || td__no_room(cx, who, n);
}
/* May v[0..n) be read? False after td__fail. */
static inline bool td__has_list(td_ctx *cx, const char *who, const void *v, int n) {
    return TD_LIKELY((v && n >= 0) || n == 0) || td__no_list(cx, who, v, n);
}
/* Was the argument `what`, a pointer, given? False after td__fail: it is NULL. */
bool td__has(td_ctx *cx, const char *who, const char *what, bool given);

/* A zeroed object, alive, in no list; NULL after td__fail_memory. `bytes` is the same
 * for all objects of a kind. */
void *td__handle_make(td_ctx *cx, td_handle_kind kind, size_t bytes);
void  td__handle_free(void *object, td_handle_kind kind); /* NULL is fine */
/* The user owns the object from now on: td_close calls end(object) if nobody did. */
void *td__handle_own(void *object, void (*end)(void *object));
void  td__handle_disown(void *object);
void  td__handles_end(td_ctx *cx); /* ends all that is owned, newest first */
/* May the user's request to free it be granted? NULL, nil and what td_close has ended
 * are not errors; an object that was freed already is, and a closed context. */
bool  td__may_free(const void *object, td_handle_kind kind, const char *who);
#define TD_MAY_FREE(object, KIND) td__may_free((object), TD_H_##KIND, __func__)

/* The handle of an object on the stack, alive until TD_ENDED. */
#define TD_LIVE(KIND, cx) \
    { TD_TAG_LIVE | TD_H_##KIND, 0, (cx) }
#define TD_ENDED(object, KIND) ((object)->tag = TD_TAG_FREED | TD_H_##KIND)

/* A reference that does not keep its object alive. */
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

/* Options carry their size. Copies what both sides know of *opts to the zeroed *to;
 * NULL gives zeros. False after td__fail: the size is missing, and `macro` sets it. */
bool td__opts_take(td_ctx *cx, const char *who, void *to, size_t bytes,
                   const void *opts, const char *macro);

#endif
