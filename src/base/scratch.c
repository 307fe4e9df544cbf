/* scratch.c -- a block of memory that is reused from one call to the next, so that a
 * repeated call allocates once. */
#include "base/base.h"

/* A busy block is in use further up the call stack; the nested use allocates. */
void *td__scratch_take(td_scratch *s, size_t bytes) {
    if (s->busy) return td__alloc(bytes);
    if (bytes > s->bytes) {
        void *more = td__alloc(bytes);
        if (!more) return NULL;
        td__free(s->block);
        s->block = more;
        s->bytes = bytes;
    }
    s->busy = true;
    return s->block;
}

/* p is what td__scratch_take returned. */
void td__scratch_give(td_scratch *s, void *p) {
    if (!p) return;
    if (p == s->block) s->busy = false;
    else td__free(p);
}

void td__scratch_free(td_scratch *s) {
    td__free(s->block);
    *s = (td_scratch){0};
}
