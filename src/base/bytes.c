/* bytes.c -- numbers and texts as bytes. A number is written seven bits at a time, the
 * lowest first; of signed ones the sign goes to the lowest bit. */
#include "base/bytes.h"

#include <limits.h>
#include <string.h>

void td__put_uint(td_buf *b, uint64_t u) {
    char bytes[10];
    int  n = 0;
    for (; u >= 128; u >>= 7) bytes[n++] = (char)(u | 128);
    bytes[n++] = (char)u;
    td__buf_addn(b, bytes, (size_t)n);
}

void td__put_int(td_buf *b, int64_t i) {
    td__put_uint(b, (uint64_t)i << 1 ^ (i < 0 ? UINT64_MAX : 0));
}

void td__put_f64(td_buf *b, double f) {
    char bytes[sizeof f];
    memcpy(bytes, &f, sizeof f);
    td__buf_addn(b, bytes, sizeof f);
}

void td__put_text(td_buf *b, const char *s) {
    size_t n = s ? strlen(s) : 0;
    td__put_uint(b, s ? n + 1 : 0);
    if (n) td__buf_addn(b, s, n);
}

/* ---- reading ------------------------------------------------------------ */

td_reader td__reader(const void *bytes, size_t n) {
    const unsigned char *p = bytes;
    return (td_reader){p, p + n, false};
}

/* Every later read fails, too: the reader is at its end. */
static uint64_t fail(td_reader *r) {
    r->bad = true;
    r->p = r->end;
    return 0;
}

uint64_t td__get_uint(td_reader *r) {
    uint64_t u = 0;
    for (int shift = 0; shift < 64 && r->p < r->end; shift += 7) {
        unsigned char c = *r->p++;
        u |= (uint64_t)(c & 127) << shift;
        if (c < 128) return u;
    }
    return fail(r);
}

int64_t td__get_int(td_reader *r) {
    uint64_t u = td__get_uint(r);
    return (int64_t)(u >> 1 ^ (u & 1 ? UINT64_MAX : 0));
}

double td__get_f64(td_reader *r) {
    double f = 0;
    if ((size_t)(r->end - r->p) < sizeof f) return fail(r), 0;
    memcpy(&f, r->p, sizeof f);
    r->p += sizeof f;
    return f;
}

int td__get_below(td_reader *r, int below) {
    uint64_t u = td__get_uint(r);
    return below > 0 && u < (uint64_t)below ? (int)u : (int)fail(r);
}

int td__get_within(td_reader *r, int least, int below) {
    int64_t i = td__get_int(r);
    return !r->bad && i >= least && i < below ? (int)i : (int)fail(r);
}

bool td__get_bool(td_reader *r) { return td__get_below(r, 2) == 1; }

int td__get_count(td_reader *r) {
    uint64_t n = td__get_uint(r);
    bool     fits = n <= (uint64_t)(r->end - r->p) && n < INT_MAX;
    return fits && !r->bad ? (int)n : (int)fail(r);
}

const char *td__get_text(td_reader *r, td_arena *a) {
    uint64_t n = td__get_uint(r);
    if (n == 0) return NULL;
    if (--n > (uint64_t)(r->end - r->p)) return fail(r), NULL;
    char *s = td__arena_alloc(a, (size_t)n + 1);
    if (!s) return fail(r), NULL;
    memcpy(s, r->p, (size_t)n);
    s[n] = 0;
    r->p += n;
    return s;
}

void *td__get_room(td_reader *r, td_arena *a, int n, size_t item) {
    void *p = r->bad ? NULL : td__arena_zalloc(a, item * ((size_t)n + 1));
    if (!p) fail(r);
    return p;
}
