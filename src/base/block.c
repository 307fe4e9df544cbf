/* block.c -- tensor bytes. Small blocks come from free lists that belong to one
 * thread and need no lock; large ones from a cache that all threads share, so
 * that a fresh 16 MiB result does not fault its pages in anew on every op.
 * Under the address sanitizer, and in builds with TD_NO_CACHE, nothing is cached:
 * there a read of freed bytes has to be seen. */
#include "base/base.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#ifdef TD_NO_CACHE
static inline bool is_caching(void) { return false; }
#else
static inline bool is_caching(void) { return !td__sanitized(); }
#endif

enum {
    LINE = 64,              /* alignment of every block */
    SMALL_MAX = 64 << 10,   /* the largest size with a thread's own list */
    FINE_MAX = 1 << 10,     /* classes are 64 bytes apart up to here, */
    FINE = FINE_MAX / LINE, /* then four to a doubling */
    CLASSES = FINE + 6 * 4,
    LIST_BYTES = 256 << 10, /* most bytes one free list may hold */
    SLACK = 32 << 10,       /* most bytes a thread counts on its own */
    BINS = 256,             /* hash bins of the shared cache */
    HUGE_MIN = 4 << 20,     /* from here on, request 2 MiB pages */
    HUGE_PAGE = 2 << 20,
    DEFAULT_MB = 512,
};

/* ---- counting ----------------------------------------------------------- */

/* Bytes handed out. Small blocks are counted per thread and carried over every
 * SLACK bytes: exact for a process that allocates from one thread, within SLACK
 * for each further one. */
static atomic_llong live, peak;

typedef struct small_block {
    struct small_block *next;
} small_block;

typedef struct small_list {
    small_block *head;
    int          n;
} small_list;

typedef struct thread_cache {
    int64_t    delta; /* bytes not yet in `live` */
    int64_t    high;  /* largest delta since the last carry; >= 0 */
    small_list list[CLASSES];
} thread_cache;

/* A pointer, so that the library needs little thread-local space, and of the
 * general model, so that it can be loaded late (dlopen); NULL until the thread's
 * first small block. */
static TD_HOT_LOCAL thread_cache *mine; /* so that free lists need no lock */

/* Other threads may raise it at the same time; the largest value remains. */
static void raise_peak(long long to) {
    long long was = atomic_load_explicit(&peak, memory_order_relaxed);
    while (was < to && !atomic_compare_exchange_weak(&peak, &was, to)) continue;
}

/* Adds n to the shared count; `high` is the maximum reached on the way. */
static void count_shared(int64_t n, int64_t high) {
    raise_peak(atomic_fetch_add(&live, n) + high);
}

/* Adds a thread's own count to the shared one. */
static void carry(thread_cache *t) {
    if (!t) return;
    count_shared(t->delta, t->high);
    t->delta = t->high = 0;
}

static inline void count_small(thread_cache *t, int64_t n) {
    t->delta += n;
    if (t->delta > t->high) t->high = t->delta;
    if (TD_UNLIKELY(t->delta > SLACK || t->delta < -SLACK)) carry(t);
}

/* Counts of other threads may lag by SLACK each. */
size_t td__block_live(void) {
    carry(mine);
    long long n = atomic_load(&live);
    return n > 0 ? (size_t)n : 0; /* below 0 only while threads hold slack */
}

size_t td__block_peak(void) {
    carry(mine);
    return (size_t)atomic_load(&peak);
}

void td__block_peak_reset(void) { atomic_store(&peak, (long long)td__block_live()); }

/* ---- the system --------------------------------------------------------- */

/* Allocates from the system; large blocks are aligned to huge pages and request them,
 * for fewer page faults. */
static void *system_alloc(size_t size) {
    size_t align = size >= HUGE_MIN ? HUGE_PAGE : LINE;
    void  *p = aligned_alloc(align, (size + align - 1) / align * align);
#ifdef MADV_HUGEPAGE
    if (p && size >= HUGE_MIN) (void)madvise(p, size, MADV_HUGEPAGE);
#endif
    return p;
}

/* ---- the shared cache of large blocks ----------------------------------- */

/* Written into the first bytes of a cached block. In two lists: its bin, and
 * all blocks by age. */
typedef struct large_block {
    struct large_block *bin_next, *bin_prev;
    struct large_block *newer, *older;
    size_t              size;
} large_block;

static struct {
    pthread_mutex_t lock;
    large_block    *bin[BINS];
    large_block    *newest, *oldest;
    size_t          bytes, limit;
    size_t          most; /* bytes in use at once, ever */
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t  at_exit; /* its destructor flushes an ending thread */
static bool           keyed;

/* Large sizes are multiples of 4 KiB below 1 MiB and of 64 KiB above; 0 for one
 * that no machine has. */
static size_t large_size(size_t n) {
    size_t step = n < (1u << 20) ? 4u << 10 : 64u << 10;
    return n > PTRDIFF_MAX - HUGE_PAGE ? 0 : (n + step - 1) / step * step;
}

static large_block **bin_of(size_t size) {
    return &shared.bin[(size >> 12) * 0x9E3779B1u % BINS];
}

/* Takes a block out of both lists. The lock is held. */
static void unlink_block(large_block *b) {
    if (b->bin_next) b->bin_next->bin_prev = b->bin_prev;
    *(b->bin_prev ? &b->bin_prev->bin_next : bin_of(b->size)) = b->bin_next;
    *(b->newer ? &b->newer->older : &shared.newest) = b->older;
    *(b->older ? &b->older->newer : &shared.oldest) = b->newer;
    shared.bytes -= b->size;
}

/* Puts a block at the front of its bin and of the list by age. The lock is held. */
static void link_block(large_block *b, size_t size) {
    large_block **bin = bin_of(size);
    *b = (large_block){.bin_next = *bin, .older = shared.newest, .size = size};
    if (*bin) (*bin)->bin_prev = b;
    *bin = b;
    *(shared.newest ? &shared.newest->newer : &shared.oldest) = b;
    shared.newest = b;
    shared.bytes += size;
}

/* The bytes that may be cached now: the limit, plus the difference between the bytes in
 * use and their peak. A training step of a large model frees and allocates more than
 * any fixed limit, and page faults cost more than memory that the process has needed
 * before. */
static size_t allowed(void) {
    size_t high = (size_t)atomic_load_explicit(&peak, memory_order_relaxed);
    size_t now = (size_t)atomic_load_explicit(&live, memory_order_relaxed);
    if (high > shared.most) shared.most = high;
    if (shared.limit == 0) return 0;
    return shared.limit + (shared.most > now ? shared.most - now : 0);
}

/* Unlink the oldest blocks until `needed` bytes are left under what is allowed; they
 * are returned as a list through `older`, to be freed without the lock. */
static large_block *evict(size_t needed) {
    large_block *out = NULL;
    size_t       most = allowed();
    while (shared.oldest && shared.bytes + needed > most) {
        large_block *b = shared.oldest;
        unlink_block(b);
        b->older = out;
        out = b;
    }
    return out;
}

static void free_evicted(large_block *b) {
    while (b) {
        large_block *next = b->older;
        free(b);
        b = next;
    }
}

static void lock_shared(void) { pthread_mutex_lock(&shared.lock); }

static void unlock_shared(void) { pthread_mutex_unlock(&shared.lock); }

/* Runs when a thread ends: frees its lists, and adds its count to the shared one. */
static void flush_thread(void *arg) {
    thread_cache *t = arg;
    carry(t);
    for (int k = 0; k < CLASSES; k++)
        for (small_block *b = t->list[k].head, *next; b; b = next) {
            next = b->next;
            free(b);
        }
    free(t);
    mine = NULL;
}

/* Once per process: reads TD_CACHE_MB, and keeps the lock usable in a forked child. */
static void start(void) {
    const char *env = secure_getenv("TD_CACHE_MB");
    long long   mb = env && *env ? strtoll(env, NULL, 10) : DEFAULT_MB;
    if (mb < 0 || mb > (1 << 20)) mb = DEFAULT_MB;
    shared.limit = (size_t)mb << 20;
    keyed = pthread_key_create(&at_exit, flush_thread) == 0;
    (void)pthread_atfork(lock_shared, unlock_shared, unlock_shared);
}

/* Only a cached block of exactly this size is reused. */
static void *large_alloc(size_t size) {
    large_block *b = NULL;
    if (is_caching()) {
        pthread_once(&once, start);
        lock_shared();
        for (b = *bin_of(size); b && b->size != size; b = b->bin_next) continue;
        if (b) unlink_block(b);
        unlock_shared();
    }
    return b ? b : system_alloc(size);
}

/* Caches a block, which itself holds its list entry; evicts the oldest blocks. */
static void large_free(void *p, size_t size) {
    if (!is_caching() || size > shared.limit) {
        free(p);
        return;
    }
    lock_shared();
    large_block *out = evict(size);
    link_block(p, size);
    unlock_shared();
    free_evicted(out);
}

/* ---- the thread's own lists --------------------------------------------- */

/* The size class of n bytes: the smallest class that holds them. */
static inline int class_of(size_t n) {
    if (n <= FINE_MAX) return n ? (int)((n - 1) / LINE) : 0;
    int top = 63 - __builtin_clzll(n - 1); /* 10 up to 15 */
    return FINE + (top - 10) * 4 + (int)((n - 1) >> (top - 2) & 3);
}

/* Bytes of a block of class k; inverse of class_of. */
static size_t class_size(int k) {
    if (k < FINE) return (size_t)(k + 1) * LINE;
    int top = 10 + (k - FINE) / 4;
    return (size_t)(4 + (k - FINE) % 4 + 1) << (top - 2);
}

/* NULL when this thread cannot have a cache; blocks then go to the system. */
static thread_cache *make_mine(void) {
    pthread_once(&once, start);
    thread_cache *t = keyed ? calloc(1, sizeof *t) : NULL;
    if (t && pthread_setspecific(at_exit, t) != 0) {
        free(t);
        t = NULL;
    }
    return mine = t;
}

/* From the thread's list, else from the system. */
static void *small_alloc(size_t n) {
    thread_cache *t = mine ? mine : make_mine();
    small_list   *l = t && is_caching() ? &t->list[class_of(n)] : NULL;
    void         *p = l && l->head ? l->head : NULL;
    if (TD_LIKELY(p != NULL)) {
        l->head = l->head->next;
        l->n--;
    } else {
        p = system_alloc(class_size(class_of(n)));
    }
    if (p && t) count_small(t, (int64_t)n);
    if (p && !t) count_shared((int64_t)n, (int64_t)n);
    return p;
}

/* To the thread's list, until that holds LIST_BYTES. */
static void small_free(void *p, size_t n) {
    thread_cache *t = mine ? mine : make_mine();
    int           k = class_of(n);
    if (t) count_small(t, -(int64_t)n);
    if (!t) count_shared(-(int64_t)n, 0);
    if (!t || !is_caching() || (size_t)t->list[k].n >= LIST_BYTES / class_size(k)) {
        free(p);
        return;
    }
    small_block *b = p;
    b->next = t->list[k].head;
    t->list[k].head = b;
    t->list[k].n++;
}

/* ---- interface ---------------------------------------------------------- */

/* If the system has no memory, empties the caches and tries once more. */
void *td__block_alloc(size_t n) {
    if (td__fault_now()) return NULL;
    if (TD_LIKELY(n <= SMALL_MAX)) return small_alloc(n);
    size_t size = large_size(n);
    void  *p = size ? large_alloc(size) : NULL;
    if (!p && size && is_caching()) {
        td__block_trim();
        p = system_alloc(size);
    }
    if (p) count_shared((int64_t)n, (int64_t)n);
    else td__refused_bytes = n;
    return p;
}

void td__block_free(void *p, size_t n) {
    if (!p) return;
    if (TD_LIKELY(n <= SMALL_MAX)) {
        small_free(p, n);
        return;
    }
    count_shared(-(int64_t)n, 0);
    large_free(p, large_size(n));
}

/* The shared cache and the calling thread's lists; other threads keep theirs,
 * which are bounded. */
void td__block_trim(void) {
    thread_cache *t = mine;
    if (t) {
        pthread_setspecific(at_exit, NULL);
        flush_thread(t);
    }
    lock_shared();
    large_block *out = evict(SIZE_MAX / 2);
    unlock_shared();
    free_evicted(out);
}
