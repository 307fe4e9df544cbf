/* sym_div.c -- floor division, modulo, min and max of expressions. A rule
 * simplifies only where the result is right for every integer in range;
 * otherwise the operation stays an atom. Divisors are positive, as everywhere
 * in dims. */
#include "trace/sym.h"

#include <string.h>

int64_t td__sym_gcd(int64_t a, int64_t b) {
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a < 0 ? -a : a;
}

typedef int64_t rule_fn(td_symenv *e, td_symkind kind, int64_t a, int64_t b);

/* Calls a rule and releases the scratch memory it used. */
static int64_t in_scratch(td_symenv *e, td_symkind kind, int64_t a, int64_t b,
                          rule_fn *rule) {
    td_arena_mark mark = td__arena_mark(&e->scratch);
    int64_t       r = rule(e, kind, a, b);
    td__arena_reset(&e->scratch, mark);
    return r;
}

/* ---- known divisors ----------------------------------------------------- */

int64_t td__sym_multiple(td_symenv *e, int32_t atom) {
    int64_t m = 1;
    for (int i = 0; i < e->facts[TD_FACT_MULTIPLE].n; i++) {
        td_symfact f = e->facts[TD_FACT_MULTIPLE].v[i];
        if (f.d != td__sym_tag(atom) || td__dim_is_sym(f.m)) continue;
        int64_t next;
        if (!__builtin_mul_overflow(m / td__sym_gcd(m, f.m), f.m, &next) &&
            next < TD_DIM_HUGE)
            m = next;
    }
    return m;
}

/* A number known to divide the term: its coefficient times the divisors of its
 * atoms. */
static int64_t term_multiple(td_symenv *e, const td_symterm *t) {
    int64_t m = t->k < 0 ? -t->k : t->k, next;
    for (int i = 0; i < t->n; i++) {
        if (__builtin_mul_overflow(m, td__sym_multiple(e, t->atom[i]), &next)) break;
        m = next;
    }
    return m;
}

/* Is "m divides d" a fact, or does it follow from one? */
static bool is_fact(td_symenv *e, int64_t m, int64_t d) {
    for (int i = 0; i < e->facts[TD_FACT_MULTIPLE].n; i++) {
        td_symfact f = e->facts[TD_FACT_MULTIPLE].v[i];
        if (f.d != d) continue;
        if (f.m == m || (!td__dim_is_sym(f.m) && !td__dim_is_sym(m) && f.m % m == 0))
            return true;
    }
    return false;
}

bool td__sym_divides(td_symenv *e, int64_t m, int64_t d) {
    const td_symexpr *x = td__sym_at(e, d);
    if (!x) return !td__dim_is_sym(m) && m > 0 && d % m == 0;
    if (is_fact(e, m, d)) return true;
    if (td__dim_is_sym(m) || m <= 0) return false;
    if (x->kind != TD_SYM_SUM) return td__sym_multiple(e, td__sym_index(d)) % m == 0;
    bool all = x->a % m == 0;
    for (int i = 0; all && i < x->nr; i++) all = term_multiple(e, &x->term[i]) % m == 0;
    return all;
}

/* ---- division by a number ----------------------------------------------- */

/* a = m*q + r, where no coefficient of r is a multiple of m and its constant is
 * in [0, m). */
static bool split(td_symenv *e, const td_sympoly *a, int64_t m, td_sympoly *q,
                  td_sympoly *r) {
    size_t bytes = sizeof(td_symterm) * (size_t)(a->n + 1);
    *q = (td_sympoly){td__arena_alloc(&e->scratch, bytes), 0, td__dim_div(a->c, m)};
    *r = (td_sympoly){td__arena_alloc(&e->scratch, bytes), 0, td__dim_mod(a->c, m)};
    if (!q->t || !r->t) return td__sym_fail_memory(e), false;
    for (int i = 0; i < a->n; i++) {
        td_symterm t = a->t[i];
        bool       whole = t.k % m == 0;
        if (whole) t.k /= m;
        if (whole) q->t[q->n++] = t;
        else r->t[r->n++] = t;
    }
    return true;
}

/* Divides by the gcd g of the coefficients and the divisor: floor((g*x + c) /
 * (g*m)) = floor((x + floor(c/g)) / m). */
static void cancel(td_sympoly *r, int64_t *m) {
    int64_t g = *m;
    for (int i = 0; i < r->n; i++) g = td__sym_gcd(r->t[i].k, g);
    if (g <= 1) return;
    for (int i = 0; i < r->n; i++) r->t[i].k /= g;
    r->c = td__dim_div(r->c, g);
    *m /= g;
}

/* The atom a // m; (x // p) // m becomes x // (p*m). */
static int64_t make_quotient(td_symenv *e, int64_t a, int64_t m) {
    const td_symexpr *x = td__sym_at(e, a);
    int64_t           both;
    if (m == 1) return a;
    if (x && x->kind == TD_SYM_DIV && !td__dim_is_sym(x->b) &&
        !__builtin_mul_overflow(x->b, m, &both) && both < TD_DIM_HUGE)
        return td__sym_div(e, x->a, both);
    return td__sym_intern_atom(e, TD_SYM_DIV, a, m);
}

/* a // m for a number m: the multiples of m are taken out exactly, the rest vanishes if
 * its range is within [0, m), or stays as an atom. */
static int64_t div_number(td_symenv *e, td_symkind kind, int64_t a, int64_t m) {
    td_sympoly p, q, r;
    (void)kind;
    if (!td__sym_poly(e, a, &p) || !split(e, &p, m, &q, &r)) return TD_DIM_HUGE;
    td_symrange range = td__sym_poly_range(e, &r, 0);
    int64_t     whole = td__sym_intern_poly(e, &q);
    if (range.lo >= 0 && range.hi < m) return whole;
    cancel(&r, &m);
    int64_t rest = td__sym_intern_poly(e, &r);
    if (!td__sym_at(e, rest)) return td__sym_add(e, whole, td__dim_div(rest, m), 1);
    return td__sym_add(e, whole, make_quotient(e, rest, m), 1);
}

/* a % m for a number m: coefficients are reduced modulo m and terms known to be
 * multiples dropped. */
static int64_t mod_number(td_symenv *e, td_symkind kind, int64_t a, int64_t m) {
    td_sympoly p;
    int        n = 0;
    if (!td__sym_poly(e, a, &p)) return TD_DIM_HUGE;
    for (int i = 0; i < p.n; i++) {
        td_symterm t = p.t[i];
        if (term_multiple(e, &t) % m == 0) continue;
        t.k = td__dim_mod(t.k, m);
        p.t[n++] = t;
    }
    p.n = n;
    p.c = td__dim_mod(p.c, m);
    td_symrange range = td__sym_poly_range(e, &p, 0);
    int64_t     rest = td__sym_intern_poly(e, &p);
    if (range.lo >= 0 && range.hi < m) return rest;
    if (!td__sym_at(e, rest)) return td__dim_mod(rest, m);
    if (td__sym_divides(e, m, rest) || is_fact(e, m, a)) return 0;
    return td__sym_intern_atom(e, kind, rest, m);
}

/* ---- division by an expression ------------------------------------------ */

/* t / d, if d's atoms and coefficient divide t; false otherwise. */
static bool term_over(td_symenv *e, const td_symterm *t, const td_symterm *d,
                      td_symterm *q) {
    int32_t *atom = td__arena_alloc(&e->scratch, sizeof *atom * (size_t)(t->n + 1));
    int      n = 0, j = 0;
    if (!atom || t->k % d->k) return false;
    for (int i = 0; i < t->n; i++) {
        if (j < d->n && t->atom[i] == d->atom[j]) j++;
        else atom[n++] = t->atom[i];
    }
    *q = (td_symterm){t->k / d->k, n, atom};
    return j == d->n;
}

/* Polynomial long division by d's leading term: a = q*d + r. True if r is 0. */
static bool divide_out(td_symenv *e, const td_sympoly *a, const td_sympoly *d,
                       td_sympoly *q) {
    td_sympoly r = *a;
    *q = (td_sympoly){0};
    for (int round = 0; round < 64 && r.n > 0; round++) {
        td_symterm t;
        td_sympoly one = {.t = &t, .n = 1}, back;
        if (!term_over(e, &r.t[0], &d->t[0], &t)) return false;
        if (t.n == 0) one = (td_sympoly){.c = t.k};
        if (!td__sym_poly_mul(e, &one, d, &back) ||
            !td__sym_poly_add(e, &r, &back, -1, &r) ||
            !td__sym_poly_add(e, q, &one, 1, q))
            return false;
    }
    return r.n == 0 && r.c == 0;
}

/* divide_out that gives up without an error. */
static bool goes_into(td_symenv *e, const td_sympoly *a, const td_sympoly *d,
                      td_sympoly *q) {
    e->trying++;
    bool exact = divide_out(e, a, d, q);
    e->trying--;
    return exact;
}

/* Exact where b divides a as a polynomial, 0 where a is known to be smaller; otherwise
 * a new atom. */
static int64_t div_expr(td_symenv *e, td_symkind kind, int64_t a, int64_t b) {
    td_sympoly  p, d, q;
    td_symrange ra = td__sym_range(e, a), rb = td__sym_range(e, b);
    if (!td__sym_poly(e, a, &p) || !td__sym_poly(e, b, &d)) return TD_DIM_HUGE;
    if (goes_into(e, &p, &d, &q)) return td__sym_intern_poly(e, &q);
    if (ra.lo >= 0 && ra.hi < rb.lo) return 0;
    return td__sym_intern_atom(e, kind, a, b);
}

static int64_t mod_expr(td_symenv *e, td_symkind kind, int64_t a, int64_t b) {
    td_sympoly  p, d, q;
    td_symrange ra = td__sym_range(e, a), rb = td__sym_range(e, b);
    if (!td__sym_poly(e, a, &p) || !td__sym_poly(e, b, &d)) return TD_DIM_HUGE;
    if (goes_into(e, &p, &d, &q) || is_fact(e, b, a)) return 0;
    if (ra.lo >= 0 && ra.hi < rb.lo) return a;
    return td__sym_intern_atom(e, kind, a, b);
}

static bool good_divisor(td_symenv *e, int64_t b) {
    if (td__dim_is_sym(b) || b > 0) return true;
    return td__fail(e->cx, TD_E_TRACE,
                    "a symbolic size is divided by %lld; divisors must be positive",
                    (long long)b);
}

int64_t td__sym_div(td_symenv *e, int64_t a, int64_t b) {
    bool sa = td__dim_is_sym(a), sb = td__dim_is_sym(b);
    if (!good_divisor(e, b)) return TD_DIM_HUGE;
    if (b == 1) return a;
    if (!sa && !sb) return td__dim_div(a, b);
    return in_scratch(e, TD_SYM_DIV, a, b, sb ? div_expr : div_number);
}

int64_t td__sym_mod(td_symenv *e, int64_t a, int64_t b) {
    bool sa = td__dim_is_sym(a), sb = td__dim_is_sym(b);
    if (!good_divisor(e, b)) return TD_DIM_HUGE;
    if (b == 1 || a == b) return 0;
    if (!sa && !sb) return td__dim_mod(a, b);
    return in_scratch(e, TD_SYM_MOD, a, b, sb ? mod_expr : mod_number);
}

/* ---- min and max -------------------------------------------------------- */

/* Is x an operand of y, a min or max of the same kind? min(min(a,b), a) is
 * min(a,b). */
static bool has_operand(const td_symenv *e, td_symkind kind, int64_t y, int64_t x) {
    const td_symexpr *t = td__sym_at(e, y);
    return t && t->kind == kind && (t->a == x || t->b == x);
}

/* min or max: an operand where the order is proved, else an atom with its operands in a
 * fixed order, so that min(a,b) and min(b,a) are one expression. */
static int64_t extreme(td_symenv *e, td_symkind kind, int64_t a, int64_t b) {
    if (a == b) return a;
    bool min = kind == TD_SYM_MIN;
    int  ge = td__sym_prove(e, a, TD_DIM_IS_GE, b);
    if (ge == 1) return min ? b : a;
    if (ge == 0 || td__sym_prove(e, b, TD_DIM_IS_GE, a) == 1) return min ? a : b;
    if (has_operand(e, kind, a, b)) return a;
    if (has_operand(e, kind, b, a)) return b;
    if (!td__dim_is_sym(a) || (td__dim_is_sym(b) && a < b)) { /* numbers last */
        int64_t swap = a;
        a = b, b = swap;
    }
    return td__sym_intern_atom(e, kind, a, b);
}

int64_t td__sym_min(td_symenv *e, int64_t a, int64_t b) {
    return in_scratch(e, TD_SYM_MIN, a, b, extreme);
}

int64_t td__sym_max(td_symenv *e, int64_t a, int64_t b) {
    return in_scratch(e, TD_SYM_MAX, a, b, extreme);
}
