/* core/core.h -- tensors and contexts, without ops: storages, sizes and
 * strides, views, scopes, errors, the mode stack. Used by all later directories; not
 * installed. */
#ifndef TD_CORE_H
#define TD_CORE_H

#include "base/base.h"
#include "core/config.h"
#include "core/dim.h"
#include "core/dtype.h"
#include "core/handle.h"
#include "core/log.h"
#include "core/spans.h"
#include "tandem/tensor.h"

#include <stdatomic.h>

typedef struct td_storage  td_storage;
typedef struct td_mode     td_mode;
typedef struct td_opdef    td_opdef;    /* a row of the op table (ops) */
typedef struct td_opinfo   td_opinfo;   /* what is derived from a row (ops) */
typedef struct td_opcall   td_opcall;   /* one call of an op (ops) */
typedef struct td_autograd td_autograd; /* a tensor's autograd state (eager) */
typedef struct td_fncall   td_fncall;   /* the call of a custom function (eager) */
typedef struct td_hookcall td_hookcall; /* a hook that a body registers (eager) */
typedef struct td_wish     td_wish;     /* of a checkpoint region (eager) */
typedef struct td_listener td_listener; /* to the tape (eager) */
typedef struct td_typed    td_typed;    /* the inner tensors of a typed tensor */

/* ---- storages (storage.c) ----------------------------------------------- */

/* Is a storage fake, and who made it so? */
typedef enum td_fake_kind {
    TD_FAKE_NO,
    TD_FAKE_OF_TRACE, /* made by a capture or another trace */
    TD_FAKE_OF_USER   /* made by the user (tandem/fake.h); a trace treats it as real */
} td_fake_kind;

/* Memory with a version counter. Shared between tensors, contexts, threads and
 * foreign libraries, so the reference count is atomic. A fake storage has a
 * size but no memory. */
struct td_storage {
    _Atomic int32_t  refs;
    uint8_t          fake;     /* td_fake_kind: has a size and no memory */
    bool             open;     /* fake: the size is unknown or symbolic */
    bool             readonly; /* a mapped file: writes fail */
    bool             inner;    /* fake: of an inner tensor that a captured body got */
    uint8_t          device;   /* code of its device (device.h); 0: CPU */
    _Atomic uint64_t version;  /* number of writes so far */
    void            *data;
    size_t           bytes;
    int64_t          span;      /* fake: size in bytes as a symbolic dim; else 0 */
    size_t           block;     /* size of the block that this header begins */
    const char      *writer;    /* name of the op that wrote last, for messages */
    void (*release)(void *env); /* frees foreign memory; NULL: memory is our own */
    void                        *env; /* of release */
    /* Of an object (object.c): its type, and what keys contain; NULL: a plain one. */
    const struct td_object_type *object;
    uint64_t                     object_key;
};

/* A type of objects: types of one name are the same. */
typedef struct td_object_type {
    char     name[40];
    uint64_t hash;
} td_object_type;
/* The type of that name, made at its first use; it stays. NULL after td__fail. */
const td_object_type *td__object_type(td_ctx *cx, const char *name);

/* A new storage with one reference; NULL: out of memory, without an error. */
td_storage *td__storage_make(size_t bytes, bool fake);
/* The same, with data that td__storage_take can move to another storage. */
td_storage *td__storage_apart(size_t bytes);
/* s gets the data of `from`, which is freed; both are Tandem's own memory. */
void        td__storage_take(td_storage *s, td_storage *from);
/* A storage over foreign memory, which release(env) frees with the last reference. */
td_storage *td__storage_wrap(void *data, size_t bytes, void (*release)(void *),
                             void *env);
/* The size in bytes as a dim. */
static inline int64_t td__storage_span(const td_storage *s) {
    return s->span ? s->span : (int64_t)s->bytes;
}
void td__storage_keep(td_storage *s); /* adds a reference */
void td__storage_drop(td_storage *s); /* drops one; NULL is fine */
/* Reallocates; the common prefix of the bytes stays. False: out of memory. */
bool td__storage_resize(td_storage *s, size_t bytes);

/* ---- tensors (tensor.c) ------------------------------------------------- */

/* How a view was made, which decides whether it may be written later. */
typedef enum td_creation {
    TD_MADE_PLAIN,        /* an ordinary view, or no view at all */
    TD_MADE_MULTI_OUTPUT, /* one of several results: split, unbind, chunk */
    TD_MADE_NO_GRAD,      /* under no_grad */
    TD_MADE_INFERENCE,    /* under inference mode */
    TD_MADE_CUSTOM        /* returned by a custom function */
} td_creation;

/* One view op in the chain from a base to a view. Arguments are deep copies;
 * the viewed tensor itself is left out. Shared by all views that continue the
 * chain. */
typedef struct td_view_step {
    int32_t              refs;
    int32_t              out_nr; /* which result of the op */
    struct td_view_step *up;     /* the previous step; NULL: the base */
    const td_opdef      *def;
    int                  n_in;
    bool                 grad, inference; /* modes it was made in */
    td_value             in[];
} td_view_step;

/* td_tensor.flags */
enum {
    TD_TF_NEEDS_GRAD = 1, /* a leaf that requires grad, or it has a grad_fn */
    TD_TF_INFERENCE = 2,  /* made in inference mode: never recorded */
    TD_TF_NIL = 4,        /* the context's nil tensor */
    TD_TF_TRACED = 8,     /* made during a capture */
    TD_TF_TANGENT = 16,   /* of a trace: the caller's may be a leaf or not */
    TD_TF_NUMBER = 32     /* stands for a number argument (aot/numbers.c) */
};

/* Sizes that td_mark_dynamic_range allows, both included. most 0: any. */
typedef struct td_bounds {
    int64_t least, most;
} td_bounds;

#define TD_INLINE_RANK 5

/* What a mode knows about a tensor starts with these. Of a tensor of a captured body
 * they say where it comes from, for messages after the capture; names are the
 * process's (td__place_file). A payload without owner belongs to its tensor. */
#define TD_PAYLOAD_FIELDS                                                             \
    td_mode    *owner; /* modes recognize their own payloads by it */                 \
    const char *op;    /* that made it; NULL: an argument, or a closed-over tensor */ \
    td_where    here;  /* source line of that */                                      \
    const char *body   /* the captured function; NULL: unknown */
typedef struct td_payload {
    TD_PAYLOAD_FIELDS;
} td_payload;

/* Sizes, strides and offset over a storage. The reference count is not atomic:
 * a tensor belongs to one context, and a context to one thread. Invariant: all
 * addressed elements are inside the storage. */
struct td_tensor {
    TD_HANDLE_FIELDS;
    int32_t     refs;  /* references: scope, td_keep, internal ones */
    int32_t     kept;  /* how many of them are from td_keep */
    int32_t     slot;  /* index in cx->owned; -1: no scope owns it */
    uint32_t    marks; /* bit per dim marked with td_mark_dynamic */
    uint8_t     dtype; /* td_dtype */
    uint8_t     rank;
    uint8_t     flags;    /* TD_TF_... */
    uint8_t     creation; /* td_creation */
    uint32_t    maybe;    /* bit per dim marked with td_mark_maybe_dynamic */
    td_bounds  *bounds;   /* [32], of marked dims; NULL: none. Owned */
    int64_t     numel;
    int64_t     offset; /* of the first element, in elements */
    int64_t    *size;   /* [rank], in dims or on the heap */
    int64_t    *stride; /* [rank], after size in the same memory */
    td_storage *st;
    td_tensor  *base; /* of a view: the tensor at the start of its chain; or NULL */
    union {
        td_view_step *steps;     /* of a view: the last op of its chain; else NULL */
        const char   *made_file; /* freed: td_payload.here */
    };
    union {
        td_autograd *ag;      /* NULL: no autograd state */
        const char  *made_in; /* freed: td_payload.body */
    };
    union {
        void       *payload; /* td_payload, of the mode that wraps it; or NULL */
        const char *made_by; /* freed: td_payload.op */
    };
    td_typed  *typed;    /* of a type: it has no elements (typed.h); else NULL */
    td_tensor *follower; /* td__tensor_follower; one reference; or NULL */
    union {
        uint64_t   seen;  /* of a view: its version when it got its grad_fn */
        td_tensor *dying; /* about to be freed: the next one */
    };
    union {
        uint64_t moves;     /* set_ calls that gave it a storage */
        int64_t  made_line; /* freed: td_payload.here */
    };
    union {
        td_tensor  *prev;       /* in the list of the context's tensors */
        const char *freed_file; /* after td_drop: its source file; NULL: unknown */
    };
    td_tensor *next; /* in the list of the context's tensors, or of freed ones */
    int64_t    dims[2 * TD_INLINE_RANK]; /* sizes and strides of small ranks */
    int32_t    dims_cap;                 /* largest rank that fits at size */
    int32_t    freed_line;               /* line of freed_file */
    bool       plain; /* known to have exactly row-major strides and elements */
};
_Static_assert(TD_MAX_RANK <= 32, "td_tensor.marks has a bit for each dim");

/* Writes so far: those of the storage, plus set_ calls on this tensor, so that
 * a tensor that set_ moved away and back has another version. */
static inline uint64_t td__version(const td_tensor *t) {
    return atomic_load_explicit(&t->st->version, memory_order_relaxed) + t->moves;
}

/* Gives t the bounds of `from`'s dims. False after td__fail. */
bool td__bounds_copy(td_tensor *t, const td_tensor *from);

/* The type of a tensor before it exists: filled in by shape rules. */
typedef struct td_meta {
    td_dtype dtype;
    int      rank;
    bool     strided; /* stride and offset are set; else row-major, offset 0 */
    uint8_t  device;  /* code (device.h); 0: CPU */
    int64_t  offset;
    int64_t  size[TD_MAX_RANK];
    int64_t  stride[TD_MAX_RANK];
} td_meta;

/* Where compiled code wants a result of the next op. */
typedef struct td_result_place {
    td_storage    *st;  /* NULL: anywhere */
    const td_meta *as;  /* its strides and offset there; NULL: it is all of st */
    bool           own; /* strides of `as` that differ from the rule's are for kernels
                         * that take any: pointwise ones */
} td_result_place;

/* NULL after td__fail. The result belongs to the innermost scope. */
td_tensor *td__tensor_make(td_ctx *cx, const td_meta *m, bool fake); /* fresh storage */
/* The same on the CPU, of row-major type m, for code that makes many of that type: n is
 * its element count, which td__tensor_count has given for it, and m->stride is set. */
td_tensor *td__tensor_counted(td_ctx *cx, const td_meta *m, int64_t n);
/* That count, and sets m->stride; 0: only td__tensor_make can make one, or fails. */
int64_t    td__tensor_count(td_meta *m);
td_tensor *td__tensor_over(td_ctx *cx, td_storage *st,
                           const td_meta *m); /* shares st */
td_tensor *td__tensor_alias(td_ctx    *cx,
                            td_tensor *t); /* same geometry, no autograd, no view */
/* Changes sizes, strides, offset and dtype of t itself: a metadata write. */
bool       td__tensor_set_geometry(td_tensor *t, const td_meta *m);
void       td__tensor_set_storage(td_tensor *t, td_storage *st);

/* An alias of t without history that stays one: it takes part in each change of t's
 * sizes, strides and storage (set_, resize_). It is what a reference to t would be,
 * where such a reference would be a cycle. One for each t; NULL after td__fail. */
td_tensor *td__tensor_follower(td_tensor *t);
void       td__tensor_meta(const td_tensor *t, td_meta *m);

static inline td_tensor *td__ref(td_tensor *t) {
    t->refs++;
    return t;
}
/* Marks the struct of a freed tensor, so that later uses are recognized; the memory is
 * reused after many others. */
void              td__tensor_retire(td_tensor *t);
/* After a capture: t, which the user has kept, gets a copy of its payload for messages.
 * NULL, and t has no payload: out of memory. */
const td_payload *td__tensor_keep_origin(td_tensor *t);
/* "exp at model.c:41 in the body of f"; "": unknown. */
void              td__origin_text(const td_payload *p, char *out, size_t cap);
/* Hands retired structs to the process when their context closes. */
void              td__tensors_leave(td_ctx *cx);
/* Drops a reference; frees at zero, without recursion over the graph. */
void              td__unref(td_tensor *t);
/* td__unref by a module or optimizer that ends, for messages about later uses. */
void              td__unref_held(td_tensor *t);
/* td_drop; `how` (TD_RELEASED_...) is for messages about later uses. */
void              td__drop_as(td_tensor *t, uint32_t how);

/* The address of the first element. */
static inline char *td__ptr(const td_tensor *t) {
    return t->st->data ? (char *)t->st->data + t->offset * td__dtype_bytes[t->dtype]
                       : NULL;
}
static inline bool td__is_fake(const td_tensor *t) { return t->st->fake; }
static inline bool td__is_traced(const td_tensor *t) {
    return t->st->fake == TD_FAKE_OF_TRACE;
}
/* Was t kept from a body that was captured, or is it a fake outside of td_fakes_begin?
 * Public functions refuse it, because it has no elements. */
#define TD_IS_KEPT(t) \
    TD_UNLIKELY(td__is_fake(t) && !(t)->cx->fake && !(t)->cx->takes_fakes)
/* In a captured body: the fake copy of t, whose sizes and flags public
 * functions report instead of t's. NULL: t itself counts. */
td_tensor *td__seen_as(const td_tensor *t);
/* In a captured body: did t exist before the body ran? */
bool       td__from_outside(const td_tensor *t);
/* May `who` read `what` of t? Not in a captured body if the program could not
 * reproduce it. False after td__fail. */
bool       td__may_read_tensor(const td_tensor *t, const char *who, const char *what);
/* May a public function read or change state outside of tensors (settings, the
 * generator, files, other objects)? Compiled code neither reads it again nor repeats a
 * change, so the function either makes the state part of the key (td_deps,
 * td__modes_of) or calls one of these first, which fail in a captured body. False after
 * td__fail. tests/unit/body_functions.def has a row for each public function. */
bool       td__may_read(const td_ctx *cx, const char *who, const char *what);
bool       td__may_change(const td_ctx *cx, const char *who, const char *what);
/* The same for an object with a handle: a body may change those it made itself. */
bool       td__may_change_object(const void *object, const char *who, const char *what);
/* Sizes and strides as arguments of ops; entries may be symbolic. */
static inline td_ints td__sizes(const td_tensor *t) {
    return (td_ints){t->size, t->rank};
}
static inline td_ints td__strides(const td_tensor *t) {
    return (td_ints){t->stride, t->rank};
}

void td__view_step_drop(td_view_step *s);

/* ---- geometry (shape.c) ------------------------------------------------- */

int64_t td__numel(int rank, const int64_t *size); /* TD_DIM_HUGE on overflow */
void td__strides_dense(int rank, const int64_t *size, int64_t *stride); /* row-major */
bool td__is_dense(int rank, const int64_t *size, const int64_t *stride);
/* Dense and non-overlapping in some order of dims. */
bool td__is_packed(int rank, const int64_t *size, const int64_t *stride);
/* Strides of a new dense tensor with the dim order of (size, stride). */
void td__strides_like(int rank, const int64_t *size, const int64_t *stride,
                      int64_t *out);
/* A dim counted from the front; -1: out of range. A 0-dim tensor accepts 0 and
 * -1. */
int  td__wrap_dim(int64_t dim, int rank);
/* Have they equal sizes? Of symbolic ones the answer is guarded. */
static inline bool td__same_sizes(const td_tensor *a, const td_tensor *b) {
    return a->rank == b->rank && td__dims_eq(a->size, b->size, a->rank);
}
/* Broadcasts (rank, size) with (rank_b, size_b), in place; false: impossible. */
bool td__broadcast(int *rank, int64_t *size, int rank_b, const int64_t *size_b);
/* Strides of t expanded to (rank, size); false: it cannot be. */
bool td__expand_strides(const td_tensor *t, int rank, const int64_t *size,
                        int64_t *stride);
/* Do elements share an address because of a stride 0? Other overlaps are not
 * detected. */
bool td__overlaps_itself(const td_tensor *t);
/* May two elements of t, whose sizes are numbers, have the same address? Exact if
 * strides nest; true for every other layout. */
bool td__may_share_places(const td_tensor *t);
/* The dims that are not expanded (stride 0), in kept_size and kept_stride;
 * returns their number. again[i]: dim i is expanded. */
int  td__dims_apart(int rank, const int64_t *size, const int64_t *stride,
                    int64_t *kept_size, int64_t *kept_stride, bool *again);
typedef enum td_overlap {
    TD_OVERLAP_NO,
    TD_OVERLAP_FULL,
    TD_OVERLAP_PARTIAL
} td_overlap;
td_overlap td__overlap(const td_tensor *a, const td_tensor *b);
/* Strides that reshape (size, stride) to new_size without a copy; false:
 * impossible. */
bool       td__view_strides(int rank, const int64_t *size, const int64_t *stride,
                            int new_rank, const int64_t *new_size, int64_t *new_stride);

/* ---- errors (error.c) --------------------------------------------------- */

/* Records an error, unless one is recorded already: scope path, message, source
 * line of the user's call (td_here). Always returns false. */
bool        td__fail(td_ctx *cx, td_code code, const char *fmt, ...) TD_PRINTF(3, 4);
/* Out of memory, with the size of the request. */
bool        td__fail_memory(td_ctx *cx);
bool        td__fail_memory_for(td_ctx *cx, size_t bytes, td_dtype dt, int rank,
                                const int64_t *size);
/* Adds a source line to a recorded error that has none. */
void        td__fail_at(td_ctx *cx, td_where here);
/* Puts "why: " before the message of a recorded error; code and place stay. */
void        td__fail_prefix(td_ctx *cx, const char *why);
/* Adds to an error of the backward of an op, which was called at `op`, the line that
 * called the backward. */
void        td__fail_backward(td_ctx *cx, td_where op, td_where caller);
/* "this tensor, f32[2], was freed when the scope "step" ended at train.c:12; ..." */
void        td__released_text(const td_tensor *t, char *out, size_t cap);
/* `who` received nil. Fails only for the nil of td_grad_of for a tensor without
 * gradient: other nils come from an error that is recorded. Always returns false. */
bool        td__refuse_nil(const td_handle *h, td_handle_kind kind, const char *who);
/* TD_E_TRACE: `who` needs the elements of a fake tensor, or elements during a
 * capture. Always returns false. */
bool        td__fail_no_bytes(td_ctx *cx, const char *who, const char *rule);
/* Fails: `who` received t, for which TD_IS_KEPT holds. Always returns false. */
bool        td__fail_kept(td_ctx *cx, const char *who, const td_tensor *t);
/* "f32[2,3]" for messages; four buffers in rotation per thread. */
const char *td__type_str(const td_tensor *t);
const char *td__sizes_str(int rank, const int64_t *size);
/* Fails: a size that depends on values is `size`, and the code that runs is for `rel`
 * `than`. Returns false. */
bool td__fail_other_size(td_ctx *cx, int64_t size, const char *rel, int64_t than);

/* ---- contexts (ctx.c) --------------------------------------------------- */

/* A scope: owns the tensors in cx->owned from `first` on. */
typedef struct td_scope {
    const char *label; /* NULL: internal, not in the path */
    int         first; /* index in owned of its first tensor */
    td_where    here;  /* where the user began it */
} td_scope;

/* How a tensor was released, in the serial of its handle: one of these, or the number
 * of the scope that owned it and ended. */
enum {
    TD_RELEASED_NOT,
    TD_RELEASED_DROP,  /* by td_drop */
    TD_RELEASED_INNER, /* with a scope of the library's own */
    TD_RELEASED_CLOSE, /* with its context */
    TD_RELEASED_OWNER, /* with the module or optimizer that owned it */
    TD_RELEASED_SCOPE  /* the first number of a scope */
};

/* A scope that ended, for messages about tensors it owned; the last
 * TD_ENDED_KEPT are remembered. */
typedef struct td_ended {
    uint32_t    nr;
    int         line;
    const char *file; /* NULL: not known */
    char        label[40];
} td_ended;
#ifdef TD_DEBUG_LIFETIMES
enum { TD_ENDED_KEPT = 1 << 14 };
#else
enum { TD_ENDED_KEPT = 64 };
#endif

/* A copy of a file name that lives as long as the process, for a td_where that
 * is stored. NULL for NULL, and after td__fail. */
const char *td__place_file(td_ctx *cx, const char *name);

/* Functions of later directories that the context calls. */
typedef struct td_ctx_hooks {
    void (*free_autograd)(td_tensor *t);  /* t, which has autograd state, is freed */
    const char *(*made_by)(td_tensor *t); /* name of its grad_fn; "": a leaf */
    void (*free_ambient)(td_ctx *cx);     /* frees what ambient fields own */
    void (*close)(td_ctx *cx);            /* the context is freed */
} td_ctx_hooks;

/* A mode: a struct on the context's mode stack that receives every op call before the
 * modes below it and the kernels. Its owner embeds it as the first member. */
struct td_mode {
    td_mode    *below; /* the next mode; NULL: the kernels */
    const char *name;
    /* Receives one op call; td__call_below(m, c) continues it. False after td__fail. */
    bool (*call)(td_mode *m, td_opcall *c);
    bool composites; /* receives composite ops whole instead of their parts */
    bool first;      /* stays on top whatever is pushed later (autocast) */
    bool flat;       /* sees ops on inner tensors where an argument is of a type */
    /* Records the call of a custom function (eager.h); NULL: it just runs. */
    bool (*function)(td_mode *m, const td_fncall *call);
    /* Records a gradient hook, or that one was removed (eager.h); NULL: it refuses. */
    bool (*hook)(td_mode *m, const td_hookcall *call);
    /* In a capture: the fake copy of a real tensor. nil after td__fail. */
    td_tensor *(*stand_in)(td_mode *m, td_tensor *t);
    /* In a capture: the fake copy whose sizes and flags the body reads as t's; t is
     * closed over from then on. NULL: t itself. */
    td_tensor *(*seen_as)(const td_mode *m, const td_tensor *t);
    /* In a nested capture: the cast of weight t that the enclosing capture makes in its
     * region of autocast. NULL: t is no weight of the enclosing capture. */
    td_tensor *(*cast)(td_mode *m, td_tensor *t, td_dtype to);
    /* Frees a mode that is still pushed at the end; NULL: its owner does. */
    void (*drop)(td_mode *m);
};

/* ---- ambient state (ambient.c) ------------------------------------------ */

/* A cached cast of a weight, for the length of an autocast region; both
 * referenced. */
typedef struct td_kept_cast {
    td_tensor *leaf, *cast;
    uint64_t   version; /* of the leaf */
    bool       recorded;
} td_kept_cast;

/* The autocast mode; on the stack while depth > 0. */
typedef struct td_autocast {
    td_mode  mode;
    bool     on;
    td_dtype dtype;
    int      depth; /* regions that are open */
    TD_VEC(td_kept_cast) cache;
} td_autocast;

/* Do ops take fake tensors outside of a capture? */
typedef enum td_takes_fakes {
    TD_FAKES_NO,
    TD_FAKES_INSIDE, /* the library's own, among real ones */
    TD_FAKES_SCOPE   /* the user's, and no others (td_fakes_begin) */
} td_takes_fakes;

/* The ambient state of a context: every field that changes what an op call computes,
 * records or saves, and that is not an argument of the call.
 *
 * Invariant: a trace does not see it. td__ambient_clear saves the whole state and sets
 * every field to its default; the trace then restores the modes that a call's result
 * depends on, which its key contains (td__modes_resume in eager.h). A new field that
 * ops read belongs here; tests/unit/ambient.c fails until each field of td_ctx is
 * classified. */
#define TD_AMBIENT_FIELDS                                                            \
    td_mode       *top; /* mode stack */                                             \
    bool           grad_enabled, inference, anomaly;                                 \
    bool           fake;        /* a capture: ops compute no bytes, none are read */ \
    uint8_t        takes_fakes; /* td_takes_fakes, outside of a capture */           \
    uint32_t       tags;        /* of the node being replayed (graph.h, TD_TAG) */   \
    const td_wish *wish;        /* of the checkpoint region being captured */        \
    int            regions;     /* checkpoint regions of this capture so far */      \
    int            inlined;     /* custom functions whose forward was inlined */     \
    bool           whole;       /* a trace in which regions are their ops */         \
    int            missed;      /* scopes begun but not opened: no memory */         \
    uint64_t       rng_seed, rng_offset;                                             \
    uint32_t       last_serial;  /* of the last object made before the trace */      \
    uint64_t       hooks_before; /* last_hook when the trace began */                \
    td_dtype       default_dtype;                                                    \
    uint8_t        device; /* of what ops make that read no tensor (device.h) */     \
    td_autocast    autocast;                                                         \
    TD_VEC(struct td_saved_hooks) packers; /* stack; the top one counts (eager) */   \
    const td_result_place *results_in; /* for the results of the next op; or NULL */ \
    const td_listener     *listener;   /* to the tape; NULL: none (eager) */         \
    struct td_deps *deps; /* what the captured body read besides arguments (aot) */

typedef struct td_ambient {
    TD_AMBIENT_FIELDS
} td_ambient;

/* A copy that an op made because a data-dependent size might require it
 * (ops/assumed_copy.c). */
typedef struct td_layout_copy {
    const td_storage *from, *copy; /* copy NULL: none */
    int               rank;
    int64_t           size[TD_MAX_RANK]; /* of the source */
} td_layout_copy;

struct td_ctx {
    TD_HANDLE_FIELDS;    /* cx is the context itself */
    td_code  code;       /* TD_OK or the first error */
    bool     stale;      /* the error: a saved value was modified before backward */
    bool     gone;       /* the error: saved values were freed by an earlier backward */
    bool     other_size; /* the error: a size that depends on values is not as traced */
    bool     recompute;  /* the error: a checkpointed region fails when recomputed */
    bool     unread;     /* the error: neither its code nor its message was read */
    char     message[2048];
    td_where failed_at; /* source line of the failed call; file: failed_file or NULL */
    char     failed_file[160];
    void (*on_error)(void *env, td_code, const char *);
    void *on_error_env;

    td_settings settings; /* read them with td__config */
    td_logger   log;
    td_spans    spans;

    td_handle   nils[TD_H_COUNT]; /* nil objects of kinds other than tensors */
    td_owned   *owned_objects;    /* objects the user must free, newest first */
    td_tensor   nil;              /* the nil tensor */
    td_tensor   no_gradient; /* the nil that td_grad_of returns; using it is an error */
    const char *making;      /* the op whose results are being allocated; NULL: none */
    /* The composite op the user called, while its parts run; NULL: none. */
    const td_opinfo    *composite;
    td_layout_copy      layout_copy; /* the last one that the running op took */
    struct td_callback *callback;    /* the innermost running callback; NULL: none */
    int                 n_typed;     /* live tensors of a type: 0 in most programs */
    bool                devices;     /* a device other than the CPU was used */
    bool                special;     /* a complex or stored dtype was used */
    int handling; /* functions of types that are running (ops/typed.c) */
    td_dim_list
            *sizes_seen; /* gets the sizes that depend on values; NULL: nothing does */
    td_where no_gradient_at;         /* where no_gradient was returned last */
    bool     no_gradient_leaf;       /* ...for a leaf */
    td_storage nil_storage;          /* of nil tensors */
    td_tensor *all;                  /* every live tensor */
    td_tensor *freed, *freed_newest; /* retired structs, oldest first */
    int        n_freed;
    td_ended   ended[TD_ENDED_KEPT]; /* ring of ended scopes, by number */
    uint32_t   n_ended;              /* number of the last one */
    TD_VEC(td_tensor *) owned; /* owned by scopes, outermost first; NULL: dropped */
    TD_VEC(td_scope) scopes;   /* open scopes, outermost first */
    td_tensor *dying;          /* td__unref's work list, linked by payload */
    bool       unwinding;      /* td__unref is emptying it */

    union { /* the ambient fields, individually and as a whole */
        td_ambient ambient;
        struct {
            TD_AMBIENT_FIELDS
        };
    };
    td_mode *tape; /* the autograd mode, bottom of the stack; NULL before eager */
    const td_ctx_hooks *hooks;
    void               *eager; /* eager's own state */
    uint64_t last_hook; /* clock of hooks: registrations, removals while they run */
    struct td_remote *remote; /* the remote cache in use (build); NULL: none yet */
    void (*drop_remote)(td_ctx *cx); /* frees it; NULL: none yet */
    uint64_t saver; /* a hash of the compiled code that saves values; 0: an op
                                * saves them, or no hook receives them */

    int      print_precision, print_edge, print_width;
    int64_t  print_threshold;
    td_arena scratch; /* for the length of one op call */
};

/* td_error and td_message for the library's own use: the user has not read them. */
static inline td_code          td__error(const td_ctx *cx) { return cx->code; }
static inline const char      *td__message(const td_ctx *cx) { return cx->message; }
/* The settings now (config.c). */
static inline const td_config *td__config(const td_ctx *cx) {
    return &cx->settings.now;
}
/* Is the topic logged? (log.c) */
static inline bool td__log_on(const td_ctx *cx, td_topic topic) {
    return cx->log.topics >> topic & 1;
}
/* Named time spans; the name is a literal. Spans nest; ending one ends those left open
 * inside it, so an early return on failure needs no cleanup. td__span_arg adds a
 * number to the innermost span (spans.c). */
static inline void td__span_begin(td_ctx *cx, const char *name) {
    if (TD_UNLIKELY(cx->spans.on)) td__span_open(cx, name);
}
static inline void td__span_end(td_ctx *cx, const char *name) {
    if (TD_UNLIKELY(cx->spans.on)) td__span_close(cx, name);
}
static inline void td__span_arg(td_ctx *cx, const char *key, int64_t value) {
    if (TD_UNLIKELY(cx->spans.on)) td__span_note(cx, key, value);
}

/* The ambient state of a context while a trace runs. */
typedef struct td_outside {
    td_ambient was;
    td_mode   *below;  /* the mode below the tape */
    int        scopes; /* number of open scopes */
    td_where   here;   /* td_here */
} td_outside;

void               td__ambient_init(td_ctx *cx); /* of a new context */
/* td_rng_set, also while a body is captured. */
static inline void td__rng_put(td_ctx *cx, uint64_t seed, uint64_t offset) {
    cx->rng_seed = seed;
    cx->rng_offset = offset;
}
/* Saves the ambient state and begins a scope: every field has its default, the
 * tape is the only mode. False after td__fail: nothing has changed. */
bool td__ambient_clear(td_ctx *cx, td_outside *o);
/* Ends what was begun since (scopes, modes, autocast regions, saved-tensor
 * hooks) and restores the state, also after an error. Without `ok`, td_here
 * stays at the failing call. */
void td__ambient_restore(td_ctx *cx, const td_outside *o, bool ok);
/* Exchanges the current state and the one set aside: ops run as outside of the trace,
 * and after a second call as in it. */
void td__ambient_swap(td_ctx *cx, td_outside *o);

/* ---- the mode stack (modes.c) ------------------------------------------- */

/* No other file assigns cx->top or td_mode.below (tools/lint.sh checks it). A mode is
 * popped by the code that pushed it; the functions below are for the length of a few
 * calls and are undone by the caller, also after an error. */
void     td__mode_push(td_ctx *cx, td_mode *m);
void     td__mode_pop(td_ctx *cx, td_mode *m);
/* Inserts m directly above the tape, below all pushed modes. */
void     td__mode_insert(td_ctx *cx, td_mode *m);
/* Removes m from wherever it is on the stack; no effect if it is not. */
void     td__mode_remove(td_ctx *cx, td_mode *m);
/* The mode to pop next: the top one, except a mode that always stays first. */
td_mode *td__mode_inner(const td_ctx *cx);
/* Pops and frees modes above `until`, up to one that has no drop function. */
void     td__modes_drop(td_ctx *cx, const td_mode *until);
/* Makes the tape the only mode, with `below` beneath it (NULL: the kernels).
 * Without a tape the stack becomes empty. */
void     td__modes_tape(td_ctx *cx, td_mode *below);

/* Op calls start at mode m from now on; NULL: at the kernels. Returns the previous top,
 * to be passed in the call that undoes it. */
static inline td_mode *td__modes_from(td_ctx *cx, td_mode *m) {
    td_mode *was = cx->top;
    cx->top = m;
    return was;
}

/* The modes of a context, saved while a few calls run under others: the stack,
 * and the switches that decide what a call records. */
typedef struct td_mode_scope {
    td_mode *top, *below; /* below: of the tape */
    bool     grad_enabled, inference, fake;
    uint8_t  takes_fakes; /* td_takes_fakes */
} td_mode_scope;

/* Op calls start at mode m until td__modes_leave, which restores the stack and
 * the switches whatever was set in between. */
td_mode_scope td__modes_enter(td_ctx *cx, td_mode *m);
/* td__modes_enter with grad and inference mode off: what runs has no history. */
td_mode_scope td__modes_enter_plain(td_ctx *cx, td_mode *m);
void          td__modes_leave(td_ctx *cx, const td_mode_scope *s);

td_ctx           *td__ctx_make(void);
void              td__ctx_free(td_ctx *cx);
/* The context used where there is none. It is not live: errors on it are
 * reported by td_last_error, and its objects are nil. */
td_ctx           *td__ctx_orphan(void);
/* Makes the innermost scope the owner of t's reference. False after td__fail. */
bool              td__scope_own(td_tensor *t);
/* The label of a user's scope without one, td_scope_begin(cx, NULL). */
extern const char td__unnamed[];
/* An internal scope without a label; td__scope_pop moves results[0..n) to its parent
 * and frees the rest. */
bool              td__scope_push(td_ctx *cx);
void              td__scope_pop(td_ctx *cx, td_tensor **results, int n);

#endif
