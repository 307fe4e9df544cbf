/* tandem/tensor.h -- contexts, scopes and errors; making and inspecting tensors. */
#ifndef TANDEM_TENSOR_H
#define TANDEM_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TD_API __attribute__((visibility("default")))
#else
#define TD_API
#endif

#define TD_MAX_RANK 32

/* Options carry their size: in C their macro sets it, {TD_GRAD_OPTS, .allow_unused =
 * true}; without it they are refused. In C++ every field has a default, the size its
 * own. The macro sets the size by a name that has that of the struct in it, so that the
 * macro of another struct does not compile. */
#ifdef __cplusplus
#define TD_0 = {}
#define TD_SIZE(T) size_t T##_size = sizeof(T)
#else
#define TD_0
#define TD_SIZE(T)       \
    union {              \
        size_t size;     \
        size_t T##_size; \
    }
#endif

typedef struct td_ctx    td_ctx;    /* one thread's state: scopes, error, modes */
typedef struct td_tensor td_tensor; /* opaque */

typedef enum td_dtype {
    TD_F64,
    TD_F32,
    TD_F16,
    TD_BF16,
    TD_I64,
    TD_I32,
    TD_I16,
    TD_I8,
    TD_U8,
    TD_BOOL,
    TD_C64,  /* complex: two f32, the real part first (docs/complex.md) */
    TD_C128, /* two f64 */
    /* Ops move these and cast them, and do not compute with them (docs/dtypes.md). */
    TD_U16,
    TD_U32,
    TD_U64,
    TD_F8E4M3, /* PyTorch's float8_e4m3fn: no infinities, the largest is 448 */
    TD_F8E5M2, /* PyTorch's float8_e5m2 */
    TD_DTYPE_COUNT,
    TD_DTYPE_NONE = 255 /* "not given": the op's rule decides */
} td_dtype;

typedef enum td_code {
    TD_OK,
    TD_E_SHAPE,
    TD_E_DTYPE,
    TD_E_ARG,
    TD_E_INDEX,
    TD_E_ALIAS,
    TD_E_GRAD,
    TD_E_TRACE,
    TD_E_BUILD,
    TD_E_IO,
    TD_E_MEMORY,
    TD_E_UNSUPPORTED,
    TD_E_GUARD, /* a guard of a captured program fails */
    TD_E_COUNT
} td_code;

/* ---- values: arguments of ops ------------------------------------------------ */

typedef enum td_kind {
    TD_K_NONE,
    TD_K_TENSOR,
    TD_K_INT,
    TD_K_FLOAT,
    TD_K_BOOL,
    TD_K_DTYPE,
    TD_K_INTS,
    TD_K_TENSORS,
    TD_K_STR,
    TD_K_GRAPH /* a nested graph; made inside Tandem only */
} td_kind;

/* A tensor, a number, a list or nothing. 16 bytes, passed by value; lists are
 * borrowed for the call. */
typedef struct td_value {
    uint32_t kind; /* td_kind */
    uint32_t n;    /* length of a list */
    union {
        td_tensor        *t;
        int64_t           i;
        double            f;
        bool              b;
        td_dtype          dt;
        const int64_t    *ints;
        td_tensor *const *ts;
        const char       *s;
        struct td_graph  *g;
    } u;
} td_value;

/* A list of sizes, strides or dims. v == NULL: not given. */
typedef struct td_ints {
    const int64_t *v;
    int            n;
} td_ints;

/* A list of tensors; an entry may be NULL where an op allows holes. */
typedef struct td_tensors {
    td_tensor *const *v;
    int               n;
} td_tensors;

/* Lists in place: TD_SHAPE(2, 3), TD_DIMS(0, -1), TD_LIST(a, b). In C they live to the
 * end of the enclosing block, in C++ to the end of the full expression: there a list
 * with a name is `auto s = TD_SHAPE(2, 3)`, never a td_ints (docs/cpp.md).
 * Lists from an array of n: TD_SHAPE_OF(sizes, n), TD_LIST_OF(tensors, n). Most names
 * of functions are macros, which take the comma of (td_ints){sizes, n} for their own:
 * write one of these two, or put parentheses around it. */
#ifndef __cplusplus
#define TD_SHAPE(...)                                                               \
    ((td_ints){(const int64_t[]){0, __VA_ARGS__} + 1,                               \
               (int)(sizeof((const int64_t[]){0, __VA_ARGS__}) / sizeof(int64_t)) - \
                   1})
#define TD_ALL ((td_ints){NULL, 0}) /* no list given: every dim, or the default */
#define TD_SHAPE_OF(p, n) ((td_ints){(p), (int)(n)})
#define TD_LIST_OF(p, n) ((td_tensors){(p), (int)(n)})
#define TD_LIST(...) \
    td__list_until((td_tensor *const[]){__VA_ARGS__, TD__END(td_tensor)})

/* What ends a list in place. Counting up to it, instead of a sizeof, leaves one copy of
 * the entries in the expansion: with two, lists in lists would double at each level. */
#define TD__END(T) ((T *)UINTPTR_MAX)
/* Not inline: hundreds of its loops in one function took compilers long. */
#if defined(__GNUC__)
#define TD__OUTLINE __attribute__((noinline, unused)) static
#else
#define TD__OUTLINE static inline
#endif
TD__OUTLINE td_tensors td__list_until(td_tensor *const *v) {
    td_tensors list = {v, 0};
    while (v[list.n] != TD__END(td_tensor)) list.n++;
    return list;
}

/* The fields of options that hold lists: in C++ these types own a copy. */
typedef td_ints    td_int_list;
typedef td_tensors td_tensor_list;

/* Options in place, as an argument: TD_OPTS(td_aot_opts, .module = net). */
#define TD_OPTS(T, ...) (&(T){.size = sizeof(T), __VA_ARGS__})
#endif
#define TD_DIMS(...) TD_SHAPE(__VA_ARGS__)

static inline td_value td_value_none(void) {
    td_value v = {TD_K_NONE, 0, {0}};
    return v;
}
static inline td_value td_value_tensor(td_tensor *t) {
    td_value v = {TD_K_TENSOR, 0, {0}};
    v.u.t = t;
    return v;
}
static inline td_value td_value_int(int64_t i) {
    td_value v = {TD_K_INT, 0, {0}};
    v.u.i = i;
    return v;
}
static inline td_value td_value_float(double f) {
    td_value v = {TD_K_FLOAT, 0, {0}};
    v.u.f = f;
    return v;
}
static inline td_value td_value_long_double(long double f) {
    return td_value_float((double)f);
}
/* A number beyond the largest int64_t becomes a float. */
static inline td_value td_value_uint(uint64_t u) {
    return u > INT64_MAX ? td_value_float((double)u) : td_value_int((int64_t)u);
}
static inline td_value td_value_bool(bool b) {
    td_value v = {TD_K_BOOL, 0, {0}};
    v.u.i = b;
    return v;
}
static inline td_value td_value_same(td_value v) { return v; }
#define TD_NONE td_value_none()

/* A null pointer without a type: no tensor. */
static inline td_value td_value_null(void *p) {
    return td_value_tensor((td_tensor *)p);
}

/* Turns a tensor or a number into a td_value. Anything else does not compile. The
 * statement expression has x once: _Generic(x)(x) would double nested calls at each
 * level. Nested variables shadow each other, which clang warns of where asked to. */
#ifndef __cplusplus
/* clang-format off */
#define TD__VALUE(x)                                                         \
    _Generic((x), td_tensor *: td_value_tensor, td_value: td_value_same,     \
             void *: td_value_null, _Bool: td_value_bool,                    \
             float: td_value_float, double: td_value_float,                  \
             long double: td_value_long_double, char: td_value_int,          \
             signed char: td_value_int, unsigned char: td_value_int,         \
             short: td_value_int, unsigned short: td_value_int,              \
             int: td_value_int, unsigned: td_value_uint,                     \
             long: td_value_int, unsigned long: td_value_uint,               \
             long long: td_value_int, unsigned long long: td_value_uint)(x)
#if defined(__clang__)
#define TD_V(x)                                                              \
    __extension__({                                                          \
        _Pragma("clang diagnostic push")                                     \
        _Pragma("clang diagnostic ignored \"-Wshadow\"")                     \
        __auto_type td__x = (x);                                             \
        _Pragma("clang diagnostic pop")                                      \
        TD__VALUE(td__x);                                                    \
    })
#elif defined(__GNUC__)
#define TD_V(x) __extension__({ __auto_type td__x = (x); TD__VALUE(td__x); })
#else
#define TD_V(x) TD__VALUE(x)
#endif
/* clang-format on */
#endif

/* ---- contexts ----------------------------------------------------------- */

/* Who owns what, and in which order it may be freed: docs/lifetimes.md.
 *
 * NULL only when memory is exhausted. A context belongs to one thread at a time;
 * contexts are independent, storages may be shared between them (td_share). */
TD_API td_ctx *td_open(void);
/* Frees everything that belongs to the context: tensors, including those of td_keep,
 * and modules, functions, optimizers and other objects. Freeing one of these
 * afterwards does nothing. */
TD_API void    td_close(td_ctx *cx);

/* A scope owns every tensor made while it is innermost. Ending it drops them, and
 * ends scopes left open inside it. `label` names the scope in errors and traced
 * graphs. `result`, if not NULL, moves to the parent scope and is returned. A tensor
 * that was freed with its scope is recognized as such by every function, which records
 * an error that names the scope; docs/lifetimes.md says for how long. */
TD_API void       td_scope_begin(td_ctx *cx, const char *label);
TD_API td_tensor *td_scope_end(td_ctx *cx, const char *label, td_tensor *result);
/* Drops a reference of td_keep; without one, frees a scope's tensor early. */
TD_API td_tensor *td_keep(
    td_tensor *t); /* adds a reference, until td_drop; returns t */
/* Takes back one td_keep; without one, frees a scope's tensor early. */
TD_API void td_drop(td_tensor *t);

/* ---- errors ------------------------------------------------------------- */

/* The first failure is recorded until td_clear. A failed call returns nil, an inert
 * object of its kind: a tensor, a module, a function, an optimizer. A call with a nil
 * argument returns nil (false, zero) and records nothing new, so a program may
 * compute on and check once. Every function accepts NULL for every pointer: where
 * that is not allowed it is an error, recorded in the context of another argument or,
 * if there is none, in the last context that this thread used.
 *
 * NULL in place of the context: td_ok is false, td_message is td_last_error. */
TD_API bool        td_ok(const td_ctx *cx);
TD_API td_code     td_error(const td_ctx *cx);
TD_API const char *td_message(const td_ctx *cx); /* "" when td_ok */
/* The file and line of the first call that failed, as in the message; NULL: no
 * failure, or it was called without the macros that record the line. */
TD_API const char *td_error_place(const td_ctx *cx, int *line);
TD_API void        td_clear(td_ctx *cx);
/* Is it nil, NULL, or freed? For a tensor, a module, a function and every other opaque
 * object; not for td_flat, whose fields are public: test its `entries`. Records
 * nothing. */
TD_API bool        td_is_nil(const void *object);
TD_API td_tensor  *td_nil(td_ctx *cx);
/* The last failure on this thread that no open context could record; such failures
 * are also written to stderr. "" if there was none. td_clear(NULL) clears it. */
TD_API const char *td_last_error(void);
TD_API const char *td_code_name(td_code code);
/* Called at each first failure; NULL removes it. */
TD_API void td_on_error(td_ctx *cx, void (*hook)(void *env, td_code, const char *),
                        void   *env);
/* Records a failure of your own (custom functions, bodies). Returns nil. cx NULL: in
 * the last context that this thread used. */
TD_API td_tensor *td_fail(td_ctx *cx, td_code code, const char *fmt, ...);

/* ---- inspecting tensors ------------------------------------------------------- */

TD_API td_ctx     *td_ctx_of(const td_tensor *t);
TD_API td_dtype    td_dtype_of(const td_tensor *t);
TD_API int         td_rank(const td_tensor *t);
TD_API int64_t     td_size(const td_tensor *t, int64_t dim);   /* dim may be negative */
TD_API int64_t     td_stride(const td_tensor *t, int64_t dim); /* in elements */
TD_API td_ints     td_sizes(const td_tensor *t);               /* borrowed */
TD_API td_ints     td_strides(const td_tensor *t);             /* borrowed */
TD_API int64_t     td_offset(const td_tensor *t);
TD_API int64_t     td_numel(const td_tensor *t);
TD_API bool        td_is_contiguous(const td_tensor *t);
TD_API bool        td_is_view(const td_tensor *t);
TD_API td_tensor  *td_base(const td_tensor *t);    /* nil when not a view */
TD_API uint64_t    td_version(const td_tensor *t); /* number of writes to its storage */
TD_API bool        td_same_storage(const td_tensor *a, const td_tensor *b);
TD_API size_t      td_storage_bytes(const td_tensor *t);
TD_API const char *td_dtype_name(td_dtype dt);
TD_API size_t      td_dtype_size(td_dtype dt);
TD_API bool        td_dtype_is_float(td_dtype dt);
TD_API bool        td_dtype_is_complex(td_dtype dt);

/* In a capture with dynamic sizes (capture.h) the functions above return numbers: a
 * symbolic size is fixed to its current value, and a guard is added. The following keep
 * it symbolic. Outside of such captures they return the number itself; inside, a
 * handle: pass it to ops that take an integer or a list, and combine handles with
 * td_sym_add etc. Do not compute with it in C, which would use its bits; only
 * debug_asserts detects that. */
TD_API int64_t td_sym_size(const td_tensor *t, int64_t dim);
TD_API td_ints td_sym_sizes(const td_tensor *t); /* borrowed */
TD_API int64_t td_sym_numel(const td_tensor *t);
TD_API int64_t td_sym_add(int64_t a, int64_t b);
TD_API int64_t td_sym_sub(int64_t a, int64_t b);
TD_API int64_t td_sym_mul(int64_t a, int64_t b);
TD_API int64_t td_sym_div(int64_t a, int64_t b); /* rounds down; b is positive */
TD_API int64_t td_sym_mod(int64_t a, int64_t b);
/* Declares that the size of this dim will differ in later calls: captures with
 * TD_DYNAMIC_MARKED, and functions compiled for this tensor, make it symbolic, unless
 * sizes are static there. A function that is valid for one size only fails with
 * TD_E_GUARD, and names the op and its line. Sizes 0 and 1 stay numbers. A mark belongs
 * to this tensor: views and results of ops have none. False after a failure. */
TD_API bool    td_mark_dynamic(td_tensor *t, int64_t dim);
/* The same for sizes from least to most, both included: the code may use that no other
 * size occurs, and another size is another specialization. A program that does not
 * serve every size in between with one code fails with TD_E_GUARD.
 *   fails  TD_E_ARG  no such sizes, or the dim has another size now */
TD_API bool    td_mark_dynamic_range(td_tensor *t, int64_t dim, int64_t least,
                                     int64_t most);
/* The same without the promise: symbolic where that is possible, else a number, without
 * an error. Results of compiled functions have such marks on dims whose size was
 * symbolic. */
TD_API bool    td_mark_maybe_dynamic(td_tensor *t, int64_t dim);

/* The address of the first element; NULL for nil, fake and empty tensors. Call
 * td_bump after writing through it, because Tandem does not see such writes. */
TD_API void   *td_data(td_tensor *t);
TD_API void    td_bump(td_tensor *t);
TD_API double  td_item(td_tensor *t); /* one element; NaN and an error otherwise */
TD_API int64_t td_item_int(td_tensor *t);
/* Copies all elements in row-major order, converted to dtype. False: see td_message.
 * td_read checks the type and size of `out` as td_from does. */
TD_API bool    td_read(td_tensor *t, td_dtype as, void *out, size_t bytes);
TD_API bool    td_write(td_tensor *t, td_dtype from, const void *in, size_t bytes);

/* A tensor with a copy of `data`, in row-major order: as many elements of dtype dt as
 * the shape has. An array of float, double, int or int64_t must be of dtype dt (of its
 * parts, for complex ones). The count is checked where the compiler knows the size of
 * the array, not behind most pointers; td_tensor1 counts and converts its numbers. */
TD_API td_tensor *td_from(td_ctx *cx, td_dtype dt, td_ints shape, const void *data);
TD_API td_tensor *td_from_doubles(td_ctx *cx, const double *v, int n); /* f32[n] */
/* td_tensor1(cx, 1, 2.5): f32[2] of numbers in place. */
#ifdef __cplusplus
#define td_tensor1(cx, ...) TD__CALL(td__tensor1, (cx), td__numbers(__VA_ARGS__))
#else
#define td_tensor1(cx, ...)                              \
    td_from_doubles((cx), (const double[]){__VA_ARGS__}, \
                    (int)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)))
#endif
/* A tensor over `data`, without a copy. release(env) runs when the storage is freed;
 * after a failure it does not run, and data stays the caller's. */
TD_API td_tensor *td_wrap(td_ctx *cx, td_dtype dt, td_ints shape, td_ints strides,
                          void *data, void (*release)(void *env), void *env);
/* A tensor of another context with the same storage, for use on another thread. */
TD_API td_tensor *td_share(td_ctx *cx, const td_tensor *t);

/* ---- printing ----------------------------------------------------------- */

/* Writes at most cap bytes including the final NUL; returns the length of the text. */
TD_API size_t td_format(const td_tensor *t, char *out, size_t cap);
TD_API void   td_print(const td_tensor *t); /* to stdout, with a newline */
/* Digits, items at each edge, number of elements from which a summary is printed, and
 * line width; a negative value leaves an option unchanged. */
TD_API void   td_print_options(td_ctx *cx, int precision, int edge, int64_t threshold,
                               int width);

/* ---- random numbers ----------------------------------------------------- */

/* Draws are a pure function of seed, offset and element index (Philox 4x32-10). */
TD_API void     td_seed(td_ctx *cx, uint64_t seed); /* offset becomes 0 */
TD_API uint64_t td_rng_seed(const td_ctx *cx);
TD_API uint64_t td_rng_offset(const td_ctx *cx);
TD_API void     td_rng_set(td_ctx *cx, uint64_t seed, uint64_t offset);

/* ---- machine ------------------------------------------------------------ */

TD_API void   td_set_threads(int n); /* of the process; 0: one per core */
TD_API int    td_threads(void);
TD_API size_t td_memory_live(void); /* bytes of all storages now */
TD_API size_t td_memory_peak(void); /* peak since td_memory_peak_reset */
TD_API void   td_memory_peak_reset(void);
TD_API void   td_memory_trim(void); /* returns cached blocks to the system */

/* The source line that called the running op; set by the macros in ops.h. Per thread:
 * macros set it before they evaluate an argument, when no context is known. */
typedef struct td_where {
    const char *file;
    int         line;
} td_where;
#ifdef __cplusplus
extern TD_API thread_local td_where td_here;
} /* extern "C" */

#else
extern TD_API _Thread_local td_where td_here;
#endif

/* Each op and function notes the line it is called from, for messages and graphs: ops.h
 * and place.h make macros of their names. A library built on Tandem defines
 * TD_KEEP_PLACE, so that messages name lines of its callers: the last one that called a
 * function of Tandem, or of the library where its header notes the line as well:
 *
 *     #define mylayer(...) (TD_AT, mylayer(__VA_ARGS__)) */
static inline void td__at(const char *file, int line) {
    td_here.file = file;
    td_here.line = line;
}
#if defined(TD_KEEP_PLACE) || defined(TD_NO_SUGAR)
#define TD__CALL(f, ...) f(__VA_ARGS__)
#elif defined(__cplusplus)
/* The expansion begins with a name, so that `::td_clear(cx)` has a meaning. */
/* clang-format off */
template <class F> F *td__from(const char *file, int line, F *f) {
    td__at(file, line);
    return f;
}
/* clang-format on */
#define TD__CALL(f, ...) td__from(__FILE__, __LINE__, f)(__VA_ARGS__)
#else
#define TD__CALL(f, ...) (td__at(__FILE__, __LINE__), f(__VA_ARGS__))
#endif
#ifdef TD_KEEP_PLACE
#define TD_AT ((void)0)
#else
#define TD_AT td__at(__FILE__, __LINE__)
#endif

/* td_from and td_read with what the compiler knows of the array: its dtype, NONE for
 * bytes and void, and its size, SIZE_MAX if unknown. */
#ifdef __cplusplus
extern "C" {
#endif
extern TD_API td_tensor *td__from_array(td_ctx *cx, td_dtype dt, td_ints shape,
                                        const void *data, td_dtype of, size_t room);
extern TD_API bool td__read_array(td_tensor *t, td_dtype as, void *out, size_t bytes,
                                  td_dtype of, size_t room);
#ifdef __cplusplus
} /* extern "C" */
#endif
#if !defined(TD_KEEP_PLACE) && !defined(TD_NO_SUGAR)
#ifndef __GNUC__
#define TD__SIZE_OF_ARRAY(...) ((size_t)-1)
#elif defined(__cplusplus)
#define TD__SIZE_OF_ARRAY(...) __builtin_object_size(__VA_ARGS__, 0)
#else /* an array that ?: makes a pointer, or a pointer whose array may be known */
#define TD__IS_POINTER(...)                               \
    __builtin_types_compatible_p(__typeof__(__VA_ARGS__), \
                                 __typeof__(0 ? (__VA_ARGS__) : (__VA_ARGS__)))
#define TD__SIZE_OF_ARRAY(...)                                           \
    (TD__IS_POINTER(__VA_ARGS__) ? __builtin_object_size(__VA_ARGS__, 0) \
                                 : sizeof(__typeof__(__VA_ARGS__)))
#endif
#ifndef __cplusplus
/* clang-format off */
#define TD__DTYPE_OF_ARRAY(...)                                             \
    _Generic((__VA_ARGS__),                                                 \
        float *: TD_F32, const float *: TD_F32,                             \
        double *: TD_F64, const double *: TD_F64,                           \
        int *: TD_I32, const int *: TD_I32,                                 \
        long *: sizeof(long) == 8 ? TD_I64 : TD_I32,                        \
        const long *: sizeof(long) == 8 ? TD_I64 : TD_I32,                  \
        long long *: TD_I64, const long long *: TD_I64,                     \
        default: TD_DTYPE_NONE)
/* clang-format on */
#endif
#define td_from(cx, dt, shape, ...)                      \
    TD__CALL(td__from_array, cx, dt, shape, __VA_ARGS__, \
             TD__DTYPE_OF_ARRAY(__VA_ARGS__), TD__SIZE_OF_ARRAY(__VA_ARGS__))
#define td_read(t, as, out, bytes)                                         \
    TD__CALL(td__read_array, t, as, out, bytes, TD__DTYPE_OF_ARRAY((out)), \
             TD__SIZE_OF_ARRAY(out))
#endif

#ifdef __cplusplus
#include "tandem/cpp_lists.h"
#endif

#endif
