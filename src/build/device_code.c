/* device_code.c -- kernels of devices from text: built once in a process for a text and
 * a device, and kept in the cache on disk as the device's machine code, under a hash of
 * the text and of everything else that the code depends on. */
#include "build/device_code.h"
#include "build/disk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A text and its kernel on one device; NULL: it could not be built. */
typedef struct known {
    td_hash128 text;
    uint8_t    device; /* 0: an empty place */
    void      *kernel;
} known;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    known *v;
    size_t n, cap; /* cap: a power of two, or 0 */
} all;

/* The place of a text in the table; an empty one if it is new. */
static known *place_of(known *v, size_t cap, td_hash128 text, uint8_t device) {
    size_t at = (size_t)(text.lo ^ device) & (cap - 1);
    while (v[at].device && (v[at].device != device || v[at].text.lo != text.lo ||
                            v[at].text.hi != text.hi))
        at = (at + 1) & (cap - 1);
    return &v[at];
}

/* Doubles the table when it is half full. False: out of memory. */
static bool grow(void) {
    if (2 * (all.n + 1) <= all.cap) return true;
    size_t cap = all.cap ? 2 * all.cap : 256;
    known *v = td__zalloc(sizeof *v * cap);
    if (!v) return false;
    for (size_t i = 0; i < all.cap; i++)
        if (all.v[i].device)
            *place_of(v, cap, all.v[i].text, all.v[i].device) = all.v[i];
    td__free(all.v);
    all.v = v;
    all.cap = cap;
    return true;
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

static void *compile(td_disk *disk, td_device_state *d, const entry *e,
                     const char *text) {
    size_t bytes = 0;
    td_buf code = {0};
    pthread_mutex_lock(&d->lock);
    void *made = d->plugin->compile(d->dev, text, &bytes);
    pthread_mutex_unlock(&d->lock);
    void *kernel = made ? load(d, made, bytes) : NULL;
    d->kernels_built += kernel != NULL;
    if (kernel && disk->fd >= 0) {
        td__buf_addn(&code, made, bytes);
        if (!code.failed)
            td__disk_store_entry(disk, e->name, e->key.s, "a kernel of a device",
                                 &code);
    }
    td__buf_free(&code);
    free(made); /* the plugin's allocation */
    return kernel;
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
    pthread_mutex_lock(&lock);
    known *k = grow() ? place_of(all.v, all.cap, hash, d->code) : NULL;
    if (k && !k->device) {
        *k = (known){hash, d->code, build(cx, d, hash, text)};
        all.n++;
    }
    void *kernel = k ? k->kernel : NULL;
    pthread_mutex_unlock(&lock);
    return kernel;
}
