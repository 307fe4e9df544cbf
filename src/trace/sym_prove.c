/* sym_prove.c -- what a trace knows about sizes: proofs from ranges and facts,
 * answers from hints with a guard, and what each answer adds to the knowledge.
 *
 * All comparisons are reduced to the difference d = a - b: a == b to d == 0, a >= b to
 * d >= 0. */
#include "trace/sym.h"

#include <stdio.h>
#include <string.h>

/* ---- substitution of known values --------------------------------------- */

/* td__sym_now for a sum: rebuilt from its parts. */
static int64_t now_sum(td_symenv *e, td_symexpr x) {
    int64_t sum = x.a;
    for (int i = 0; i < x.nr; i++) {
        int64_t v = x.term[i].k;
        for (int k = 0; k < x.term[i].n; k++)
            v = td__sym_mul(e, v, td__sym_now(e, td__sym_tag(x.term[i].atom[k])));
        sum = td__sym_add(e, sum, v, 1);
    }
    return sum;
}

/* td__sym_now for a symbol, division, modulo, min or max. */
static int64_t now_atom(td_symenv *e, td_symexpr x, int64_t dim) {
    if (x.kind == TD_SYM_SYMBOL) {
        int64_t is = e->symbols.v[x.nr].is;
        return is == dim ? dim : td__sym_now(e, is);
    }
    int64_t a = td__sym_now(e, x.a), b = td__sym_now(e, x.b);
    switch ((td_symkind)x.kind) {
    case TD_SYM_DIV: return td__sym_div(e, a, b);
    case TD_SYM_MOD: return td__sym_mod(e, a, b);
    case TD_SYM_MIN: return td__sym_min(e, a, b);
    default: return td__sym_max(e, a, b);
    }
}

int64_t td__sym_now(td_symenv *e, int64_t dim) {
    const td_symexpr *x = td__sym_at(e, dim);
    if (!x) return dim;
    if (x->now_at == e->gen) return x->now;
    uint32_t at = e->gen;
    int64_t  now = x->kind == TD_SYM_SUM ? now_sum(e, *x) : now_atom(e, *x, dim);
    if (!td_ok(e->cx)) return dim;
    td_symexpr *to = &e->exprs.v[td__sym_index(dim)];
    to->now = now;
    to->now_at = at;
    return now;
}

/* ---- proofs ------------------------------------------------------------- */

enum { FACTS_TRIED = 48 }; /* most recent lower bounds that a proof considers */

/* Is d, or -d, in the list of facts "== 0" or "!= 0"? Resolving a fact may need a
 * proof; e->in_facts prevents that recursion. */
static bool in_facts(td_symenv *e, td_symfact_kind kind, int64_t d) {
    int64_t minus = td__sym_mul(e, d, -1);
    bool    found = false;
    if (e->in_facts) return false;
    e->in_facts = true;
    for (int i = 0; i < e->facts[kind].n && !found; i++) {
        int64_t f = td__sym_now(e, e->facts[kind].v[i].d);
        found = f == d || f == minus;
    }
    e->in_facts = false;
    return found;
}

/* The best known lower bound of d: from its range, and from facts f >= m as the
 * lower bound of d - f, plus m. */
static int64_t least(td_symenv *e, int64_t d) {
    int64_t low = td__sym_range(e, d).lo;
    int     n = e->facts[TD_FACT_LEAST].n;
    if (e->in_facts) return low;
    e->in_facts = true;
    for (int i = n > FACTS_TRIED ? n - FACTS_TRIED : 0; i < n; i++) {
        td_symfact  f = e->facts[TD_FACT_LEAST].v[i];
        td_symrange r = td__sym_range(e, td__sym_add(e, d, td__sym_now(e, f.d), -1));
        if (r.lo > -TD_DIM_HUGE && r.lo + f.m > low) low = r.lo + f.m;
    }
    e->in_facts = false;
    return low;
}

/* Divisibility: no integers make 2*s0 + 4*s1 equal to 3, because the gcd of the
 * coefficients does not divide the constant. */
static bool never_zero(td_symenv *e, int64_t d) {
    const td_symexpr *x = td__sym_at(e, d);
    int64_t           g = 0;
    if (!x || x->kind != TD_SYM_SUM || x->a == 0) return false;
    for (int i = 0; i < x->nr; i++) {
        int64_t k = x->term[i].k, next;
        for (int j = 0; j < x->term[i].n; j++)
            if (!__builtin_mul_overflow(k, td__sym_multiple(e, x->term[i].atom[j]),
                                        &next))
                k = next;
        g = td__sym_gcd(g, k);
    }
    return g > 1 && x->a % g != 0;
}

/* Is d == 0? 1 always, 0 never, -1 undecided. */
static int prove_zero(td_symenv *e, int64_t d) {
    if (!td__sym_at(e, d)) return d == 0;
    int64_t low = least(e, d), minus = least(e, td__sym_mul(e, d, -1));
    if (low > 0 || minus > 0) return 0;
    if (low == 0 && minus == 0) return 1; /* neither below nor above */
    if (never_zero(e, d) || in_facts(e, TD_FACT_NONZERO, d)) return 0;
    return in_facts(e, TD_FACT_ZERO, d) ? 1 : -1;
}

/* Is d >= 0? 1 always, 0 never, -1 undecided. */
static int prove_least(td_symenv *e, int64_t d) {
    if (!td__sym_at(e, d)) return d >= 0;
    if (least(e, d) >= 0 || in_facts(e, TD_FACT_ZERO, d)) return 1;
    int64_t up = least(e, td__sym_mul(e, d, -1));
    if (up > 0 || (up == 0 && in_facts(e, TD_FACT_NONZERO, d))) return 0;
    return -1;
}

int td__sym_prove(td_symenv *e, int64_t a, td_dim_rel rel, int64_t b) {
    e->trying++;
    int64_t d = td__sym_add(e, td__sym_now(e, a), td__sym_now(e, b), -1);
    int     r = -1;
    if (d != TD_DIM_HUGE && rel <= TD_DIM_IS_NE) r = prove_zero(e, d);
    else if (d != TD_DIM_HUGE) r = prove_least(e, d);
    e->trying--;
    if (r < 0) return r;
    return rel == TD_DIM_IS_NE || rel == TD_DIM_IS_LT ? !r : r;
}

/* ---- learning ----------------------------------------------------------- */

static bool add_fact(td_symenv *e, td_symfact_kind kind, int64_t d, int64_t m) {
    td_symfact f = {d, m};
    e->gen++;
    return td__vec_push(&e->facts[kind], f) || td__fail_memory(e->cx);
}

/* Does the atom occur anywhere in the expression? */
static bool contains(const td_symenv *e, int64_t dim, int32_t atom) {
    const td_symexpr *x = td__sym_at(e, dim);
    if (!x) return false;
    if (td__sym_index(dim) == atom) return true;
    for (int i = 0; x->kind == TD_SYM_SUM && i < x->nr; i++)
        for (int k = 0; k < x->term[i].n; k++)
            if (contains(e, td__sym_tag(x->term[i].atom[k]), atom)) return true;
    return x->kind > TD_SYM_SUM && (contains(e, x->a, atom) || contains(e, x->b, atom));
}

/* A symbol for which p == 0 can be solved: its coefficient *k is 1 or -1 and it
 * does not occur in *rest, the other terms. Unbacked symbols are preferred,
 * then the youngest. -1: none. */
static int32_t solvable(td_symenv *e, const td_sympoly *p, int64_t *k, int64_t *rest) {
    int32_t best = -1;
    for (int i = 0; i < p->n; i++) {
        if (p->t[i].n != 1 || p->t[i].k > 1 || p->t[i].k < -1) continue;
        int32_t           atom = p->t[i].atom[0];
        const td_symexpr *x = &e->exprs.v[atom];
        if (x->kind != TD_SYM_SYMBOL) continue;
        bool       worse = best >= 0 && e->exprs.v[best].unbacked && !x->unbacked;
        td_sympoly others, one = {.t = &p->t[i], .n = 1};
        if (worse || !td__sym_poly_add(e, p, &one, -1, &others)) continue;
        int64_t r = td__sym_intern_poly(e, &others);
        if (contains(e, r, atom)) continue;
        best = atom;
        *k = p->t[i].k;
        *rest = r;
    }
    return best;
}

static void narrow(td_symrange *r, td_symrange by) {
    if (by.lo > r->lo) r->lo = by.lo;
    if (by.hi < r->hi) r->hi = by.hi;
}

/* Substitutes the expression `is` for a symbol from now on; the symbol's range
 * becomes a range or facts about `is`. */
static bool substitute(td_symenv *e, int32_t atom, int64_t is) {
    td_symbol        *s = &e->symbols.v[e->exprs.v[atom].nr];
    td_symrange       r = s->range;
    const td_symexpr *x = td__sym_at(e, is);
    s->is = is;
    e->gen++;
    if (!x) return true;
    if (x->kind == TD_SYM_SYMBOL) return narrow(&e->symbols.v[x->nr].range, r), true;
    if (r.lo > -TD_DIM_HUGE && !add_fact(e, TD_FACT_LEAST, is, r.lo)) return false;
    return r.hi == TD_DIM_HUGE ||
           add_fact(e, TD_FACT_LEAST, td__sym_mul(e, is, -1), -r.hi);
}

/* Learns d == 0: a % b == 0 as a fact of divisibility, a solvable sum as the value of
 * a symbol, anything else as a fact. */
static bool learn_zero(td_symenv *e, int64_t d) {
    const td_symexpr *x = td__sym_at(e, d);
    td_sympoly        p;
    int64_t           k, rest;
    if (!x) return true;
    if (x->kind == TD_SYM_MOD) return add_fact(e, TD_FACT_MULTIPLE, x->a, x->b);
    if (!td__sym_poly(e, d, &p)) return false;
    int32_t atom = solvable(e, &p, &k, &rest);
    if (atom >= 0) return substitute(e, atom, td__sym_mul(e, rest, -k));
    return add_fact(e, TD_FACT_ZERO, d, 0);
}

/* Learns d >= m. If d is k*s + c with one symbol, its range narrows, rounded to
 * integers; otherwise it is a fact. */
static bool learn_least(td_symenv *e, int64_t d, int64_t m) {
    td_sympoly p;
    if (!td__sym_at(e, d)) return true;
    if (!td__sym_poly(e, d, &p)) return false;
    const td_symexpr *x = &e->exprs.v[p.t[0].atom[0]];
    if (p.n != 1 || p.t[0].n != 1 || x->kind != TD_SYM_SYMBOL)
        return add_fact(e, TD_FACT_LEAST, d, m);
    td_symrange *r = &e->symbols.v[x->nr].range;
    int64_t      k = p.t[0].k, v = m - p.c;
    td_symrange  by = {-TD_DIM_HUGE, TD_DIM_HUGE};
    if (k > 0) by.lo = -td__dim_div(-v, k);
    else by.hi = td__dim_div(-v, -k);
    narrow(r, by);
    e->gen++;
    if (r->lo == r->hi) e->symbols.v[x->nr].is = r->lo;
    return true;
}

/* Learns d != 0; at the end of d's range that is a tighter bound. */
static bool learn_nonzero(td_symenv *e, int64_t d) {
    td_symrange r = td__sym_range(e, d);
    if (!td__sym_at(e, d)) return true;
    if (r.lo == 0) return learn_least(e, d, 1);
    if (r.hi == 0) return learn_least(e, td__sym_mul(e, d, -1), 1);
    return add_fact(e, TD_FACT_NONZERO, d, 0);
}

bool td__sym_learn(td_symenv *e, int64_t a, td_dim_rel rel, int64_t b) {
    td_arena_mark mark = td__arena_mark(&e->scratch);
    int64_t       d = td__sym_add(e, td__sym_now(e, a), td__sym_now(e, b), -1);
    bool          ok = false;
    switch (rel) {
    case TD_DIM_IS_EQ: ok = learn_zero(e, d); break;
    case TD_DIM_IS_NE: ok = learn_nonzero(e, d); break;
    case TD_DIM_IS_GE: ok = learn_least(e, d, 0); break;
    case TD_DIM_IS_LT: ok = learn_least(e, td__sym_mul(e, d, -1), 1); break;
    case TD_DIM_RELS: break;
    }
    td__arena_reset(&e->scratch, mark);
    return ok && td_ok(e->cx);
}

bool td__sym_record(td_symenv *e, td_dim_rel rel, int64_t a, int64_t b, bool runtime) {
    td_guard g = {.rel = (uint8_t)rel, .runtime = runtime, .op = e->op};
    g.a = td__sym_now(e, a);
    g.b = td__sym_now(e, b);
    if (td_here.file && td_here.file != e->file) {
        e->file_copy = td__place_file(e->cx, td_here.file);
        e->file = e->file_copy ? td_here.file : NULL;
    }
    if (td_here.file) g.here = (td_where){e->file_copy, td_here.line};
    return td__vec_push(&e->guards, g) || td__fail_memory(e->cx);
}

/* ---- answers ------------------------------------------------------------ */

/* The answer for the sizes at trace time. */
static bool by_hints(const td_symenv *e, int64_t a, td_dim_rel rel, int64_t b) {
    return td__dim_rel_holds(rel, td__sym_hint(e, a), td__sym_hint(e, b));
}

static td_dim_rel opposite(td_dim_rel rel) {
    static const td_dim_rel other[] = {TD_DIM_IS_NE, TD_DIM_IS_EQ, TD_DIM_IS_GE,
                                       TD_DIM_IS_LT};
    return other[rel];
}

static bool unbacked(const td_symenv *e, int64_t dim) {
    const td_symexpr *x = td__sym_at(e, dim);
    return x && x->unbacked;
}

/* Range assumed for unbacked sizes where only the order of strides is at stake: large,
 * so that u - 2 counts as more than 1, which is right for all but the smallest u. */
static const td_symrange MANY = {(int64_t)1 << 20, TD_DIM_HUGE};

/* td__sym_prove with the ranges of unbacked sizes narrowed to `by` (or to their
 * maximum, where that is smaller). Ranges are restored. */
static int prove_within(td_symenv *e, int64_t a, td_dim_rel rel, int64_t b,
                        td_symrange by) {
    td_arena_mark mark = td__arena_mark(&e->scratch);
    size_t        bytes = sizeof(td_symrange) * (size_t)(e->symbols.n + 1);
    td_symrange  *old = td__arena_alloc(&e->scratch, bytes);
    if (!old) return td__sym_fail_memory(e), -1;
    for (int i = 0; i < e->symbols.n; i++) {
        td_symbol *s = &e->symbols.v[i];
        old[i] = s->range;
        if (s->letter != 'u' || !s->size) continue;
        narrow(&s->range, by);
        if (s->range.lo > s->range.hi) s->range = old[i];
        if (by.lo > old[i].hi && old[i].hi > 1) s->range.lo = old[i].hi;
    }
    e->gen++;
    int r = td__sym_prove(e, a, rel, b);
    for (int i = 0; i < e->symbols.n; i++) e->symbols.v[i].range = old[i];
    e->gen++;
    td__arena_reset(&e->scratch, mark);
    return r;
}

/* Asserts at run time that no unbacked size in a or b is 1. */
static bool assert_not_one(td_symenv *e, int64_t a, int64_t b) {
    for (int i = 0; i < e->symbols.n; i++) {
        td_symbol s = e->symbols.v[i];
        int32_t   atom = td__sym_index(s.tag);
        if (s.letter != 'u' || !s.size) continue;
        if (!contains(e, a, atom) && !contains(e, b, atom)) continue;
        if (!td__sym_assert(e, s.tag, TD_DIM_IS_NE, 1)) return false;
    }
    return true;
}

bool td__sym_fail_unbacked(td_symenv *e, int64_t a, td_dim_rel rel, int64_t b) {
    td_buf   text = {0};
    td_guard g = {.rel = (uint8_t)rel, .a = a, .b = b};
    td__guard_print(e, &g, &text);
    td__fail(
        e->cx, TD_E_TRACE,
        "%s: whether %s is data-dependent, known only when the program runs; state "
        "what holds with td_expect(tensor, dim, \">=\", number) before this op, or use "
        "a size that does not depend on data",
        e->op ? e->op : "a size", td__buf_str(&text));
    td__buf_free(&text);
    return false;
}

/* Is a >= 0 even if unbacked sizes are 0? */
static bool is_size(td_symenv *e, int64_t a) {
    return prove_within(e, a, TD_DIM_IS_LT, 0, (td_symrange){0, 0}) == 0;
}

/* Asserts a >= 0 and answers "a < 0" with false, so the rule continues as for a
 * size. The assert stays even if the op is removed as dead code. */
static bool assert_size(td_symenv *e, int64_t a) {
    return !td__sym_assert(e, a, TD_DIM_IS_GE, 0);
}

/* td__sym_holds for unbacked sizes. Shape rules assume a data-dependent size to
 * be neither 0 nor 1.
 *
 * Size 0 takes the general path too; where the answer would differ for 0 (an
 * order, or an equality), the general answer is asserted at run time. Size 1
 * would broadcast or be squeezed; where the answer differs for 1, the size is
 * asserted to be not 1.
 *
 * An equality that can be neither proved nor refuted is asserted: nearly all
 * rules that compare sizes fail when they differ. */
static bool holds_unbacked(td_symenv *e, int64_t a, td_dim_rel rel, int64_t b) {
    int general = prove_within(e, a, rel, b, (td_symrange){2, TD_DIM_HUGE});
    e->assumed = true;
    if (general < 0 && rel == TD_DIM_IS_EQ) return td__sym_assert(e, a, rel, b);
    if (general < 0 && rel == TD_DIM_IS_LT && b == 0) return assert_size(e, a);
    if (general < 0) return td__sym_fail_unbacked(e, a, rel, b);
    int one = prove_within(e, a, rel, b, (td_symrange){1, 1});
    if (one != general && !assert_not_one(e, a, b)) return false;
    if (rel == TD_DIM_IS_LT && b == 0 && !general && !is_size(e, a))
        return assert_size(e, a);
    int        none = prove_within(e, a, rel, b, (td_symrange){0, 0});
    td_dim_rel found = general ? rel : opposite(rel);
    bool       ordered = rel == TD_DIM_IS_LT || (rel == TD_DIM_IS_EQ && general);
    if (ordered && none != general && !td__sym_assert(e, a, found, b)) return false;
    return general;
}

bool td__sym_holds(td_symenv *e, int64_t a, td_dim_rel rel, int64_t b) {
    int r = td__sym_prove(e, a, rel, b);
    if (r >= 0) return r;
    a = td__sym_now(e, a), b = td__sym_now(e, b);
    if (unbacked(e, a) || unbacked(e, b)) return holds_unbacked(e, a, rel, b);
    bool       yes = by_hints(e, a, rel, b);
    td_dim_rel found = yes ? rel : opposite(rel);
    return td__sym_record(e, found, a, b, false) && td__sym_learn(e, a, found, b) &&
           yes;
}

bool td__sym_seems(td_symenv *e, int64_t a, td_dim_rel rel, int64_t b) {
    int r = td__sym_prove(e, a, rel, b);
    a = td__sym_now(e, a), b = td__sym_now(e, b);
    if (r >= 0) return r;
    if (!unbacked(e, a) && !unbacked(e, b)) return td__sym_holds(e, a, rel, b);
    e->assumed = true;
    r = prove_within(e, a, rel, b, (td_symrange){2, TD_DIM_HUGE});
    if (r < 0) r = prove_within(e, a, rel, b, MANY);
    return r == 1;
}

bool td__sym_assert(td_symenv *e, int64_t a, td_dim_rel rel, int64_t b) {
    int  r = td__sym_prove(e, a, rel, b);
    bool swap = (rel == TD_DIM_IS_EQ || rel == TD_DIM_IS_NE) && !td__sym_at(e, a);
    if (swap) { /* in messages: the expression first, then the number */
        int64_t of = b;
        b = a;
        a = of;
    }
    if (r == 1) return true;
    if (r == 0) {
        td_buf   text = {0};
        td_guard g = {.rel = (uint8_t)rel, .a = a, .b = b};
        td__guard_print(e, &g, &text);
        td__fail(e->cx, TD_E_TRACE,
                 "%s is required here, but the sizes of this trace rule it out",
                 td__buf_str(&text));
        td__buf_free(&text);
        return false;
    }
    e->assumed = true; /* later answers may follow from it */
    return td__sym_record(e, rel, a, b, true) && td__sym_learn(e, a, rel, b);
}
