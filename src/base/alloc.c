/* alloc.c -- all calls of malloc except those for tensor bytes. A request of zero bytes
 * returns a unique pointer, so that NULL always means that memory is exhausted. */
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

/* A size above PTRDIFF_MAX never succeeds, and sanitizers report it as a bug of the
 * caller: it fails here. */
static bool is_refused(size_t n) { return td__fault_now() || n > PTRDIFF_MAX; }

_Thread_local size_t td__refused_bytes;

/* Returns p; if it is NULL, stores the size for td__fail_memory. */
static void *got(void *p, size_t n) {
    if (!p) td__refused_bytes = n;
    return p;
}

void *td__alloc(size_t n) { return got(is_refused(n) ? NULL : malloc(n ? n : 1), n); }

void *td__zalloc(size_t n) {
    return got(is_refused(n) ? NULL : calloc(1, n ? n : 1), n);
}

void *td__realloc(void *p, size_t n) {
    return got(is_refused(n) ? NULL : realloc(p, n ? n : 1), n);
}

void td__free(void *p) { free(p); }

char *td__strdup(const char *s) {
    size_t n = strlen(s) + 1;
    char  *p = td__alloc(n);
    return p ? memcpy(p, s, n) : NULL;
}
