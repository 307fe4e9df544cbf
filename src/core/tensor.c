/* tensor.c -- makes, aliases, changes and frees tensors. Views and autograd state
 * belong to later directories, whose hooks free them. */
#include "core/device.h"
#include "core/typed.h"

#include <pthread.h>
#include <string.h>

/* ---- geometry ----------------------------------------------------------- */

/* Memory for `rank` sizes and strides; the old contents are lost. */
static bool reserve_dims(td_tensor *t, int rank) {
    if (rank <= t->dims_cap) return true;
    int64_t *dims = td__alloc(sizeof(int64_t) * 2 * (size_t)rank);
    if (!dims) return td__fail_memory(t->cx);
    if (t->size != t->dims) td__free(t->size);
    t->size = dims;
    t->dims_cap = rank;
    return true;
}

static bool is_huge(int64_t dim) { return !td__dim_is_sym(dim) && dim >= TD_DIM_HUGE; }

/* Are the sizes and strides of an empty tensor representable? Its element count
 * is 0 even if another size or a stride overflowed and was saturated. */
static bool empty_fits(const td_meta *m) {
    int64_t span = 1;
    if (m->strided && m->offset > TD_DIM_HUGE / 16) return false; /* no such byte */
    for (int i = m->rank - 1; i >= 0; i--) {
        int64_t size = m->size[i];
        if (is_huge(size) || (m->strided && is_huge(m->stride[i])) || is_huge(span))
            return false;
        if (!m->strided && size > 1) span = td__dim_mul(span, size);
    }
    return true;
}

/* Sets sizes, strides, offset and dtype; n is the element count of m. */
static bool set_dims(td_tensor *t, const td_meta *m, int64_t n) {
    if (is_huge(n) || (n == 0 && !empty_fits(m)))
        return td__fail(t->cx, TD_E_SHAPE,
                        "%s%stoo many elements: %s has more than a tensor can have",
                        t->cx->making ? t->cx->making : "", t->cx->making ? ": " : "",
                        td__sizes_str(m->rank, m->size));
    if (!reserve_dims(t, m->rank)) return false;
    t->stride = t->size + t->dims_cap;
    t->dtype = (uint8_t)m->dtype;
    t->rank = (uint8_t)m->rank;
    t->offset = m->strided ? m->offset : 0;
    t->numel = n;
    t->plain = !m->strided && n > 0;
    for (int i = 0; i < m->rank; i++) t->size[i] = m->size[i];
    if (m->strided)
        for (int i = 0; i < m->rank; i++) t->stride[i] = m->stride[i];
    else td__strides_dense(m->rank, m->size, t->stride);
    return true;
}

bool td__tensor_set_geometry(td_tensor *t, const td_meta *m) {
    if (TD_UNLIKELY(t->follower) && !td__tensor_set_geometry(t->follower, m))
        return false;
    return set_dims(t, m, td__numel(m->rank, m->size));
}

void td__tensor_set_storage(td_tensor *t, td_storage *st) {
    if (TD_UNLIKELY(t->follower)) td__tensor_set_storage(t->follower, st);
    td__storage_keep(st);
    td__storage_drop(t->st);
    t->st = st;
}

void td__tensor_meta(const td_tensor *t, td_meta *m) {
    m->dtype = (td_dtype)t->dtype;
    m->rank = t->rank;
    m->strided = true;
    m->device = t->st->device;
    m->offset = t->offset;
    for (int i = 0; i < t->rank; i++) {
        m->size[i] = t->size[i];
        m->stride[i] = t->stride[i];
    }
}

/* ---- making ------------------------------------------------------------- */

/* How many freed tensors of a context, and of closed contexts, stay recognizable at
 * least. The memory of older ones is reused or freed. */
#ifdef TD_DEBUG_LIFETIMES
enum { TENSORS_KEPT = 1 << 16, CLOSED_KEPT = 1 << 16 };
#else
enum { TENSORS_KEPT = 64, CLOSED_KEPT = 4096 };
#endif

static td_tensor *take_freed(td_ctx *cx) {
    td_tensor *t = cx->freed;
    cx->freed = t->next;
    if (!t->next) cx->freed_newest = NULL;
    cx->n_freed--;
    td__unpoison(t, sizeof *t);
    return t;
}

/* A zeroed live tensor with one reference, in the context's list; NULL after fail. */
static td_tensor *take_struct(td_ctx *cx) {
    td_tensor *t;
    if (TD_LIKELY(cx->n_freed > TENSORS_KEPT)) t = take_freed(cx);
    else if (!(t = td__alloc(sizeof *t))) {
        td__fail_memory(cx);
        return NULL;
    }
    memset(t, 0, offsetof(td_tensor, dims));
    t->tag = TD_TAG_LIVE | TD_H_TENSOR;
    t->cx = cx;
    t->flags = cx->fake ? TD_TF_TRACED : 0;
    t->refs = 1;
    t->slot = -1;
    t->size = t->dims;
    t->dims_cap = TD_INLINE_RANK;
    t->next = cx->all;
    if (cx->all) cx->all->prev = t;
    cx->all = t;
    return t;
}

const td_payload *td__tensor_keep_origin(td_tensor *t) {
    const td_payload *of = t->payload;
    td_payload       *own = td__alloc(sizeof *own);
    if (own) *own = (td_payload){NULL, of->op, of->here, of->body};
    t->payload = own;
    return own;
}

/* Moves the origin in the payload of a captured body's tensor into the freed struct. */
static void retire_origin(td_tensor *t) {
    td_payload *p = t->payload;
    t->made_file = t->made_in = NULL;
    t->made_line = 0;
    t->made_by = NULL;
    if (TD_LIKELY(!p)) return;
    t->made_by = p->op;
    t->made_file = p->here.file;
    t->made_line = p->here.line;
    t->made_in = p->body;
    if (!p->owner) td__free(p);
}

/* Dtype and sizes stay readable for messages, if they are stored inline. */
void td__tensor_retire(td_tensor *t) {
    td_ctx *cx = t->cx;
    if (t->size != t->dims) {
        td__free(t->size);
        t->size = t->dims;
        t->rank = UINT8_MAX;
    }
    if (TD_UNLIKELY(t->bounds)) td__free(t->bounds);
    t->bounds = NULL;
    retire_origin(t);
    t->tag = TD_TAG_FREED | TD_H_TENSOR;
    t->next = NULL;
    t->freed_file = NULL;
    if (cx->freed_newest) cx->freed_newest->next = t;
    else cx->freed = t;
    cx->freed_newest = t;
    cx->n_freed++;
    td__poison(&t->refs, offsetof(td_tensor, prev) - offsetof(td_tensor, refs));
}

/* The tensors of closed contexts, oldest first. */
static struct {
    pthread_mutex_t lock;
    td_tensor      *first, *last;
    int             n;
} closed = {.lock = PTHREAD_MUTEX_INITIALIZER};

void td__tensors_leave(td_ctx *cx) {
    if (!cx->freed) return;
    pthread_mutex_lock(&closed.lock);
    if (closed.last) closed.last->next = cx->freed;
    else closed.first = cx->freed;
    closed.last = cx->freed_newest;
    closed.n += cx->n_freed;
    for (td_tensor *t; closed.n > CLOSED_KEPT; closed.n--) {
        t = closed.first;
        closed.first = t->next;
        td__free(t);
    }
    pthread_mutex_unlock(&closed.lock);
    cx->freed = cx->freed_newest = NULL;
    cx->n_freed = 0;
}

static void unlink_struct(td_tensor *t) {
    if (t->prev) t->prev->next = t->next;
    if (t->next) t->next->prev = t->prev;
    if (t->cx->all == t) t->cx->all = t->next;
}

/* A tensor over st, owned by the innermost scope. Takes over one reference to
 * st, also on failure. */
static td_tensor *make_over(td_ctx *cx, td_storage *st, const td_meta *m, int64_t n) {
    td_tensor *t = take_struct(cx);
    if (!t) {
        td__storage_drop(st);
        return NULL;
    }
    t->st = st;
    cx->special |= td__is_special(m->dtype);
    if (cx->inference) t->flags |= TD_TF_INFERENCE;
    if (!set_dims(t, m, n) || !td__scope_own(t)) {
        td__unref(t);
        return NULL;
    }
    return t;
}

td_tensor *td__tensor_over(td_ctx *cx, td_storage *st, const td_meta *m) {
    td__storage_keep(st);
    return make_over(cx, st, m, td__numel(m->rank, m->size));
}

/* Elements that a new storage needs for n elements of this geometry. */
static int64_t extent(const td_meta *m, int64_t n) {
    if (!m->strided || n == 0) return n;
    int64_t last = m->offset;
    for (int i = 0; i < m->rank; i++)
        last = td__dim_add(last, td__dim_mul(td__dim_sub(m->size[i], 1), m->stride[i]));
    return td__dim_add(last, 1);
}

static bool zero(td_storage *st) {
    if (st->device) return td__device_zero(st);
    memset(st->data, 0, st->bytes);
    return true;
}

td_tensor *td__tensor_make(td_ctx *cx, const td_meta *m, bool fake) {
    int64_t n = td__numel(m->rank, m->size);
    int64_t bytes = td__dim_mul(extent(m, n), td__dtype_bytes[m->dtype]);
    for (int i = 0; i < m->rank; i++)
        if (td__dim_is_negative(m->size[i])) {
            td__fail(cx, TD_E_SHAPE, "%s%sa size is negative: %s",
                     cx->making ? cx->making : "", cx->making ? ": " : "",
                     td__sizes_str(m->rank, m->size));
            return NULL;
        }
    if ((!td__dim_is_sym(bytes) && bytes >= TD_DIM_HUGE) ||
        (!td__dim_is_sym(n) && n >= TD_DIM_HUGE / 8)) {
        td__fail(cx, TD_E_SHAPE,
                 "%s%stoo many elements: %s%s takes more bytes than there can be",
                 cx->making ? cx->making : "", cx->making ? ": " : "",
                 td_dtype_name(m->dtype), td__sizes_str(m->rank, m->size));
        return NULL;
    }
    bool        sym = td__dim_is_sym(bytes);
    td_storage *st = TD_LIKELY(!m->device || fake || sym)
                         ? td__storage_make(sym ? 0 : (size_t)bytes, fake || sym)
                         : td__storage_on((size_t)bytes, m->device);
    if (!st) {
        td__fail_memory_for(cx, sym ? 0 : (size_t)bytes, m->dtype, m->rank, m->size);
        return NULL;
    }
    if (fake && cx->takes_fakes == TD_FAKES_SCOPE) st->fake = TD_FAKE_OF_USER;
    st->device = m->device;
    if (sym) st->span = bytes;
    st->open = sym;
    /* gaps between elements are readable through as_strided: zero them */
    if (st->data && bytes > n * td__dtype_bytes[m->dtype] && !zero(st)) {
        td__storage_drop(st);
        td__fail(cx, TD_E_UNSUPPORTED, "%s: memory could not be cleared",
                 td__device_str(m->device));
        return NULL;
    }
    return make_over(cx, st, m, n);
}

int64_t td__tensor_count(td_meta *m) {
    int64_t n = 1;
    if (m->strided || m->device || m->rank > TD_INLINE_RANK) return 0;
    for (int i = 0; i < m->rank; i++) {
        if (m->size[i] <= 0) return 0; /* empty, symbolic or an error */
        n = td__dim_mul(n, m->size[i]);
    }
    if (n >= TD_DIM_HUGE / 16) return 0; /* the bytes could overflow */
    td__strides_dense(m->rank, m->size, m->stride);
    return n;
}

td_tensor *td__tensor_counted(td_ctx *cx, const td_meta *m, int64_t n) {
    size_t      bytes = (size_t)n * td__dtype_bytes[m->dtype];
    td_storage *st = td__storage_make(bytes, false);
    if (!st) {
        td__fail_memory_for(cx, bytes, m->dtype, m->rank, m->size);
        return NULL;
    }
    td_tensor *t = take_struct(cx);
    if (!t) {
        td__storage_drop(st);
        return NULL;
    }
    t->st = st;
    t->stride = t->dims + TD_INLINE_RANK;
    t->dtype = (uint8_t)m->dtype;
    t->rank = (uint8_t)m->rank;
    t->numel = n;
    t->plain = true;
    for (int i = 0; i < m->rank; i++) {
        t->size[i] = m->size[i];
        t->stride[i] = m->stride[i];
    }
    cx->special |= td__is_special(m->dtype);
    if (cx->inference) t->flags |= TD_TF_INFERENCE;
    if (td__scope_own(t)) return t;
    td__unref(t);
    return NULL;
}

td_tensor *td__tensor_alias(td_ctx *cx, td_tensor *t) {
    td_meta m;
    td__tensor_meta(t, &m);
    td_tensor *a = td__tensor_over(cx, t->st, &m);
    if (!a) return NULL;
    const td_payload *p = t->payload;
    a->payload =
        p && p->owner ? t->payload : NULL; /* modes treat it as the same value */
    a->moves = t->moves; /* a saved alias has the version of what was saved */
    if (TD_UNLIKELY(t->typed)) td__typed_set(a, t->typed);
    return a;
}

td_tensor *td__tensor_follower(td_tensor *t) {
    if (!t->follower) {
        td_tensor *a = td__tensor_alias(t->cx, t);
        if (!a) return NULL;
        t->follower = td__ref(a);
    }
    return t->follower;
}

/* ---- freeing ------------------------------------------------------------ */

void td__view_step_drop(td_view_step *s) {
    while (s && --s->refs == 0) {
        td_view_step *up = s->up;
        td__free(s);
        s = up;
    }
}

/* Frees one tensor, which may drop others (its base, values its grad_fn saved).
 * td__unref queues these instead of recursing, so chains of any length need
 * constant stack. */
static void free_one(td_tensor *t) {
    td_tensor *base = t->base, *follower = t->follower;
    if (TD_UNLIKELY(t->typed)) td__typed_set(t, NULL);
    if (t->ag) t->cx->hooks->free_autograd(t);
    td__view_step_drop(t->steps);
    td__storage_drop(t->st);
    unlink_struct(t);
    td__tensor_retire(t);
    if (base) td__unref(base);
    if (TD_UNLIKELY(follower)) td__unref(follower);
}

void td__unref(td_tensor *t) {
    td_ctx *cx = t->cx;
    if (--t->refs > 0 || t->flags & TD_TF_NIL) return;
    if (cx->unwinding) {
        t->dying = cx->dying;
        cx->dying = t;
        return;
    }
    cx->unwinding = true;
    free_one(t);
    while (cx->dying) {
        td_tensor *next = cx->dying;
        cx->dying = next->dying;
        free_one(next);
    }
    cx->unwinding = false;
}
