/* extent.c -- sizes as a number times a product of symbols. Equal products get equal
 * numbers however they were written, and exact division removes factors. Sums and
 * quotients count as symbols. */
#include "backend/native.h"

#include <string.h>

static const td_extent bad = {0, TD_EXTENT_BAD};

/* The index of a product in the table, added if it is new; -1: the empty product. */
static int number_of(td_products *t, const td_product *p) {
    if (p->n == 0) return -1;
    for (int i = 0; i < t->v.n; i++)
        if (t->v.v[i].n == p->n &&
            !memcmp(t->v.v[i].term, p->term, sizeof *p->term * (size_t)p->n))
            return i;
    if (td__vec_push(&t->v, *p)) return t->v.n - 1;
    t->failed = true;
    return TD_EXTENT_BAD;
}

/* Inserts a factor in ascending order. False: more than TD_PRODUCT_TERMS factors. */
static bool add_term(td_product *p, int64_t term) {
    if (p->n == TD_PRODUCT_TERMS) return false;
    int at = p->n++;
    for (; at > 0 && p->term[at - 1] > term; at--) p->term[at] = p->term[at - 1];
    p->term[at] = term;
    return true;
}

static td_product product_of(const td_products *t, td_extent a) {
    return a.p >= 0 ? t->v.v[a.p] : (td_product){0};
}

/* c times p, canonical: 0 has no product. */
static td_extent extent_make(td_products *t, int64_t c, const td_product *p) {
    return c == 0 ? td__extent(0) : (td_extent){c, number_of(t, p)};
}

/* Products of symbols are interned, so that equal products have equal numbers.
 * Overflow, and too many factors, give a bad extent: the value is then not fused. */
td_extent td__extent_mul(td_products *t, td_extent a, td_extent b) {
    int64_t c;
    if (a.p == TD_EXTENT_BAD || b.p == TD_EXTENT_BAD) return bad;
    if (__builtin_mul_overflow(a.c, b.c, &c)) return bad;
    if (a.p < 0 || b.p < 0 || c == 0)
        return c == 0 ? td__extent(0) : (td_extent){c, a.p < 0 ? b.p : a.p};
    td_product p = product_of(t, a), q = product_of(t, b);
    for (int i = 0; i < q.n; i++)
        if (!add_term(&p, q.term[i])) return bad;
    return extent_make(t, c, &p);
}

/* Exact division; bad if b is not a factor of a. */
td_extent td__extent_div(td_products *t, td_extent a, td_extent b) {
    if (a.p == TD_EXTENT_BAD || b.p == TD_EXTENT_BAD || b.c == 0 || a.c % b.c)
        return bad;
    td_product p = product_of(t, a), q = product_of(t, b), rest = {0};
    int        j = 0;
    for (int i = 0; i < p.n; i++) {
        if (j < q.n && p.term[i] == q.term[j]) j++;
        else add_term(&rest, p.term[i]);
    }
    return j == q.n ? extent_make(t, a.c / b.c, &rest) : bad;
}

/* A size as a number times a product of symbols. An expression that is no product
 * counts as one symbol. */
td_extent td__extent_of(td_products *t, const td_graph *g, int64_t dim) {
    const td_gdim *d = td__gdim_at(g, dim);
    td_product     one = {.n = 1, .term = {dim}};
    if (!d) return td__dim_is_sym(dim) ? bad : td__extent(dim);
    if (d->op != TD_DIM_MUL) return extent_make(t, 1, &one);
    return td__extent_mul(t, td__extent_of(t, g, d->a), td__extent_of(t, g, d->b));
}

/* INT64_MIN: a symbol is not bound, or the product overflows. */
int64_t td__product_value(const td_product *p, const td_graph *g,
                          const int64_t *bound) {
    int64_t v = 1;
    for (int i = 0; i < p->n; i++) {
        int64_t x = td__gdim_value(g, p->term[i], bound);
        if (x == INT64_MIN || __builtin_mul_overflow(v, x, &v)) return INT64_MIN;
    }
    return v;
}
