/* tensor.c -- making, aliasing, reshaping in place and freeing tensors. Views and
 * autograd state are hung on by the rooms to the right; their freeing starts here. */
#include "core/core.h"

#include <string.h>

/* ---- geometry ----------------------------------------------------------- */

/* Room for `rank` sizes and strides; the old contents are gone. */
static bool reserve_dims(td_tensor *t, int rank) {
    if (rank <= t->dims_cap) return true;
    int64_t *room = td__alloc(sizeof(int64_t) * 2 * (size_t)rank);
    if (!room) return td__fail_memory(t->cx);
    if (t->size != t->dims) td__free(t->size);
    t->size = room;
    t->dims_cap = rank;
    return true;
}

/* n: the element count of m. */
static bool set_dims(td_tensor *t, const td_meta *m, int64_t n) {
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
    return set_dims(t, m, td__numel(m->rank, m->size));
}

void td__tensor_set_storage(td_tensor *t, td_storage *st) {
    td__storage_keep(st);
    td__storage_drop(t->st);
    t->st = st;
}

void td__tensor_meta(const td_tensor *t, td_meta *m) {
    m->dtype = (td_dtype)t->dtype;
    m->rank = t->rank;
    m->strided = true;
    m->offset = t->offset;
    for (int i = 0; i < t->rank; i++) {
        m->size[i] = t->size[i];
        m->stride[i] = t->stride[i];
    }
}

/* ---- making ------------------------------------------------------------- */

static td_tensor *take_struct(td_ctx *cx) {
    td_tensor *t = cx->free;
    if (t) cx->free = t->next;
    else if (!(t = td__alloc(sizeof *t))) {
        td__fail_memory(cx);
        return NULL;
    }
    memset(t, 0, offsetof(td_tensor, dims));
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

static void give_struct(td_tensor *t) {
    td_ctx *cx = t->cx;
    if (t->size != t->dims) td__free(t->size);
    t->next = cx->free;
    cx->free = t;
}

static void unlink_struct(td_tensor *t) {
    if (t->prev) t->prev->next = t->next;
    if (t->next) t->next->prev = t->prev;
    if (t->cx->all == t) t->cx->all = t->next;
}

/* Takes over one reference to st, also when it fails. */
static td_tensor *make_over(td_ctx *cx, td_storage *st, const td_meta *m, int64_t n) {
    td_tensor *t = take_struct(cx);
    if (!t) {
        td__storage_drop(st);
        return NULL;
    }
    t->st = st;
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

/* Elements a fresh storage of n elements needs: up to the last one addressed. */
static int64_t extent(const td_meta *m, int64_t n) {
    if (!m->strided || n == 0) return n;
    int64_t last = m->offset;
    for (int i = 0; i < m->rank; i++)
        last = td__dim_add(last, td__dim_mul(td__dim_sub(m->size[i], 1), m->stride[i]));
    return td__dim_add(last, 1);
}

td_tensor *td__tensor_make(td_ctx *cx, const td_meta *m, bool fake) {
    int64_t n = td__numel(m->rank, m->size);
    int64_t bytes = td__dim_mul(extent(m, n), td__dtype_bytes[m->dtype]);
    for (int i = 0; i < m->rank; i++)
        if (td__dim_is_negative(m->size[i])) {
            td__fail(cx, TD_E_SHAPE, "negative size in %s",
                     td__sizes_str(m->rank, m->size));
            return NULL;
        }
    if (!td__dim_is_sym(bytes) && bytes >= TD_DIM_HUGE) {
        td__fail(cx, TD_E_SHAPE, "too many elements: %s",
                 td__sizes_str(m->rank, m->size));
        return NULL;
    }
    bool        sym = td__dim_is_sym(bytes);
    td_storage *st = td__storage_make(sym ? 0 : (size_t)bytes, fake || sym);
    if (!st) {
        td__fail_memory_for(cx, sym ? 0 : (size_t)bytes, m->dtype, m->rank, m->size);
        return NULL;
    }
    if (sym) st->span = bytes;
    st->open = sym;
    /* what lies between elements can be seen through as_strided */
    if (st->data && bytes > n * td__dtype_bytes[m->dtype])
        memset(st->data, 0, (size_t)bytes);
    return make_over(cx, st, m, n);
}

td_tensor *td__tensor_alias(td_ctx *cx, td_tensor *t) {
    td_meta m;
    td__tensor_meta(t, &m);
    td_tensor *a = td__tensor_over(cx, t->st, &m);
    if (a) a->payload = t->payload; /* to a mode it is the same value */
    return a;
}

/* ---- freeing ------------------------------------------------------------ */

void td__view_step_drop(td_view_step *s) {
    while (s && --s->refs == 0) {
        td_view_step *up = s->up;
        td__free(s);
        s = up;
    }
}

/* A tensor's death may kill others (its base, what its graph saved). They queue
 * here instead of recursing, so chains of any length unwind in constant stack. */
static void free_one(td_tensor *t) {
    td_tensor *base = t->base;
    if (t->ag) t->cx->hooks->free_autograd(t);
    td__view_step_drop(t->steps);
    td__storage_drop(t->st);
    unlink_struct(t);
    give_struct(t);
    if (base) td__unref(base);
}

void td__unref(td_tensor *t) {
    td_ctx *cx = t->cx;
    if (--t->refs > 0 || t->flags & TD_TF_NIL) return;
    if (cx->unwinding) {
        t->payload = cx->dying;
        cx->dying = t;
        return;
    }
    cx->unwinding = true;
    free_one(t);
    while (cx->dying) {
        td_tensor *next = cx->dying;
        cx->dying = next->payload;
        free_one(next);
    }
    cx->unwinding = false;
}
