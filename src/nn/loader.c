/* loader.c -- batches of items, read ahead by a thread. The thread fills slots of a
 * ring buffer and advances a position of its own; it uses neither the context nor the
 * allocator. */
#include "nn/data.h"
#include "nn/nn.h"

#include <pthread.h>
#include <string.h>

enum { MOST_FIELDS = 8, WHY = 256 };

/* One batch; bytes of each field, row by row. */
typedef struct slot {
    char           *bytes[MOST_FIELDS];
    td_loader_place at;
    int64_t         bad; /* index of the first item that failed; -1: none */
    char            why[WHY];
} slot;

/* A field, with sizes of its own. */
typedef struct field {
    td_dtype dtype;
    int      rank;              /* of an item */
    int64_t  size[TD_MAX_RANK]; /* of a batch: size[0] is its rows */
    size_t   bytes;             /* of an item */
} field;

struct td_loader {
    TD_OWNED_FIELDS;
    td_loading      by; /* its fields' sizes are in `fields` */
    field           fields[MOST_FIELDS];
    int64_t         batches;
    td_loader_place next;   /* the batch that the next call returns */
    char           *memory; /* one allocation: all slots */
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

/* The item at position k of an epoch. */
static int64_t item_at(const td_loader *l, int64_t epoch, int64_t k) {
    const td_dataset_opts *o = &l->by.o;
    if (o->order == TD_ORDER_RANDOM)
        return td__order_random(o->seed, epoch, k, l->by.range);
    return o->order == TD_ORDER_SHUFFLED
               ? td__order_shuffled(o->seed, epoch, k, l->by.set.length)
               : k;
}

/* Items in the batch: fewer in the last of an epoch. */
static int64_t rows_at(const td_loader *l, td_loader_place at) {
    int64_t left = l->by.set.length - at.batch * l->by.o.batch;
    return left < l->by.o.batch ? left : l->by.o.batch;
}

static void fill_slot(const td_loader *l, td_loader_place at, slot *s) {
    const td_dataset *set = &l->by.set;
    s->at = at;
    s->bad = -1;
    for (int64_t r = 0; r < rows_at(l, at) && s->bad < 0; r++) {
        void     *out[MOST_FIELDS];
        int64_t   k = at.batch * l->by.o.batch + r;
        td_sample item = {.index = item_at(l, at.epoch, k),
                          .out = out,
                          .why = s->why,
                          .why_size = sizeof s->why};
        item.seed = td__order_seed(l->by.o.seed, at.epoch, k);
        for (int f = 0; f < set->n_fields; f++)
            out[f] = s->bytes[f] + (size_t)r * l->fields[f].bytes;
        s->why[0] = 0;
        if (!set->read(set->env, &item)) s->bad = item.index;
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
        fill_slot(l, at, s);
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

/* Copies a field; its sizes must be positive. False after td__fail. */
static bool read_field(td_ctx *cx, td_loader *l, int i) {
    const td_field *from = &l->by.set.fields[i];
    field          *to = &l->fields[i];
    if ((unsigned)from->dtype >= TD_DTYPE_COUNT || from->size.n < 0 ||
        from->size.n >= TD_MAX_RANK || (from->size.n && !from->size.v))
        return td__fail(cx, TD_E_ARG,
                        "%s: field %d has dtype %d and %d sizes; it must have a dtype "
                        "and 0 to %d sizes",
                        l->by.who, i, (int)from->dtype, from->size.n, TD_MAX_RANK - 1);
    *to = (field){.dtype = from->dtype,
                  .rank = from->size.n,
                  .bytes = td_dtype_size(from->dtype)};
    for (int d = 0; d < to->rank; d++) {
        int64_t n = to->size[d + 1] = from->size.v[d];
        if (!td__nn_positive(cx, l->by.who, "a size of a field", n)) return false;
        if ((size_t)n > ((size_t)1 << 40) / to->bytes)
            return td__fail(cx, TD_E_ARG, "%s: an item of field %d exceeds 1 TiB",
                            l->by.who, i);
        to->bytes *= (size_t)n;
    }
    return true;
}

/* False after td__fail. */
static bool check(td_ctx *cx, td_loader *l) {
    const td_loading *by = &l->by;
    if (!td__has(cx, by->who, "the function that reads", by->set.read) ||
        !td__nn_positive(cx, by->who, "length", by->set.length) ||
        !td__nn_positive(cx, by->who, "batch", by->o.batch))
        return false;
    if (by->set.n_fields < 1 || by->set.n_fields > MOST_FIELDS ||
        by->o.batch > INT32_MAX || by->o.ahead < -1 || by->o.ahead > 1024 ||
        (unsigned)by->o.order > TD_ORDER_RANDOM)
        return td__fail(
            cx, TD_E_ARG,
            "%s: an option is out of range: there are 1 to %d fields, batch "
            "must be below 2^31, ahead from -1 to 1024, order a td_order",
            by->who, MOST_FIELDS);
    for (int i = 0; i < by->set.n_fields; i++)
        if (!read_field(cx, l, i)) return false;
    l->batches =
        (by->set.length + (by->o.drop_last ? 0 : by->o.batch - 1)) / by->o.batch;
    return l->batches > 0 ||
           td__fail(cx, TD_E_ARG,
                    "%s: the dataset has %lld items, less than a batch, %lld; without "
                    "drop_last they are one batch",
                    by->who, (long long)by->set.length, (long long)by->o.batch);
}

/* Allocates the slots. A field begins at a multiple of 64 bytes. False after td__fail.
 */
static bool make_ring(td_loader *l) {
    size_t per = 0, rows = (size_t)l->by.o.batch, ahead[MOST_FIELDS];
    for (int i = 0; i < l->by.set.n_fields; i++) {
        size_t bytes = l->fields[i].bytes;
        if (bytes > ((size_t)1 << 46) / rows)
            return td__fail(l->cx, TD_E_ARG, "%s: a batch of field %d exceeds 64 TiB",
                            l->by.who, i);
        ahead[i] = per;
        per += (bytes * rows + 63) / 64 * 64;
    }
    l->slots = l->by.o.ahead > 0 ? l->by.o.ahead : l->by.o.ahead < 0 ? 1 : 2;
    l->ring = td__zalloc(sizeof *l->ring * (size_t)l->slots);
    l->memory = td__alloc(per * (size_t)l->slots);
    if (!l->ring || !l->memory) return td__fail_memory(l->cx);
    for (int i = 0; i < l->slots; i++)
        for (int f = 0; f < l->by.set.n_fields; f++)
            l->ring[i].bytes[f] = l->memory + per * (size_t)i + ahead[f];
    return true;
}

/* Starts the thread. Without one (ahead is -1, or it cannot be created), batches are
 * read on demand; they are the same. */
static void start(td_loader *l) {
    if (l->by.o.ahead < 0) return;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->filled, NULL);
    pthread_cond_init(&l->freed, NULL);
    l->running = pthread_create(&l->thread, NULL, read_ahead, l) == 0;
    if (l->running) return;
    pthread_cond_destroy(&l->freed);
    pthread_cond_destroy(&l->filled);
    pthread_mutex_destroy(&l->lock);
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

static void drop_set(const td_dataset *set) {
    if (set->drop) set->drop(set->env);
}

static void end(void *object) {
    td_loader *l = object;
    if (l->running) stop(l);
    drop_set(&l->by.set);
    td__free(l->memory);
    td__free(l->ring);
    td__handle_free(l, TD_H_LOADER);
}

td_loader *td__loader_make(td_ctx *cx, const td_loading *by) {
    td_loader *l = td__handle_make(cx, TD_H_LOADER, sizeof *l);
    if (!l) {
        drop_set(&by->set);
        return TD_NIL(cx, LOADER);
    }
    l->by = *by;
    if (check(cx, l) && make_ring(l)) {
        start(l);
        return td__handle_own(l, end);
    }
    end(l);
    return TD_NIL(cx, LOADER);
}

td_loader *td_loader_dataset(td_ctx *cx, const td_dataset *set,
                             const td_dataset_opts *opts) {
    static const char who[] = "td_loader_dataset";
    td_loading        by = {.who = who, .code = TD_E_IO};
    bool              ok = td__enter_ctx(cx, who) && td_ok(cx);
    if (ok) ok = td__has(cx, who, "the dataset", set);
    if (ok) ok = td__opts_take(cx, who, &by.o, sizeof by.o, opts, "TD_DATASET_OPTS");
    if (!ok) {
        if (set) drop_set(set);
        return TD_NIL(cx, LOADER);
    }
    by.set = *set;
    by.range = set->length;
    if (!by.o.batch) by.o.batch = 1;
    return td__loader_make(cx, &by);
}

void td_loader_close(td_loader *l) {
    if (!TD_MAY_FREE(l, LOADER)) return;
    td__handle_disown(l);
    end(l);
}

int64_t td_loader_tokens(const td_loader *l) {
    if (!TD_ENTER(l, LOADER)) return 0;
    return l->by.tokens;
}
int64_t td_loader_items(const td_loader *l) {
    if (!TD_ENTER(l, LOADER)) return 0;
    return l->by.set.length;
}
int64_t td_loader_batches(const td_loader *l) {
    if (!TD_ENTER(l, LOADER)) return 0;
    return l->batches;
}

/* ---- batches ------------------------------------------------------------ */

/* The slot with the next batch; it stays full until advance. */
static slot *wait_for(td_loader *l) {
    if (!l->running) {
        fill_slot(l, l->next, l->ring);
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

/* Continues at a place; batches that were read ahead are discarded. */
static void go_to(td_loader *l, td_loader_place to) {
    l->next = to;
    if (!l->running) return;
    pthread_mutex_lock(&l->lock);
    l->fill = to;
    l->head = l->full = 0;
    l->seeks++;
    pthread_cond_signal(&l->freed);
    pthread_mutex_unlock(&l->lock);
}

/* Fails for the item of the slot, which is freed: the next call reads it again. Returns
 * false. */
static bool bad_item(td_loader *l, const slot *s) {
    char why[WHY];
    memcpy(why, s->why, sizeof why);
    why[WHY - 1] = 0;
    if (l->by.code == TD_E_IO)
        td__fail(l->cx, l->by.code, "td_loader_next: item %lld: %s", (long long)s->bad,
                 why[0] ? why : "it cannot be read");
    else td__fail(l->cx, l->by.code, "td_loader_next: %s", why);
    go_to(l, l->next);
    return false;
}

/* The tensors of the next batch. False after td__fail. */
static bool next_batch(td_loader *l, const char *who, td_tensor **out) {
    int n = l->by.set.n_fields;
    for (int i = 0; i < n; i++) out[i] = td_nil(l->cx);
    if (!td_ok(l->cx) || !td__may_read(l->cx, who, "a loader")) return false;
    const slot *s = wait_for(l);
    if (s->bad >= 0) return bad_item(l, s);
    td_tensor *t[MOST_FIELDS];
    for (int i = 0; i < n; i++) {
        field *f = &l->fields[i];
        f->size[0] = rows_at(l, s->at);
        td_ints sizes = {f->size, f->rank + 1};
        t[i] = td_from(l->cx, f->dtype, sizes, s->bytes[i]);
    }
    if (!td_ok(l->cx)) return false;
    advance(l);
    memcpy(out, t, sizeof *t * (size_t)n);
    return true;
}

bool td_loader_next_fields(td_loader *l, td_tensor **out, int n) {
    static const char who[] = "td_loader_next_fields";
    for (int i = 0; out && i < n; i++) out[i] = TD_NIL_BY(l, TENSOR);
    if (!TD_ENTER(l, LOADER) || !td__has(l->cx, who, "out", out)) return false;
    if (n != l->by.set.n_fields)
        return td__fail(l->cx, TD_E_ARG, "%s: n is %d; the loader has %d fields", who,
                        n, l->by.set.n_fields);
    return next_batch(l, who, out);
}

bool td_loader_next(td_loader *l, td_tensor **x, td_tensor **y) {
    static const char who[] = "td_loader_next";
    td_tensor        *out[MOST_FIELDS];
    if (!TD_ENTER(l, LOADER)) {
        if (x) *x = TD_NIL_BY(l, TENSOR);
        if (y) *y = TD_NIL_BY(l, TENSOR);
        return false;
    }
    if (!td__has(l->cx, who, "x", x) || !td__has(l->cx, who, "y", y)) return false;
    *x = *y = td_nil(l->cx);
    if (l->by.set.n_fields != 2)
        return td__fail(
            l->cx, TD_E_ARG,
            "%s: the loader has %d fields, not 2; use td_loader_next_fields", who,
            l->by.set.n_fields);
    if (!next_batch(l, who, out)) return false;
    *x = out[0];
    *y = out[1];
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
    go_to(l, to);
    return true;
}
