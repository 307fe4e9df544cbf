/* words.c -- lists of words in one string. */
#include "base/words.h"

#include <string.h>

int td__word_index(const char *words, const char *word, size_t n) {
    int at = 0;
    for (const char *p = words; n && *p; at++) {
        size_t m = strcspn(p, " ");
        if (m == n && !strncmp(p, word, n)) return at;
        p += m;
        p += strspn(p, " ");
    }
    return -1;
}
