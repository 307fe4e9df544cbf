/* buf.c -- a string that grows at its end. An append that runs out of memory sets
 * `failed` and leaves the text unchanged; callers check once, when the text is
 * complete. */
#include "base/base.h"

#include <stdio.h>
#include <string.h>

/* Reserves `more` bytes and the closing NUL. */
static bool reserve(td_buf *b, size_t more) {
    if (b->failed) return false;
    if (more < b->cap - b->n) return true; /* cap > n whenever cap > 0 */
    size_t need = b->n + more + 1;
    size_t new_cap = b->cap < 32 ? 64 : b->cap * 2;
    if (new_cap < need) new_cap = need;
    char *grown = need > more ? td__realloc(b->s, new_cap) : NULL;
    if (!grown) {
        b->failed = true;
        return false;
    }
    b->s = grown;
    b->cap = new_cap;
    return true;
}

/* `s` may not point into the buffer itself. */
void td__buf_addn(td_buf *b, const char *s, size_t n) {
    if (!reserve(b, n)) return;
    if (n) memcpy(b->s + b->n, s, n);
    b->n += n;
    b->s[b->n] = '\0';
}

void td__buf_add(td_buf *b, const char *s) { td__buf_addn(b, s, strlen(s)); }

void td__buf_printf(td_buf *b, const char *fmt, ...) {
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    if (n < 0) {
        b->failed = true;
    } else if (reserve(b, (size_t)n)) {
        vsnprintf(b->s + b->n, (size_t)n + 1, fmt, again);
        b->n += (size_t)n;
    }
    va_end(again);
    va_end(args);
}

const char *td__buf_str(const td_buf *b) { return b->s ? b->s : ""; }

void td__buf_free(td_buf *b) {
    td__free(b->s);
    *b = (td_buf){0};
}

size_t td__text_out(const char *s, size_t n, char *out, size_t cap) {
    if (!out || !cap) return n;
    size_t copied = n < cap ? n : cap - 1;
    if (copied) memcpy(out, s, copied);
    out[copied] = 0;
    return n;
}
