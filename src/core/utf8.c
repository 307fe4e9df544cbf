/* utf8.c -- checks UTF-8, and escapes other bytes. */
#include "core/utf8.h"

#include <string.h>

/* RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. */
int td__utf8_length(const uint8_t *p, const uint8_t *end) {
    static const uint8_t first[] = {0x80, 0xc2, 0xe0, 0xf0, 0xf5};
    static const uint8_t length[] = {1, 0, 2, 3, 4};
    int                  n = 0, k = 0;
    while (k < TD_COUNT(first) && *p >= first[k]) k++;
    if (k < TD_COUNT(first)) n = length[k];
    if (n == 0 || end - p < n) return 0;
    for (int i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f)) return 0;
    if ((p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f)) return 0;
    return n;
}

int td__utf8_step(const char *s) {
    const uint8_t *p = (const uint8_t *)s;
    return *s ? td__utf8_length(p, p + strnlen(s, 4)) : 0;
}

void td__utf8_add(td_buf *b, const char *s) {
    while (*s) {
        int n = td__utf8_step(s);
        if (n) td__buf_addn(b, s, (size_t)n);
        else td__buf_printf(b, "\\x%02x", (unsigned char)*s);
        s += n ? n : 1;
    }
}
