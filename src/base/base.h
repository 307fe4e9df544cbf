/* base/base.h -- memory, strings, arrays, maps, hashes and threads.
 * The lowest layer: it does not know tensors. Every allocation of the
 * library goes through td__alloc, so that tests can make any of them fail;
 * nothing here aborts, a failed allocation is NULL or false for the caller. */
#ifndef TD_BASE_H
#define TD_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TD_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define TD_LIKELY(x) __builtin_expect(!!(x), 1)
#define TD_UNLIKELY(x) __builtin_expect(!!(x), 0)
/* For the few variables that every call reads: accessed without a call also in the
 * shared library. Large ones stay _Thread_local, because a library that is loaded late
 * gets little static thread-local space. */
#define TD_HOT_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))
#else
#define TD_PRINTF(fmt, args)
#define TD_LIKELY(x) (x)
#define TD_UNLIKELY(x) (x)
#define TD_HOT_LOCAL _Thread_local
#endif

#define TD_COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* Broken invariants of ours, never a user's mistake. No side effects inside. */
#ifdef TD_RELEASE
#define TD_ASSERT(cond) ((void)0)
#else
#define TD_ASSERT(cond) \
    ((cond) ? (void)0 : td__assert_failed(#cond, __FILE__, __LINE__))
#endif
_Noreturn void td__assert_failed(const char *cond, const char *file, int line);

/* ---- memory (alloc.c, scratch.c, block.c, fault.c) ----------------------- */

/* The size of this thread's last failed allocation, for td__fail_memory: thread-local,
 * because allocators have no context. */
extern _Thread_local size_t td__refused_bytes;

void *td__alloc(size_t n);            /* NULL when memory is exhausted */
void *td__zalloc(size_t n);           /* zeroed */
void *td__realloc(void *p, size_t n); /* p stays valid when it returns NULL */
void  td__free(void *p);
char *td__strdup(const char *s);

/* Blocks of tensor bytes: 64-byte aligned, small ones from per-thread free
 * lists, large ones from a bounded shared cache, so that a fresh 16 MiB result
 * does not page-fault anew on every op. `n` must be the same in both calls. */
void  *td__block_alloc(size_t n);
void   td__block_free(void *p, size_t n);
void   td__block_trim(void); /* give all cached blocks back */
size_t td__block_live(void); /* bytes now handed out */
size_t td__block_peak(void); /* the most ever, since the last reset */
void   td__block_peak_reset(void);

/* A block that is reused: repeated calls allocate once. One use has it at a time; a
 * nested use gets a block of its own. Zero-initialized is empty. */
typedef struct td_scratch {
    void  *block;
    size_t bytes;
    bool   busy;
} td_scratch;
void *td__scratch_take(td_scratch *s, size_t bytes); /* NULL: no memory */
void  td__scratch_give(td_scratch *s, void *p);      /* NULL is fine */
void  td__scratch_free(td_scratch *s);

/* Memory of ours that is out of use is poisoned under the address sanitizer, also if
 * only the program was built with it: instrumented code that reads it is reported,
 * until it is unpoisoned. Elsewhere these do nothing. */
#if defined(__GNUC__)
__attribute__((weak)) void __asan_poison_memory_region(const volatile void *, size_t);
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void *, size_t);
static inline bool td__sanitized(void) { return __asan_poison_memory_region != NULL; }
static inline void td__poison(const void *p, size_t n) {
    if (TD_UNLIKELY(td__sanitized())) __asan_poison_memory_region(p, n);
}
static inline void td__unpoison(const void *p, size_t n) {
    if (TD_UNLIKELY(td__sanitized())) __asan_unpoison_memory_region(p, n);
}
#else
static inline bool td__sanitized(void) { return false; }
static inline void td__poison(const void *p, size_t n) { (void)p, (void)n; }
static inline void td__unpoison(const void *p, size_t n) { (void)p, (void)n; }
#endif

/* Fault injection, process wide: n allocations succeed, the next one fails, and
 * every one after it too when `sticky`. n < 0 switches it off. */
void        td__fault_arm(int64_t n, bool sticky);
int64_t     td__fault_count(void); /* allocations seen since td__fault_arm */
/* The model name of this machine's CPU, or "an unknown CPU". Returns out. */
const char *td__cpu_name(char *out, size_t cap);

bool td__fault_now(void); /* called first by every base function that may fail */

/* ---- arenas (arena.c) --------------------------------------------------- */

typedef struct td_arena_chunk td_arena_chunk;
typedef struct td_arena {
    td_arena_chunk *top;  /* newest chunk; NULL when empty */
    size_t          used; /* bytes taken from top */
} td_arena;
typedef struct td_arena_mark {
    td_arena_chunk *top;
    size_t          used;
} td_arena_mark;

void         *td__arena_alloc(td_arena *a, size_t n); /* 16-aligned, not zeroed */
void         *td__arena_zalloc(td_arena *a, size_t n);
char         *td__arena_strdup(td_arena *a, const char *s);
char         *td__arena_printf(td_arena *a, const char *fmt, ...) TD_PRINTF(2, 3);
td_arena_mark td__arena_mark(const td_arena *a);
void          td__arena_reset(td_arena *a, td_arena_mark to);
void          td__arena_free(td_arena *a);

/* ---- growable arrays (vec.c) -------------------------------------------- */

/* TD_VEC(T) name; zero-initialized is empty. Functions see {v, n, cap}. */
#define TD_VEC(T)   \
    struct {        \
        T  *v;      \
        int n, cap; \
    }
/* Grow so that one more fits; false when memory is exhausted. */
#define td__vec_reserve(vec)  \
    ((vec)->n < (vec)->cap || \
     td__vec_grow((void **)&(vec)->v, &(vec)->cap, (vec)->n + 1, sizeof *(vec)->v))
#define td__vec_push(vec, x) \
    (td__vec_reserve(vec) && ((vec)->v[(vec)->n++] = (x), true))
#define td__vec_free(vec) \
    (td__free((vec)->v), (vec)->v = NULL, (vec)->n = (vec)->cap = 0)
bool td__vec_grow(void **v, int *cap, int need, size_t item);

/* ---- string builder (buf.c) --------------------------------------------- */

typedef struct td_buf {
    char  *s; /* NUL-terminated, or NULL while empty */
    size_t n, cap;
    bool   failed; /* an append ran out of memory; later appends do nothing */
} td_buf;
void        td__buf_add(td_buf *b, const char *s);
void        td__buf_addn(td_buf *b, const char *s, size_t n);
void        td__buf_printf(td_buf *b, const char *fmt, ...) TD_PRINTF(2, 3);
const char *td__buf_str(const td_buf *b); /* "" when empty */
void        td__buf_free(td_buf *b);
/* Writes at most cap bytes with the final NUL and returns n, the length of s. `out` may
 * be NULL. */
size_t      td__text_out(const char *s, size_t n, char *out, size_t cap);

/* ---- maps and hashes (map.c, hash.c, mac.c) ----------------------------- */

uint64_t td__hash(const void *p, size_t n, uint64_t seed); /* stable everywhere */
/* 128 bits, for entries that are identified by their content alone; also stable. */
typedef struct td_hash128 {
    uint64_t hi, lo;
} td_hash128;
td_hash128 td__hash128(const void *p, size_t n);

/* A message authentication code (SipHash-2-4 with 128 bits of output): without the
 * secret, nobody can find the code of bytes that were never signed. */
enum { TD_SECRET_BYTES = 16 };
td_hash128 td__mac128(const uint8_t secret[TD_SECRET_BYTES], const void *p, size_t n);

/* String to pointer; keys are borrowed. Zero-initialized is empty. */
typedef struct td_map_slot {
    const char *key; /* NULL: free */
    void       *val;
} td_map_slot;
typedef struct td_map {
    td_map_slot *slot;
    int          n, cap;
} td_map;
bool  td__map_put(td_map *m, const char *key, void *val);
void *td__map_get(const td_map *m, const char *key); /* NULL when absent */
void  td__map_free(td_map *m);

/* ---- words (edit_distance.c) ----------------------------------------------------- */

/* Letters to insert, drop, change or swap to make b of a, at most 99. */
int  td__edit_distance(const char *a, const char *b);
bool td__is_typo(const char *typed, const char *meant); /* close enough to suggest */

/* ---- threads (thread_pool.c) --------------------------------------------------- */

/* Split [0,n) into at most td__pool_size() ranges of at least `grain` items and
 * run them on the pool, the caller taking part. Ranges start at multiples of
 * `grain`. Returns when all are done. A nested call, or one made while another
 * context's thread holds the pool, runs in the caller alone. */
typedef void td_pool_fn(void *arg, int64_t begin, int64_t end);
void         td__pool_run(int64_t n, int64_t grain, td_pool_fn *fn, void *arg);
/* The number of threads, at most `most`, that finish so many nanoseconds of work of one
 * thread earliest, by what handing parts to workers was measured to cost here. */
int          td__pool_threads(double ns, int64_t most);
int          td__pool_size(void);    /* TD_NUM_THREADS, else the machine's cores */
void         td__pool_resize(int n); /* at any time; 0: the cores */

#endif
