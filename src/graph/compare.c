/* compare.c -- equality and hash of graphs. Both use the text with values
 * numbered in order, so they agree with it by construction. */
#include "graph/graph_int.h"

#include <stdio.h>

static bool bare_text(td_buf *b, const td_graph *g) {
    return td__graph_print(b, g, TD_PRINT_TYPES | TD_PRINT_BARE);
}

/* Describes the first line that differs. */
static void explain(const char *a, const char *b, char *why, size_t cap) {
    int line = 1;
    while (*a && *b) {
        size_t na = strcspn(a, "\n"), nb = strcspn(b, "\n");
        if (na != nb || memcmp(a, b, na)) break;
        a += na + (a[na] == '\n'), b += nb + (b[nb] == '\n');
        line++;
    }
    snprintf(why, cap, "line %d: \"%.*s\" is not \"%.*s\"", line, (int)strcspn(a, "\n"),
             a, (int)strcspn(b, "\n"), b);
}

/* Two graphs are equal if their texts without names and source lines are. `why` gets
 * the first line that differs. */
bool td__graph_equal(const td_graph *a, const td_graph *b, char *why, size_t cap) {
    td_buf ta = {0}, tb = {0};
    bool   ok = bare_text(&ta, a) && bare_text(&tb, b);
    bool   same = ok && ta.n == tb.n && !memcmp(ta.s, tb.s, ta.n);
    if (cap && why) {
        if (same) why[0] = 0;
        else if (!ok) snprintf(why, cap, "out of memory");
        else explain(ta.s, tb.s, why, cap);
    }
    td__buf_free(&ta);
    td__buf_free(&tb);
    return same;
}

uint64_t td__graph_hash(const td_graph *g) {
    td_buf   t = {0};
    uint64_t h = bare_text(&t, g) ? td__hash(t.s, t.n, 0) : 0;
    td__buf_free(&t);
    return h;
}
