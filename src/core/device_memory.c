/* device_memory.c -- storages on devices: allocation, copies to, from and between
 * devices, and copies on the host for code that reads elements. */
#include "core/device.h"

#include <string.h>

/* ---- allocation --------------------------------------------------------- */

static _Thread_local td_keeper *keeper;

void td__device_keep(td_keeper *k) { keeper = k; }

static void *allocate(td_device_state *d, size_t bytes) {
    pthread_mutex_lock(&d->lock);
    void *p = d->plugin->alloc(d->dev, bytes);
    pthread_mutex_unlock(&d->lock);
    return p;
}

static void release(td_device_state *d, void *p, size_t bytes) {
    pthread_mutex_lock(&d->lock);
    d->plugin->release(d->dev, p, bytes);
    pthread_mutex_unlock(&d->lock);
}

/* Allocates on a device. NULL: out of memory, also by fault injection. */
static void *take(td_device_state *d, size_t bytes) {
    td_keeper *k = keeper && keeper->device == d->code ? keeper : NULL;
    if (td__fault_now()) return NULL;
    for (int i = 0; k && i < k->v.n; i++)
        if (k->v.v[i].released && k->v.v[i].bytes == bytes) {
            k->v.v[i].released = false;
            return k->v.v[i].memory;
        }
    void *p = allocate(d, bytes);
    if (!p || !k || td__vec_push(&k->v, ((td_kept){p, bytes, false}))) return p;
    release(d, p, bytes);
    return NULL;
}

static void give(td_device_state *d, void *p, size_t bytes) {
    td_keeper *k = keeper && keeper->device == d->code ? keeper : NULL;
    for (int i = 0; k && i < k->v.n; i++)
        if (k->v.v[i].memory == p) {
            k->v.v[i].released = true;
            return;
        }
    release(d, p, bytes);
}

void td__keeper_end(td_keeper *k, bool all) {
    int n = 0;
    for (int i = 0; i < k->v.n; i++) {
        td_kept x = k->v.v[i];
        if (x.released && all) release(td__device_state(k->device), x.memory, x.bytes);
        else if (x.released) k->v.v[n++] = x;
    }
    k->v.n = n;
    if (all) td__vec_free(&k->v);
}

td_storage *td__storage_on(size_t bytes, uint8_t device) {
    td_storage *s = td__storage_make(0, false);
    if (!s) return NULL;
    s->device = device;
    if (bytes && !(s->data = take(td__device_state(device), bytes))) {
        td__storage_drop(s);
        return NULL;
    }
    s->bytes = bytes;
    return s;
}

void td__device_release(td_storage *s) {
    if (s->data) give(td__device_state(s->device), s->data, s->bytes);
}

/* ---- single copies ------------------------------------------------------ */

typedef enum direction { TO_DEVICE, TO_HOST, WITHIN, ZERO } direction;

/* One call of the plugin, counted. */
static bool transfer(td_device_state *d, direction way, void *to, const void *from,
                     size_t n) {
    const td_device_plugin *p = d->plugin;
    if (n == 0) return true;
    if (way == TO_DEVICE) d->to_device++;
    if (way == TO_HOST) d->to_host++;
    pthread_mutex_lock(&d->lock);
    bool ok = way == TO_DEVICE ? p->copy_in(d->dev, to, from, n)
              : way == TO_HOST ? p->copy_out(d->dev, to, from, n)
              : way == WITHIN  ? p->copy(d->dev, to, from, n)
                               : p->fill(d->dev, to, 0, n);
    pthread_mutex_unlock(&d->lock);
    return ok;
}

static bool fail_transfer(td_ctx *cx, const td_device_state *d) {
    return td__fail(cx, TD_E_UNSUPPORTED, "%s%sa copy to or from %s failed: %s",
                    cx->making ? cx->making : "", cx->making ? ": " : "",
                    td__device_str(d->code), d->plugin->error(d->dev));
}

bool td__device_zero(td_storage *s) {
    return transfer(td__device_state(s->device), ZERO, s->data, NULL, s->bytes);
}

bool td__device_resize(td_storage *s, size_t bytes) {
    td_device_state *d = td__device_state(s->device);
    size_t           common = bytes < s->bytes ? bytes : s->bytes;
    char            *p = bytes ? take(d, bytes) : NULL;
    if (bytes && !p) return false;
    if (!transfer(d, WITHIN, p, s->data, common) ||
        !transfer(d, ZERO, p ? p + common : NULL, NULL, bytes - common)) {
        give(d, p, bytes);
        return false;
    }
    td__device_release(s);
    s->data = p;
    s->bytes = bytes;
    return true;
}

bool td__device_check(td_ctx *cx, td_device_state *d) {
    int64_t word[2];
    if (!d->suspect) return true;
    d->suspect = false;
    if (!transfer(d, TO_HOST, word, d->status, sizeof word))
        return fail_transfer(cx, d);
    if (word[0] == 0) return true;
    transfer(d, ZERO, d->status, NULL, sizeof word);
    return td__fail(cx, TD_E_INDEX,
                    "%s: an index, a class or the weights of a row are out of range: "
                    "%lld; found when the work of %s was waited for",
                    (const char *)(uintptr_t)word[0], (long long)word[1],
                    td__device_str(d->code));
}

bool td__storage_get(td_ctx *cx, const td_storage *s, size_t at, void *to, size_t n) {
    const char *from = (const char *)s->data + at;
    if (n == 0) return true;
    if (!s->device) return memcpy(to, from, n), true;
    td_device_state *d = td__device_state(s->device);
    if (!transfer(d, TO_HOST, to, from, n)) return fail_transfer(cx, d);
    return td__device_check(cx, d);
}

bool td__storage_put(td_ctx *cx, td_storage *s, size_t at, const void *from, size_t n) {
    char *to = (char *)s->data + at;
    if (n == 0) return true;
    if (!s->device) return memcpy(to, from, n), true;
    td_device_state *d = td__device_state(s->device);
    return transfer(d, TO_DEVICE, to, from, n) || fail_transfer(cx, d);
}

/* Copies through the host: plugins cannot copy between two devices. */
static bool copy_across(td_ctx *cx, td_storage *to, size_t at, const td_storage *from,
                        size_t from_at, size_t n) {
    void *between = td__block_alloc(n);
    if (!between) return td__fail_memory(cx);
    bool ok = td__storage_get(cx, from, from_at, between, n) &&
              td__storage_put(cx, to, at, between, n);
    td__block_free(between, n);
    return ok;
}

bool td__bytes_copy(td_ctx *cx, td_storage *to, size_t at, const td_storage *from,
                    size_t from_at, size_t n) {
    const char *source = (const char *)from->data + from_at;
    char       *target = (char *)to->data + at;
    if (n == 0) return true;
    if (!from->device) return td__storage_put(cx, to, at, source, n);
    if (!to->device) return td__storage_get(cx, from, from_at, target, n);
    if (to->device != from->device) return copy_across(cx, to, at, from, from_at, n);
    td_device_state *d = td__device_state(to->device);
    return transfer(d, WITHIN, target, source, n) || fail_transfer(cx, d);
}

bool td__storage_copy(td_ctx *cx, td_storage *to, const td_storage *from) {
    return td__bytes_copy(cx, to, 0, from, 0, from->bytes);
}

/* ---- elements on the host ----------------------------------------------- */

/* The number of bytes from the first element of t to the end of the last. */
static size_t range_of(const td_tensor *t) {
    int64_t last = 0;
    for (int d = 0; d < t->rank; d++) last += (t->size[d] - 1) * t->stride[d];
    return t->numel ? (size_t)(last + 1) * td__dtype_bytes[t->dtype] : 0;
}

static size_t start_of(const td_tensor *t) {
    return (size_t)t->offset * td__dtype_bytes[t->dtype];
}

td_tensor *td__on_host(td_tensor *t) {
    if (!t->st->device) return t;
    td_meta m;
    td__tensor_meta(t, &m);
    m.device = 0;
    m.offset = 0;
    td_tensor *host = td__tensor_make(t->cx, &m, false);
    return host && td__storage_get(t->cx, t->st, start_of(t), host->st->data,
                                   range_of(t))
               ? host
               : NULL;
}

bool td__host_back(td_tensor *t, const td_tensor *host) {
    return td__storage_put(t->cx, t->st, start_of(t), host->st->data, range_of(t));
}

/* ---- moving a storage --------------------------------------------------- */

bool td__storage_move(td_ctx *cx, td_storage *s, uint8_t device) {
    if (s->device == device) return true;
    if (s->release || s->readonly || s->object)
        return td__fail(cx, TD_E_UNSUPPORTED,
                        "td_move: the memory is not Tandem's own; copy the tensor with "
                        "td_to_device");
    if (device && !td__device_open(cx, device)) return false;
    td_storage *to = s->fake  ? NULL
                     : device ? td__storage_on(s->bytes, device)
                              : td__storage_apart(s->bytes);
    if (!s->fake && !to) return td__fail_memory(cx);
    if (to && !td__storage_copy(cx, to, s)) return td__storage_drop(to), false;
    if (to) td__storage_take(s, to);
    s->device = device;
    return true;
}

bool td_move(td_tensor *t, td_device dev) {
    if (!TD_ENTER(t, TENSOR)) return false;
    uint8_t code = td__device_code(dev);
    if (code == TD_NO_DEVICE)
        return td__fail(t->cx, TD_E_ARG, "td_move: no such device: kind %d, index %d",
                        (int)dev.kind, dev.index);
    return td__may_change(t->cx, "td_move", "the device of a tensor") &&
           td__storage_move(t->cx, t->st, code);
}
