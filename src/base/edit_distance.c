/* edit_distance.c -- the number of edits between two words, for "did you mean". */
#include "base/base.h"

#include <string.h>

/* The optimal string alignment distance: the edit distance with swaps of neighbours.
 * Three rows of its table suffice, for words of at most 39 letters. */
int td__edit_distance(const char *a, const char *b) {
    int row[3][40], n = (int)strlen(b);
    if (strlen(a) >= 40 || n >= 40) return 99;
    int *older = row[0], *last = row[1], *now = row[2];
    for (int k = 0; k <= n; k++) last[k] = k;
    for (int i = 1; a[i - 1]; i++) {
        now[0] = i;
        for (int k = 1; k <= n; k++) {
            int d = last[k - 1] + (a[i - 1] != b[k - 1]);
            if (last[k] + 1 < d) d = last[k] + 1;
            if (now[k - 1] + 1 < d) d = now[k - 1] + 1;
            bool swapped =
                i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1];
            if (swapped && older[k - 2] + 1 < d) d = older[k - 2] + 1;
            now[k] = d;
        }
        int *spare = older;
        older = last, last = now, now = spare;
    }
    return last[n];
}

/* At most one edit for every three letters typed. */
bool td__is_typo(const char *typed, const char *meant) {
    return 3 * td__edit_distance(typed, meant) <= (int)strlen(typed);
}
