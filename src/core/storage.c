/* storage.c -- reference-counted memory with a version counter. A small storage
 * is one block: the header, then the data. */
#include "core/device.h"

#include <string.h>

/* Up to this size header and data are one block; larger data is a block of its own, so
 * that large blocks keep round sizes in the block cache. */
#define INLINE_BYTES ((size_t)4096)
#define HEADER ((size_t)128)

_Static_assert(sizeof(td_storage) <= HEADER, "data must stay 64-byte aligned");

static bool is_inline(const td_storage *s) {
    return !s->device && s->data == (const char *)s + HEADER;
}

static void init(td_storage *s, size_t block, void *data, size_t bytes) {
    memset(s, 0, sizeof *s);
    s->block = block;
    atomic_init(&s->refs, 1);
    atomic_init(&s->version, 0);
    s->data = data;
    s->bytes = bytes;
}

/* A storage whose data is a block of its own. */
static td_storage *make_apart(size_t bytes) {
    td_storage *s = td__block_alloc(HEADER);
    void       *data = s && bytes ? td__block_alloc(bytes) : NULL;
    if (!s || (bytes && !data)) {
        if (s) td__block_free(s, HEADER);
        return NULL;
    }
    init(s, HEADER, data, bytes);
    return s;
}

td_storage *td__storage_make(size_t bytes, bool fake) {
    if (fake || bytes == 0) {
        td_storage *s = make_apart(0);
        if (!s) return NULL;
        s->fake = fake;
        s->bytes = bytes;
        return s;
    }
    if (bytes > INLINE_BYTES) return make_apart(bytes);
    td_storage *s = td__block_alloc(HEADER + bytes);
    if (s) init(s, HEADER + bytes, (char *)s + HEADER, bytes);
    return s;
}

td_storage *td__storage_apart(size_t bytes) { return make_apart(bytes); }

td_storage *td__storage_wrap(void *data, size_t bytes, void (*release)(void *),
                             void *env) {
    td_storage *s = make_apart(0);
    if (!s) return NULL;
    s->data = data;
    s->bytes = bytes;
    s->release = release;
    s->env = env;
    return s;
}

void td__storage_keep(td_storage *s) {
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
}

static void free_data(td_storage *s) {
    if (s->release) s->release(s->env);
    else if (s->device && !s->fake) td__device_release(s);
    else if (s->data && !s->fake && !is_inline(s)) td__block_free(s->data, s->bytes);
}

void td__storage_drop(td_storage *s) {
    if (!s) return;
    /* the sole owner needs no atomic read-modify-write */
    if (atomic_load_explicit(&s->refs, memory_order_acquire) != 1 &&
        atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return;
    free_data(s);
    td__block_free(s, s->block);
}

/* Data inside the block of s stays unused until s is freed. */
void td__storage_take(td_storage *s, td_storage *from) {
    free_data(s);
    s->data = from->data;
    s->bytes = from->bytes;
    td__block_free(from, from->block);
}

/* False: out of memory, or foreign memory, which cannot be resized. Inline data
 * moves to a block of its own; its old place is unused until the storage is
 * freed. */
bool td__storage_resize(td_storage *s, size_t bytes) {
    if (s->fake) {
        s->bytes = bytes;
        return true;
    }
    if (s->release) return false;
    if (s->device) return td__device_resize(s, bytes);
    void *data = bytes ? td__block_alloc(bytes) : NULL;
    if (bytes && !data) return false;
    size_t common = bytes < s->bytes ? bytes : s->bytes;
    if (common) memcpy(data, s->data, common);
    if (bytes > common) memset((char *)data + common, 0, bytes - common);
    free_data(s);
    s->data = data;
    s->bytes = bytes;
    return true;
}
