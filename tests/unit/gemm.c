/* gemm.c -- td__gemm against three loops.
 * Operands hold small whole numbers, so that every sum is exact in every dtype
 * and the two must agree to the last bit whatever the order of additions. */
#include "kernels/gemm.h"

#include "base/base.h"
#include "kernels/math.h"
#include "td_test.h"

#include <pthread.h>
#include <stdlib.h>

enum { SPARE = 64 }; /* elements before the first, for negative strides */

typedef enum layout { ROWS, COLS, WIDE, TALL, ODD, BACK, STILL, LAYOUTS } layout;

typedef struct matrix {
    char   *bytes, *first;
    int64_t row, col, batch, count;
} matrix;

static int64_t size_of(td_dtype t) {
    static const int64_t sizes[] = {8, 4, 2, 2, 8, 4, 2, 1, 1, 1};
    return sizes[t];
}

static double get(td_dtype t, const void *p, int64_t i) {
    switch (t) {
    case TD_F64: return ((const double *)p)[i];
    case TD_F32: return (double)((const float *)p)[i];
    case TD_F16: return (double)td_m_f16_to_f32(((const uint16_t *)p)[i]);
    case TD_BF16: return (double)td_m_bf16_to_f32(((const uint16_t *)p)[i]);
    case TD_I64: return (double)((const int64_t *)p)[i];
    case TD_I32: return (double)((const int32_t *)p)[i];
    case TD_I16: return (double)((const int16_t *)p)[i];
    case TD_I8: return (double)((const int8_t *)p)[i];
    default: return (double)((const uint8_t *)p)[i];
    }
}

static void set(td_dtype t, void *p, int64_t i, double x) {
    switch (t) {
    case TD_F64: ((double *)p)[i] = x; break;
    case TD_F32: ((float *)p)[i] = (float)x; break;
    case TD_F16: ((uint16_t *)p)[i] = td_m_f32_to_f16((float)x); break;
    case TD_BF16: ((uint16_t *)p)[i] = td_m_f32_to_bf16((float)x); break;
    case TD_I64: ((int64_t *)p)[i] = (int64_t)x; break;
    case TD_I32: ((int32_t *)p)[i] = (int32_t)x; break;
    case TD_I16: ((int16_t *)p)[i] = (int16_t)x; break;
    case TD_I8: ((int8_t *)p)[i] = (int8_t)x; break;
    default: ((uint8_t *)p)[i] = (uint8_t)(int)x;
    }
}

static uint32_t random_word(void) {
    static uint32_t state = 12345;
    state = state * 1664525u + 1013904223u;
    return state >> 16;
}

static matrix matrix_make(td_dtype t, layout l, const int64_t size[3]) {
    const int64_t rows = size[1], cols = size[2];
    matrix        m = {.row = cols, .col = 1};
    if (l == COLS) m.row = 1, m.col = rows;
    if (l == WIDE) m.row = cols + 5;
    if (l == TALL) m.row = 1, m.col = rows + 3;
    if (l == ODD) m.row = 3 * cols + 1, m.col = 2;
    if (l == BACK) m.row = -cols;
    if (l == STILL) m.row = 0, m.col = 1;
    m.batch = rows * (labs(m.row) > 0 ? labs(m.row) : 1) + cols * m.col + 7;
    m.count = SPARE + m.batch * (size[0] + 1);
    m.bytes = malloc((size_t)(m.count * size_of(t)));
    m.first = m.bytes + (SPARE + (l == BACK ? (rows - 1) * cols : 0)) * size_of(t);
    for (int64_t i = 0; i < m.count; i++)
        set(t, m.bytes, i, (double)(random_word() % 7) - 3);
    return m;
}

/* Both products from the same start; the whole buffer must agree, gaps too. */
static bool agree(td_gemm g, const matrix *c) {
    const size_t bytes = (size_t)(c->count * size_of(g.dtype));
    char        *other = malloc(bytes);
    g.alpha_int = (int64_t)g.alpha;
    g.beta_int = (int64_t)g.beta;
    memcpy(other, c->bytes, bytes);
    bool ok = td__gemm(&g);
    g.c = other + (c->first - c->bytes);
    ok = td__gemm_naive(&g) && ok;
    for (int64_t i = 0; ok && i < c->count; i++) {
        double x = get(g.dtype, c->bytes, i), y = get(g.dtype, other, i);
        ok = x == y || (isnan(x) && isnan(y));
    }
    free(other);
    return ok;
}

typedef struct trial {
    td_dtype dtype;
    int64_t  batch, m, n, k;
    layout   a, b, c;
    double   alpha, beta;
} trial;

static bool holds(trial t) {
    matrix  a = matrix_make(t.dtype, t.a, (int64_t[3]){t.batch, t.m, t.k});
    matrix  b = matrix_make(t.dtype, t.b, (int64_t[3]){t.batch, t.k, t.n});
    matrix  c = matrix_make(t.dtype, t.c, (int64_t[3]){t.batch, t.m, t.n});
    td_gemm g = {t.dtype, t.batch, t.m,     t.n,     t.k,    a.first, b.first,
                 c.first, a.row,   a.col,   b.row,   b.col,  c.row,   c.col,
                 a.batch, b.batch, c.batch, t.alpha, t.beta, 0,       0};
    bool    ok = agree(g, &c);
    if (!ok)
        fprintf(stderr, "dtype %d, %dx%dx%dx%d, layouts %d %d %d, alpha %g, beta %g\n",
                t.dtype, (int)t.batch, (int)t.m, (int)t.n, (int)t.k, t.a, t.b, t.c,
                t.alpha, t.beta);
    free(a.bytes);
    free(b.bytes);
    free(c.bytes);
    return ok;
}

TEST(every_layout_of_every_operand_gives_the_same_product) {
    for (td_dtype t = TD_F64; t < TD_BOOL; t++)
        for (int a = 0; a < LAYOUTS; a++)
            for (int b = 0; b < LAYOUTS; b++)
                for (int c = 0; c < STILL; c++)
                    CHECK(holds(
                        (trial){t, 2, 5, 7, 6, (layout)a, (layout)b, (layout)c, 1, 0}));
}

TEST(sizes_around_register_blocks_and_thresholds_agree) {
    static const int64_t sizes[] = {1, 2, 7, 8, 9, 16, 33, 65, 100};
    for (td_dtype t = TD_F64; t < TD_BOOL; t++)
        for (int i = 0; i < 9 * 9 * 9; i++) {
            trial r = {
                t, 1, sizes[i % 9], sizes[i / 9 % 9], sizes[i / 81], ROWS, ROWS, ROWS,
                1, 0};
            r.a = i % 2 ? COLS : ROWS;
            r.b = i % 3 ? WIDE : COLS;
            r.c = i % 5 ? ROWS : COLS;
            if (t != TD_F32 && i % 4) continue;
            CHECK(holds(r));
        }
}

TEST(large_products_are_split_and_agree) {
    static const layout ways[] = {ROWS, COLS};
    for (int i = 0; i < 8; i++) {
        trial r = {TD_F32,       1, 150, 131, 90, ways[i & 1], ways[i >> 1 & 1],
                   ways[i >> 2], 1, 1};
        CHECK(holds(r));
        r.dtype = TD_F64;
        CHECK(holds(r));
        r.dtype = TD_BF16;
        CHECK(holds(r));
        r.dtype = TD_I32;
        CHECK(holds(r));
    }
}

TEST(some_rows_times_a_transposed_matrix_agree) {
    static const int64_t rows[] = {15, 16, 40, 512, 513};
    for (int i = 0; i < 5; i++) {
        CHECK(holds((trial){TD_F32, 1, rows[i], 150, 500, ROWS, COLS, ROWS, 1, 0}));
        CHECK(holds((trial){TD_F32, 1, rows[i], 150, 500, WIDE, COLS, WIDE, 1, 1}));
        CHECK(holds((trial){TD_F32, 3, rows[i], 150, 500, ROWS, TALL, ROWS, 1, 0}));
        CHECK(holds((trial){TD_F32, 1, rows[i], 150, 500, ROWS, COLS, ROWS, 2, 1}));
    }
}

/* Which library multiplies depends on how far apart rows along k lie. */
TEST(rows_a_power_of_two_apart_agree) {
    CHECK(holds((trial){TD_F32, 1, 1024, 9, 1100, COLS, ROWS, ROWS, 1, 1}));
    CHECK(holds((trial){TD_F32, 1, 40, 1024, 130, ROWS, ROWS, ROWS, 1, 0}));
    CHECK(holds((trial){TD_F32, 1, 256, 512, 70, COLS, ROWS, ROWS, 2, 0}));
    CHECK(holds((trial){TD_F32, 2, 70, 256, 70, ROWS, ROWS, WIDE, 1, 0}));
}

TEST(blocks_larger_than_the_scratch_agree) {
    CHECK(holds((trial){TD_F16, 1, 3, 1100, 150, ROWS, ROWS, ROWS, 1, 1}));
    CHECK(holds((trial){TD_BF16, 1, 1050, 20, 300, ROWS, COLS, ROWS, 1, 0}));
    CHECK(holds((trial){TD_I16, 1, 17, 18, 4100, ROWS, ROWS, ROWS, 3, 2}));
    CHECK(holds((trial){TD_F32, 1, 17, 18, 4100, ODD, ODD, ODD, 1, 0}));
}

TEST(batches_agree_whole_and_cut) {
    for (int64_t batch = 1; batch < 10; batch += 2)
        for (td_dtype t = TD_F64; t < TD_BOOL; t++) {
            CHECK(holds((trial){t, batch, 40, 32, 36, ROWS, COLS, ROWS, 1, 0}));
            CHECK(holds((trial){t, batch, 40, 32, 36, COLS, ROWS, ROWS, 1, 1}));
            CHECK(holds((trial){t, batch, 40, 32, 36, WIDE, TALL, COLS, 1, 1}));
            CHECK(holds((trial){t, batch, 1, 32, 36, ROWS, COLS, ROWS, 2, 1}));
        }
    CHECK(holds((trial){TD_F32, 12, 64, 64, 64, ROWS, COLS, ROWS, 1, 0}));
}

TEST(an_operand_shared_by_the_batch_is_read_in_place) {
    for (int share = 0; share < 4; share++)
        for (int way = 0; way < 8; way++) {
            enum { B = 6, M = 31, N = 37, K = 29 };
            matrix  a = matrix_make(TD_F32, ROWS, (int64_t[3]){B, M, K});
            matrix  b = matrix_make(TD_F32, ROWS, (int64_t[3]){B, K, N});
            matrix  c = matrix_make(TD_F32, ROWS, (int64_t[3]){B, M, N});
            td_gemm g = {TD_F32, B, M, N,     K,     a.first, b.first, c.first, K, 1, N,
                         1,      N, 1, M * K, K * N, M * N,   1,       0,       1, 0};
            if (way & 1) g.a_row = 1, g.a_col = M;
            if (way & 2) g.b_row = 1, g.b_col = K;
            if (way & 4) g.c_row = 1, g.c_col = M;
            if (share & 1) g.a_batch = 0;
            if (share & 2) g.b_batch = 0;
            CHECK(agree(g, &c));
            free(a.bytes);
            free(b.bytes);
            free(c.bytes);
        }
}

TEST(alpha_and_beta_scale_as_written) {
    static const double factors[] = {0, 1, -1, 2, 0.5};
    for (td_dtype t = TD_F64; t < TD_BOOL; t++)
        for (int i = 0; i < 25; i++) {
            trial r = {
                t, 2, 9, 17, 5, ROWS, COLS, ROWS, factors[i % 5], factors[i / 5]};
            CHECK(holds(r));
            r.n = 1;
            CHECK(holds(r));
            r.c = ODD;
            CHECK(holds(r));
        }
    CHECK(holds((trial){TD_F32, 4, 40, 40, 40, ROWS, COLS, ROWS, 0.5, 2}));
    CHECK(holds((trial){TD_F32, 1, 90, 90, 90, ROWS, COLS, ROWS, 0.5, -1}));
}

TEST(empty_sizes_touch_nothing_and_no_depth_scales_c) {
    for (td_dtype t = TD_F64; t < TD_BOOL; t++) {
        CHECK(holds((trial){t, 0, 3, 3, 3, ROWS, ROWS, ROWS, 1, 0}));
        CHECK(holds((trial){t, 1, 0, 3, 3, ROWS, ROWS, ROWS, 1, 0}));
        CHECK(holds((trial){t, 1, 3, 0, 3, ROWS, ROWS, ROWS, 1, 0}));
        CHECK(holds((trial){t, 2, 3, 4, 0, ROWS, ROWS, ROWS, 1, 0}));
        CHECK(holds((trial){t, 2, 3, 4, 0, ROWS, ROWS, ODD, 1, 2}));
    }
}

/* Sizes that reach every path: vector, OpenBLAS, oneDNN, batched, packed. */
TEST(beta_zero_does_not_read_c) {
    static const int64_t  sizes[][4] = {{1, 40, 1, 40},  {1, 1, 40, 40},
                                        {1, 16, 16, 16}, {1, 90, 90, 90},
                                        {5, 40, 40, 40}, {1, 3, 4, 0}};
    static const td_dtype types[] = {TD_F64, TD_F32, TD_F16, TD_BF16};
    for (int i = 0; i < 6 * 4 * 2; i++) {
        const int64_t *s = sizes[i % 6];
        const td_dtype t = types[i / 6 % 4];
        matrix         a = matrix_make(t, ROWS, (int64_t[3]){s[0], s[1], s[3]});
        matrix         b = matrix_make(t, ROWS, (int64_t[3]){s[0], s[3], s[2]});
        matrix  c = matrix_make(t, i < 24 ? ROWS : ODD, (int64_t[3]){s[0], s[1], s[2]});
        td_gemm g = {t,       s[0],    s[1],    s[2], s[3], a.first, b.first,
                     c.first, s[3],    1,       s[2], 1,    c.row,   c.col,
                     a.batch, b.batch, c.batch, 1,    0,    1,       0};
        for (int64_t k = 0; k < c.count; k++) set(t, c.bytes, k, NAN);

        CHECK(agree(g, &c));

        for (int64_t u = 0; u < s[0] * s[1] * s[2]; u++)
            CHECK(!isnan(get(t, c.first,
                             u / s[2] / s[1] * c.batch + u / s[2] % s[1] * c.row +
                                 u % s[2] * c.col)));
        free(a.bytes);
        free(b.bytes);
        free(c.bytes);
    }
}

TEST(integers_wrap) {
    int8_t  a[2] = {100, 100}, b[2] = {100, 3}, c[1] = {0};
    int64_t x[1] = {INT64_MAX}, y[1] = {3}, z[1] = {0};
    td_gemm g = {TD_I8, 1, 1, 1, 2, a, b, c, 2, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 0};
    td_gemm w = {TD_I64, 1, 1, 1, 1, x, y, z, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 0};

    CHECK(td__gemm(&g) && td__gemm(&w));

    CHECK(c[0] == (int8_t)(uint8_t)((10000 + 300) & 255));
    CHECK(z[0] == INT64_MAX - 2);
}

/* Factors of integers never pass through double, which ends at 2^53. */
TEST(integer_factors_are_exact) {
    const int64_t big = ((int64_t)1 << 53) + 1;
    int64_t       x[1] = {3}, y[1] = {1}, z[1] = {5};
    td_gemm w = {TD_I64, 1, 1, 1, 1, x, y, z, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 0};
    w.alpha_int = big;
    w.beta_int = big + 2;

    CHECK(td__gemm(&w));

    CHECK(z[0] == 3 * big + 5 * (big + 2));
}

TEST(bool_is_refused) {
    td_gemm g = {.dtype = TD_BOOL, .batch = 1, .m = 1, .n = 1, .k = 1};

    CHECK(!td__gemm(&g));
    CHECK(!td__gemm_naive(&g));
}

static void *many(void *arg) {
    bool *ok = arg;
    float a[48 * 80], b[80 * 56], c[4 * 48 * 56];
    for (int i = 0; i < 48 * 80; i++) a[i] = (float)(i % 5);
    for (int i = 0; i < 80 * 56; i++) b[i] = (float)(i % 3);
    for (int r = 0; r < 30; r++) {
        int64_t n = 20 + r % 7 * 6;
        td_gemm g = {TD_F32, r % 2 ? 4 : 1, 48, n, 80, a, b, c, 80, 1, n, 1, n, 1, 0,
                     0,      48 * 56,       1,  0, 1,  0};
        *ok = *ok && td__gemm(&g);
        for (int64_t i = 0; i < 48 * n; i++) {
            float sum = 0;
            for (int64_t k = 0; k < 80; k++)
                sum += a[i / n * 80 + k] * b[k * n + i % n];
            *ok = *ok && c[i] == sum;
        }
    }
    return NULL;
}

TEST(many_threads_may_multiply_at_once) {
    pthread_t id[4];
    bool      ok[4] = {true, true, true, true};
    for (int i = 0; i < 4; i++) CHECK(pthread_create(&id[i], NULL, many, &ok[i]) == 0);
    for (int i = 0; i < 4; i++) pthread_join(id[i], NULL);
    for (int i = 0; i < 4; i++) CHECK(ok[i]);
}

/* Every allocation fails in turn; what succeeds is right, what fails says so. */
TEST(running_out_of_memory_is_reported) {
    static const td_dtype types[] = {TD_F32, TD_F16, TD_I32};
    for (int i = 0; i < 3; i++)
        for (int n = 0; n < 6; n++) {
            matrix  a = matrix_make(types[i], ODD, (int64_t[3]){3, 30, 31});
            matrix  c = matrix_make(types[i], ROWS, (int64_t[3]){3, 30, 30});
            td_gemm g = {types[i], 3,       30,      30,    31,    a.first, a.first,
                         c.first,  a.row,   a.col,   a.col, a.row, 30,      1,
                         a.batch,  a.batch, c.batch, 1,     0,     1,       0};
            td__block_trim();
            td__fault_arm(n, true);
            bool ok = td__gemm(&g);
            td__fault_arm(-1, false);
            CHECK(ok == (n >= 3)); /* one block of scratch to a batch item */
            CHECK(agree(g, &c));
            free(a.bytes);
            free(c.bytes);
        }
}
