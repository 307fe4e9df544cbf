/* guard.c -- guards for people: where each symbol comes from and what it may be, then
 * what the trace has decided on the way, with the op and place that asked. */
#include "trace/sym.h"

#include <string.h>

static const char *const signs[] = {" == ", " != ", " < ", " >= "};

void td__guard_print(const td_symenv *e, const td_guard *g, td_buf *out) {
    td__sym_print(e, g->a, out);
    td__buf_add(out, signs[g->rel]);
    td__sym_print(e, g->b, out);
    if (!g->op && !g->here.file) return;
    td__buf_printf(out, " (%s", g->op ? g->op : g->runtime ? "asserted" : "read");
    if (g->here.file) td__buf_printf(out, " at %s:%d", g->here.file, g->here.line);
    td__buf_add(out, ")");
}

static void print_symbol(const td_symenv *e, const td_symbol *s, td_buf *out) {
    const char *from = s->read == TD_SYM_INSIDE ? "comes from" : "==";
    if (s->given != s->tag) {
        td__buf_printf(out, "%s == ", s->source);
        td__sym_print(e, s->given, out);
        return;
    }
    td__buf_printf(out, "%c%d %s %s", s->letter, (int)s->nr, from, s->source);
    bool low = s->first.lo > -TD_DIM_HUGE, high = s->first.hi < TD_DIM_HUGE;
    if (low && high)
        td__buf_printf(out, ", %lld <= %c%d <= %lld", (long long)s->first.lo, s->letter,
                       (int)s->nr, (long long)s->first.hi);
    else if (low)
        td__buf_printf(out, ", %c%d >= %lld", s->letter, (int)s->nr,
                       (long long)s->first.lo);
    else if (high)
        td__buf_printf(out, ", %c%d <= %lld", s->letter, (int)s->nr,
                       (long long)s->first.hi);
}

void td__guards_print(const td_symenv *e, td_buf *out) {
    for (int i = 0; i < e->symbols.n; i++) {
        if (out->n) td__buf_add(out, ", ");
        print_symbol(e, &e->symbols.v[i], out);
    }
    for (int i = 0; i < e->guards.n; i++) {
        if (out->n) td__buf_add(out, ", ");
        if (e->guards.v[i].runtime) td__buf_add(out, "at run time ");
        td__guard_print(e, &e->guards.v[i], out);
    }
}

/* The length of " at FILE:LINE" at p, as td__guard_print ends a guard with it; 0: there
 * is none. */
static size_t place_at(const char *p) {
    if (strncmp(p, " at ", 4) != 0) return 0;
    for (const char *colon = strchr(p, ':'); colon; colon = strchr(colon + 1, ':')) {
        size_t digits = strspn(colon + 1, "0123456789");
        if (digits && colon[digits + 1] == ')' && strchr(",", colon[digits + 2]))
            return (size_t)(colon - p) + 1 + digits;
    }
    return 0;
}

void td__guard_text_unplaced(const char *text, td_buf *out) {
    bool word = false; /* in the word behind a bracket: "(read" */
    while (*text) {
        size_t skip = word ? place_at(text) : 0;
        word = *text == '(' || (word && *text != ' ');
        if (skip) text += skip;
        else td__buf_addn(out, text++, 1);
    }
}
