/* store_memory.c -- a store in memory that is not tensor memory: a block per value. */
#include "core/store.h"

#include <stdio.h>
#include <string.h>

static bool put(void *env, const void *bytes, size_t n, uint64_t *handle, char *why) {
    void *block = td__alloc(n + 1);
    (void)env;
    if (!block) {
        snprintf(why, TD_STORE_WHY, "out of memory for %zu bytes", n);
        return false;
    }
    if (n) memcpy(block, bytes, n);
    *handle = (uint64_t)(uintptr_t)block;
    return true;
}

static bool get(void *env, uint64_t handle, void *to, size_t n, char *why) {
    (void)env, (void)why;
    if (n) memcpy(to, (const void *)(uintptr_t)handle, n);
    return true;
}

static void drop(void *env, uint64_t handle) {
    (void)env;
    td__free((void *)(uintptr_t)handle);
}

td_store_io td__memory_io(void) {
    return (td_store_io){.put = put, .get = get, .drop = drop};
}
