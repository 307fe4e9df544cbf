/* sym_range.c -- intervals that contain all values of an expression. Interval
 * arithmetic, sharpened in three sound ways: atoms are written as lower bound
 * plus rest, so that s0*s1 - s1 is seen to be positive; min and max are
 * replaced by either operand; a floor division is bounded by the fraction it
 * rounds. */
#include "trace/sym.h"

__extension__ typedef __int128 wide;

enum { DEEP = 3 }; /* nested replacements; each doubles the work */

static int64_t clamped(wide v) {
    if (v >= TD_DIM_HUGE) return TD_DIM_HUGE;
    return v <= -(wide)TD_DIM_HUGE ? -TD_DIM_HUGE : (int64_t)v;
}

/* Is this bound infinite, that is, unknown? */
static bool endless(int64_t v) { return v == TD_DIM_HUGE || v == -TD_DIM_HUGE; }

/* Sum of bounds; an infinite one absorbs what is added to it. */
static int64_t plus(int64_t a, int64_t b) {
    if (endless(a)) return a;
    return endless(b) ? b : clamped((wide)a + b);
}

static int64_t times(int64_t a, int64_t b) { return clamped((wide)a * b); }

static td_symrange range_add(td_symrange x, td_symrange y) {
    td_symrange r = {plus(x.lo, y.lo), plus(x.hi, y.hi)};
    return r;
}

/* The extremes of a product are at the corners. */
static td_symrange range_mul(td_symrange x, td_symrange y) {
    int64_t     v[4] = {times(x.lo, y.lo), times(x.lo, y.hi), times(x.hi, y.lo),
                        times(x.hi, y.hi)};
    td_symrange r = {v[0], v[0]};
    for (int i = 1; i < 4; i++) {
        if (v[i] < r.lo) r.lo = v[i];
        if (v[i] > r.hi) r.hi = v[i];
    }
    return r;
}

static void narrow(td_symrange *r, td_symrange by) {
    if (by.lo > r->lo) r->lo = by.lo;
    if (by.hi < r->hi) r->hi = by.hi;
}

/* ---- atoms -------------------------------------------------------------- */

/* A symbol's own range, and that of the expression it equals. */
static td_symrange symbol_range(td_symenv *e, int32_t nr) {
    td_symbol   s = e->symbols.v[nr];
    td_symrange r = s.range;
    if (s.is != s.tag) narrow(&r, td__sym_range(e, s.is));
    return r;
}

/* Range of a // b; divisors are positive. */
static td_symrange quotient_range(td_symrange a, td_symrange b) {
    td_symrange r = {a.lo, a.hi};
    if (b.lo < 1) b.lo = 1;
    if (b.hi < 1) b.hi = 1;
    if (!endless(a.lo)) r.lo = td__dim_div(a.lo, a.lo < 0 ? b.lo : b.hi);
    if (!endless(a.hi)) r.hi = td__dim_div(a.hi, a.hi < 0 ? b.hi : b.lo);
    return r;
}

static td_symrange atom_range(td_symenv *e, int32_t atom) {
    td_symexpr x = e->exprs.v[atom];
    if (x.kind == TD_SYM_SYMBOL) return symbol_range(e, x.nr);
    td_symrange a = td__sym_range(e, x.a), b = td__sym_range(e, x.b), r = {0, 0};
    switch ((td_symkind)x.kind) {
    case TD_SYM_DIV: return quotient_range(a, b);
    case TD_SYM_MOD:
        r.hi = endless(b.hi) ? b.hi : b.hi - 1;
        if (a.lo >= 0 && a.hi < r.hi) r.hi = a.hi;
        return r;
    case TD_SYM_MIN:
        r.lo = a.lo < b.lo ? a.lo : b.lo;
        r.hi = a.hi < b.hi ? a.hi : b.hi;
        return r;
    default:
        r.lo = a.lo > b.lo ? a.lo : b.lo;
        r.hi = a.hi > b.hi ? a.hi : b.hi;
        return r;
    }
}

/* ---- sums --------------------------------------------------------------- */

/* Range of a sum, term by term. from_low: atoms denote their excess over their
 * lower bound, as from_lows writes them. */
static td_symrange plain_range(td_symenv *e, const td_sympoly *p, bool from_low) {
    td_symrange sum = {p->c, p->c};
    for (int i = 0; i < p->n; i++) {
        td_symrange v = {p->t[i].k, p->t[i].k};
        for (int k = 0; k < p->t[i].n; k++) {
            td_symrange a = atom_range(e, p->t[i].atom[k]);
            if (from_low && !endless(a.lo)) {
                if (!endless(a.hi)) a.hi -= a.lo;
                a.lo = 0;
            }
            v = range_mul(v, a);
        }
        sum = range_add(sum, v);
    }
    return sum;
}

/* The sum with every atom a replaced by low(a) + a', where a' >= 0. */
static bool from_lows(td_symenv *e, const td_sympoly *p, td_sympoly *out) {
    *out = (td_sympoly){.c = p->c};
    for (int i = 0; i < p->n; i++) {
        td_sympoly v = {.c = p->t[i].k};
        for (int k = 0; k < p->t[i].n; k++) {
            td_symterm  t = {1, 1, &p->t[i].atom[k]};
            td_symrange a = atom_range(e, t.atom[0]);
            td_sympoly  f = {&t, 1, endless(a.lo) ? 0 : a.lo};
            if (!td__sym_poly_mul(e, &v, &f, &v)) return false;
        }
        if (!td__sym_poly_add(e, out, &v, 1, out)) return false;
    }
    return true;
}

/* Can from_lows improve the range? Only with products, and coefficients of both
 * signs. */
static bool has_products(const td_sympoly *p) {
    bool product = false, up = false, down = false;
    for (int i = 0; i < p->n; i++) {
        product |= p->t[i].n > 1;
        up |= p->t[i].k > 0;
        down |= p->t[i].k < 0;
    }
    return product && up && down;
}

/* ---- replacements ------------------------------------------------------- */

typedef struct shifted {
    int64_t dim, add; /* dim + add */
} shifted;

/* m * p with term i, coefficient k, replaced by k * (x.dim + x.add). */
static bool replaced(td_symenv *e, const td_sympoly *p, int64_t m, int i, shifted x,
                     td_sympoly *out) {
    td_sympoly by, none = {0}, one = {.t = &p->t[i], .n = 1};
    if (!td__sym_poly(e, x.dim, &by)) return false;
    by.c = plus(by.c, x.add);
    return !endless(by.c) && td__sym_poly_add(e, &none, p, m, out) &&
           td__sym_poly_add(e, out, &one, -m, out) &&
           td__sym_poly_add(e, out, &by, p->t[i].k, out);
}

/* Term i is k * min(a,b) or k * max(a,b): the sum equals one of two sums, with
 * a or with b, and is a bound of both on one side. */
static void by_choice(td_symenv *e, const td_sympoly *p, int i, td_symexpr x, int depth,
                      td_symrange *r) {
    td_sympoly pa, pb;
    if (!replaced(e, p, 1, i, (shifted){x.a, 0}, &pa) ||
        !replaced(e, p, 1, i, (shifted){x.b, 0}, &pb))
        return;
    td_symrange a = td__sym_poly_range(e, &pa, depth + 1);
    td_symrange b = td__sym_poly_range(e, &pb, depth + 1);
    td_symrange hull = {a.lo < b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi};
    bool        below = (x.kind == TD_SYM_MIN) == (p->t[i].k > 0);
    if (below) hull.hi = a.hi < b.hi ? a.hi : b.hi; /* at most either of them */
    else hull.lo = a.lo > b.lo ? a.lo : b.lo;
    narrow(r, hull);
}

/* Term i is k * (a // m). Since a - m < m * (a // m) <= a, m times the sum lies
 * between two sums without the division. */
static void by_fraction(td_symenv *e, const td_sympoly *p, int i, td_symexpr x,
                        int depth, td_symrange *r) {
    td_sympoly low, high;
    int64_t    m = x.b;
    if (!replaced(e, p, m, i, (shifted){x.a, 1 - m}, &low) ||
        !replaced(e, p, m, i, (shifted){x.a, 0}, &high))
        return;
    bool        up = p->t[i].k > 0;
    td_symrange a = td__sym_poly_range(e, up ? &low : &high, depth + 1);
    td_symrange b = td__sym_poly_range(e, up ? &high : &low, depth + 1), by = *r;
    if (!endless(a.lo)) by.lo = -td__dim_div(-a.lo, m); /* rounded up */
    if (!endless(b.hi)) by.hi = td__dim_div(b.hi, m);
    narrow(r, by);
}

td_symrange td__sym_poly_range(td_symenv *e, const td_sympoly *p, int depth) {
    td_symrange   r = plain_range(e, p, false);
    td_arena_mark mark = td__arena_mark(&e->scratch);
    td_sympoly    other;
    e->trying++;
    if (has_products(p) && from_lows(e, p, &other))
        narrow(&r, plain_range(e, &other, true));
    for (int i = 0; i < p->n && depth < DEEP && p->n > 1; i++) {
        if (p->t[i].n != 1) continue;
        td_symexpr x = e->exprs.v[p->t[i].atom[0]];
        if (x.kind == TD_SYM_MIN || x.kind == TD_SYM_MAX)
            by_choice(e, p, i, x, depth, &r);
        else if (x.kind == TD_SYM_DIV && !td__dim_is_sym(x.b))
            by_fraction(e, p, i, x, depth, &r);
    }
    e->trying--;
    td__arena_reset(&e->scratch, mark);
    return r;
}

td_symrange td__sym_range(td_symenv *e, int64_t dim) {
    const td_symexpr *x = td__sym_at(e, dim);
    td_symrange       r = {dim, dim};
    if (!x) return r;
    if (x->range_at == e->gen) return x->range;
    td_arena_mark mark = td__arena_mark(&e->scratch);
    td_sympoly    p;
    uint32_t      at = e->gen;
    if (x->kind != TD_SYM_SUM) r = atom_range(e, td__sym_index(dim));
    else if (td__sym_poly(e, dim, &p)) r = td__sym_poly_range(e, &p, 0);
    else r = (td_symrange){-TD_DIM_HUGE, TD_DIM_HUGE};
    td__arena_reset(&e->scratch, mark);
    td_symexpr *to = &e->exprs.v[td__sym_index(dim)];
    to->range = r;
    to->range_at = at;
    return r;
}
