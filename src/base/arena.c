/* arena.c -- bump allocation for graphs and jobs. An arena is a list of chunks, newest
 * first. Single allocations are not freed; resetting to a mark frees everything after
 * it. Chunks double from 4 KiB to 1 MiB; a larger request gets its own chunk. */
#include "base/base.h"

#include <stdio.h>
#include <string.h>

enum { ALIGN = 16, FIRST = 4 << 10, BIGGEST = 1 << 20 };

struct td_arena_chunk {
    td_arena_chunk *below; /* the next older chunk */
    size_t          cap;   /* bytes that follow this header */
};
_Static_assert(sizeof(td_arena_chunk) % ALIGN == 0, "bytes after it are aligned");

/* Starts a chunk for at least n bytes and takes them from it. */
static void *push_chunk(td_arena *a, size_t n) {
    size_t cap = a->top ? a->top->cap * 2 : FIRST;
    if (cap > BIGGEST) cap = BIGGEST;
    if (cap < n) cap = n;
    if (cap > SIZE_MAX - sizeof(td_arena_chunk)) return NULL;

    td_arena_chunk *c = td__alloc(sizeof *c + cap);
    if (!c) return NULL;
    *c = (td_arena_chunk){.below = a->top, .cap = cap};
    a->top = c;
    a->used = n;
    return c + 1;
}

/* NULL when memory is exhausted; earlier allocations stay valid. */
void *td__arena_alloc(td_arena *a, size_t n) {
    if (n > SIZE_MAX - ALIGN) return NULL;
    n = (n + ALIGN - 1) / ALIGN * ALIGN;
    if (!a->top || a->top->cap - a->used < n) return push_chunk(a, n);
    if (TD_UNLIKELY(td__fault_now())) {
        td__refused_bytes = n;
        return NULL;
    }
    char *p = (char *)(a->top + 1) + a->used;
    a->used += n;
    return p;
}

void *td__arena_zalloc(td_arena *a, size_t n) {
    void *p = td__arena_alloc(a, n);
    return p ? memset(p, 0, n) : NULL;
}

char *td__arena_strdup(td_arena *a, const char *s) {
    size_t n = strlen(s) + 1;
    char  *p = td__arena_alloc(a, n);
    return p ? memcpy(p, s, n) : NULL;
}

/* Formats twice: for the length, then into the arena. NULL when memory is exhausted. */
char *td__arena_printf(td_arena *a, const char *fmt, ...) {
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int   n = vsnprintf(NULL, 0, fmt, args);
    char *p = n < 0 ? NULL : td__arena_alloc(a, (size_t)n + 1);
    if (p) vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    va_end(args);
    return p;
}

/* A mark stays valid until the arena is reset to an earlier one. */
td_arena_mark td__arena_mark(const td_arena *a) {
    return (td_arena_mark){.top = a->top, .used = a->used};
}

/* `to` must be a mark of this arena, not later than an earlier reset. */
void td__arena_reset(td_arena *a, td_arena_mark to) {
    while (a->top != to.top) {
        TD_ASSERT(a->top);
        td_arena_chunk *below = a->top->below;
        td__free(a->top);
        a->top = below;
    }
    a->used = to.used;
}

void td__arena_free(td_arena *a) { td__arena_reset(a, (td_arena_mark){0}); }
