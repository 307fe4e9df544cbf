/* device_code.c -- kernels of devices from text: built once in a process for a text and
 * a device, and kept in the cache on disk as the device's machine code, under a hash of
 * the text and of everything else that the code depends on. */
#include "build/device_code.h"
#include "build/disk.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static td_kernel_table all; /* by text */

/* ---- tables ------------------------------------------------------------- */

/* The slot of a hash; an empty one if it is new. */
static td_kernel_slot *slot_of(td_kernel_slot *v, size_t cap, td_hash128 of,
                               uint8_t device) {
    size_t at = (size_t)(of.lo ^ device) & (cap - 1);
    while (v[at].device &&
           (v[at].device != device || v[at].of.lo != of.lo || v[at].of.hi != of.hi))
        at = (at + 1) & (cap - 1);
    return &v[at];
}

/* Doubles the table when it is half full. False: out of memory. */
static bool grow(td_kernel_table *t) {
    if (2 * (t->n + 1) <= t->cap) return true;
    size_t          cap = t->cap ? 2 * t->cap : 256;
    td_kernel_slot *v = td__zalloc(sizeof *v * cap);
    if (!v) return false;
    for (size_t i = 0; i < t->cap; i++)
        if (t->v[i].device) *slot_of(v, cap, t->v[i].of, t->v[i].device) = t->v[i];
    td__free(t->v);
    t->v = v;
    t->cap = cap;
    return true;
}

td_kernel_slot *td__kernel_slot(td_kernel_table *t, td_hash128 of, uint8_t device,
                                bool *found) {
    if (!grow(t)) return NULL;
    td_kernel_slot *s = slot_of(t->v, t->cap, of, device);
    *found = s->device != 0;
    if (!*found) *s = (td_kernel_slot){of, device, NULL}, t->n++;
    return s;
}

/* ---- on disk ------------------------------------------------------------ */

/* The entry of a text: its name, and what it was compiled for. */
typedef struct entry {
    char   name[48];
    td_buf key;
} entry;

static bool name_entry(td_device_state *d, td_hash128 text, entry *e) {
    char target[400] = "";
    d->plugin->target(d->dev, target, sizeof target);
    td__buf_printf(&e->key, "device code\n%s\ntext %016llx%016llx\n", target,
                   (unsigned long long)text.hi, (unsigned long long)text.lo);
    td_hash128 h = td__hash128(td__buf_str(&e->key), e->key.n);
    snprintf(e->name, sizeof e->name, "u_%016llx%016llx", (unsigned long long)h.hi,
             (unsigned long long)h.lo);
    return !e->key.failed;
}

static void *load(td_device_state *d, const void *code, size_t bytes) {
    pthread_mutex_lock(&d->lock);
    void *kernel = d->plugin->load(d->dev, code, bytes, "KERNEL");
    pthread_mutex_unlock(&d->lock);
    return kernel;
}

static void *find(td_disk *disk, td_device_state *d, const entry *e) {
    td_disk_entry m;
    const char   *bad = td__disk_read(disk, e->name, e->key.s, &m);
    void         *kernel = bad ? NULL : load(d, m.bytes, m.payload);
    td__log(disk->cx, TD_LOG_cache, "%s: %s %s", kernel ? "hit" : "miss", e->name,
            bad      ? bad
            : kernel ? "a kernel"
                     : "is refused by the device");
    td__disk_entry_free(&m);
    return kernel;
}

/* Loads code that the plugin allocated, frees it, and stores it on disk. */
static void *take_code(td_disk *disk, td_device_state *d, const entry *e, void *made,
                       size_t bytes) {
    td_buf code = {0};
    void  *kernel = made ? load(d, made, bytes) : NULL;
    d->kernels_built += kernel != NULL;
    if (kernel && disk->fd >= 0) {
        td__buf_addn(&code, made, bytes);
        if (!code.failed)
            td__disk_store_entry(disk, e->name, e->key.s, "a kernel of a device",
                                 &code);
    }
    td__buf_free(&code);
    free(made);
    return kernel;
}

static void *compile(td_disk *disk, td_device_state *d, const entry *e,
                     const char *text) {
    size_t bytes = 0;
    pthread_mutex_lock(&d->lock);
    void *made = d->plugin->compile(d->dev, text, &bytes);
    pthread_mutex_unlock(&d->lock);
    return take_code(disk, d, e, made, bytes);
}

/* From the disk, else compiled. An error of the cache is none of the call's. */
static void *find_or_compile(td_ctx *cx, td_device_state *d, td_hash128 hash,
                             const char *text) {
    td_disk disk;
    entry   e = {0};
    bool    good = td_ok(cx);
    td__disk_open(&disk, cx, true);
    void *kernel = NULL;
    if (name_entry(d, hash, &e)) {
        if (disk.fd >= 0) kernel = find(&disk, d, &e);
        if (!kernel) kernel = compile(&disk, d, &e, text);
    }
    td__disk_close(&disk);
    td__buf_free(&e.key);
    if (good) td_clear(cx);
    return kernel;
}

/* ---- interface ----------------------------------------------------------- */

static void *build(td_ctx *cx, td_device_state *d, td_hash128 hash, const char *text) {
    void *kernel;
    td__span_begin(cx, "build kernel");
    if (d->plugin->compile) kernel = find_or_compile(cx, d, hash, text);
    else {
        pthread_mutex_lock(&d->lock);
        kernel = d->plugin->build(d->dev, text, "KERNEL");
        pthread_mutex_unlock(&d->lock);
        d->kernels_built += kernel != NULL;
    }
    td__span_end(cx, "build kernel");
    if (!kernel)
        td__warn(cx, "%s: a kernel was not built: %.1000s", td__device_str(d->code),
                 d->plugin->error(d->dev));
    return kernel;
}

void *td__device_build(td_ctx *cx, td_device_state *d, const char *text) {
    td_hash128 hash = td__hash128(text, strlen(text));
    bool       found;
    pthread_mutex_lock(&lock);
    td_kernel_slot *k = td__kernel_slot(&all, hash, d->code, &found);
    if (k && !found) k->kernel = build(cx, d, hash, text);
    void *kernel = k ? k->kernel : NULL;
    pthread_mutex_unlock(&lock);
    return kernel;
}

/* ---- many at a time ------------------------------------------------------ */

/* STACK: of a thread that compiles; the pool's are too small for a compiler. */
enum { MOST_THREADS = 16, STACK = 16 << 20 };

/* A text that is not on disk, and what is made of it. */
typedef struct unit {
    const char *text;
    td_hash128  hash;
    entry       e;
    void       *code;
    size_t      bytes;
} unit;

typedef struct units {
    td_device_state *d;
    unit            *v;
    int              n;
    atomic_int       next;
} units;

static void *compile_units(void *arg) {
    units *u = arg;
    for (int i; (i = atomic_fetch_add(&u->next, 1)) < u->n;)
        u->v[i].code = u->d->plugin->compile(u->d->dev, u->v[i].text, &u->v[i].bytes);
    return NULL;
}

/* Compiles all units, with one thread per processor; what no thread could be made for
 * is compiled here. */
static void run_threads(units *u) {
    pthread_t      threads[MOST_THREADS];
    pthread_attr_t attr;
    long           cpus = sysconf(_SC_NPROCESSORS_ONLN);
    int            n = 0, most = u->n < MOST_THREADS ? u->n : MOST_THREADS;
    if (most > cpus) most = (int)cpus;
    if (!pthread_attr_init(&attr)) {
        if (!pthread_attr_setstacksize(&attr, STACK))
            while (n < most && !pthread_create(&threads[n], &attr, compile_units, u))
                n++;
        pthread_attr_destroy(&attr);
    }
    compile_units(u);
    for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
}

/* Adds a text that is neither built nor on disk. */
static void add_unit(td_disk *disk, units *u, const char *text) {
    unit  x = {.text = text, .hash = td__hash128(text, strlen(text))};
    bool  found;
    void *kernel = NULL;
    for (int i = 0; i < u->n; i++)
        if (u->v[i].hash.lo == x.hash.lo && u->v[i].hash.hi == x.hash.hi) return;
    if (all.cap && slot_of(all.v, all.cap, x.hash, u->d->code)->device) return;
    if (!name_entry(u->d, x.hash, &x.e)) {
        td__buf_free(&x.e.key);
        return;
    }
    if (disk->fd >= 0) kernel = find(disk, u->d, &x.e);
    if (!kernel) {
        u->v[u->n++] = x;
        return;
    }
    td_kernel_slot *k = td__kernel_slot(&all, x.hash, u->d->code, &found);
    if (k) k->kernel = kernel;
    td__buf_free(&x.e.key);
}

/* A unit that the device refused is left to td__device_build, which reports it. */
static void take_units(td_disk *disk, units *u) {
    for (int i = 0; i < u->n; i++) {
        unit           *x = &u->v[i];
        bool            found;
        void           *kernel = take_code(disk, u->d, &x->e, x->code, x->bytes);
        td_kernel_slot *k =
            kernel ? td__kernel_slot(&all, x->hash, u->d->code, &found) : NULL;
        if (k) k->kernel = kernel;
        td__buf_free(&x->e.key);
    }
}

void td__device_build_all(td_ctx *cx, td_device_state *d, const char *const *text,
                          int n) {
    units   u = {.d = d, .v = td__zalloc(sizeof *u.v * (size_t)(n + 1))};
    bool    good = td_ok(cx);
    td_disk disk;
    if (!u.v || !d->plugin->compile) {
        td__free(u.v);
        return;
    }
    td__span_begin(cx, "build kernels");
    td__disk_open(&disk, cx, true);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < n; i++) add_unit(&disk, &u, text[i]);
    if (u.n > 1) run_threads(&u);
    else compile_units(&u);
    take_units(&disk, &u);
    pthread_mutex_unlock(&lock);
    td__disk_close(&disk);
    td__span_end(cx, "build kernels");
    td__free(u.v);
    if (good) td_clear(cx);
}
