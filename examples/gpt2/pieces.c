/* pieces.c -- the pieces of a text: a contraction's end, or a run of letters, of
 * numbers or of the rest, with a space before it, or white space. */
#include "pieces.h"

#include <stdbool.h>
#include <string.h>

enum { REST, LETTER, NUMBER, SPACE };
static const uint32_t NO_CODE = 0x110000;

/* ---- characters ---------------------------------------------------------- */

static bool goes_on(char c) { return ((unsigned char)c & 0xC0) == 0x80; }

/* How many bytes the first one announces, and the bits it gives. */
static size_t announced(unsigned char c, uint32_t *bits) {
    if (c < 0x80) return *bits = c, 1;
    if (c >= 0xC2 && c < 0xE0) return *bits = c & 0x1Fu, 2;
    if (c >= 0xE0 && c < 0xF0) return *bits = c & 0x0Fu, 3;
    if (c >= 0xF0 && c < 0xF5) return *bits = c & 0x07u, 4;
    return 0;
}

size_t gpt2_char(const char *p, size_t n, uint32_t *code) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t              c = 0;
    size_t                k = announced((unsigned char)p[0], &c), i = 1;
    *code = NO_CODE;
    if (k == 0 || k > n) return 1;
    for (; i < k && goes_on(p[i]); i++) c = c << 6 | ((unsigned char)p[i] & 0x3Fu);
    if (i < k || c < least[k] || c >= NO_CODE || (c >= 0xD800 && c < 0xE000)) return 1;
    *code = c;
    return k;
}

static int class_of(uint32_t code) {
    static const uint32_t runs[] = {
#include "chars.def"
    };
    size_t low = 0, high = sizeof runs / sizeof *runs;
    if (code >= NO_CODE) return REST;
    if ((code | 32) - 'a' < 26) return LETTER; /* most of most texts */
    while (high - low > 1) { /* runs[low] begins at or before the code */
        size_t mid = low + (high - low) / 2;
        if (runs[mid] >> 2 <= code) low = mid;
        else high = mid;
    }
    return (int)(runs[low] & 3);
}

static size_t next(const char *p, size_t n, int *class) {
    uint32_t code;
    size_t   k = gpt2_char(p, n, &code);
    *class = class_of(code);
    return k;
}

/* ---- pieces -------------------------------------------------------------- */

static size_t contraction(const char *p, size_t n) {
    static const char *const ends[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t k = strlen(ends[i]);
        if (k <= n && !memcmp(p, ends[i], k)) return k;
    }
    return 0;
}

/* The end of a run of one class; *last is where its last character begins. */
static size_t run(const char *p, size_t n, int class, size_t *last) {
    size_t at = 0;
    for (int c; at < n;) {
        size_t k = next(p + at, n - at, &c);
        if (c != class) break;
        *last = at;
        at += k;
    }
    return at;
}

size_t gpt2_piece(const char *p, size_t n) {
    int class;
    size_t last = 0, k = p[0] == '\'' ? contraction(p, n) : 0;
    if (k) return k;
    if (p[0] == ' ' && n > 1 && (next(p + 1, n - 1, &class), class != SPACE))
        return 1 + run(p + 1, n - 1, class, &last);
    next(p, n, &class);
    size_t end = run(p, n, class, &last);
    /* White space leaves its last character to what follows. */
    return class == SPACE && end < n && last > 0 ? last : end;
}
