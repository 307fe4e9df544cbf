/* spare.c -- room that is kept between uses. */
#include "base/base.h"

/* A busy block is in use further up the call stack; the nested use allocates. */
void *td__spare_take(td_spare *s, size_t bytes) {
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

/* p is what td__spare_take returned. */
void td__spare_give(td_spare *s, void *p) {
    if (!p) return;
    if (p == s->block) s->busy = false;
    else td__free(p);
}

void td__spare_free(td_spare *s) {
    td__free(s->block);
    *s = (td_spare){0};
}
