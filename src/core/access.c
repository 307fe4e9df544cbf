/* access.c -- public functions that read a tensor (sizes, flags, elements) and
 * make tensors from the user's memory. */
#include "core/device.h"
#include "core/readonly.h"
#include "core/typed.h"

#include <math.h>
#include <string.h>

/* A captured body that uses an outside tensor computes with a fake copy, whose sizes
 * and flags it may have changed. Reading sizes or flags counts as a use, because the
 * body's behaviour depends on them. */
td_tensor *td__seen_as(const td_tensor *t) {
    const td_mode *m = t->cx->fake && !td__is_traced(t) ? t->cx->top : NULL;
    while (m && !m->seen_as) m = m->below;
    return m ? m->seen_as(m, t) : NULL;
}

/* The tensor whose sizes and flags are reported: t, or its fake copy. */
static const td_tensor *seen(const td_tensor *t) {
    const td_tensor *copy = TD_UNLIKELY(t->cx->fake) ? td__seen_as(t) : NULL;
    return copy ? copy : t;
}

td_ctx *td_ctx_of(const td_tensor *t) {
    return td__is_live(t, TD_H_TENSOR) ? t->cx : td__ctx_of_any(t);
}
td_dtype td_dtype_of(const td_tensor *t) {
    if (!TD_ENTER(t, TENSOR)) return TD_F32;
    t = seen(t);
    return (td_dtype)t->dtype;
}
int td_rank(const td_tensor *t) {
    if (!TD_ENTER(t, TENSOR)) return 1;
    t = seen(t);
    return t->rank;
}
bool td_is_view(const td_tensor *t) {
    if (!TD_ENTER(t, TENSOR)) return false;
    if (td__from_outside(t) &&
        !td__may_read_tensor(t, "td_is_view", "whether it is a view"))
        return false;
    t = seen(t);
    return t->base != NULL;
}
td_tensor *td_base(const td_tensor *t) {
    if (!TD_ENTER(t, TENSOR)) return TD_NIL_BY(t, TENSOR);
    if (td__from_outside(t) && !td__may_read_tensor(t, "td_base", "the base"))
        return TD_NIL(t->cx, TENSOR);
    (void)seen(t); /* notes the use of t; a use of the base is noted by itself */
    return t->base ? t->base : &t->cx->nil;
}
td_tensor *td_nil(td_ctx *cx) { return TD_NIL(cx, TENSOR); }

/* ---- properties that no key compares ------------------------------------ */

bool td__from_outside(const td_tensor *t) {
    return t->cx->fake && !(t->flags & TD_TF_TRACED);
}

/* Keys of compiled calls do not compare `what`, so a body that depends on it
 * would behave the same in later calls where it differs. */
bool td__may_read_tensor(const td_tensor *t, const char *who, const char *what) {
    if (TD_LIKELY(!t->cx->fake)) return true;
    if (!td__from_outside(t) && !(t->base && td__from_outside(t->base))) return true;
    return td__fail(t->cx, TD_E_TRACE,
                    "%s: a captured body cannot read %s of a tensor from outside: it "
                    "may differ in the next call of the same code. Read it outside "
                    "and pass it as an argument",
                    who, what);
}

/* ---- numbers ------------------------------------------------------------ */

/* A size of t as a number: a symbolic one becomes its value in this trace, guarded.
 * 0 after td__fail. */
static int64_t number(const td_tensor *t, int64_t dim) {
    if (TD_LIKELY(!td__dim_is_sym(dim))) return dim;
    if (TD_IS_KEPT(t)) return td__fail_kept(t->cx, "a size", t), 0;
    int64_t n = td__dim_fixed(dim);
    return n == TD_DIM_HUGE ? 0 : n;
}

/* Entry `dim` of the sizes or strides; 0 after td__fail if it is out of range. */
static int64_t dim_entry(const td_tensor *t, const int64_t *list, int64_t dim,
                         const char *who) {
    int d = t->rank ? td__wrap_dim(dim, t->rank) : -1;
    if (d >= 0) return list[d];
    td__fail(t->cx, TD_E_INDEX,
             "%s: dim %lld is out of range for %s, which has %d dim%s", who,
             (long long)dim, td__type_str(t), t->rank, t->rank == 1 ? "" : "s");
    return 0;
}

/* Sizes or strides as numbers. If some are symbolic, the numbers are stored as
 * the sizes of a fake tensor that the innermost scope owns. */
static td_ints list_of(const td_tensor *t, const int64_t *list) {
    bool    sym = false;
    td_meta m = {.dtype = TD_BOOL, .rank = t->rank, .strided = true};
    for (int d = 0; d < t->rank; d++) sym |= td__dim_is_sym(list[d]);
    if (TD_LIKELY(!sym)) return (td_ints){list, t->rank};
    for (int d = 0; d < t->rank; d++) m.size[d] = number(t, list[d]);
    const td_tensor *numbers = td__tensor_make(t->cx, &m, true);
    return (td_ints){numbers ? numbers->size : t->cx->nil.size, numbers ? t->rank : 0};
}

int64_t(td_size)(const td_tensor *t, int64_t dim) {
    if (!TD_ENTER(t, TENSOR)) return 0;
    t = seen(t);
    return number(t, dim_entry(t, t->size, dim, __func__));
}
int64_t(td_stride)(const td_tensor *t, int64_t dim) {
    if (!TD_ENTER(t, TENSOR)) return 0;
    t = seen(t);
    return number(t, dim_entry(t, t->stride, dim, __func__));
}
td_ints(td_sizes)(const td_tensor *t) {
    if (!TD_ENTER(t, TENSOR)) return td__sizes(&td__ctx_of_any(t)->nil);
    t = seen(t);
    return list_of(t, t->size);
}
td_ints(td_strides)(const td_tensor *t) {
    if (!TD_ENTER(t, TENSOR)) return td__strides(&td__ctx_of_any(t)->nil);
    t = seen(t);
    return list_of(t, t->stride);
}
int64_t(td_offset)(const td_tensor *t) {
    if (!TD_ENTER(t, TENSOR)) return 0;
    if (!td__may_read_tensor(t, "td_offset", "the offset")) return 0;
    t = seen(t);
    return number(t, t->offset);
}
int64_t(td_numel)(const td_tensor *t) {
    if (!TD_ENTER(t, TENSOR)) return 0;
    t = seen(t);
    return number(t, t->numel);
}
size_t td_storage_bytes(const td_tensor *t) {
    if (!TD_ENTER(t, TENSOR)) return 0;
    if (!td__may_read_tensor(t, "td_storage_bytes", "the size of the storage"))
        return 0;
    return TD_UNLIKELY(t->st->open) ? (size_t)number(t, t->st->span) : t->st->bytes;
}

int64_t td_sym_size(const td_tensor *t, int64_t dim) {
    if (!TD_ENTER(t, TENSOR)) return 0;
    t = seen(t);
    return dim_entry(t, t->size, dim, __func__);
}
td_ints td_sym_sizes(const td_tensor *t) {
    if (!TD_ENTER(t, TENSOR)) return td__sizes(&td__ctx_of_any(t)->nil);
    t = seen(t);
    return td__sizes(t);
}
int64_t td_sym_numel(const td_tensor *t) {
    if (!TD_ENTER(t, TENSOR)) return 0;
    t = seen(t);
    return t->numel;
}
int64_t td_sym_add(int64_t a, int64_t b) { return td__dim_add(a, b); }
int64_t td_sym_sub(int64_t a, int64_t b) { return td__dim_sub(a, b); }
int64_t td_sym_mul(int64_t a, int64_t b) { return td__dim_mul(a, b); }
int64_t td_sym_div(int64_t a, int64_t b) { return b ? td__dim_div(a, b) : TD_DIM_HUGE; }
int64_t td_sym_mod(int64_t a, int64_t b) { return b ? td__dim_mod(a, b) : TD_DIM_HUGE; }

bool td_is_contiguous(const td_tensor *t) {
    if (!TD_ENTER(t, TENSOR)) return true;
    t = seen(t);
    return td__is_dense(t->rank, t->size, t->stride);
}

uint64_t td_version(const td_tensor *t) {
    if (!TD_ENTER(t, TENSOR)) return 0;
    if (!td__may_read_tensor(t, "td_version", "the version")) return 0;
    return td__version(t);
}

void td_bump(td_tensor *t) {
    if (!TD_ENTER(t, TENSOR)) return;
    if (t->cx->fake) {
        td__fail_no_bytes(t->cx, "td_bump",
                          "a captured body cannot access the bytes of a tensor");
        return;
    }
    atomic_fetch_add_explicit(&t->st->version, 1, memory_order_relaxed);
    t->st->writer = "td_bump";
}

bool td_same_storage(const td_tensor *a, const td_tensor *b) {
    if (!TD_ENTER(a, TENSOR) || !td__enter_in(a->cx, b, TD_H_TENSOR, __func__))
        return false;
    a = seen(a);
    b = seen(b);
    return a->st == b->st || (a->st->data && a->st->data == b->st->data);
}

/* May the user read elements now? Not during a capture, not even of real tensors: what
 * the body computes with them in C would become part of the program. */
static bool has_bytes(td_tensor *t, const char *who) {
    if (TD_IS_KEPT(t)) return td__fail_kept(t->cx, who, t);
    if (TD_UNLIKELY(t->cx->takes_fakes) && td__is_fake(t))
        return td__fail(t->cx, TD_E_TRACE,
                        "%s: this is a fake tensor, which has a type and no elements; "
                        "compute it from real tensors, after td_fakes_end",
                        who);
    if (TD_UNLIKELY(t->typed)) return td__fail_typed(t, who);
    return !t->cx->fake ||
           td__fail_no_bytes(t->cx, who,
                             "a captured body cannot read the elements of a tensor");
}

void *(td_data)(td_tensor *t) {
    if (!TD_ENTER(t, TENSOR)) return NULL;
    if (t->numel == 0) return NULL;
    if (!has_bytes(t, "td_data")) return NULL;
    if (TD_UNLIKELY(t->st->device)) return td__fail_on_device(t, "td_data"), NULL;
    return td__ptr(t);
}

void *td_device_data(td_tensor *t) {
    if (!TD_ENTER(t, TENSOR) || t->numel == 0) return NULL;
    return has_bytes(t, "td_device_data") ? td__ptr(t) : NULL;
}

/* Copies the only element to `out`. False after td__fail. */
static bool one_element(td_tensor *t, const char *who, void *out) {
    if (t->numel != 1) {
        td__fail(t->cx, TD_E_SHAPE, "%s: the tensor is %s; it must have one element",
                 who, td__type_str(t));
        return false;
    }
    size_t item = td__dtype_bytes[t->dtype];
    return has_bytes(t, who) &&
           td__storage_get(t->cx, t->st, (size_t)t->offset * item, out, item);
}

/* One number cannot stand for a complex element. False after td__fail. */
static bool is_real(const td_tensor *t, const char *who) {
    if (!td__is_complex((td_dtype)t->dtype)) return true;
    return td__fail(t->cx, TD_E_DTYPE,
                    "%s: the tensor is %s, whose element is two numbers; read td_real "
                    "and td_imag of it",
                    who, td__type_str(t));
}

double(td_item)(td_tensor *t) {
    if (!TD_ENTER(t, TENSOR)) return NAN;
    int64_t bytes = 0; /* of one element */
    if (!is_real(t, "td_item")) return NAN;
    return one_element(t, "td_item", &bytes) ? td__load_f((td_dtype)t->dtype, &bytes)
                                             : NAN;
}

int64_t(td_item_int)(td_tensor *t) {
    if (!TD_ENTER(t, TENSOR)) return 0;
    int64_t bytes = 0; /* of one element */
    if (!is_real(t, "td_item_int")) return 0;
    return one_element(t, "td_item_int", &bytes)
               ? td__load_i((td_dtype)t->dtype, &bytes)
               : 0;
}

/* ---- bytes in and out --------------------------------------------------- */

/* Advances to the next element in row-major order; where[] is the index, *p the
 * address. False after the last one. */
static bool next_index(const td_tensor *t, int64_t *where, char **p) {
    int64_t bytes = td__dtype_bytes[t->dtype];
    for (int d = t->rank - 1; d >= 0; d--) {
        if (t->size[d] == 1) continue; /* its stride has no effect */
        *p += t->stride[d] * bytes;
        if (++where[d] < t->size[d]) return true;
        *p -= t->size[d] * t->stride[d] * bytes;
        where[d] = 0;
    }
    return false;
}

static void convert_one(td_dtype to, void *out, td_dtype from, const void *in) {
    if (to == from) memcpy(out, in, td__dtype_bytes[to]);
    else if (td__is_complex(from)) { /* to the other complex dtype */
        td_dtype re = td__real_of(to);
        td__store_f(re, out, td__load_f(from, in));
        td__store_f(re, (char *)out + td__dtype_bytes[re], td__load_imag(from, in));
    } else if (td__is_float(from)) td__store_f(to, out, td__load_f(from, in));
    else td__store_i(to, out, td__load_i(from, in));
}

/* Complex numbers are not converted to real ones. */
static bool may_convert(td_tensor *t, const char *who, td_dtype from, td_dtype to) {
    if (!td__is_complex(from) || td__is_complex(to)) return true;
    return td__fail(t->cx, TD_E_DTYPE,
                    "%s: %s has no room for the imaginary parts of %s; use a complex "
                    "dtype, or td_real and td_imag",
                    who, td_dtype_name(to), td_dtype_name(from));
}

/* Checks dtype, buffer size and access of td_read and td_write. */
static bool may_transfer(td_tensor *t, const char *who, td_dtype dt, const void *to,
                         size_t bytes) {
    if ((unsigned)dt >= TD_DTYPE_COUNT)
        return td__fail(t->cx, TD_E_DTYPE,
                        "%s: %d is not a dtype (TD_F32, TD_I64, ...)", who, (int)dt);
    int64_t want = td__dim_mul(t->numel, td__dtype_bytes[dt]);
    if (want == TD_DIM_HUGE || bytes != (size_t)want)
        return td__fail(t->cx, TD_E_ARG,
                        "%s: the buffer has %zu bytes; %s as %s takes %lld", who, bytes,
                        td__type_str(t), td_dtype_name(dt), (long long)want);
    return t->numel == 0 ||
           (td__has(t->cx, who, "the buffer", to) && has_bytes(t, who));
}

/* Converts the elements of t, which are on the host. */
static bool read_strided(const td_tensor *t, td_dtype as, char *out) {
    int64_t where[TD_MAX_RANK] = {0};
    char   *p = td__ptr(t);
    do {
        convert_one(as, out, (td_dtype)t->dtype, p);
        out += td__dtype_bytes[as];
    } while (next_index(t, where, &p));
    return true;
}

/* Converts the elements of a tensor on another device, from a copy on the host. */
static bool read_from_device(td_tensor *t, td_dtype as, char *out) {
    td_ctx *cx = t->cx;
    if (!td__scope_push(cx)) return false;
    const td_tensor *host = td__on_host(t);
    bool             ok = host && read_strided(host, as, out);
    td__scope_pop(cx, NULL, 0);
    return ok;
}

bool(td_read)(td_tensor *t, td_dtype as, void *out, size_t bytes) {
    if (!TD_ENTER(t, TENSOR)) return false;
    if (!may_transfer(t, "td_read", as, out, bytes) ||
        !may_convert(t, "td_read", (td_dtype)t->dtype, as))
        return false;
    if (t->numel == 0) return true;
    if (as == (td_dtype)t->dtype && td_is_contiguous(t))
        return td__storage_get(t->cx, t->st, (size_t)t->offset * td__dtype_bytes[as],
                               out, bytes);
    return TD_LIKELY(!t->st->device) ? read_strided(t, as, out)
                                     : read_from_device(t, as, out);
}

/* Writes the elements of t, which are on the host. */
static bool write_strided(td_tensor *t, td_dtype from, const char *in) {
    int64_t where[TD_MAX_RANK] = {0};
    char   *p = td__ptr(t);
    do {
        convert_one((td_dtype)t->dtype, p, from, in);
        in += td__dtype_bytes[from];
    } while (next_index(t, where, &p));
    return true;
}

/* Writes the elements of a tensor on another device, through a copy on the host; bytes
 * in gaps between elements are unchanged. */
static bool write_to_device(td_tensor *t, td_dtype from, const char *in) {
    td_ctx *cx = t->cx;
    if (!td__scope_push(cx)) return false;
    td_tensor *host = td__on_host(t);
    bool       ok = host && write_strided(host, from, in) && td__host_back(t, host);
    td__scope_pop(cx, NULL, 0);
    return ok;
}

bool(td_write)(td_tensor *t, td_dtype from, const void *in, size_t bytes) {
    if (!TD_ENTER(t, TENSOR)) return false;
    if (!may_transfer(t, "td_write", from, in, bytes) ||
        !may_convert(t, "td_write", from, (td_dtype)t->dtype))
        return false;
    if (t->st->readonly)
        return td__fail(t->cx, TD_E_ALIAS, "td_write: %s " TD_READONLY_CLONE,
                        td__type_str(t));
    td_bump(t);
    t->st->writer = "td_write";
    if (t->numel == 0) return true;
    if (from == (td_dtype)t->dtype && td_is_contiguous(t))
        return td__storage_put(t->cx, t->st, (size_t)t->offset * td__dtype_bytes[from],
                               in, bytes);
    return TD_LIKELY(!t->st->device) ? write_strided(t, from, in)
                                     : write_to_device(t, from, in);
}

/* ---- tensors from the user's memory ------------------------------------- */

/* Checks dtype and sizes and stores them in *m, row-major. */
static bool meta_of(td_ctx *cx, const char *who, td_dtype dt, td_ints shape,
                    td_meta *m) {
    if ((unsigned)dt >= TD_DTYPE_COUNT)
        return td__fail(cx, TD_E_DTYPE, "%s: %d is not a dtype (TD_F32, TD_I64, ...)",
                        who, (int)dt);
    if (!td__has_list(cx, who, shape.v, shape.n)) return false;
    if (shape.n > TD_MAX_RANK)
        return td__fail(cx, TD_E_SHAPE, "%s: %d dims; a tensor has at most %d", who,
                        shape.n, TD_MAX_RANK);
    m->dtype = dt;
    m->rank = shape.n;
    m->strided = false;
    m->device = 0;
    m->offset = 0;
    for (int i = 0; i < shape.n; i++) {
        m->size[i] = shape.v[i];
        if (shape.v[i] < 0)
            return td__fail(cx, TD_E_SHAPE, "%s: %s has a negative size", who,
                            td__sizes_str(shape.n, shape.v));
    }
    return true;
}

td_tensor *td_from(td_ctx *cx, td_dtype dt, td_ints shape, const void *data) {
    if (!TD_ENTER_CTX(cx)) return &td__current_ctx()->nil;
    td_meta m;
    if (!meta_of(cx, "td_from", dt, shape, &m)) return &cx->nil;
    if (td__numel(m.rank, m.size) && !td__has(cx, "td_from", "data", data))
        return &cx->nil;
    m.device = cx->device;
    td_tensor *t = td__tensor_make(cx, &m, false);
    if (!t) return &cx->nil;
    size_t n = (size_t)t->numel * td__dtype_bytes[dt];
    return td__storage_put(cx, t->st, 0, data, n) ? t : &cx->nil;
}

/* Is it an array of this dtype, with so many bytes? An array of the parts of complex
 * numbers is one of them. */
static bool check_array(td_ctx *cx, const char *who, td_dtype dt, td_dtype of,
                        size_t room, size_t bytes) {
    bool same = of == TD_DTYPE_NONE || of == dt || (dt == TD_C64 && of == TD_F32) ||
                (dt == TD_C128 && of == TD_F64);
    if (!same)
        return td__fail(cx, TD_E_DTYPE,
                        "%s: this is an array of %s, but the dtype is %s; pass the "
                        "dtype of the array (td_to converts a tensor), or an array of "
                        "%s",
                        who, td_dtype_name(of), td_dtype_name(dt), td_dtype_name(dt));
    return bytes <= room ||
           td__fail(cx, TD_E_ARG, "%s: the array has %zu bytes, and must have %zu", who,
                    room, bytes);
}

td_tensor *td__from_array(td_ctx *cx, td_dtype dt, td_ints shape, const void *data,
                          td_dtype of, size_t room) {
    td_meta m;
    if (!td__enter_ctx(cx, "td_from")) return &td__current_ctx()->nil;
    if (!meta_of(cx, "td_from", dt, shape, &m)) return &cx->nil;
    int64_t bytes = td__dim_mul(td__numel(m.rank, m.size), td__dtype_bytes[dt]);
    if (data && !check_array(cx, "td_from", dt, of, room, (size_t)bytes))
        return &cx->nil;
    return td_from(cx, dt, shape, data);
}

bool td__read_array(td_tensor *t, td_dtype as, void *out, size_t bytes, td_dtype of,
                    size_t room) {
    if (out && td__is_usable(t, TD_H_TENSOR) && as < TD_DTYPE_COUNT &&
        !check_array(t->cx, "td_read", as, of, room, bytes))
        return false;
    return td_read(t, as, out, bytes);
}

td_tensor *td_from_doubles(td_ctx *cx, const double *v, int n) {
    if (!TD_ENTER_CTX(cx)) return &td__current_ctx()->nil;
    td_meta m;
    if (!td__has_list(cx, "td_from_doubles", v, n) ||
        !meta_of(cx, "td_from_doubles", cx->default_dtype, TD_SHAPE(n), &m))
        return &cx->nil;
    td_tensor *t = td__tensor_make(cx, &m, false);
    if (!t) return &cx->nil;
    for (int i = 0; i < n; i++)
        td__store_f(m.dtype, td__ptr(t) + (size_t)i * td__dtype_bytes[m.dtype], v[i]);
    return TD_LIKELY(!cx->device) || td__storage_move(cx, t->st, cx->device) ? t
                                                                             : &cx->nil;
}

/* release function for memory whose owner did not give one: it is not freed. */
static void leave_alone(void *env) { (void)env; }

td_tensor *td_wrap(td_ctx *cx, td_dtype dt, td_ints shape, td_ints strides, void *data,
                   void (*release)(void *env), void *env) {
    if (!TD_ENTER_CTX(cx)) return &td__current_ctx()->nil;
    td_meta m;
    if (!meta_of(cx, "td_wrap", dt, shape, &m)) return &cx->nil;
    int64_t last = 0;
    m.strided = strides.v != NULL;
    if (m.strided && strides.n != shape.n)
        return td_fail(cx, TD_E_ARG,
                       "td_wrap: %d strides for %d sizes; pass as many, or none for "
                       "row-major ones",
                       strides.n, shape.n);
    if (!m.strided) td__strides_dense(m.rank, m.size, m.stride);
    for (int i = 0; i < m.rank; i++) {
        if (m.strided) m.stride[i] = strides.v[i];
        if (m.stride[i] < 0)
            return td_fail(cx, TD_E_ARG, "td_wrap: stride %lld of dim %d is negative",
                           (long long)m.stride[i], i);
        last = td__dim_add(last, td__dim_mul(m.size[i] - 1, m.stride[i]));
    }
    int64_t n = td__numel(m.rank, m.size), bytes = td__dtype_bytes[dt];
    bytes = n ? td__dim_mul(td__dim_add(last, 1), bytes) : 0;
    if (bytes >= TD_DIM_HUGE || (n && !data))
        return td_fail(cx, TD_E_ARG, "td_wrap: %s",
                       n && !data ? "data is NULL" : "too large");
    if ((uintptr_t)data % td__dtype_bytes[dt])
        return td_fail(cx, TD_E_ARG, "td_wrap: data is not aligned for %s",
                       td_dtype_name(dt));
    td_storage *st =
        td__storage_wrap(data, (size_t)bytes, release ? release : leave_alone, env);
    if (!st) {
        td__fail_memory(cx);
        return &cx->nil;
    }
    td_tensor *t = td__tensor_over(cx, st, &m);
    if (!t) { /* the memory stays the caller's */
        st->release = NULL;
        st->data = NULL;
    }
    td__storage_drop(st);
    return t ? t : &cx->nil;
}

/* ---- machine and generator ---------------------------------------------- */

/* State of the process. A body that is being captured is the current context's. */
static bool may_read(const char *who, const char *what) {
    return td__may_read(td__current_ctx(), who, what);
}
static bool may_change(const char *who, const char *what) {
    return td__may_change(td__current_ctx(), who, what);
}
void td_set_threads(int n) {
    if (may_change("td_set_threads", "the number of threads")) td__pool_resize(n);
}
int td_threads(void) {
    (void)may_read("td_threads", "the number of threads");
    return td__pool_size();
}
size_t td_memory_live(void) {
    (void)may_read("td_memory_live", "memory statistics");
    return td__block_live();
}
size_t td_memory_peak(void) {
    (void)may_read("td_memory_peak", "memory statistics");
    return td__block_peak();
}
void td_memory_peak_reset(void) {
    if (may_change("td_memory_peak_reset", "memory statistics")) td__block_peak_reset();
}
void td_memory_trim(void) { td__block_trim(); }

static const char generator[] = "the random generator";

void td_rng_set(td_ctx *cx, uint64_t seed, uint64_t offset) {
    if (TD_ENTER_CTX(cx) && td__may_change(cx, "td_rng_set", generator))
        td__rng_put(cx, seed, offset);
}
void td_seed(td_ctx *cx, uint64_t seed) {
    if (TD_ENTER_CTX(cx) && td__may_change(cx, "td_seed", generator))
        td__rng_put(cx, seed, 0);
}

static bool may_read_rng(const td_ctx *cx, const char *who) {
    return td__may_read(cx, who, generator);
}
uint64_t td_rng_seed(const td_ctx *cx) {
    if (!TD_ENTER_CTX(cx)) return 0;
    return may_read_rng(cx, "td_rng_seed") ? cx->rng_seed : 0;
}
uint64_t td_rng_offset(const td_ctx *cx) {
    if (!TD_ENTER_CTX(cx)) return 0;
    return may_read_rng(cx, "td_rng_offset") ? cx->rng_offset : 0;
}
