/* sym_text.c -- symbolic expressions as text and back ("s0*4 + 1", "(s0 //
 * 2)*s1", "min(s0, 8)"), and from the trace's table into a graph's. */
#include "trace/sym.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- printing ----------------------------------------------------------- */

static void print_atom(const td_symenv *e, int64_t dim, bool inside, td_buf *out);

/* An operand of // or %: sums in parentheses. */
static void print_factor(const td_symenv *e, int64_t dim, td_buf *out) {
    const td_symexpr *x = td__sym_at(e, dim);
    bool              sum = x && x->kind == TD_SYM_SUM;
    if (sum) td__buf_add(out, "(");
    if (sum) td__sym_print(e, dim, out);
    else print_atom(e, dim, true, out);
    if (sum) td__buf_add(out, ")");
}

/* Anything but a sum. `inside` a larger expression, // and % need parentheses. */
static void print_atom(const td_symenv *e, int64_t dim, bool inside, td_buf *out) {
    const td_symexpr *x = td__sym_at(e, dim);
    if (!x) {
        td__buf_printf(out, "%lld", (long long)dim);
        return;
    }
    if (x->kind == TD_SYM_SYMBOL) {
        const td_symbol *s = &e->symbols.v[x->nr];
        if (s->nr < 0) td__buf_add(out, s->source); /* bound by a guard: no name */
        else td__buf_printf(out, "%c%d", s->letter, (int)s->nr);
    } else if (x->kind == TD_SYM_MIN || x->kind == TD_SYM_MAX) {
        td__buf_add(out, x->kind == TD_SYM_MIN ? "min(" : "max(");
        td__sym_print(e, x->a, out);
        td__buf_add(out, ", ");
        td__sym_print(e, x->b, out);
        td__buf_add(out, ")");
    } else {
        if (inside) td__buf_add(out, "(");
        print_factor(e, x->a, out);
        td__buf_add(out, x->kind == TD_SYM_DIV ? " // " : " % ");
        print_factor(e, x->b, out);
        if (inside) td__buf_add(out, ")");
    }
}

/* atom*atom*k, with k given apart from the term for its sign. */
static void print_term(const td_symenv *e, const td_symterm *t, int64_t k,
                       td_buf *out) {
    for (int i = 0; i < t->n; i++) {
        if (i) td__buf_add(out, "*");
        print_atom(e, td__sym_tag(t->atom[i]), true, out);
    }
    if (k != 1) td__buf_printf(out, "*%lld", (long long)k);
}

void td__sym_print(const td_symenv *e, int64_t dim, td_buf *out) {
    const td_symexpr *x = td__sym_at(e, dim);
    if (!x || x->kind != TD_SYM_SUM) {
        print_atom(e, dim, false, out);
        return;
    }
    int first = 0; /* start with a positive term if there is one: s1 - s0 */
    while (first < x->nr && x->term[first].k < 0) first++;
    if (first == x->nr && x->a > 0) td__buf_printf(out, "%lld", (long long)x->a);
    else if (first == x->nr) first = 0, print_term(e, x->term, x->term->k, out);
    else print_term(e, &x->term[first], x->term[first].k, out);
    for (int i = 0; i < x->nr; i++) {
        int64_t k = x->term[i].k;
        if (i == first) continue;
        td__buf_add(out, k < 0 ? " - " : " + ");
        print_term(e, &x->term[i], k < 0 ? -k : k, out);
    }
    if (x->a == 0 || (first == x->nr && x->a > 0)) return;
    td__buf_printf(out, x->a < 0 ? " - %lld" : " + %lld",
                   (long long)(x->a < 0 ? -x->a : x->a));
}

/* ---- parsing ------------------------------------------------------------ */

enum { DEEPEST = 64 };

/* A recursive-descent parser; DEEPEST bounds its recursion on hostile text. */
typedef struct reader {
    td_symenv  *e;
    const char *at;    /* the next character */
    const char *wrong; /* the first error; NULL: none */
    int         depth; /* nesting */
} reader;

/* Skips blanks and, if it is next, the word. */
static bool take(reader *r, const char *word) {
    while (*r->at == ' ') r->at++;
    size_t n = strlen(word);
    if (strncmp(r->at, word, n) != 0) return false;
    r->at += n;
    return true;
}

static int64_t read_sum(reader *r);

static int64_t stop(reader *r, const char *why) {
    if (!r->wrong) r->wrong = why;
    return 0;
}

static int64_t read_symbol(reader *r) {
    char  letter = *r->at;
    char *end;
    long  nr = strtol(r->at + 1, &end, 10);
    for (int i = 0; i < r->e->symbols.n; i++) {
        const td_symbol *s = &r->e->symbols.v[i];
        if (s->letter != letter || s->nr != nr) continue;
        r->at = end;
        return s->tag;
    }
    return stop(r, "no such symbol");
}

/* The operands of min( or max(. */
static int64_t read_pair(reader *r, bool min) {
    int64_t a = read_sum(r);
    if (!take(r, ",")) return stop(r, "a comma expected");
    int64_t b = read_sum(r);
    if (!take(r, ")")) return stop(r, "a closing parenthesis expected");
    if (r->wrong) return 0;
    return min ? td__sym_min(r->e, a, b) : td__sym_max(r->e, a, b);
}

static int64_t read_number(reader *r) {
    int64_t v = 0;
    for (; isdigit((unsigned char)*r->at); r->at++) {
        v = v * 10 + (*r->at - '0');
        if (v >= TD_DIM_HUGE / 16) return stop(r, "a number is too large");
    }
    return v;
}

static int64_t read_factor(reader *r) {
    int64_t v;
    if (++r->depth > DEEPEST) return stop(r, "nested too deeply");
    if (take(r, "-")) v = td__sym_mul(r->e, read_factor(r), -1);
    else if (take(r, "min(")) v = read_pair(r, true);
    else if (take(r, "max(")) v = read_pair(r, false);
    else if (take(r, "(")) {
        v = read_sum(r);
        if (!take(r, ")")) stop(r, "a closing parenthesis expected");
    } else if (isdigit((unsigned char)*r->at)) v = read_number(r);
    else if ((*r->at == 's' || *r->at == 'u') && isdigit((unsigned char)r->at[1]))
        v = read_symbol(r);
    else v = stop(r, "a number, a symbol or a parenthesis expected");
    r->depth--;
    return r->wrong ? 0 : v;
}

static int64_t read_product(reader *r) {
    int64_t v = read_factor(r);
    while (!r->wrong) {
        bool div = take(r, "//"), mod = !div && take(r, "%");
        if (!div && !mod && !take(r, "*")) break;
        int64_t b = read_factor(r);
        if (r->wrong) break;
        if ((div || mod) && !td__dim_is_sym(b) && b <= 0)
            return stop(r, "a divisor must be positive");
        v = div   ? td__sym_div(r->e, v, b)
            : mod ? td__sym_mod(r->e, v, b)
                  : td__sym_mul(r->e, v, b);
    }
    return v;
}

static int64_t read_sum(reader *r) {
    int64_t v = read_product(r);
    while (!r->wrong) {
        int64_t sign = take(r, "+") ? 1 : take(r, "-") ? -1 : 0;
        if (!sign) break;
        int64_t b = read_product(r);
        if (!r->wrong) v = td__sym_add(r->e, v, b, sign);
    }
    return v;
}

bool td__sym_parse(td_symenv *e, const char *text, int64_t *dim, char *why,
                   size_t cap) {
    reader r = {.e = e, .at = text};
    *dim = read_sum(&r);
    while (*r.at == ' ') r.at++;
    if (!r.wrong && *r.at) r.wrong = "the end expected";
    if (!r.wrong && !td_ok(e->cx)) r.wrong = td__message(e->cx);
    if (!r.wrong) return true;
    snprintf(why, cap, "%s at column %d of \"%.64s\"", r.wrong, (int)(r.at - text) + 1,
             text);
    return false;
}

/* ---- into a graph's table ----------------------------------------------- */

/* A term with coefficient k as a product in the graph. */
static int64_t term_in(td_symenv *e, td_graph *g, const td_symterm *t, int64_t k) {
    int64_t v = td__sym_to_graph(e, g, td__sym_tag(t->atom[0]));
    for (int i = 1; i < t->n; i++)
        v = td__gdim_make(g, TD_DIM_MUL, v,
                          td__sym_to_graph(e, g, td__sym_tag(t->atom[i])));
    return td__gdim_make(g, TD_DIM_MUL, v, k);
}

int64_t td__sym_to_graph(void *env, td_graph *g, int64_t dim) {
    static const td_dim_op ops[] = {TD_DIM_EQ,  TD_DIM_ADD, TD_DIM_DIV,
                                    TD_DIM_MOD, TD_DIM_MIN, TD_DIM_MAX};
    td_symenv             *e = env;
    const td_symexpr      *x = td__sym_at(e, dim);
    if (!x) return dim;
    if (x->kind == TD_SYM_SYMBOL)
        return td__gdim_symbol(g, e->symbols.v[x->nr].letter, e->symbols.v[x->nr].nr);
    if (x->kind != TD_SYM_SUM)
        return td__gdim_make(g, ops[x->kind], td__sym_to_graph(e, g, x->a),
                             td__sym_to_graph(e, g, x->b));
    int64_t v = term_in(e, g, &x->term[0], x->term[0].k);
    for (int i = 1; i < x->nr; i++) {
        int64_t k = x->term[i].k;
        v = td__gdim_make(g, k < 0 ? TD_DIM_SUB : TD_DIM_ADD, v,
                          term_in(e, g, &x->term[i], k < 0 ? -k : k));
    }
    if (x->a < 0) return td__gdim_make(g, TD_DIM_SUB, v, -x->a);
    return td__gdim_make(g, TD_DIM_ADD, v, x->a);
}
