/* sym.c -- symbolic expressions in normal form, hash-consed. Sums and products
 * are computed here; division, modulo, min and max in sym_div.c.
 *
 * Coefficients and constants stay within +-TD_DIM_HUGE; intermediate results
 * use 128 bits. A result that leaves the range or has too many terms is an
 * error, or makes a proof fail (td_symenv.trying). */
#include "trace/sym.h"

#include <string.h>

enum { LONGEST = 256, DEEPEST = 64 }; /* most terms of a sum; nesting of atoms */

__extension__ typedef __int128 wide;

int64_t td__sym_fail_memory(td_symenv *e) {
    td__fail_memory(e->cx);
    return TD_DIM_HUGE;
}

const td_symexpr *td__sym_at(const td_symenv *e, int64_t dim) {
    int i = td__dim_entry(dim, e->exprs.n);
    return i < 0 ? NULL : &e->exprs.v[i];
}

/* ---- terms -------------------------------------------------------------- */

/* The order of terms in a sum: longer products first, then older atoms first.
 * 0: the same product, whatever the coefficients. */
static int compare_terms(const td_symterm *x, const td_symterm *y) {
    if (x->n != y->n) return x->n > y->n ? -1 : 1;
    for (int i = 0; i < x->n; i++)
        if (x->atom[i] != y->atom[i]) return x->atom[i] < y->atom[i] ? -1 : 1;
    return 0;
}

/* A limit was reached: an error, or inside a proof just false. */
static bool too_much(td_symenv *e, const char *what) {
    return !e->trying && td__fail(e->cx, TD_E_TRACE, "a symbolic size %s", what);
}

/* The expression as a polynomial: constant plus terms. An atom (a symbol, division,
 * minimum...) is a polynomial of one term. Memory is scratch. */
bool td__sym_poly(td_symenv *e, int64_t dim, td_sympoly *p) {
    const td_symexpr *x = td__sym_at(e, dim);
    *p = (td_sympoly){.c = x ? 0 : dim};
    if (!x) return true;
    int n = x->kind == TD_SYM_SUM ? x->nr : 1;
    p->t = td__arena_alloc(&e->scratch, sizeof *p->t * (size_t)n);
    if (!p->t) return td__sym_fail_memory(e), false;
    p->n = n;
    if (x->kind == TD_SYM_SUM) {
        memcpy(p->t, x->term, sizeof *p->t * (size_t)n);
        p->c = x->a;
        return true;
    }
    int32_t *atom = td__arena_alloc(&e->scratch, sizeof *atom);
    if (!atom) return td__sym_fail_memory(e), false;
    *atom = td__sym_index(dim);
    p->t[0] = (td_symterm){1, 1, atom};
    return true;
}

static bool fits(wide v) { return v > -(wide)TD_DIM_HUGE && v < (wide)TD_DIM_HUGE; }

/* Merges two ordered lists of terms; terms that cancel are dropped. */
bool td__sym_poly_add(td_symenv *e, const td_sympoly *p, const td_sympoly *q, int64_t k,
                      td_sympoly *out) {
    td_symterm *t = td__arena_alloc(&e->scratch, sizeof *t * (size_t)(p->n + q->n + 1));
    if (!t) return td__sym_fail_memory(e), false;
    int  n = 0, i = 0, j = 0;
    wide c = (wide)p->c + (wide)k * q->c;
    bool ok = fits(c);
    while (i < p->n || j < q->n) {
        int  order = i == p->n ? 1 : j == q->n ? -1 : compare_terms(&p->t[i], &q->t[j]);
        wide v = (order <= 0 ? p->t[i].k : 0) + (order >= 0 ? (wide)k * q->t[j].k : 0);
        t[n] = order <= 0 ? p->t[i] : q->t[j];
        t[n].k = (int64_t)v;
        ok = ok && fits(v);
        n += v != 0;
        i += order <= 0;
        j += order >= 0;
    }
    *out = (td_sympoly){t, n, (int64_t)c};
    if (!ok) return too_much(e, "overflows");
    return n <= LONGEST || too_much(e, "has too many terms");
}

/* The product of two terms: coefficients multiplied, ordered lists of atoms
 * merged. */
static bool mul_terms(td_symenv *e, const td_symterm *x, const td_symterm *y,
                      td_symterm *out) {
    int32_t *atom = td__arena_alloc(&e->scratch, sizeof *atom * (size_t)(x->n + y->n));
    wide     k = (wide)x->k * y->k;
    if (!atom) return td__sym_fail_memory(e), false;
    if (!fits(k)) return too_much(e, "overflows");
    for (int n = 0, i = 0, j = 0; n < x->n + y->n; n++) {
        bool left = j == y->n || (i < x->n && x->atom[i] <= y->atom[j]);
        atom[n] = left ? x->atom[i++] : y->atom[j++];
    }
    *out = (td_symterm){(int64_t)k, x->n + y->n, atom};
    return true;
}

/* Term by term: (sum p + c)(sum q + d), one row per term of p. */
bool td__sym_poly_mul(td_symenv *e, const td_sympoly *p, const td_sympoly *q,
                      td_sympoly *out) {
    wide       c = (wide)p->c * q->c;
    td_sympoly sum = {.c = (int64_t)c}, rest = *q;
    if (!fits(c)) return too_much(e, "overflows");
    if ((int64_t)(p->n + 1) * (q->n + 1) > LONGEST * 8)
        return too_much(e, "has too many terms");
    rest.c = 0;
    if (!td__sym_poly_add(e, &sum, &rest, p->c, &sum)) return false;
    for (int i = 0; i < p->n; i++) {
        td_sympoly row = {0}, one = {.t = &p->t[i], .n = 1};
        for (int j = 0; j < q->n; j++) {
            td_symterm t;
            td_sympoly add = {.t = &t, .n = 1};
            if (!mul_terms(e, &p->t[i], &q->t[j], &t) ||
                !td__sym_poly_add(e, &row, &add, 1, &row))
                return false;
        }
        if (!td__sym_poly_add(e, &row, &one, q->c, &row) ||
            !td__sym_poly_add(e, &sum, &row, 1, &sum))
            return false;
    }
    *out = sum;
    return true;
}

/* ---- hash-consing ------------------------------------------------------- */

/* Hash of what identifies an expression, not of its caches. */
static uint64_t hash_expr(const td_symexpr *x) {
    int64_t  key[4] = {x->kind, x->nr, x->a, x->b};
    uint64_t h = td__hash(key, sizeof key, 0);
    for (int i = 0; x->kind == TD_SYM_SUM && i < x->nr; i++) {
        h = td__hash(&x->term[i].k, sizeof x->term[i].k, h);
        h = td__hash(x->term[i].atom, sizeof(int32_t) * (size_t)x->term[i].n, h);
    }
    return h;
}

static bool same_expr(const td_symexpr *x, const td_symexpr *y) {
    if (x->kind != y->kind || x->nr != y->nr || x->a != y->a || x->b != y->b)
        return false;
    for (int i = 0; x->kind == TD_SYM_SUM && i < x->nr; i++)
        if (x->term[i].k != y->term[i].k || compare_terms(&x->term[i], &y->term[i]))
            return false;
    return true;
}

/* The slot of x, or the free one where it belongs. Slots hold 1 + index; 0: free. */
static int32_t *find_slot(td_symenv *e, const td_symexpr *x) {
    unsigned mask = (unsigned)e->n_slots - 1, i = (unsigned)hash_expr(x) & mask;
    while (e->slots[i] && !same_expr(&e->exprs.v[e->slots[i] - 1], x))
        i = (i + 1) & mask;
    return &e->slots[i];
}

/* Doubles the table; the load stays below one half. False: out of memory. */
static bool grow_slots(td_symenv *e) {
    int      n = e->n_slots ? e->n_slots * 2 : 64;
    int32_t *slots = td__zalloc(sizeof *slots * (size_t)n);
    if (!slots) return false;
    td__free(e->slots);
    e->slots = slots;
    e->n_slots = n;
    for (int i = 0; i < e->exprs.n; i++) *find_slot(e, &e->exprs.v[i]) = i + 1;
    return true;
}

/* Copies the terms from scratch memory into the environment's arena. */
static bool own_terms(td_symenv *e, td_symexpr *x) {
    td_symterm *t = td__arena_alloc(&e->arena, sizeof *t * (size_t)x->nr);
    if (!t) return false;
    for (int i = 0; i < x->nr; i++) {
        size_t   bytes = sizeof(int32_t) * (size_t)x->term[i].n;
        int32_t *atom = td__arena_alloc(&e->arena, bytes);
        if (!atom) return false;
        memcpy(atom, x->term[i].atom, bytes);
        t[i] = (td_symterm){x->term[i].k, x->term[i].n, atom};
    }
    x->term = t;
    return true;
}

static int64_t clamped(wide v) {
    if (v > TD_DIM_HUGE) return TD_DIM_HUGE;
    return v < -(wide)TD_DIM_HUGE ? -TD_DIM_HUGE : (int64_t)v;
}

/* The value of an atom with operands a and b; 0 for a divisor that is not positive. */
static int64_t atom_hint(const td_symexpr *x, int64_t a, int64_t b) {
    if (x->kind == TD_SYM_MIN) return a < b ? a : b;
    if (x->kind == TD_SYM_MAX) return a > b ? a : b;
    if (b <= 0) return 0;
    return x->kind == TD_SYM_DIV ? td__dim_div(a, b) : td__dim_mod(a, b);
}

/* Computes hint, depth and `unbacked` of a new expression from its parts. */
static void finish(const td_symenv *e, td_symexpr *x) {
    wide hint = x->kind == TD_SYM_SUM ? x->a : 0;
    for (int i = 0; x->kind == TD_SYM_SUM && i < x->nr; i++) {
        wide v = x->term[i].k;
        for (int k = 0; k < x->term[i].n; k++) {
            const td_symexpr *atom = &e->exprs.v[x->term[i].atom[k]];
            v = clamped(v * atom->hint);
            x->unbacked |= atom->unbacked;
            if (atom->depth > x->depth) x->depth = atom->depth;
        }
        hint = clamped(hint + v);
    }
    if (x->kind > TD_SYM_SUM) {
        const td_symexpr *a = td__sym_at(e, x->a), *b = td__sym_at(e, x->b);
        int               deep = a ? a->depth : 0;
        if (b && b->depth > deep) deep = b->depth;
        x->depth = (int16_t)(deep + 1);
        x->unbacked = (a && a->unbacked) || (b && b->unbacked);
        hint = atom_hint(x, td__sym_hint(e, x->a), td__sym_hint(e, x->b));
    }
    if (x->kind != TD_SYM_SYMBOL) x->hint = (int64_t)hint;
}

/* The tag of x, new or existing; TD_DIM_HUGE after td__fail. */
static int64_t intern(td_symenv *e, td_symexpr x) {
    if (e->exprs.n >= e->n_slots / 2 && !grow_slots(e)) return td__sym_fail_memory(e);
    int32_t *slot = find_slot(e, &x);
    if (*slot) return td__sym_tag(*slot - 1);
    finish(e, &x);
    if (x.depth > DEEPEST) return too_much(e, "is nested too deeply"), TD_DIM_HUGE;
    if (x.kind == TD_SYM_SUM && !own_terms(e, &x)) return td__sym_fail_memory(e);
    if (!td__vec_push(&e->exprs, x)) return td__sym_fail_memory(e);
    *slot = e->exprs.n;
    return td__sym_tag(e->exprs.n - 1);
}

int64_t td__sym_intern_symbol(td_symenv *e, int32_t nr) {
    const td_symbol *s = &e->symbols.v[nr];
    td_symexpr       x = {.kind = TD_SYM_SYMBOL, .nr = nr, .hint = s->hint};
    x.unbacked = s->letter == 'u';
    return intern(e, x);
}

int64_t td__sym_intern_atom(td_symenv *e, td_symkind kind, int64_t a, int64_t b) {
    return intern(e, (td_symexpr){.kind = (uint8_t)kind, .a = a, .b = b});
}

int64_t td__sym_intern_poly(td_symenv *e, const td_sympoly *p) {
    if (p->n == 0) return p->c;
    if (p->n == 1 && p->c == 0 && p->t[0].k == 1 && p->t[0].n == 1)
        return td__sym_tag(p->t[0].atom[0]);
    td_symexpr x = {.kind = TD_SYM_SUM, .nr = p->n, .a = p->c, .term = p->t};
    return intern(e, x);
}

/* ---- arithmetic --------------------------------------------------------- */

/* Finds a factor x // m in a term k * (x // m) * ... where m divides x and k:
 * the term is (k/m) * x * ... Gives the factor's position, x and k/m; false: no
 * such factor. */
static bool exact_quotient(td_symenv *e, const td_symterm *t, int *at, int64_t *x,
                           int64_t *k) {
    for (int i = 0; i < t->n; i++) {
        td_symexpr q = e->exprs.v[t->atom[i]];
        if (q.kind != TD_SYM_DIV || td__dim_is_sym(q.b) || q.b <= 1) continue;
        if (t->k % q.b || !td__sym_divides(e, q.b, q.a)) continue;
        *at = i;
        *x = q.a;
        *k = t->k / q.b;
        return true;
    }
    return false;
}

/* Rewrites all such terms, so that 2 * (s0 // 2) is s0 where s0 is even. */
static bool without_quotients(td_symenv *e, td_sympoly *p) {
    for (int i = 0; i < p->n; i++) {
        int        at;
        int64_t    x, k;
        td_sympoly whole, cofactor = {.c = 0}, old = {.t = &p->t[i], .n = 1};
        if (!exact_quotient(e, &p->t[i], &at, &x, &k)) continue;
        int32_t *atom = td__arena_alloc(&e->scratch, sizeof *atom * (size_t)p->t[i].n);
        if (!atom) return td__sym_fail_memory(e), false;
        int n = 0;
        for (int j = 0; j < p->t[i].n; j++)
            if (j != at) atom[n++] = p->t[i].atom[j];
        td_symterm t = {k, n, atom};
        if (n) cofactor = (td_sympoly){&t, 1, 0};
        else cofactor.c = k;
        if (!td__sym_poly(e, x, &whole) ||
            !td__sym_poly_mul(e, &whole, &cofactor, &whole) ||
            !td__sym_poly_add(e, p, &old, -1, p) ||
            !td__sym_poly_add(e, p, &whole, 1, p))
            return false;
        i = -1; /* start over; terminates: every round removes a division */
    }
    return true;
}

int64_t td__sym_add(td_symenv *e, int64_t a, int64_t b, int64_t k) {
    td_arena_mark mark = td__arena_mark(&e->scratch);
    td_sympoly    p, q;
    int64_t       r = TD_DIM_HUGE;
    if (td__sym_poly(e, a, &p) && td__sym_poly(e, b, &q) &&
        td__sym_poly_add(e, &p, &q, k, &p) && without_quotients(e, &p))
        r = td__sym_intern_poly(e, &p);
    td__arena_reset(&e->scratch, mark);
    return r;
}

int64_t td__sym_mul(td_symenv *e, int64_t a, int64_t b) {
    td_arena_mark mark = td__arena_mark(&e->scratch);
    td_sympoly    p, q;
    int64_t       r = TD_DIM_HUGE;
    if (td__sym_poly(e, a, &p) && td__sym_poly(e, b, &q) &&
        td__sym_poly_mul(e, &p, &q, &p) && without_quotients(e, &p))
        r = td__sym_intern_poly(e, &p);
    td__arena_reset(&e->scratch, mark);
    return r;
}

/* ---- values ------------------------------------------------------------- */

int64_t td__sym_hint(const td_symenv *e, int64_t dim) {
    const td_symexpr *x = td__sym_at(e, dim);
    return x ? x->hint : dim;
}

/* In wide arithmetic; false if a term or the sum overflows int64. */
static bool eval_sum(const td_symenv *e, const td_symexpr *x, const int64_t *values,
                     int64_t *out) {
    wide sum = x->a;
    for (int i = 0; i < x->nr; i++) {
        wide v = x->term[i].k;
        for (int k = 0; k < x->term[i].n; k++) {
            int64_t f;
            if (!td__sym_eval(e, td__sym_tag(x->term[i].atom[k]), values, &f))
                return false;
            v *= f;
            if (!fits(v)) return false;
        }
        sum += v;
    }
    *out = (int64_t)sum;
    return fits(sum);
}

/* The value of an expression for these symbol values. False: it overflows, or divides
 * by a number below 1. */
bool td__sym_eval(const td_symenv *e, int64_t dim, const int64_t *values,
                  int64_t *out) {
    const td_symexpr *x = td__sym_at(e, dim);
    int64_t           a, b;
    if (!x) return *out = dim, true;
    if (x->kind == TD_SYM_SYMBOL) return *out = values[x->nr], true;
    if (x->kind == TD_SYM_SUM) return eval_sum(e, x, values, out);
    if (!td__sym_eval(e, x->a, values, &a) || !td__sym_eval(e, x->b, values, &b))
        return false;
    if ((x->kind == TD_SYM_DIV || x->kind == TD_SYM_MOD) && b <= 0) return false;
    *out = atom_hint(x, a, b);
    return true;
}
