/* kern_multinomial.c -- choosing among weights, with and without replacement. */
#include "rules/create.h"
#include "kernels/draw.h"

#include <math.h>
#include <string.h>

/* One row of weights as doubles; false when it is no distribution. */
static bool read_row(td_opcall *c, const td_tensor *p, int64_t row, double *w) {
    int64_t     n = p->size[p->rank - 1], step = p->stride[p->rank - 1];
    int64_t     bytes = td__dtype_bytes[p->dtype];
    const char *at = td__ptr(p) + (p->rank == 2 ? row * p->stride[0] * bytes : 0);
    double      sum = 0;
    bool        f32 = p->dtype == TD_F32;
    for (int64_t i = 0; i < n; i++) {
        w[i] = f32 ? (double)((const float *)(const void *)at)[i * step]
                   : td__load_f((td_dtype)p->dtype, at + i * step * bytes);
        if (!(w[i] >= 0) || isinf(w[i]))
            return td__op_fail(
                c, TD_E_ARG,
                "weight %lld of row %lld must be finite and not negative, got %g",
                (long long)i, (long long)row, w[i]);
        sum += w[i];
    }
    if (sum > 0) return true;
    return td__op_fail(c, TD_E_ARG,
                       "the weights of row %lld sum to 0; one must be positive",
                       (long long)row);
}

/* The two words of element i of this call's draw. */
static void words(const td_opcall *c, int64_t i, uint32_t out[2]) {
    uint32_t w[4];
    td_philox(c->seed, c->offset + (uint64_t)(i / 2), w);
    out[0] = w[i % 2 * 2];
    out[1] = w[i % 2 * 2 + 1];
}

/* Inverts the running sum of the weights. */
static void with_replacement(const td_opcall *c, double *w, int64_t n, int64_t row) {
    int64_t k = td__in_int(c, 1),
            *out = (int64_t *)(void *)td__ptr(c->out[0]) + row * k;
    uint32_t u[2];
    for (int64_t i = 1; i < n; i++) w[i] += w[i - 1];
    for (int64_t s = 0; s < k; s++) {
        words(c, row * k + s, u);
        double  x = td_uniform_f64(u[0], u[1]) * w[n - 1];
        int64_t lo = 0, hi = n - 1; /* the first whose running sum is over x */
        while (lo < hi) {
            int64_t mid = lo + (hi - lo) / 2;
            if (w[mid] > x) hi = mid;
            else lo = mid + 1;
        }
        out[s] = lo;
    }
}

/* Does entry a come before b? The larger does, of equals the first. */
static bool comes_first(const double *w, int64_t a, int64_t b) {
    return w[a] != w[b] ? w[a] > w[b] : a < b;
}

/* Moves the entry at `at` of a heap of n to its place: no entry comes before those
 * below it. */
static void sink(const double *w, int64_t *heap, int64_t n, int64_t at) {
    for (int64_t low = 2 * at + 1; low < n; at = low, low = 2 * at + 1) {
        if (low + 1 < n && comes_first(w, heap[low], heap[low + 1])) low++;
        if (!comes_first(w, heap[at], heap[low])) return;
        int64_t kept = heap[at];
        heap[at] = heap[low];
        heap[low] = kept;
    }
}

/* The k entries that come first, in order. */
static void take_first(const double *w, int64_t n, int64_t *out, int64_t k) {
    for (int64_t i = 0; i < k; i++) out[i] = i;
    for (int64_t i = k / 2 - 1; i >= 0; i--) sink(w, out, k, i);
    for (int64_t i = k; i < n && k > 0; i++) {
        if (!(w[i] > w[out[0]])) continue;
        out[0] = i;
        sink(w, out, k, 0);
    }
    for (int64_t i = k - 1; i > 0; i--) {
        int64_t last = out[0];
        out[0] = out[i];
        out[i] = last;
        sink(w, out, i, 0);
    }
}

/* The largest of weight / exponential come first: the same law as drawing one
 * after the other. */
static void without_replacement(const td_opcall *c, double *w, int64_t n, int64_t row) {
    int64_t k = td__in_int(c, 1),
            *out = (int64_t *)(void *)td__ptr(c->out[0]) + row * k;
    uint32_t u[2];
    for (int64_t i = 0; i < n; i++) {
        words(c, row * n + i, u);
        w[i] /= td_draw_exponential(u[0], u[1], 1) + 0x1p-1000;
    }
    take_first(w, n, out, k);
}

/* All rows are checked before the first number is drawn: a failed call leaves the
 * generator as it was. */
bool td__kern_multinomial(td_opcall *c) {
    td_tensor *p = td__in(c, 0);
    int64_t    n = p->size[p->rank - 1], rows = p->rank == 2 ? p->size[0] : 1;
    bool       back = td__in_bool(c, 2), ok = true;
    size_t     n_bytes = (size_t)n * sizeof(double);
    double    *w = td__block_alloc(n_bytes);
    if (!w) return td__fail_memory(c->cx);
    for (int64_t r = 0; r < rows && ok; r++) ok = read_row(c, p, r, w);
    if (ok) td__draw(c, (uint64_t)((rows * (back ? td__in_int(c, 1) : n) + 1) / 2));
    for (int64_t r = 0; r < rows && ok; r++) {
        read_row(c, p, r, w);
        if (back) with_replacement(c, w, n, r);
        else without_replacement(c, w, n, r);
    }
    td__block_free(w, n_bytes);
    return ok;
}
