/* guard.c -- guards as text for users: for each symbol where it is read from
 * and its range, then each comparison the trace depends on, with the op and
 * source line that made it. */
#include "trace/sym.h"

#include <string.h>

static const char *const signs[] = {" == ", " != ", " < ", " >= "};

/* ---- one guard ---------------------------------------------------------- */

/* Appends a line; takes over the text's memory, also on failure (false: no memory). */
static bool add_line(td_guard_lines *to, td_buf *text, const char *why, td_where here) {
    td_guard_line l = {.text = text->s, .why = why ? td__strdup(why) : NULL};
    bool          ok = !text->failed && text->s && (l.why || !why);
    l.here = here;
    if (ok && td__vec_push(to, l)) return true;
    td__buf_free(text);
    td__free(l.why);
    return false;
}

/* Appends a guard. `when`: mark run-time asserts, for lists that mix both. */
static bool add_guard(const td_symenv *e, const td_guard *g, bool when,
                      td_guard_lines *to) {
    td_buf      text = {0};
    const char *none = g->runtime ? "asserted" : "read";
    if (when && g->runtime) td__buf_add(&text, "at run time ");
    td__sym_print(e, g->a, &text);
    td__buf_add(&text, signs[g->rel]);
    td__sym_print(e, g->b, &text);
    return add_line(to, &text, g->op ? g->op : g->here.file ? none : NULL, g->here);
}

bool td__guard_line_add(const td_symenv *e, const td_guard *g, td_guard_lines *to) {
    return add_guard(e, g, false, to);
}

void td__guard_line_print(const td_guard_line *l, td_buf *out) {
    td__buf_add(out, l->text);
    if (!l->why) return;
    td__buf_printf(out, " (%s", l->why);
    if (l->here.file) td__buf_printf(out, " at %s:%d", l->here.file, l->here.line);
    td__buf_add(out, ")");
}

void td__guard_lines_print(const td_guard_lines *l, td_buf *out) {
    for (int i = 0; i < l->n; i++) {
        if (out->n) td__buf_add(out, ", ");
        td__guard_line_print(&l->v[i], out);
    }
}

void td__guard_lines_free(td_guard_lines *l) {
    for (int i = 0; i < l->n; i++) {
        td__free(l->v[i].text);
        td__free(l->v[i].why);
    }
    td__vec_free(l);
}

void td__guard_print(const td_symenv *e, const td_guard *g, td_buf *out) {
    td_guard_lines l = {0};
    if (td__guard_line_add(e, g, &l)) td__guard_line_print(&l.v[0], out);
    else out->failed = true;
    td__guard_lines_free(&l);
}

/* ---- guards about a symbol ---------------------------------------------- */

bool td__sym_uses(const td_symenv *e, int64_t dim, const td_symbol *s) {
    const td_symexpr *x = td__sym_at(e, dim);
    if (!x) return false;
    if (x->kind == TD_SYM_SYMBOL) return dim == s->tag;
    if (x->kind != TD_SYM_SUM)
        return td__sym_uses(e, x->a, s) || td__sym_uses(e, x->b, s);
    for (int i = 0; i < x->nr; i++)
        for (int k = 0; k < x->term[i].n; k++)
            if (td__sym_uses(e, td__sym_tag(x->term[i].atom[k]), s)) return true;
    return false;
}

const td_guard *td__guard_about(const td_symenv *e, const td_symbol *s) {
    const td_guard *first = NULL;
    for (int i = 0; i < e->guards.n; i++) {
        const td_guard *g = &e->guards.v[i];
        bool            one = g->a == s->tag && !td__dim_is_sym(g->b);
        if (g->runtime) continue;
        if (one && g->rel == TD_DIM_IS_EQ) return g;
        if (!first && (td__sym_uses(e, g->a, s) || td__sym_uses(e, g->b, s))) first = g;
    }
    return first;
}

/* ---- all guards of a trace ---------------------------------------------- */

/* "s0 == x.size(0), s0 >= 2", or for a bound one "x.size(1) == s0*2". */
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

bool td__guard_lines_of(const td_symenv *e, td_guard_lines *to) {
    for (int i = 0; i < e->symbols.n; i++) {
        td_buf text = {0};
        print_symbol(e, &e->symbols.v[i], &text);
        if (!add_line(to, &text, NULL, (td_where){0})) return false;
    }
    for (int i = 0; i < e->guards.n; i++)
        if (!add_guard(e, &e->guards.v[i], true, to)) return false;
    return true;
}

void td__guards_print(const td_symenv *e, td_buf *out) {
    td_guard_lines l = {0};
    if (td__guard_lines_of(e, &l)) td__guard_lines_print(&l, out);
    else out->failed = true;
    td__guard_lines_free(&l);
}

/* Gives lines without a source line that of an equal guard in `of`. */
static void place_lines(td_guard_lines *l, const td_guard_lines *of) {
    for (int i = 0; i < l->n; i++)
        for (int k = 0; l->v[i].why && !l->v[i].here.file && k < of->n; k++)
            if (of->v[k].why && !strcmp(of->v[k].text, l->v[i].text))
                l->v[i].here = of->v[k].here;
}

bool td__guards_place(td_guard_prog *p, const td_symenv *e) {
    td_guard_lines l = {0};
    bool           ok = td__guard_lines_of(e, &l);
    if (ok) place_lines(&p->all, &l);
    if (ok) place_lines(&p->checks, &l);
    td__guard_lines_free(&l);
    return ok;
}
