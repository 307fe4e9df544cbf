/* alloc.c -- the one door to malloc for everything that is not tensor bytes.
 * A request of zero bytes gives a pointer of its own, so that NULL always means
 * that memory is exhausted. */
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

void *td__alloc(size_t n) {
    return td__fault_now() ? NULL : malloc(n ? n : 1);
}

void *td__zalloc(size_t n) {
    return td__fault_now() ? NULL : calloc(1, n ? n : 1);
}

void *td__realloc(void *p, size_t n) {
    return td__fault_now() ? NULL : realloc(p, n ? n : 1);
}

void td__free(void *p) {
    free(p);
}

char *td__strdup(const char *s) {
    size_t n = strlen(s) + 1;
    char  *p = td__alloc(n);
    return p ? memcpy(p, s, n) : NULL;
}
