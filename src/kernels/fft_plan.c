/* fft_plan.c -- plans of Fourier transforms, and their cache. */
#include "kernels/fft.h"
#include "ops/cast.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#define PI 3.14159265358979323846

enum { CACHE_PLANS = 128, CACHE_BYTES = 64 << 20 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below */
static td_fft_plan    *cache[CACHE_PLANS];
static uint64_t        uses;
static size_t          cached_bytes;

/* ---- roots of unity -------------------------------------------------------- */

/* exp(-2 pi i k / n), from an angle of at most an eighth of a turn. */
static void root(int64_t k, int64_t n, double *re, double *im) {
    k %= n;
    int64_t eighth = 8 * k / n, rest;
    /* octants in turn count from their start and from their end */
    rest = eighth % 2 ? (eighth + 1) * n - 8 * k : 8 * k - eighth * n;
    double a = PI / 4 * ((double)rest / (double)n), c = cos(a), s = sin(a), t;
    int    quarter = (int)(eighth + 1) / 2; /* of the nearest axis */
    if (eighth % 2) s = -s;
    for (; quarter > 0; quarter--) t = c, c = -s, s = t;
    *re = c;
    *im = -s;
}

/* Stores pair i of a table. */
static void set_pair(void *table, td_dtype dt, int64_t i, double re, double im) {
    char *p = (char *)table + 2 * i * td__dtype_bytes[dt];
    td__store_f(dt, p, re);
    td__store_f(dt, p + td__dtype_bytes[dt], im);
}

static void set_root(void *table, td_dtype dt, int64_t i, int64_t k, int64_t n) {
    double re, im;
    root(k, n, &re, &im);
    set_pair(table, dt, i, re, im);
}

/* A table of n pairs that counts for the plan; NULL: no memory. */
static void *table(td_fft_plan *p, int64_t n) {
    size_t bytes = 2 * (size_t)n * (size_t)td__dtype_bytes[p->dt];
    p->bytes += bytes;
    return td__alloc(bytes ? bytes : 1);
}

/* ---- passes ------------------------------------------------------------------ */

/* The radices of n, whose product it is; 0: it has a prime without a pass. */
static int factor(int64_t n, int *radix) {
    static const int first[] = {8, 4, 2, 3, 5};
    int              count = 0;
    for (int i = 0; i < TD_COUNT(first); i++)
        for (; n % first[i] == 0; n /= first[i]) {
            if (count == TD_FFT_FACTORS) return 0;
            radix[count++] = first[i];
        }
    for (int r = 7; r <= TD_FFT_RADIX && n > 1; r += 2)
        for (; n % r == 0; n /= r) {
            if (count == TD_FFT_FACTORS) return 0;
            radix[count++] = r;
        }
    return n == 1 ? count : 0;
}

/* Is n a product of small primes? */
static bool is_smooth(int64_t n) {
    for (int r = 2; r <= TD_FFT_RADIX; r++)
        while (n % r == 0) n /= r;
    return n == 1;
}

/* Tables of all passes in one block. */
static bool make_passes(td_fft_plan *p) {
    int     radix[TD_FFT_FACTORS];
    int64_t pairs = 0, at = 0, n = p->n, s = 1;
    int     bytes = 2 * td__dtype_bytes[p->dt];
    p->n_pass = factor(n, radix);
    for (int i = 0; i < p->n_pass; i++) {
        n /= radix[i];
        pairs += n * (radix[i] - 1) + radix[i];
    }
    p->factors = table(p, pairs);
    if (!p->factors) return false;
    n = p->n;
    for (int i = 0; i < p->n_pass; i++) {
        int          r = radix[i];
        td_fft_pass *f = &p->pass[i];
        *f = (td_fft_pass){.radix = r, .m = n / r, .s = s};
        f->twiddle = (char *)p->factors + at * bytes;
        for (int64_t q = 0; q < f->m; q++)
            for (int j = 1; j < r; j++) set_root(p->factors, p->dt, at++, q * j, n);
        f->roots = (char *)p->factors + at * bytes;
        for (int j = 0; j < r; j++) set_root(p->factors, p->dt, at++, j, r);
        n /= r;
        s *= r;
    }
    return true;
}

/* ---- large sizes ------------------------------------------------------------- */

static td_fft_plan *find_or_make(int64_t n, td_dtype dt, bool real);

enum { MATRIX_FROM = 256 }; /* sizes below are computed by passes only */

/* The divisor of n that is nearest to its root, at most as large. */
static int64_t divisor(int64_t n) {
    int64_t d = (int64_t)sqrt((double)n);
    while (n % d) d--;
    return d;
}

static bool make_matrix(td_fft_plan *p) {
    int64_t n = p->n, rows = divisor(n), cols = n / rows;
    int64_t blocks = (cols + TD_FFT_LANES - 1) / TD_FFT_LANES;
    int     bytes = td__dtype_bytes[p->dt];
    if (rows < 8 && n <= TD_FFT_PASSES) return true;
    p->columns = find_or_make(rows, p->dt, false);
    p->rows = p->columns ? find_or_make(cols, p->dt, false) : NULL;
    p->coarse = table(p, rows * blocks);
    p->fine = table(p, rows * TD_FFT_LANES);
    if (!p->rows || !p->coarse || !p->fine) return false;
    for (int64_t b = 0; b < blocks; b++)
        for (int64_t k = 0; k < rows; k++)
            set_root(p->coarse, p->dt, b * rows + k, b * TD_FFT_LANES * k, n);
    for (int64_t k = 0; k < rows; k++)
        for (int64_t l = 0; l < TD_FFT_LANES; l++) {
            double re, im;
            char  *at = (char *)p->fine + (2 * k * TD_FFT_LANES + l) * bytes;
            root(k * l, n, &re, &im);
            td__store_f(p->dt, at, re);
            td__store_f(p->dt, at + TD_FFT_LANES * bytes, im);
        }
    return true;
}

/* ---- Bluestein's algorithm ---------------------------------------------------- */

/* The smallest size from n on whose passes are fast ones. */
static int64_t good_size(int64_t n) {
    for (;; n++) {
        int64_t rest = n;
        for (int r = 2; r <= 5; r++)
            while (rest % r == 0) rest /= r;
        if (rest == 1 && n % 16 == 0) return n;
    }
}

static bool make_convolution(td_fft_plan *p) {
    int64_t n = p->n, m = good_size(2 * n - 1);
    int     bytes = 2 * td__dtype_bytes[p->dt];
    p->convolution = find_or_make(m, p->dt, false);
    p->chirp = table(p, n);
    p->kernel = table(p, m);
    if (!p->convolution || !p->chirp || !p->kernel) return false;
    memset(p->kernel, 0, (size_t)(m * bytes));
    for (int64_t j = 0, square = 0; j < n; j++) {
        double re, im;
        root(square, 2 * n, &re, &im);
        set_pair(p->chirp, p->dt, j, re, im);
        set_pair(p->kernel, p->dt, j, re, -im);
        if (j) set_pair(p->kernel, p->dt, m - j, re, -im);
        square = (square + 2 * j + 1) % (2 * n);
    }
    char      *k = p->kernel;
    td_fft_job job = {.count = 1, .scale = 1};
    job.in = job.out = (td_fft_side){k, k + bytes / 2, bytes, 0};
    return td__fft_run(p->convolution, &job);
}

/* ---- the cache ---------------------------------------------------------------- */

static void drop_ref(td_fft_plan *p) {
    if (p) p->refs--;
}

static void free_plan(td_fft_plan *p) {
    drop_ref(p->columns);
    drop_ref(p->rows);
    drop_ref(p->convolution);
    void *tables[] = {p->factors, p->real, p->coarse, p->fine, p->chirp, p->kernel};
    for (int i = 0; i < TD_COUNT(tables); i++) td__free(tables[i]);
    cached_bytes -= p->bytes;
    td__free(p);
}

static bool fill(td_fft_plan *p) {
    if (p->is_real) {
        p->real = table(p, p->n / 2 + 1);
        if (!p->real) return false;
        for (int64_t k = 0; k <= p->n / 2; k++)
            set_root(p->real, p->dt, k, k, 2 * p->n);
    }
    p->smooth = is_smooth(p->n);
    if (!p->smooth) return make_convolution(p);
    return (p->n > TD_FFT_PASSES || make_passes(p)) &&
           (p->n < MATRIX_FROM || make_matrix(p));
}

/* The slot for a new plan: a free one, or that of the plan that was not used for the
 * longest time; -1: all are in use. */
static int slot(void) {
    int oldest = -1;
    for (int i = 0; i < CACHE_PLANS; i++) {
        if (!cache[i]) return i;
        if (cache[i]->refs == 0 && (oldest < 0 || cache[i]->used < cache[oldest]->used))
            oldest = i;
    }
    return oldest;
}

static void evict(int i) {
    if (cache[i]) free_plan(cache[i]);
    cache[i] = NULL;
}

/* Drops plans that are not used while the cache is too large. */
static void shrink(void) {
    for (int i = 0; i < CACHE_PLANS && cached_bytes > CACHE_BYTES; i++)
        if (cache[i] && cache[i]->refs == 0) evict(i);
}

/* With a reference for the caller. */
static td_fft_plan *find_or_make(int64_t n, td_dtype dt, bool real) {
    for (int i = 0; i < CACHE_PLANS; i++) {
        td_fft_plan *p = cache[i];
        if (!p || p->n != n || p->dt != dt || p->is_real != real) continue;
        p->refs++;
        p->used = ++uses;
        return p;
    }
    td_fft_plan *p = td__zalloc(sizeof *p);
    if (!p) return NULL;
    p->n = n;
    p->dt = dt;
    p->is_real = real;
    bool ok = fill(p);
    cached_bytes += p->bytes;
    shrink();
    int at = ok ? slot() : -1;
    if (at < 0) {
        free_plan(p);
        return NULL;
    }
    evict(at);
    p->refs = 1;
    p->used = ++uses;
    return cache[at] = p;
}

td_fft_plan *td__fft_plan(int64_t n, td_dtype dt, bool real) {
    pthread_mutex_lock(&lock);
    td_fft_plan *p = find_or_make(n, dt, real);
    pthread_mutex_unlock(&lock);
    return p;
}

void td__fft_release(td_fft_plan *p) {
    pthread_mutex_lock(&lock);
    p->refs--;
    pthread_mutex_unlock(&lock);
}
