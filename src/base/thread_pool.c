/* thread_pool.c -- the one pool of threads, for eager and compiled code alike.
 *
 * A region is split into fixed parts, one per thread. The caller offers a part
 * to each worker, runs its own, then takes back any part no worker has begun,
 * so a worker that sleeps, or that a fork left behind, delays no region. A part's
 * bounds depend on n, grain and the pool's size only, never on who runs it.
 *
 * One region runs at a time: a caller that finds the pool busy, such as a nested
 * call, runs its region alone. */
#include "base/base.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
    WORKERS_MAX = 255,
    SPIN_NS = 50 * 1000,    /* a worker spins this long, */
    YIELD_NS = 1000 * 1000, /* yields its core this long, then sleeps */
    SPINS_PER_LOOK = 32,    /* pauses between two reads of the clock */
};

/* The states of an offer. Only the caller sets OFFERED; the side that changes OFFERED
 * to TAKEN runs the part and sets IDLE. */
enum { IDLE, OFFERED, TAKEN };

typedef struct worker {
    _Alignas(64) atomic_int state;
    atomic_bool     asleep; /* set under `lock`, before the last look at state */
    pthread_mutex_t lock;
    pthread_cond_t  wake;
} worker;

static struct {
    atomic_bool busy;  /* held by the thread whose region runs */
    atomic_int  size;  /* threads wanted, the caller included; 0: not set */
    int         cores; /* those this process may use */
    int         n;     /* workers started; belongs to the holder of busy */
    worker      worker[WORKERS_MAX];
    td_pool_fn *fn;  /* the region; belongs to the holder of busy, and to */
    void       *arg; /* a worker between its taking a part and finishing */
    int64_t     count, grain;
    int         parts;
} pool;

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Tells the core that this is a spin loop. */
static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- a region's parts --------------------------------------------------- */

/* Run part p of the region. The grains are dealt out evenly, the first parts
 * taking one more where they do not divide. */
static void run_part(int p) {
    int64_t grains = (pool.count - 1) / pool.grain + 1;
    int64_t each = grains / pool.parts, extra = grains % pool.parts;
    int64_t begin = (each * p + (p < extra ? p : extra)) * pool.grain;
    int64_t own = (each + (p < extra)) * pool.grain;
    int64_t end = own > pool.count - begin ? pool.count : begin + own;
    pool.fn(pool.arg, begin, end);
}

/* True for the one side that may run the part offered in `state`. */
static bool take(atomic_int *state) {
    int offered = OFFERED;
    return atomic_load_explicit(state, memory_order_relaxed) == OFFERED &&
           atomic_compare_exchange_strong(state, &offered, TAKEN);
}

/* ---- workers ------------------------------------------------------------ */

static bool is_offered(worker *w) {
    return atomic_load_explicit(&w->state, memory_order_relaxed) == OFFERED;
}

/* Waits awake for an offer; false: none arrived in time. */
static bool wait_awake(worker *w) {
    if (atomic_load_explicit(&pool.size, memory_order_relaxed) > pool.cores)
        return false;
    for (int64_t start = now_ns(), spent = 0; spent < YIELD_NS;) {
        for (int i = 0; i < SPINS_PER_LOOK; i++) {
            if (is_offered(w)) return true;
            relax();
        }
        spent = now_ns() - start;
        if (spent > SPIN_NS) sched_yield();
    }
    return false;
}

/* Until an offer; `asleep` and `state` are sequentially consistent, see offer. */
static void wait_asleep(worker *w) {
    pthread_mutex_lock(&w->lock);
    atomic_store(&w->asleep, true);
    while (atomic_load(&w->state) != OFFERED) pthread_cond_wait(&w->wake, &w->lock);
    atomic_store(&w->asleep, false);
    pthread_mutex_unlock(&w->lock);
}

/* A worker's life: wait, take the part if the caller has not taken it back, run it. */
static void *work(void *arg) {
    worker *w = arg;
    int     part = (int)(w - pool.worker) + 1; /* the caller runs part 0 */
    for (;;) {
        if (!wait_awake(w)) wait_asleep(w);
        if (!take(&w->state)) continue;
        run_part(part);
        atomic_store_explicit(&w->state, IDLE, memory_order_release);
    }
    return NULL;
}

/* Workers are never joined and end with the process. They take no signals, so
 * that handlers run on the program's own threads. */
static bool start_worker(worker *w) {
    sigset_t  all, before;
    pthread_t id;
    atomic_store(&w->state, IDLE);
    atomic_store(&w->asleep, false);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, NULL);

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool ok = pthread_create(&id, NULL, work, w) == 0 && pthread_detach(id) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ok;
}

/* ---- the caller --------------------------------------------------------- */

/* seq_cst on both sides: either this sees `asleep`, or the worker's last look
 * before it sleeps sees the offer. */
static void offer(worker *w) {
    atomic_store(&w->state, OFFERED);
    if (!atomic_load(&w->asleep)) return;
    pthread_mutex_lock(&w->lock);
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
}

/* Wait for a part that a worker runs. */
static void await(worker *w) {
    int64_t start = 0;
    for (int i = 1; atomic_load_explicit(&w->state, memory_order_acquire) != IDLE;
         i++) {
        relax();
        if (i % SPINS_PER_LOOK) continue;
        if (!start) start = now_ns();
        if (now_ns() - start > SPIN_NS) sched_yield();
    }
}

/* The pool is held: run the region on it. */
static void run_held(int64_t n, int64_t grain, td_pool_fn *fn, void *arg, int parts) {
    while (pool.n < parts - 1 && start_worker(&pool.worker[pool.n])) pool.n++;
    if (parts > pool.n + 1) parts = pool.n + 1;
    pool.fn = fn;
    pool.arg = arg;
    pool.count = n;
    pool.grain = grain;
    pool.parts = parts;

    for (int p = 1; p < parts; p++) offer(&pool.worker[p - 1]);
    run_part(0);
    for (int p = 1; p < parts; p++) {
        worker *w = &pool.worker[p - 1];
        if (take(&w->state)) {
            run_part(p);
            atomic_store_explicit(&w->state, IDLE, memory_order_relaxed);
        }
    }
    for (int p = 1; p < parts; p++) await(&pool.worker[p - 1]);
}

void td__pool_run(int64_t n, int64_t grain, td_pool_fn *fn, void *arg) {
    if (n <= 0) return;
    if (grain < 1) grain = 1;
    int64_t parts = td__pool_size();
    if (parts > (n - 1) / grain + 1) parts = (n - 1) / grain + 1;
    if (parts == 1 || atomic_load_explicit(&pool.busy, memory_order_relaxed) ||
        atomic_exchange_explicit(&pool.busy, true, memory_order_acquire)) {
        fn(arg, 0, n);
        return;
    }
    run_held(n, grain, fn, arg, (int)parts);
    atomic_store_explicit(&pool.busy, false, memory_order_release);
}

/* ---- the cost of a thread ------------------------------------------------ */

/* Trials of the measurement, how many ns one waits for the workers, and bounds of what
 * may come out: the least is that of a cache line that goes to another core. */
enum { TRIALS = 64, PATIENCE = 50 * 1000, LEAST_COST = 50, MOST_COST = 1000 };

/* A region whose threads meet; false if they do not, as when a worker sleeps. */
typedef struct meeting {
    atomic_int begun;
    int        size;
    bool       met;
} meeting;

static void meet(void *arg, int64_t begin, int64_t end) {
    meeting *m = arg;
    atomic_fetch_add(&m->begun, 1);
    if (begin || end == m->size) return;
    for (int64_t start = now_ns(); !m->met && now_ns() - start < PATIENCE; relax())
        m->met = atomic_load(&m->begun) == m->size;
}

/* Nanoseconds by which each further thread delays a region: the least of the first
 * trials, one a call, as workers need some time to wake. */
static double thread_cost(int size) {
    static atomic_int trials, least = MOST_COST;
    int               cost = atomic_load_explicit(&least, memory_order_relaxed);
    if (TD_LIKELY(atomic_load_explicit(&trials, memory_order_relaxed) >= TRIALS))
        return cost;
    atomic_fetch_add_explicit(&trials, 1, memory_order_relaxed);
    meeting m = {.size = size};
    int64_t start = now_ns();
    td__pool_run(size, 1, meet, &m);
    int64_t each = (now_ns() - start) / (size - 1);
    if (!m.met || each >= cost) return cost;
    cost = each < LEAST_COST ? LEAST_COST : (int)each;
    atomic_store_explicit(&least, cost, memory_order_relaxed);
    return cost;
}

/* p threads take ns / p + cost * (p - 1), which is least where p * p is ns / cost. */
int td__pool_threads(double ns, int64_t most) {
    int all = td__pool_size(), size = most < all ? (int)most : all;
    if (size < 2 || ns < 4 * LEAST_COST) return 1;
    double per = ns / thread_cost(all);
    int    p = 1;
    while (p < size && (p + 1.0) * (p + 1.0) <= per) p++;
    return p;
}

/* ---- its size ----------------------------------------------------------- */

/* 1 .. WORKERS_MAX + 1 threads, the caller included. */
static int clamp_size(long n) {
    return n < 1 ? 1 : n > WORKERS_MAX + 1 ? WORKERS_MAX + 1 : (int)n;
}

/* A forked child has none of its parent's workers; it starts its own at first use. */
static void after_fork(void) {
    pool.n = 0;
    for (int i = 0; i < WORKERS_MAX; i++) atomic_store(&pool.worker[i].state, IDLE);
    atomic_store(&pool.busy, false);
}

/* The cores this process may run on, which a container may limit. */
static int count_cores(void) {
#ifdef CPU_COUNT
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
    return clamp_size(sysconf(_SC_NPROCESSORS_ONLN));
}

static void start(void) {
    const char *env = secure_getenv("TD_NUM_THREADS");
    long        asked = env && *env ? strtol(env, NULL, 10) : 0;
    pool.cores = count_cores();
    (void)pthread_atfork(NULL, NULL, after_fork);
    int size = clamp_size(asked > 0 ? asked : pool.cores);
    atomic_store_explicit(&pool.size, size, memory_order_release);
}

int td__pool_size(void) {
    int size = atomic_load_explicit(&pool.size, memory_order_acquire);
    if (TD_LIKELY(size > 0)) return size;
    pthread_once(&once, start);
    return atomic_load_explicit(&pool.size, memory_order_acquire);
}

/* Takes effect with the next region. Workers above the new size stay asleep,
 * to be used again when it grows. */
void td__pool_resize(int n) {
    pthread_once(&once, start);
    int size = clamp_size(n ? n : pool.cores);
    atomic_store_explicit(&pool.size, size, memory_order_release);
}
