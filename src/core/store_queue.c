/* store_queue.c -- the jobs of a store, and the thread that does them one after the
 * other: put a value, get it, drop it. One thread does them in order, so that a get
 * finds the value of an earlier put, and a store needs no lock of its own. */
#include "core/store.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* Bytes that may wait to be stored, unless td_store_limit says otherwise. */
#define MOST_WAITING ((size_t)64 << 20)

typedef enum job_kind { PUT, GET, DROP } job_kind;
typedef enum job_state { WAITS, RUNS, DONE, FAILED } job_state;

typedef struct job {
    struct job *next; /* in the queue */
    job_kind    kind;
    job_state   state;
    td_stored  *of;
    void       *bytes; /* to store, or where they go */
    char        why[TD_STORE_WHY];
} job;

struct td_stored {
    job          job; /* its put, and after the last reference, its drop */
    _Atomic int  refs;
    td_io_queue *q;
    uint64_t     handle; /* the store's handle, after the put */
    bool         there;
    size_t       n;
    int64_t      number;
    td_storage  *from; /* referenced until the bytes are read; then not in q->held */
    td_stored   *held_next;
};

struct td_fetched {
    job         job;
    td_storage *to; /* NULL: taken */
    int64_t     number;
};

/* The lock guards all but io. Conditions: `work` for the thread, `done` for the
 * program. */
struct td_io_queue {
    td_store_io     io;
    int             refs; /* the store and each value */
    pthread_mutex_t lock;
    pthread_cond_t  work, done;
    pthread_t       thread;
    bool            running, stop;
    job            *first, **last, *now; /* waiting, and the one that runs */
    td_stored      *held;                /* values whose storage is referenced */
    size_t          waiting, most; /* bytes of them not read yet, and their limit */
    td_store_stats  stats;
    char            lost[TD_STORE_WHY]; /* of the first value not stored; "": none */
    td_io_queue    *next;               /* of all queues */
};

/* ---- fork ---------------------------------------------------------------- */

/* A child has a copy of each queue, but no thread. Locks are taken before the fork, so
 * that the copies are consistent. */
static td_io_queue    *all;
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t  once = PTHREAD_ONCE_INIT;

static void before_fork(void) {
    pthread_mutex_lock(&all_lock);
    for (td_io_queue *q = all; q; q = q->next) pthread_mutex_lock(&q->lock);
}

static void after_fork(void) {
    for (td_io_queue *q = all; q; q = q->next) pthread_mutex_unlock(&q->lock);
    pthread_mutex_unlock(&all_lock);
}

/* A child does waiting jobs in a thread of its own, started on demand; it does not
 * repeat the job that was running. */
static void in_child(void) {
    for (td_io_queue *q = all; q; q = q->next) {
        q->running = false;
        if (q->now && q->now->kind == PUT) q->waiting -= q->now->of->n;
        if (q->now && q->now->kind != DROP) {
            q->now->state = FAILED;
            snprintf(q->now->why, sizeof q->now->why,
                     "the process forked while the value was moved");
        }
        q->now = NULL;
        pthread_cond_init(&q->work, NULL);
        pthread_cond_init(&q->done, NULL);
    }
    after_fork();
}

static void watch_forks(void) {
    (void)pthread_atfork(before_fork, after_fork, in_child);
}

static void enlist(td_io_queue *q) {
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&all_lock);
    q->next = all;
    all = q;
    pthread_mutex_unlock(&all_lock);
}

static void delist(td_io_queue *q) {
    pthread_mutex_lock(&all_lock);
    td_io_queue **at = &all;
    while (*at && *at != q) at = &(*at)->next;
    if (*at) *at = q->next;
    pthread_mutex_unlock(&all_lock);
}

/* ---- the thread ----------------------------------------------------------- */

/* Does a job without the lock. A dropped value is freed. */
static job_state run(const td_store_io *io, job *j) {
    td_stored *v = j->of;
    bool       ok = true;
    switch (j->kind) {
    case PUT:
        ok = v->there = io->put(io->env, j->bytes, v->n, &v->handle, j->why);
        break;
    case GET:
        if (v->there) ok = io->get(io->env, v->handle, j->bytes, v->n, j->why);
        else memcpy(j->why, v->job.why, sizeof j->why);
        ok = ok && v->there;
        break;
    case DROP:
        if (v->there) io->drop(io->env, v->handle);
        td__free(v);
        return DONE;
    }
    j->why[TD_STORE_WHY - 1] = 0;
    if (!ok && !j->why[0]) snprintf(j->why, sizeof j->why, "the store gave no reason");
    return ok ? DONE : FAILED;
}

/* Counts a finished job. The lock is held. */
static void finish(td_io_queue *q, job *j, job_state state) {
    j->state = state;
    if (j->kind == GET) q->stats.gets += state == DONE;
    if (j->kind != PUT) return;
    q->waiting -= j->of->n;
    q->stats.puts += state == DONE;
    if (state == FAILED && !q->lost[0]) memcpy(q->lost, j->why, sizeof q->lost);
}

/* Does the first job of the queue. The lock is held, but not meanwhile. */
static void step(td_io_queue *q) {
    job *j = q->first;
    if (!(q->first = j->next)) q->last = &q->first;
    bool drops = j->kind == DROP;
    q->now = j;
    j->state = RUNS;
    pthread_mutex_unlock(&q->lock);
    job_state state = run(&q->io, j);
    pthread_mutex_lock(&q->lock);
    q->now = NULL;
    if (!drops) finish(q, j, state);
    pthread_cond_broadcast(&q->done);
}

static void *work(void *env) {
    td_io_queue *q = env;
    pthread_mutex_lock(&q->lock);
    while (q->first || !q->stop) {
        if (q->first) step(q);
        else pthread_cond_wait(&q->work, &q->lock);
    }
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

/* Starts the thread, with signals blocked: they go to the program's threads. If that
 * fails, the caller does the jobs. The lock is held. */
static void start(td_io_queue *q) {
    sigset_t every, before;
    if (q->running || td__fault_now()) return;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    q->running = pthread_create(&q->thread, NULL, work, q) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Waits for one more job to be done. The lock is held, and there is a job. */
static void advance(td_io_queue *q) {
    start(q);
    if (q->running) pthread_cond_wait(&q->done, &q->lock);
    else if (q->first) step(q);
}

static void submit(td_io_queue *q, job *j) {
    j->state = WAITS;
    j->next = NULL;
    *q->last = j;
    q->last = &j->next;
    start(q);
    if (q->running) pthread_cond_signal(&q->work);
    else
        while (q->first) step(q);
}

/* Removes a job that has not started. The lock is held. */
static bool cancel(td_io_queue *q, job *j) {
    if (j->state != WAITS) return false;
    job **at = &q->first;
    while (*at != j) at = &(*at)->next;
    *at = j->next;
    if (q->last == &j->next) q->last = at;
    if (j->kind == PUT) q->waiting -= j->of->n;
    return true;
}

static void await(td_io_queue *q, const job *j) {
    while (j->state < DONE) advance(q);
}

/* ---- storages ------------------------------------------------------------- */

/* Takes the storage of a value out of the queue. The lock is held; the caller drops the
 * storage without it, because that may drop values in turn. */
static td_storage *release(td_io_queue *q, td_stored *v) {
    td_storage *st = v->from;
    td_stored **at = &q->held;
    if (!st) return NULL;
    while (*at != v) at = &(*at)->held_next;
    *at = v->held_next;
    v->from = NULL;
    return st;
}

/* Drops storages whose bytes are stored, or given up. Unlocks. */
static void reap(td_io_queue *q) {
    for (;;) {
        td_stored *v = q->held;
        while (v && v->job.state < DONE) v = v->held_next;
        td_storage *st = v ? release(q, v) : NULL;
        pthread_mutex_unlock(&q->lock);
        if (!st) return;
        td__storage_drop(st);
        pthread_mutex_lock(&q->lock);
    }
}

/* ---- queues ---------------------------------------------------------------- */

td_io_queue *td__queue_make(const td_store_io *io) {
    td_io_queue *q = td__zalloc(sizeof *q);
    if (!q) return NULL;
    q->io = *io;
    q->refs = 1;
    q->most = MOST_WAITING;
    q->last = &q->first;
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->work, NULL);
    pthread_cond_init(&q->done, NULL);
    enlist(q);
    return q;
}

/* The last reference: no value is there, and drops may still wait. */
static void end(td_io_queue *q) {
    pthread_mutex_lock(&q->lock);
    q->stop = true;
    if (!q->running)
        while (q->first) step(q);
    bool running = q->running;
    pthread_cond_signal(&q->work);
    pthread_mutex_unlock(&q->lock);
    if (running) pthread_join(q->thread, NULL);
    delist(q);
    if (q->io.close) q->io.close(q->io.env);
    pthread_cond_destroy(&q->work);
    pthread_cond_destroy(&q->done);
    pthread_mutex_destroy(&q->lock);
    td__free(q);
}

void td__queue_drop(td_io_queue *q) {
    pthread_mutex_lock(&q->lock);
    int left = --q->refs;
    pthread_mutex_unlock(&q->lock);
    if (!left) end(q);
}

void td__queue_limit(td_io_queue *q, size_t bytes) {
    pthread_mutex_lock(&q->lock);
    q->most = bytes;
    pthread_mutex_unlock(&q->lock);
}

bool td__queue_flush(td_io_queue *q, char why[TD_STORE_WHY]) {
    pthread_mutex_lock(&q->lock);
    while (q->first || q->now) advance(q);
    memcpy(why, q->lost, sizeof q->lost);
    q->lost[0] = 0;
    reap(q);
    return !why[0];
}

td_store_stats td__queue_count(td_io_queue *q) {
    pthread_mutex_lock(&q->lock);
    td_store_stats n = q->stats;
    pthread_mutex_unlock(&q->lock);
    return n;
}

/* ---- values ---------------------------------------------------------------- */

static int64_t next_number(void) {
    static _Atomic int64_t last;
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

/* Queues the put of v, behind others if too many bytes wait. */
static void put(td_io_queue *q, td_stored *v, bool now) {
    pthread_mutex_lock(&q->lock);
    while (q->waiting && q->waiting + v->n > q->most) advance(q);
    q->refs++;
    q->stats.values++;
    q->stats.bytes += (int64_t)v->n;
    q->waiting += v->n;
    v->held_next = q->held;
    q->held = v;
    now |= v->n > q->most;
    submit(q, &v->job);
    if (now) await(q, &v->job);
    reap(q);
}

td_stored *td__stored_make(td_ctx *cx, td_store *s, td_storage *st, const void *bytes,
                           size_t n, bool now) {
    td_stored *v = td__zalloc(sizeof *v);
    if (!v) return td__fail_memory(cx), NULL;
    v->job = (job){.kind = PUT, .of = v, .bytes = (void *)(uintptr_t)bytes};
    v->refs = 1;
    v->q = s->q;
    v->n = n;
    v->number = next_number();
    v->from = st;
    td__storage_keep(st);
    put(s->q, v, now);
    return v;
}

void td__stored_drop(td_stored *v) {
    if (atomic_fetch_sub(&v->refs, 1) != 1) return;
    td_io_queue *q = v->q;
    pthread_mutex_lock(&q->lock);
    bool never = cancel(q, &v->job);
    if (!never) await(q, &v->job);
    td_storage *from = release(q, v);
    q->stats.values--;
    q->stats.bytes -= (int64_t)v->n;
    v->job.kind = DROP;
    if (!never) submit(q, &v->job);
    pthread_mutex_unlock(&q->lock);
    td__storage_drop(from);
    if (never) td__free(v);
    td__queue_drop(q);
}

int64_t *td__stored_number(td_stored *v) { return &v->number; }

td_fetched *td__stored_fetch(td_ctx *cx, td_stored *v) {
    td_fetched *f = td__zalloc(sizeof *f);
    td_storage *to = f ? td__storage_make(v->n, false) : NULL;
    if (!to) {
        td__free(f);
        td__fail_memory(cx);
        return NULL;
    }
    *f = (td_fetched){.job = {.kind = GET, .of = v, .bytes = to->data},
                      .to = to,
                      .number = next_number()};
    atomic_fetch_add(&v->refs, 1);
    pthread_mutex_lock(&v->q->lock);
    submit(v->q, &f->job);
    reap(v->q);
    return f;
}

td_storage *td__fetched_take(td_ctx *cx, td_fetched *f) {
    td_io_queue *q = f->job.of->q;
    td_storage  *to = f->to;
    pthread_mutex_lock(&q->lock);
    await(q, &f->job);
    reap(q);
    if (f->job.state == FAILED)
        return td__fail(cx, TD_E_IO, "an offloaded value is lost: %s", f->job.why),
               NULL;
    if (!to)
        return td__fail(cx, TD_E_ARG,
                        "offload_wait: the value was taken before; fetch it again"),
               NULL;
    f->to = NULL;
    return to;
}

void td__fetched_drop(td_fetched *f) {
    td_io_queue *q = f->job.of->q;
    pthread_mutex_lock(&q->lock);
    if (!cancel(q, &f->job)) await(q, &f->job);
    pthread_mutex_unlock(&q->lock);
    td__storage_drop(f->to);
    td__stored_drop(f->job.of);
    td__free(f);
}

int64_t *td__fetched_number(td_fetched *f) { return &f->number; }
