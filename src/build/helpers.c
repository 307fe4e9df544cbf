/* helpers.c -- the functions of the math headers that generated code calls, as text.
 * A unit starts with the ones it needs instead of including headers: parsing those
 * takes longer than compiling a small unit. */
#include "build/helpers.h"

#include "base/words.h"
#include "build/kernel.h"

#include <stdlib.h>
#include <string.h>

/* The item that defines the name; -1: none. */
static int find(const char *name, size_t n) {
    for (int i = 0; i < td__n_helpers; i++)
        if (td__word_index(td__helpers[i].names, name, n) >= 0) return i;
    return -1;
}

/* Items use only earlier ones, so one walk from the last to the first marks all. */
static void mark_uses(bool *need) {
    for (int i = td__n_helpers - 1; i >= 0; i--) {
        char *end;
        for (const char *p = td__helpers[i].uses; need[i] && *p; p = end) {
            need[strtol(p, &end, 10)] = true;
            if (end == p) break;
        }
    }
}

bool td__helpers_text(td_buf *b, const char *names) {
    bool *need = td__zalloc((size_t)td__n_helpers * sizeof *need);
    bool  ok = need != NULL;
    if (!need) b->failed = true;
    for (const char *p = names + strspn(names, "\n"); ok && *p; p += strspn(p, "\n")) {
        size_t n = strcspn(p, "\n");
        int    i = find(p, n);
        ok = i >= 0;
        if (ok) need[i] = true;
        p += n;
    }
    if (ok) {
        mark_uses(need);
        for (int i = 0; i < td__n_helpers; i++)
            if (need[i]) td__buf_add(b, td__helpers[i].text);
    }
    td__free(need);
    return ok && !b->failed;
}
