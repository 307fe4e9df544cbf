/* core/core.h -- tensors without ops: storages, geometry, views, scopes, errors
 * and the mode stack. Shared by the rooms to the right; not installed. */
#ifndef TD_CORE_H
#define TD_CORE_H

#include "base/base.h"
#include "core/config.h"
#include "core/dim.h"
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
typedef struct td_wish     td_wish;     /* of a checkpoint region (eager) */

/* ---- dtypes (dtype.c) --------------------------------------------------- */

typedef enum td_dtype_class {
    TD_CLASS_BOOL,
    TD_CLASS_INT,
    TD_CLASS_FLOAT
} td_dtype_class;

extern const uint8_t td__dtype_bytes[TD_DTYPE_COUNT]; /* element size */
extern const uint8_t td__dtype_classes[TD_DTYPE_COUNT];
static inline bool   td__is_float(td_dtype dt) { return dt <= TD_BF16; }
static inline bool   td__is_int(td_dtype dt) { return dt >= TD_I64 && dt <= TD_U8; }
static inline bool   td__is_half(td_dtype dt) { return dt == TD_F16 || dt == TD_BF16; }

td_dtype td__promote(td_dtype a, td_dtype b);      /* of two tensors with dims */
bool     td__can_cast(td_dtype from, td_dtype to); /* class may not go down */
/* Reads and writes one element, for scalars, printing and slow paths. */
double   td__load_f(td_dtype dt, const void *p);
int64_t  td__load_i(td_dtype dt, const void *p);
void     td__store_f(td_dtype dt, void *p, double v);
void     td__store_i(td_dtype dt, void *p, int64_t v);
void     td__store_value(td_dtype dt, void *p, td_value number);

/* ---- storages (storage.c) ----------------------------------------------- */

/* Bytes and who has written them. Shared between tensors, contexts and foreign
 * libraries, hence the atomic count. A fake storage has a size but no bytes. */
struct td_storage {
    _Atomic int32_t  refs;
    bool             fake;     /* sizes only, no bytes */
    bool             open;     /* fake: how many there are is not known */
    bool             readonly; /* a mapped file: a write is refused */
    uint8_t          device;   /* 0: CPU; others to come */
    _Atomic uint64_t version;  /* writes so far */
    void            *data;
    size_t           bytes;
    int64_t          span;      /* fake: bytes as a dim when symbolic, else 0 */
    size_t           block;     /* size of the block this header lies in */
    const char      *writer;    /* name of the op that wrote last, for messages */
    void (*release)(void *env); /* foreign memory; NULL: ours, a block */
    void *env;
};

td_storage *td__storage_make(size_t bytes, bool fake); /* NULL: no memory */
td_storage *td__storage_wrap(void *data, size_t bytes, void (*release)(void *),
                             void *env);
/* Its size in bytes as a dim. */
static inline int64_t td__storage_span(const td_storage *s) {
    return s->span ? s->span : (int64_t)s->bytes;
}
void td__storage_keep(td_storage *s);
void td__storage_drop(td_storage *s);
bool td__storage_resize(td_storage *s, size_t bytes); /* keeps the common prefix */

/* ---- tensors (tensor.c) ------------------------------------------------- */

/* How a view was made, which decides whether it may be written later. */
typedef enum td_creation {
    TD_MADE_PLAIN,        /* an ordinary view, or no view at all */
    TD_MADE_MULTI_OUTPUT, /* one of several results: split, unbind, chunk */
    TD_MADE_NO_GRAD,      /* under no_grad */
    TD_MADE_INFERENCE,    /* under inference mode */
    TD_MADE_CUSTOM        /* returned by a custom function */
} td_creation;

/* One view op of a chain, newest first. Arguments are deep copies; in[0], the
 * viewed tensor, is left NONE. Shared by the views made from a view. */
typedef struct td_view_step {
    int32_t              refs;
    int32_t              out_nr; /* which result of the op */
    struct td_view_step *up;     /* the step before, NULL at the base */
    const td_opdef      *def;
    int                  n_in;
    bool                 grad, inference; /* modes it was made in */
    td_value             in[];
} td_view_step;

enum {
    TD_TF_NEEDS_GRAD = 1, /* a leaf that requires grad, or has a grad function */
    TD_TF_INFERENCE = 2,  /* made in inference mode: never on a tape */
    TD_TF_NUMBER = 4,     /* wraps a plain number: weak in type promotion */
    TD_TF_NIL = 8,        /* the context's nil tensor */
    TD_TF_HOT = 16,       /* ag holds hooks or retained gradients */
    TD_TF_TRACED = 64,    /* made during a capture */
    TD_TF_UNTAPED = 128   /* requires grad and is no leaf, though no tape says so */
};

#define TD_INLINE_RANK 5

/* Geometry over a storage. Reference counts are plain: a tensor belongs to one
 * context and that to one thread. Invariant: all addressed elements lie inside
 * the storage. */
struct td_tensor {
    TD_HANDLE_FIELDS;
    int32_t       refs;  /* scope + keeps + internal holders */
    int32_t       kept;  /* how many of refs are the user's */
    int32_t       slot;  /* index in cx->owned, -1: no scope owns it */
    uint32_t      marks; /* bit per dim that changes from call to call (capture) */
    uint8_t       dtype; /* td_dtype */
    uint8_t       rank;
    uint8_t       flags;    /* TD_TF_... */
    uint8_t       creation; /* td_creation */
    int64_t       numel;
    int64_t       offset; /* of the first element, in elements */
    int64_t      *size;   /* [rank], inline or heap */
    int64_t      *stride; /* [rank], right behind size's room */
    td_storage   *st;
    td_tensor    *base;    /* the tensor viewed in the end; NULL: not a view */
    td_view_step *steps;   /* how base became this; NULL: not a view */
    td_autograd  *ag;      /* NULL: no autograd state */
    void         *payload; /* for the mode that wraps it */
    uint64_t      seen;    /* view: its version when it got its history */
    uint64_t      moves;   /* set_ calls that gave it a storage */
    union {
        td_tensor  *prev;       /* of all tensors of the context */
        const char *freed_file; /* freed by td_drop: where; NULL: not known */
    };
    td_tensor *next; /* of all tensors of the context, or of the freed ones */
    int64_t    dims[2 * TD_INLINE_RANK];
    int32_t    dims_cap;   /* rank that fits at size */
    int32_t    freed_line; /* beside freed_file */
    bool       plain;      /* known to be row-major to the letter, and not empty */
};

/* Writes so far: those of the storage, and set_ calls on this tensor alone, so that a
 * tensor that left a storage and came back has another version. */
static inline uint64_t td__version(const td_tensor *t) {
    return atomic_load_explicit(&t->st->version, memory_order_relaxed) + t->moves;
}

/* What an op will return: filled by shape rules, before any byte exists. */
typedef struct td_meta {
    td_dtype dtype;
    int      rank;
    bool     strided; /* stride and offset are given; else row-major, fresh */
    int64_t  offset;
    int64_t  size[TD_MAX_RANK];
    int64_t  stride[TD_MAX_RANK];
} td_meta;

/* All three return NULL after td__fail. The result belongs to the innermost scope. */
td_tensor *td__tensor_make(td_ctx *cx, const td_meta *m, bool fake); /* fresh storage */
td_tensor *td__tensor_over(td_ctx *cx, td_storage *st,
                           const td_meta *m); /* shares st */
td_tensor *td__tensor_alias(td_ctx    *cx,
                            td_tensor *t); /* same geometry, no autograd, no view */
/* Changes geometry in place (metadata writes). */
bool       td__tensor_set_geometry(td_tensor *t, const td_meta *m);
void       td__tensor_set_storage(td_tensor *t, td_storage *st);
void       td__tensor_meta(const td_tensor *t, td_meta *m);

static inline td_tensor *td__ref(td_tensor *t) {
    t->refs++;
    return t;
}
/* The struct of a tensor that owns nothing more: freed to all, until it is reused. */
void td__tensor_retire(td_tensor *t);
void td__tensors_leave(td_ctx *cx); /* the retired ones outlive their context */
void td__unref(td_tensor *t);       /* frees at zero, without recursion over graphs */
/* The same for an object of the user's that held it, and ends. */
void td__unref_held(td_tensor *t);
/* What td_drop does; messages about the freed tensor say how: TD_RELEASED_... */
void td__drop_as(td_tensor *t, uint32_t how);

/* The address of the first element. */
static inline char *td__ptr(const td_tensor *t) {
    return t->st->data ? (char *)t->st->data + t->offset * td__dtype_bytes[t->dtype]
                       : NULL;
}
static inline bool td__is_fake(const td_tensor *t) { return t->st->fake; }
/* The copy of t whose sizes and flags a captured body sees; NULL: t's own. What is
 * public reads these. */
td_tensor         *td__seen_as(const td_tensor *t);
/* In a captured body: was t there before it, rather than made by the body? */
bool               td__from_outside(const td_tensor *t);
/* May `who` read `what` of t, or is that frozen in a capture? False after td__fail. */
bool               td__may_ask(const td_tensor *t, const char *who, const char *what);
/* As lists for ops; entries may be symbolic, unlike those of td_sizes. */
static inline td_ints td__sizes(const td_tensor *t) {
    return (td_ints){t->size, t->rank};
}
static inline td_ints td__strides(const td_tensor *t) {
    return (td_ints){t->stride, t->rank};
}

void td__view_step_drop(td_view_step *s);

/* ---- geometry (shape.c) ------------------------------------------------- */

int64_t td__numel(int rank, const int64_t *size); /* TD_DIM_HUGE when it overflows */
void td__strides_dense(int rank, const int64_t *size, int64_t *stride); /* row-major */
bool td__is_dense(int rank, const int64_t *size, const int64_t *stride);
/* Non-overlapping and dense in some order of dims. */
bool td__is_packed(int rank, const int64_t *size, const int64_t *stride);
/* Strides of a fresh tensor that keeps the dim order of (size, stride). */
void td__strides_like(int rank, const int64_t *size, const int64_t *stride,
                      int64_t *out);
/* Wraps a negative dim; -1 when out of range (a 0-dim tensor accepts 0 and -1). */
int  td__wrap_dim(int64_t dim, int rank);
/* Grows (rank,size) by broadcasting with (rank_b,size_b); false: they do not fit. */
bool td__broadcast(int *rank, int64_t *size, int rank_b, const int64_t *size_b);
/* Strides of t seen as sizes (rank,size) it broadcasts to; false: it does not. */
bool td__expand_strides(const td_tensor *t, int rank, const int64_t *size,
                        int64_t *stride);
/* Elements at one address, because a stride is 0? Other overlaps are not looked for. */
bool td__overlaps_itself(const td_tensor *t);
/* The dims whose elements lie apart, in kept_size and kept_stride; the number of them.
 * again[i]: dim i has all its elements in one place. */
int  td__dims_apart(int rank, const int64_t *size, const int64_t *stride,
                    int64_t *kept_size, int64_t *kept_stride, bool *again);
typedef enum td_overlap {
    TD_OVERLAP_NO,
    TD_OVERLAP_FULL,
    TD_OVERLAP_PARTIAL
} td_overlap;
td_overlap td__overlap(const td_tensor *a, const td_tensor *b);
/* Strides that show (size,stride) as new_size without a copy; false: none. */
bool       td__view_strides(int rank, const int64_t *size, const int64_t *stride,
                            int new_rank, const int64_t *new_size, int64_t *new_stride);

/* ---- errors (error.c) --------------------------------------------------- */

/* Records the first failure: scope path, then the message, then the file and line of
 * the user's call (td_here). Always false. */
bool        td__fail(td_ctx *cx, td_code code, const char *fmt, ...) TD_PRINTF(3, 4);
/* Out of memory, with the size of the request. */
bool        td__fail_memory(td_ctx *cx);
bool        td__fail_memory_for(td_ctx *cx, size_t bytes, td_dtype dt, int rank,
                                const int64_t *size);
/* Adds a place to a recorded failure that has none yet. */
void        td__fail_at(td_ctx *cx, td_where here);
/* "this tensor, f32[2], was freed when the scope "step" ended at train.c:12; ..." */
void        td__released_text(const td_tensor *t, char *out, size_t cap);
/* A nil was given to `who`: an error only where nothing was recorded when it was made,
 * as of a gradient that does not exist. Always false. */
bool        td__refuse_nil(const td_handle *h, td_handle_kind kind, const char *who);
/* TD_E_TRACE: `who` asked for values of a tensor that has none, or during a capture.
 * Says where, and what to write instead. */
bool        td__fail_no_bytes(td_ctx *cx, const char *who, const char *rule);
/* "f32[2,3]" for messages; four buffers in rotation per thread. */
const char *td__type_str(const td_tensor *t);
const char *td__sizes_str(int rank, const int64_t *size);

/* ---- contexts (ctx.c) --------------------------------------------------- */

typedef struct td_scope {
    const char *label; /* NULL: internal, not in the path */
    int         first; /* index in owned of its first tensor */
} td_scope;

/* How a tensor was released, in the serial of its handle: one of these, or the number
 * of the scope that owned it and ended. */
enum {
    TD_RELEASED_NOT,
    TD_RELEASED_DROP,  /* by td_drop */
    TD_RELEASED_INNER, /* with a scope of the library's own */
    TD_RELEASED_CLOSE, /* with its context */
    TD_RELEASED_OWNER, /* with the module or optimizer that held it */
    TD_RELEASED_SCOPE  /* the first number of a scope */
};

/* A scope that ended, for messages about tensors it owned. */
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

/* A file's name for a td_where that is kept, valid until the process ends (place.c).
 * NULL for NULL, and after td__fail. */
const char *td__place_file(td_ctx *cx, const char *name);

/* What the rooms to the right hang on a context. */
typedef struct td_ctx_hooks {
    void (*free_autograd)(td_tensor *t);  /* t->ag != NULL, t is dying */
    const char *(*made_by)(td_tensor *t); /* the recorded op; "": a leaf */
    void (*free_ambient)(td_ctx *cx); /* what ambient fields own; none is used again */
    void (*close)(td_ctx *cx);
} td_ctx_hooks;

struct td_mode {
    td_mode    *below;
    const char *name;
    /* Hears one op call. Goes on with td__call_below(m, c). */
    bool (*call)(td_mode *m, td_opcall *c);
    bool composites; /* hears composite ops whole instead of their parts */
    bool first;      /* hears before all others, whenever those are pushed */
    /* Takes over the call of a custom function (eager.h); NULL: it runs as it is. */
    bool (*function)(td_mode *m, const td_fncall *call);
    /* What stands for t, a real tensor, in a captured body; NULL: t itself. nil after
     * td__fail. */
    td_tensor *(*stand_in)(td_mode *m, td_tensor *t);
    /* The copy whose sizes and flags a body reads as those of t, a real tensor, which
     * the body closes over from then on; NULL: t itself. */
    td_tensor *(*seen_as)(const td_mode *m, const td_tensor *t);
    /* Frees it, where it is still pushed in the end; NULL: the pusher's own. */
    void (*drop)(td_mode *m);
};

/* ---- ambient state (ambient.c) ------------------------------------------ */

/* A weight cast for the length of an autocast region; both held. */
typedef struct td_kept_cast {
    td_tensor *leaf, *cast;
    uint64_t   version; /* of the leaf */
    bool       recorded;
} td_kept_cast;

/* In the mode stack while depth > 0 (eager). */
typedef struct td_autocast {
    td_mode  mode;
    bool     on;
    td_dtype dtype;
    int      depth; /* regions that are open */
    TD_VEC(td_kept_cast) cache;
} td_autocast;

/* The ambient state of a context: every field that changes what an op call does, what
 * is recorded of it or what it saves, and that is no argument of the call.
 *
 * Invariant: a trace sees none of it. td__ambient_clear sets the whole state aside and
 * puts every field at its default; the tracer then sets what belongs to the meaning of
 * the call, and what its key therefore has, from the state set aside (td__modes_resume
 * in eager.h). A new field that ops look at belongs here; tests/unit/ambient.c fails
 * until each field of td_ctx is classified. */
#define TD_AMBIENT_FIELDS                                                          \
    td_mode       *top; /* mode stack */                                           \
    bool           grad_enabled, inference, anomaly;                               \
    bool           fake;    /* a capture: ops compute no bytes, none are read */   \
    uint32_t       tags;    /* of the node being replayed (graph.h, TD_TAG) */     \
    const td_wish *wish;    /* of the checkpoint region being captured */          \
    int            regions; /* checkpoint regions of this capture so far */        \
    int            missed;  /* scopes begun but not opened: no memory */           \
    uint64_t       rng_seed, rng_offset;                                           \
    td_dtype       default_dtype;                                                  \
    td_autocast    autocast;                                                       \
    TD_VEC(struct td_saved_hooks) packers; /* stack; the top one counts (eager) */ \
    td_storage *const *results_in; /* storages for the results of the next op */   \
    struct td_deps    *deps; /* what the captured body read besides arguments (aot) */

typedef struct td_ambient {
    TD_AMBIENT_FIELDS
} td_ambient;

/* A copy that an op took because of a size that only run time knows (ops/guess.c). */
typedef struct td_layout_copy {
    const td_storage *from, *copy; /* copy NULL: none */
    int               rank;
    int64_t           size[TD_MAX_RANK]; /* of the source */
} td_layout_copy;

struct td_ctx {
    TD_HANDLE_FIELDS; /* cx is the context itself */
    td_code  code;    /* TD_OK or the first failure */
    bool     stale; /* it is that of a backward whose saved value was written since, */
    bool     gone;  /* ...or freed by an earlier backward */
    char     message[2048];
    td_where failed_at; /* place of the call that failed; file: failed_file or NULL */
    char     failed_file[160];
    void (*on_error)(void *env, td_code, const char *);
    void *on_error_env;

    td_settings settings; /* read them with td__config */
    td_logger   log;
    td_spans    spans;

    td_handle   nils[TD_H_COUNT]; /* of other kinds than tensors */
    td_owned   *owned_objects;    /* what the user has to free, newest first */
    td_tensor   nil;
    td_tensor   no_gradient; /* a nil that td_grad_of gives: using it is an error */
    const char *making;      /* the op whose results are made; NULL: none */
    /* The op the user called, while its parts run; NULL: none. */
    const td_opinfo    *composite;
    td_layout_copy      layout_copy; /* the last one that the running op took */
    struct td_callback *callback;    /* the innermost that runs; NULL: none */
    td_where            no_gradient_at;
    bool                no_gradient_leaf; /* it was asked of a leaf */
    td_storage          nil_storage;
    td_tensor          *all;                  /* every living tensor */
    td_tensor          *freed, *freed_newest; /* structs of freed ones, oldest first */
    int                 n_freed;
    td_ended            ended[TD_ENDED_KEPT]; /* a ring, by number */
    uint32_t            n_ended;
    TD_VEC(td_tensor *) owned; /* by scopes, outermost first; entries may be NULL */
    TD_VEC(td_scope) scopes;
    td_tensor *dying;     /* td__unref's work list, linked by payload */
    bool       unwinding; /* td__unref is at work further up the stack */

    union { /* the same fields, one by one and as a whole */
        td_ambient ambient;
        struct {
            TD_AMBIENT_FIELDS
        };
    };
    td_mode *tape; /* the autograd mode, bottom of the stack; NULL before eager */
    const td_ctx_hooks *hooks;
    void               *eager; /* eager's own state */

    int      print_precision, print_edge, print_width;
    int64_t  print_threshold;
    td_arena scratch; /* for the length of one op call */
};

/* The settings now (config.c). */
static inline const td_config *td__config(const td_ctx *cx) {
    return &cx->settings.now;
}
/* Is anybody interested? (log.c) */
static inline bool td__log_on(const td_ctx *cx, td_topic topic) {
    return cx->log.topics >> topic & 1;
}
/* A stretch of time with a name, a literal. Spans nest, and the end of one ends those
 * left open inside it; so one that is left early on a failure needs no care. Numbers
 * go to the innermost span (spans.c). */
static inline void td__span_begin(td_ctx *cx, const char *name) {
    if (TD_UNLIKELY(cx->spans.on)) td__span_open(cx, name);
}
static inline void td__span_end(td_ctx *cx, const char *name) {
    if (TD_UNLIKELY(cx->spans.on)) td__span_close(cx, name);
}
static inline void td__span_arg(td_ctx *cx, const char *key, int64_t value) {
    if (TD_UNLIKELY(cx->spans.on)) td__span_note(cx, key, value);
}

/* The ambient state of a context, set aside for the length of a trace. */
typedef struct td_outside {
    td_ambient was;
    td_mode   *below;  /* of the tape */
    int        scopes; /* that were open */
    td_where   here;
} td_outside;

void td__ambient_init(td_ctx *cx); /* of a new context */
/* Sets the ambient state aside and begins a scope: every field has its default, the
 * tape is alone on the mode stack. False after td__fail: nothing has changed. */
bool td__ambient_clear(td_ctx *cx, td_outside *o);
/* Ends what was begun since (scopes, modes, autocast regions, saved-tensor hooks) and
 * puts the state back, after a failure too. Without `ok`, td_here stays at the failing
 * call. */
void td__ambient_restore(td_ctx *cx, const td_outside *o, bool ok);

/* ---- the mode stack (modes.c) ------------------------------------------- */

/* Nobody else assigns cx->top or the link of a mode (tools/lint.sh). A mode that is
 * pushed is popped by its pusher; everything below is for the length of a few calls and
 * is undone by the function that did it, after a failure too. */
void     td__mode_push(td_ctx *cx, td_mode *m);
void     td__mode_pop(td_ctx *cx, td_mode *m);
/* Puts m right above the tape, under the modes that are pushed. */
void     td__mode_insert(td_ctx *cx, td_mode *m);
/* Takes m out, wherever it is; nothing if it is not on the stack. */
void     td__mode_remove(td_ctx *cx, td_mode *m);
/* The mode to pop next: the innermost but for one that is always first. */
td_mode *td__mode_inner(const td_ctx *cx);
/* Pops and frees what was left pushed above `until`, up to a mode that has no drop. */
void     td__modes_drop(td_ctx *cx, const td_mode *until);
/* The stack becomes the tape over `below`; NULL: the tape alone. Without a tape it
 * becomes empty. */
void     td__modes_tape(td_ctx *cx, td_mode *below);

/* Op calls start at mode m; NULL: at the kernels. Returns where they started, for the
 * call that undoes it. */
static inline td_mode *td__modes_from(td_ctx *cx, td_mode *m) {
    td_mode *was = cx->top;
    cx->top = m;
    return was;
}

/* The modes of a context, set aside for the length of a few calls that run under
 * others: the stack, and the switches that decide what a call records. */
typedef struct td_mode_scope {
    td_mode *top, *below; /* below: of the tape */
    bool     grad_enabled, inference, fake;
} td_mode_scope;

/* Op calls start at mode m until td__modes_leave, which puts back the stack and the
 * switches, whatever was set in between. */
td_mode_scope td__modes_enter(td_ctx *cx, td_mode *m);
/* The same with gradients and inference mode off: what runs has no history. */
td_mode_scope td__modes_enter_plain(td_ctx *cx, td_mode *m);
void          td__modes_leave(td_ctx *cx, const td_mode_scope *s);

td_ctx *td__ctx_make(void);
void    td__ctx_free(td_ctx *cx);
/* Stands where there is no context. It is not alive: what fails on it is reported by
 * td_last_error, and its objects are all nil. */
td_ctx *td__ctx_orphan(void);
bool    td__scope_own(td_tensor *t); /* gives its one reference to the scope */
/* An inner scope without a label; _end hands results[0..n) to the parent. */
bool    td__scope_push(td_ctx *cx);
void    td__scope_pop(td_ctx *cx, td_tensor **results, int n);

#endif
