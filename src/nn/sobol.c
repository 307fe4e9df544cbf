/* sobol.c -- Sobol sequences. Point i is the exclusive or of the direction numbers of
 * the bits of i ^ i >> 1, so that the next point differs by one of them. */
#include "tandem/sobol.h"

#include "nn/nn.h"
#include "nn/sobol_table.h"

#include <string.h>

enum { BITS = 30, MOST_DEGREE = 13 };

/* ---- primitive polynomials ------------------------------------------------- */

/* a * b modulo the polynomial p of degree d, over bits. */
static uint32_t times(uint32_t a, uint32_t b, uint32_t p, int d) {
    uint32_t r = 0;
    for (; b; b >>= 1) {
        if (b & 1) r ^= a;
        a <<= 1;
        if (a >> d & 1) a ^= p;
    }
    return r;
}

static uint32_t power_of_x(uint32_t e, uint32_t p, int d) {
    uint32_t r = 1, x = d > 1 ? 2 : 2 ^ p;
    for (; e; e >>= 1) {
        if (e & 1) r = times(r, x, p, d);
        x = times(x, x, p, d);
    }
    return r;
}

/* Is the order of x modulo p all of 2^d - 1? */
static bool is_primitive(uint32_t p, int d) {
    uint32_t n = ((uint32_t)1 << d) - 1, rest = n;
    if (power_of_x(n, p, d) != 1) return false;
    for (uint32_t q = 2; rest > 1; q++) {
        if (q * q > rest) q = rest; /* what is left is prime */
        if (rest % q) continue;
        while (rest % q == 0) rest /= q;
        if (power_of_x(n / q, p, d) == 1) return false;
    }
    return true;
}

/* The primitive polynomial after *p, by degree and then by value. */
static void next_primitive(uint32_t *p, int *d) {
    do {
        *p += 2;
        if (*p >> (*d + 1)) *d += 1; /* 2^(d+1) + 1 */
    } while (!is_primitive(*p, *d));
}

/* ---- direction numbers ----------------------------------------------------- */

/* The next n bits of the table, the lowest first. */
static uint32_t take_bits(int64_t *at, int n) {
    uint32_t v = 0;
    for (int i = 0; i < n; i++, ++*at) {
        int64_t k = *at / 6;
        char    c = td__sobol_table[k / TD_SOBOL_LINE][k % TD_SOBOL_LINE];
        int     six = c >= 'a'   ? c - 'a' + 36
                      : c == '_' ? 63
                      : c >= 'A' ? c - 'A' + 10
                      : c >= '0' ? c - '0'
                                 : 62;
        v |= (uint32_t)(six >> (*at % 6) & 1) << i;
    }
    return v;
}

/* Those of one dim by the recurrence of its polynomial p of degree d; the first d are
 * in the table, without their lowest bit, which is 1. */
static void directions(uint32_t p, int d, int64_t *at, uint32_t *v) {
    uint32_t m[BITS];
    for (int i = 0; i < BITS; i++) {
        if (i < d) {
            m[i] = take_bits(at, i) << 1 | 1;
        } else {
            m[i] = m[i - d] ^ m[i - d] << d;
            for (int j = 1; j < d; j++)
                if (p >> (d - j) & 1) m[i] ^= m[i - j] << j;
        }
        v[i] = m[i] << (BITS - 1 - i);
    }
}

/* ---- scrambling ------------------------------------------------------------ */

/* Random bits (SplitMix64). */
static uint32_t draw(uint64_t *state) {
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)((x ^ x >> 31) >> 16);
}

static uint32_t parity(uint32_t x) {
    for (int s = 16; s; s >>= 1) x ^= x >> s;
    return x & 1;
}

/* Multiplies the direction numbers by a random lower triangular matrix of bits, whose
 * diagonal is 1. Returns a random shift. */
static uint32_t scramble(uint64_t *state, uint32_t *v) {
    const uint32_t all = ((uint32_t)1 << BITS) - 1;
    uint32_t       row[BITS];
    for (int i = 0; i < BITS; i++) { /* bit i from the top, by those above it */
        uint32_t own = (uint32_t)1 << (BITS - 1 - i);
        row[i] = (draw(state) & all & ~(2 * own - 1)) | own;
    }
    for (int j = 0; j < BITS; j++) {
        uint32_t x = 0;
        for (int i = 0; i < BITS; i++) x = x << 1 | parity(row[i] & v[j]);
        v[j] = x;
    }
    return draw(state) & all;
}

/* ---- drawing --------------------------------------------------------------- */

/* Points `first` to first + n - 1 of one dim, at a stride of `dim`. */
static void fill(const uint32_t *v, uint32_t x, int64_t first, int64_t n, int64_t dim,
                 double *to) {
    uint32_t gray = (uint32_t)(first ^ first >> 1);
    for (int j = 0; j < BITS; j++)
        if (gray >> j & 1) x ^= v[j];
    for (int64_t i = first; i < first + n; i++, to += dim) {
        int low = 0; /* the lowest bit of i that is 0 */
        *to = (double)x / (double)((uint32_t)1 << BITS);
        while (low < BITS && i >> low & 1) low++;
        if (low < BITS) x ^= v[low];
    }
}

/* All dims; a dim after the first has its own polynomial. */
static void fill_all(const td_sobol *s, int64_t n, double *to) {
    uint32_t v[BITS], p = 1;
    uint64_t state = s->seed;
    int64_t  at = 0;
    int      d = 1;
    for (int64_t k = 0; k < s->dim; k++) {
        uint32_t shift = 0;
        if (k == 0) {
            for (int i = 0; i < BITS; i++) v[i] = (uint32_t)1 << (BITS - 1 - i);
        } else {
            next_primitive(&p, &d);
            directions(p, d, &at, v);
        }
        if (s->scramble) shift = scramble(&state, v);
        fill(v, shift, s->generated, n, s->dim, to + k);
    }
}

td_tensor *td_sobol_draw(td_ctx *cx, td_sobol *s, int64_t n, td_dtype dtype) {
    static const char who[] = "td_sobol_draw";
    const int64_t     most = (int64_t)1 << BITS;
    if (!td__enter_ctx(cx, who) || !td_ok(cx) || !td__has(cx, who, "the sequence", s) ||
        !td__may_change(cx, who, "the place of a Sobol sequence"))
        return TD_NIL(cx, TENSOR);
    if (s->dim < 1 || s->dim > TD_SOBOL_DIMS)
        return td_fail(cx, TD_E_ARG, "%s: dim is %lld; it must be 1 to %d", who,
                       (long long)s->dim, TD_SOBOL_DIMS);
    if (dtype != TD_F32 && dtype != TD_F64)
        return td_fail(cx, TD_E_DTYPE, "%s: the dtype is %s; it must be f32 or f64",
                       who, td_dtype_name(dtype));
    if (n < 1 || s->generated < 0 || s->generated > most || n > most - s->generated)
        return td_fail(cx, TD_E_ARG,
                       "%s: n is %lld after %lld points; draw at least 1, and at most "
                       "2^30 in all",
                       who, (long long)n, (long long)s->generated);
    double *points = td__alloc(sizeof *points * (size_t)n * (size_t)s->dim);
    if (!points) return td__fail_memory(cx), TD_NIL(cx, TENSOR);
    fill_all(s, n, points);
    td_tensor *t = td_to(td_from(cx, TD_F64, TD_SHAPE(n, s->dim), points), dtype);
    td__free(points);
    if (!td_is_nil(t)) s->generated += n;
    return t;
}
