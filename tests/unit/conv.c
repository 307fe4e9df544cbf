/* conv.c -- convolution in its three directions against plain loops.
 * Operands hold small whole numbers: sums are exact, agreement is to the bit. */
#include "kernels/conv.h"

#include "base/base.h"
#include "kernels/math.h"
#include "td_test.h"

#include <pthread.h>
#include <stdlib.h>

typedef bool conv_fn(const td_conv *p, td_conv_dir dir, const td_conv_args *t);

static size_t size_of(td_dtype t) { return t == TD_F64 ? 8 : t == TD_F32 ? 4 : 2; }

static double get(td_dtype t, const void *p, int64_t i) {
    switch (t) {
    case TD_F64: return ((const double *)p)[i];
    case TD_F32: return (double)((const float *)p)[i];
    case TD_F16: return (double)td_m_f16_to_f32(((const uint16_t *)p)[i]);
    default: return (double)td_m_bf16_to_f32(((const uint16_t *)p)[i]);
    }
}

static void set(td_dtype t, void *p, int64_t i, double x) {
    switch (t) {
    case TD_F64: ((double *)p)[i] = x; break;
    case TD_F32: ((float *)p)[i] = (float)x; break;
    case TD_F16: ((uint16_t *)p)[i] = td_m_f32_to_f16((float)x); break;
    default: ((uint16_t *)p)[i] = td_m_f32_to_bf16((float)x);
    }
}

/* Exactly as long as it must be, so that a sanitizer sees any overrun. */
static void *filled(td_dtype t, int64_t n, bool nan) {
    static uint32_t state = 777;
    void           *p = malloc(n ? (size_t)n * size_of(t) : 1);
    for (int64_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        set(t, p, i, nan ? (double)NAN : (double)(state >> 16 & 3) - 1);
    }
    return p;
}

static int64_t x_count(const td_conv *p) { return p->n * p->c * p->d * p->h * p->w; }
static int64_t w_count(const td_conv *p) {
    return p->o * (p->c / p->groups) * p->kd * p->kh * p->kw;
}
static int64_t y_count(const td_conv *p) {
    return p->n * p->o * td__conv_out_d(p) * td__conv_out_h(p) * td__conv_out_w(p);
}

static bool agree(const td_conv *p, td_conv_dir dir, bool bias, conv_fn *fn) {
    const int64_t na = dir == TD_CONV_DATA ? y_count(p) : x_count(p);
    const int64_t nb = dir == TD_CONV_WEIGHTS ? y_count(p) : w_count(p);
    const int64_t no = dir == TD_CONV_FORWARD ? y_count(p)
                       : dir == TD_CONV_DATA  ? x_count(p)
                                              : w_count(p);
    void         *a = filled(p->dtype, na, false), *b = filled(p->dtype, nb, false);
    void         *c = filled(p->dtype, dir == TD_CONV_DATA ? p->c : p->o, false);
    void         *got = filled(p->dtype, no, true), *want = filled(p->dtype, no, true);
    td_conv_args  t = {a, b, bias ? c : NULL, got};
    bool          ok = fn(p, dir, &t);
    t.out = want;
    ok = td__conv_naive(p, dir, &t) && ok;
    for (int64_t i = 0; ok && i < no; i++)
        ok = get(p->dtype, got, i) == get(p->dtype, want, i);
    free(a), free(b), free(c), free(got), free(want);
    if (!ok)
        fprintf(stderr, "dtype %d dir %d: n%d c%d %dx%d o%d k%dx%d s%d p%d d%d g%d\n",
                p->dtype, dir, (int)p->n, (int)p->c, (int)p->h, (int)p->w, (int)p->o,
                (int)p->kh, (int)p->kw, (int)p->stride_h, (int)p->pad_h, (int)p->dil_h,
                (int)p->groups);
    return ok;
}

static bool holds(const td_conv *p) {
    return agree(p, TD_CONV_FORWARD, false, td__conv) &&
           agree(p, TD_CONV_FORWARD, true, td__conv) &&
           agree(p, TD_CONV_DATA, false, td__conv) &&
           agree(p, TD_CONV_DATA, true, td__conv) &&
           agree(p, TD_CONV_WEIGHTS, false, td__conv);
}

/* dtype, n c h w, o kh kw, stride, pad, dilation, groups, then the depth: d kd, stride,
 * pad, dilation */
static const td_conv shapes[] = {
    {TD_F32, 2, 3, 8, 9, 4, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1},
    {TD_F32, 3, 4, 9, 7, 6, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1},
    {TD_F32, 2, 4, 9, 10, 6, 3, 2, 2, 1, 0, 2, 1, 2, 1, 1, 1, 1, 0, 1},
    {TD_F32, 2, 4, 11, 11, 6, 3, 3, 1, 1, 2, 2, 2, 2, 2, 1, 1, 1, 0, 1},
    {TD_F32, 1, 6, 7, 7, 6, 3, 3, 1, 1, 1, 1, 1, 1, 6, 1, 1, 1, 0, 1}, /* depthwise */
    {TD_F32, 2, 6, 8, 8, 12, 3, 3, 2, 2,
     1,      1, 1, 1, 6, 1,  1, 1, 0, 1}, /* two per channel */
    {TD_F32, 2, 5, 6, 6, 7, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 0, 1}, /* 1x1 */
    {TD_F32, 2, 6, 7, 7, 4, 1, 1, 2, 2,
     0,      0, 1, 1, 2, 1, 1, 1, 0, 1}, /* 1x1, stride, groups */
    {TD_F32, 2, 4, 6, 6, 4, 1, 1, 1, 1,
     1,      1, 1, 1, 1, 1, 1, 1, 0, 1}, /* 1x1 with padding */
    {TD_F32, 3, 4, 1, 20, 5, 1, 5, 1, 1, 0, 2, 1, 1, 1, 1, 1, 1, 0, 1}, /* 1-d */
    {TD_F32, 2, 4, 1, 21, 6, 1, 3, 1, 2,
     0,      3, 1, 3, 2,  1, 1, 1, 0, 1}, /* 1-d, all of it */
    {TD_F32, 1, 1, 5, 5, 1, 5, 5, 1, 1,
     0,      0, 1, 1, 1, 1, 1, 1, 0, 1}, /* one pixel out */
    {TD_F32, 1, 2, 3, 3, 2, 2, 2, 3, 3,
     2,      2, 1, 1, 1, 1, 1, 1, 0, 1}, /* stride above kernel */
    {TD_F32, 2, 1, 12, 12, 32, 3, 3, 1, 1,
     0,      0, 1, 1,  1,  1,  1, 1, 0, 1}, /* one channel in */
    {TD_F32, 2, 3, 20, 20, 16, 7, 7, 2, 2,
     3,      3, 1, 1,  1,  1,  1, 1, 0, 1}, /* an image's first layer */
    {TD_F32, 4, 16, 10, 10, 32, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1},
    {TD_F32, 1, 33, 12, 12, 40, 3, 3, 1, 1,
     1,      1, 1,  1,  1,  1,  1, 1, 0, 1}, /* one image, cut */
    {TD_F32, 3, 48, 4, 4, 64, 3, 3, 1, 1,
     1,      1, 1,  1, 1, 1,  1, 1, 0, 1}, /* mostly weights, cut */
    {TD_F32, 5, 32, 6, 6, 32, 3, 3, 1, 1, 1, 1, 1, 1, 4, 1, 1, 1, 0, 1},
    {TD_F32, 2, 3, 5, 6, 4, 3, 3, 1, 1, 1, 1, 1, 1, 1, 4, 3, 1, 1, 1}, /* volumes */
    {TD_F32, 2, 4, 7, 5, 6, 3, 2, 2, 1, 0, 1, 1, 2, 2, 6, 2, 2, 1, 2},
    {TD_F32, 1, 5, 4, 4, 7, 1, 1, 1, 1, 0, 0, 1, 1, 1, 3, 1, 1, 0, 1}, /* 1x1x1 */
    {TD_F32, 1, 6, 4, 4, 6, 3, 3, 1, 1, 1, 1, 1, 1, 6, 5, 3, 2, 2, 1}, /* depthwise */
    {TD_F32, 1, 2, 4, 4, 3, 1, 1, 1, 1,
     0,      0, 1, 1, 1, 5, 1, 2, 0, 1}, /* every second */
};

TEST(shapes_agree_in_all_directions_and_dtypes) {
    for (int i = 0; i < TD_COUNT(shapes); i++)
        for (td_dtype t = TD_F64; t <= TD_BF16; t++) {
            td_conv p = shapes[i];
            p.dtype = t;
            CHECK(holds(&p));
        }
}

TEST(every_inner_layout_agrees) {
    for (int l = TD_CONV_NCHW; l <= TD_CONV_BLOCKED; l++) {
        td__conv_set_layout((td_conv_layout)l);
        for (int i = 0; i < TD_COUNT(shapes); i++) CHECK(holds(&shapes[i]));
    }
    td__conv_set_layout(TD_CONV_AUTO);
}

TEST(columns_agree_where_onednn_is_the_first_choice) {
    for (int i = 0; i < TD_COUNT(shapes); i++) {
        CHECK(agree(&shapes[i], TD_CONV_FORWARD, true, td__conv_cols));
        CHECK(agree(&shapes[i], TD_CONV_DATA, false, td__conv_cols));
        CHECK(agree(&shapes[i], TD_CONV_WEIGHTS, false, td__conv_cols));
    }
}

TEST(empty_sizes_give_zeros_or_the_bias) {
    static const td_conv empty[] = {
        {TD_F32, 0, 3, 4, 4, 2, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1},
        {TD_F32, 2, 0, 4, 4, 2, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1},
        {TD_F32, 2, 3, 4, 4, 0, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1},
        {TD_F32, 2, 3, 2, 2, 4, 3, 3, 1, 1,
         0,      0, 1, 1, 1, 1, 1, 1, 0, 1}, /* kernel too large */
        {TD_F32, 2, 3, 0, 4, 2, 3, 3, 1, 1,
         2,      2, 1, 1, 1, 1, 1, 1, 0, 1}, /* padding alone */
    };
    for (int i = 0; i < TD_COUNT(empty); i++)
        for (td_dtype t = TD_F64; t <= TD_BF16; t++) {
            td_conv p = empty[i];
            p.dtype = t;
            CHECK(holds(&p));
        }
}

TEST(the_bias_gradient_sums_images_and_pixels) {
    for (td_dtype t = TD_F64; t <= TD_BF16; t++) {
        td_conv p = {t, 3, 2, 5, 7, 6, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1};
        void   *dy = filled(t, y_count(&p), false), *db = filled(t, p.o, true);

        CHECK(td__conv_backward_bias(&p, dy, db));

        for (int64_t o = 0; o < p.o; o++) {
            double sum = 0;
            for (int64_t u = 0; u < p.n * 35; u++)
                sum += get(t, dy, (u / 35 * p.o + o) * 35 + u % 35);
            CHECK(get(t, db, o) == sum);
        }
        free(dy), free(db);
    }
}

TEST(what_is_not_a_convolution_is_refused) {
    td_conv_args t = {0};
    td_conv      ok = shapes[0], p = ok;
    p.dtype = TD_I32;
    CHECK(!td__conv(&p, TD_CONV_FORWARD, &t));
    p = ok;
    p.groups = 2;
    CHECK(!td__conv(&p, TD_CONV_FORWARD, &t));
    p = ok;
    p.stride_w = 0;
    CHECK(!td__conv(&p, TD_CONV_DATA, &t));
    p = ok;
    p.pad_h = -1;
    CHECK(!td__conv_naive(&p, TD_CONV_WEIGHTS, &t));
}

static void *many(void *arg) {
    bool *ok = arg;
    for (int i = 0; i < TD_COUNT(shapes); i++) {
        td_conv p = shapes[i];
        p.n = 1 + i % 3;
        *ok = *ok && td__conv_is_valid(&p);
        float *x = calloc((size_t)x_count(&p), 4), *w = calloc((size_t)w_count(&p), 4);
        float *y = calloc((size_t)y_count(&p), 4), *z = calloc((size_t)y_count(&p), 4);
        for (int64_t k = 0; k < x_count(&p); k++) x[k] = (float)(k % 3);
        for (int64_t k = 0; k < w_count(&p); k++) w[k] = (float)(k % 5);
        *ok = *ok && td__conv(&p, TD_CONV_FORWARD, &(td_conv_args){x, w, NULL, y});
        *ok =
            *ok && td__conv_naive(&p, TD_CONV_FORWARD, &(td_conv_args){x, w, NULL, z});
        *ok = *ok && memcmp(y, z, (size_t)y_count(&p) * 4) == 0;
        free(x), free(w), free(y), free(z);
    }
    return NULL;
}

TEST(many_threads_may_convolve_at_once) {
    pthread_t id[4];
    bool      ok[4] = {true, true, true, true};
    for (int i = 0; i < 4; i++) CHECK(pthread_create(&id[i], NULL, many, &ok[i]) == 0);
    for (int i = 0; i < 4; i++) pthread_join(id[i], NULL);
    for (int i = 0; i < 4; i++) CHECK(ok[i]);
}

/* More shapes than the cache holds, twice: entries leave and come back. */
TEST(the_primitive_cache_survives_many_shapes) {
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 150; i++) {
            td_conv p = {TD_F32, 1, 2, 4, 4 + i, 2, 3, 3, 1, 1,
                         1,      1, 1, 1, 1,     1, 1, 1, 0, 1};
            CHECK(agree(&p, TD_CONV_FORWARD, false, td__conv));
        }
}

TEST(running_out_of_memory_is_reported) {
    for (int i = 0; i < TD_COUNT(shapes); i += 4)
        for (int n = 0; n < 16; n++) {
            const td_conv    *p = &shapes[i];
            const td_conv_dir dir = (td_conv_dir)(n % 3);
            void             *x = filled(TD_F32, x_count(p), false),
                 *w = filled(TD_F32, w_count(p), false);
            void        *y = filled(TD_F32, y_count(p), false);
            td_conv_args t[3] = {{x, w, NULL, y}, {y, w, NULL, x}, {x, y, NULL, w}};
            td__block_trim();
            td__fault_arm(n / 3, true);
            bool ok = td__conv(p, dir, &t[dir]);
            td__fault_arm(-1, false);
            CHECK(n >= 3 || !ok); /* none does without scratch */
            CHECK(agree(p, dir, false, td__conv));
            free(x), free(w), free(y);
        }
}
