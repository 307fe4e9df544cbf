/* loader.c -- batches of tokens, read ahead by a thread. The thread fills slots of a
 * ring buffer and advances a position of its own; it uses neither the context nor the
 * allocator. */
#include "nn/data.h"
#include "nn/nn.h"

#include <pthread.h>
#include <string.h>

/* One batch: x and y are [batch, window]; y is x shifted by one token. */
typedef struct slot {
    int64_t        *x, *y;
    td_loader_place at;
    int64_t         bad; /* index of the first invalid token; -1: none */
} slot;

struct td_loader {
    TD_OWNED_FIELDS;
    char           *path;
    td_loader_opts  o;
    td_token_file   file;
    int64_t         windows, batches;
    td_loader_place next;   /* the batch that td_loader_next returns */
    int64_t        *memory; /* one allocation: a row, then all slots */
    slot           *ring;
    int             slots;

    bool            running; /* the thread exists; the lock guards what follows */
    pthread_t       thread;
    pthread_mutex_t lock;
    pthread_cond_t  filled, freed;
    td_loader_place fill;       /* the batch that the thread reads next */
    int             head, full; /* first full slot, number of full slots */
    uint64_t        seeks;      /* a batch read before the last seek is discarded */
    bool            stop;
};

/* ---- filling ------------------------------------------------------------ */

/* The first token of window k of an epoch. */
static int64_t window_start(const td_loader *l, int64_t epoch, int64_t k) {
    const td_loader_opts *o = &l->o;
    if (o->order == TD_ORDER_RANDOM)
        return td__order_random(o->seed, epoch, k, l->file.n - o->window);
    if (o->order == TD_ORDER_SHUFFLED)
        k = td__order_shuffled(o->seed, epoch, k, l->windows);
    return k * o->window;
}

/* Reads window + 1 tokens per row, which x and y share. row: scratch of that length. */
static void fill_slot(const td_loader *l, td_loader_place at, slot *s, int64_t *row) {
    int64_t w = l->o.window;
    s->at = at;
    s->bad = -1;
    for (int64_t r = 0; r < l->o.batch; r++) {
        int64_t from = window_start(l, at.epoch, at.batch * l->o.batch + r);
        int64_t bad = td__tokens_read(&l->file, from, w + 1, l->o.vocab, row);
        if (s->bad < 0) s->bad = bad;
        memcpy(s->x + r * w, row, sizeof *row * (size_t)w);
        memcpy(s->y + r * w, row + 1, sizeof *row * (size_t)w);
    }
}

/* The position after `at`; the last batch of an epoch is followed by the next epoch. */
static td_loader_place after(const td_loader *l, td_loader_place at) {
    if (++at.batch == l->batches) at = (td_loader_place){at.epoch + 1, 0};
    return at;
}

/* The thread: fills free slots until stopped. */
static void *read_ahead(void *env) {
    td_loader *l = env;
    int64_t   *row = l->memory;
    pthread_mutex_lock(&l->lock);
    while (!l->stop) {
        if (l->full == l->slots) {
            pthread_cond_wait(&l->freed, &l->lock);
            continue;
        }
        slot           *s = &l->ring[(l->head + l->full) % l->slots];
        td_loader_place at = l->fill;
        uint64_t        seeks = l->seeks;
        pthread_mutex_unlock(&l->lock);
        fill_slot(l, at, s, row);
        pthread_mutex_lock(&l->lock);
        if (seeks != l->seeks) continue;
        l->fill = after(l, at);
        l->full++;
        pthread_cond_signal(&l->filled);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* ---- opening ------------------------------------------------------------ */

/* Are the options in range? False after td__fail. */
static bool check_opts(td_ctx *cx, const td_loader_opts *o) {
    static const char who[] = "td_loader_open";
    if (!td__nn_positive(cx, who, "batch", o->batch) ||
        !td__nn_positive(cx, who, "window", o->window))
        return false;
    if (o->batch > INT32_MAX || o->window > INT32_MAX || o->vocab < 0 ||
        (unsigned)o->type > TD_TOKENS_U32 || (unsigned)o->order > TD_ORDER_RANDOM ||
        o->ahead < -1 || o->ahead > 1024)
        return td__fail(cx, TD_E_ARG,
                        "%s: an option is out of range: batch and window must be below "
                        "2^31, vocab at least 0, ahead from -1 to 1024, type a "
                        "td_tokens and order a td_order",
                        who);
    return true;
}

/* Allocates the slots. False after td__fail. */
static bool make_ring(td_loader *l) {
    size_t per = (size_t)(l->o.batch * l->o.window), row = (size_t)l->o.window + 1;
    l->slots = l->o.ahead > 0 ? l->o.ahead : l->o.ahead < 0 ? 1 : 2;
    l->ring = td__zalloc(sizeof *l->ring * (size_t)l->slots);
    l->memory = td__alloc(sizeof *l->memory * (row + 2 * per * (size_t)l->slots));
    if (!l->ring || !l->memory) return td__fail_memory(l->cx);
    for (int i = 0; i < l->slots; i++) {
        l->ring[i].x = l->memory + row + 2 * per * (size_t)i;
        l->ring[i].y = l->ring[i].x + per;
    }
    return true;
}

/* Starts the thread. Without one (ahead is -1, or it cannot be created), batches are
 * read on demand; they are the same. */
static void start(td_loader *l) {
    if (l->o.ahead < 0) return;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->filled, NULL);
    pthread_cond_init(&l->freed, NULL);
    l->running = pthread_create(&l->thread, NULL, read_ahead, l) == 0;
    if (l->running) return;
    pthread_cond_destroy(&l->freed);
    pthread_cond_destroy(&l->filled);
    pthread_mutex_destroy(&l->lock);
}

/* At least one batch must fit into the file. False after td__fail. */
static bool count_batches(td_loader *l) {
    l->windows = l->file.n > 0 ? (l->file.n - 1) / l->o.window : 0;
    l->batches = l->windows / l->o.batch;
    return l->batches > 0 ||
           td__fail(l->cx, TD_E_IO,
                    "td_loader_open: %s has %lld tokens; a batch of %lld windows of "
                    "%lld needs at least %lld",
                    l->path, (long long)l->file.n, (long long)l->o.batch,
                    (long long)l->o.window, (long long)(l->o.batch * l->o.window + 1));
}

static void stop(td_loader *l) {
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_signal(&l->freed);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
    pthread_cond_destroy(&l->freed);
    pthread_cond_destroy(&l->filled);
    pthread_mutex_destroy(&l->lock);
}

static void end(void *object) {
    td_loader *l = object;
    if (l->running) stop(l);
    td__mapping_drop(l->file.map);
    td__free(l->memory);
    td__free(l->ring);
    td__free(l->path);
    td__handle_free(l, TD_H_LOADER);
}

/* Makes a loader over `map`, which it takes over; nil if that is NULL after td__fail.
 */
static td_loader *make(td_ctx *cx, td_mapping *map, const char *path,
                       const td_loader_opts *o) {
    td_loader *l = map ? td__handle_make(cx, TD_H_LOADER, sizeof *l) : NULL;
    char      *copy = l ? td__strdup(path) : NULL;
    if (!copy) {
        if (map) td__fail_memory(cx);
        td__mapping_drop(map);
        td__handle_free(l, TD_H_LOADER);
        return TD_NIL(cx, LOADER);
    }
    l->path = copy;
    l->o = *o;
    if (td__tokens_open(cx, map, l->path, o, &l->file) && count_batches(l) &&
        make_ring(l)) {
        start(l);
        return td__handle_own(l, end);
    }
    end(l);
    return TD_NIL(cx, LOADER);
}

static bool take_opts(td_ctx *cx, td_loader_opts *to, const td_loader_opts *opts,
                      const char *who) {
    return td__enter_ctx(cx, who) && td_ok(cx) &&
           td__opts_take(cx, who, to, sizeof *to, opts, "TD_LOADER_OPTS") &&
           check_opts(cx, to);
}

td_loader *td_loader_open(td_ctx *cx, const char *path, const td_loader_opts *opts) {
    td_loader_opts o;
    if (!take_opts(cx, &o, opts, "td_loader_open")) return TD_NIL(cx, LOADER);
    return make(cx, td__mapping_open(cx, "td_loader_open", path), path, &o);
}

td_loader *td_loader_over(td_ctx *cx, const void *bytes, size_t n,
                          const td_loader_opts *opts) {
    td_loader_opts o;
    if (!take_opts(cx, &o, opts, "td_loader_over") ||
        (n && !td__has(cx, "td_loader_over", "bytes", bytes)))
        return TD_NIL(cx, LOADER);
    return make(cx, td__mapping_over(cx, bytes, n), "bytes in memory", &o);
}

void td_loader_close(td_loader *l) {
    if (!TD_MAY_FREE(l, LOADER)) return;
    td__handle_disown(l);
    end(l);
}

int64_t td_loader_tokens(const td_loader *l) {
    if (!TD_ENTER(l, LOADER)) return 0;
    return l->file.n;
}
int64_t td_loader_batches(const td_loader *l) {
    if (!TD_ENTER(l, LOADER)) return 0;
    return l->batches;
}

/* ---- batches ------------------------------------------------------------ */

/* The slot with the next batch; it stays full until advance. */
static slot *wait_for(td_loader *l) {
    if (!l->running) {
        fill_slot(l, l->next, l->ring, l->memory);
        return l->ring;
    }
    pthread_mutex_lock(&l->lock);
    while (!l->full) pthread_cond_wait(&l->filled, &l->lock);
    slot *s = &l->ring[l->head];
    pthread_mutex_unlock(&l->lock);
    return s;
}

/* Frees the slot of the batch that was returned. */
static void advance(td_loader *l) {
    l->next = after(l, l->next);
    if (!l->running) return;
    pthread_mutex_lock(&l->lock);
    l->head = (l->head + 1) % l->slots;
    l->full--;
    pthread_cond_signal(&l->freed);
    pthread_mutex_unlock(&l->lock);
}

/* Fails for the token at index `at`. Returns false. */
static bool bad_token(td_loader *l, int64_t at) {
    int64_t token = 0;
    td__tokens_read(&l->file, at, 1, 0, &token);
    return td__fail(l->cx, TD_E_INDEX,
                    "td_loader_next: %s: token %lld is %lld; it must be %s %lld",
                    l->path, (long long)(at + l->o.first), (long long)token,
                    token < 0 ? "at least" : "below",
                    (long long)(token < 0 ? 0 : l->o.vocab));
}

bool td_loader_next(td_loader *l, td_tensor **x, td_tensor **y) {
    if (!TD_ENTER(l, LOADER)) {
        if (x) *x = TD_NIL_BY(l, TENSOR);
        if (y) *y = TD_NIL_BY(l, TENSOR);
        return false;
    }
    if (!td__has(l->cx, "td_loader_next", "x", x) ||
        !td__has(l->cx, "td_loader_next", "y", y))
        return false;
    td_ints shape = TD_SHAPE(l->o.batch, l->o.window);
    *x = *y = td_nil(l->cx);
    if (!td_ok(l->cx)) return false;
    if (!td__may_read(l->cx, "td_loader_next", "a loader")) return false;
    const slot *s = wait_for(l);
    if (s->bad >= 0) return bad_token(l, s->bad);
    td_tensor *a = td_from(l->cx, TD_I64, shape, s->x);
    td_tensor *b = td_from(l->cx, TD_I64, shape, s->y);
    if (!td_ok(l->cx)) return false;
    advance(l);
    *x = a;
    *y = b;
    return true;
}

td_loader_place td_loader_tell(const td_loader *l) {
    if (!TD_ENTER(l, LOADER)) return (td_loader_place){0};
    (void)td__may_read(l->cx, "td_loader_tell", "the place of a loader");
    return l->next;
}

bool td_loader_seek(td_loader *l, td_loader_place to) {
    if (!TD_ENTER(l, LOADER)) return false;
    if (!td__may_change(l->cx, "td_loader_seek", "the place of a loader")) return false;
    if (to.epoch < 0 || to.batch < 0 || to.batch >= l->batches)
        return td__fail(l->cx, TD_E_ARG,
                        "td_loader_seek: epoch %lld, batch %lld: an epoch has %lld "
                        "batches, from 0",
                        (long long)to.epoch, (long long)to.batch,
                        (long long)l->batches);
    l->next = to;
    if (!l->running) return true;
    pthread_mutex_lock(&l->lock);
    l->fill = to;
    l->head = l->full = 0;
    l->seeks++;
    pthread_cond_signal(&l->freed);
    pthread_mutex_unlock(&l->lock);
    return true;
}
