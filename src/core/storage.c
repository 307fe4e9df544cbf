/* storage.c -- counted bytes with a version. Small fresh storages are one block:
 * the header sits in the 64 bytes before the data. */
#include "core/core.h"

#include <string.h>

/* Header and data in one block up to here; above, the data is a block of its own
 * so that large ones keep round sizes in the block cache. */
#define INLINE_BYTES ((size_t)4096)
#define HEADER ((size_t)128)

_Static_assert(sizeof(td_storage) <= HEADER, "data must stay 64-byte aligned");

static bool is_inline(const td_storage *s) {
    return s->data == (const char *)s + HEADER;
}

static void init(td_storage *s, size_t block, void *data, size_t bytes) {
    memset(s, 0, sizeof *s);
    s->block = block;
    atomic_init(&s->refs, 1);
    atomic_init(&s->version, 0);
    s->data = data;
    s->bytes = bytes;
}

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
    else if (s->data && !s->fake && !is_inline(s)) td__block_free(s->data, s->bytes);
}

void td__storage_drop(td_storage *s) {
    if (!s) return;
    /* The only holder needs no atomic read-modify-write. */
    if (atomic_load_explicit(&s->refs, memory_order_acquire) != 1 &&
        atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return;
    free_data(s);
    td__block_free(s, s->block);
}

/* False: no memory, or foreign memory, which is another library's to size. Inline
 * data moves out; its room stays unused until the header's block is freed. */
bool td__storage_resize(td_storage *s, size_t bytes) {
    if (s->fake) {
        s->bytes = bytes;
        return true;
    }
    if (s->release) return false;
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
