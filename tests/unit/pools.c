/* pools.c -- pools and resampling against loops that ask of every tap whether it lies
 * inside, gradients, layouts, NaN, and what is refused. */
#include "tandem/tandem.h"
#include "td_test.h"

#include <stdlib.h>

typedef struct setup {
    int64_t h, w, kh, kw, sh, sw, ph, pw, dh, dw;
    bool    ceil, count_pad;
    int64_t divisor;
} setup;

static uint32_t state = 99;
static int64_t  draw(int64_t least, int64_t most) {
     state = state * 1664525u + 1013904223u;
     return least + (int64_t)(state >> 8) % (most - least + 1);
}

static setup draw_setup(bool dilated) {
    setup s = {.h = draw(1, 9)};
    s.w = draw(1, 9);
    s.kh = draw(1, 4), s.kw = draw(1, 4);
    s.sh = draw(1, 3), s.sw = draw(1, 3);
    s.ph = draw(0, s.kh / 2), s.pw = draw(0, s.kw / 2);
    s.dh = dilated ? draw(1, 2) : 1, s.dw = dilated ? draw(1, 2) : 1;
    s.ceil = draw(0, 1), s.count_pad = draw(0, 1);
    s.divisor = draw(0, 2) ? 0 : draw(1, 5);
    return s;
}

/* Small whole numbers: sums are exact. */
static td_tensor *numbers(td_ctx *cx, td_ints shape) {
    td_tensor *t = td_zeros(cx, shape, TD_F64);
    double    *p = td_data(t);
    for (int64_t i = 0; i < td_numel(t); i++) p[i] = (double)draw(-9, 9);
    return t;
}

/* The number of windows, counted: one more as long as the next one is allowed. */
static int64_t count(int64_t size, int64_t k, int64_t step, int64_t pad, int64_t dil,
                     bool ceil) {
    int64_t n = 0;
    for (int64_t at = -pad;; at += step, n++) {
        int64_t end = at + dil * (k - 1) + 1;
        if (end > size + pad && (!ceil || at >= size || end - (size + pad) >= step))
            return n;
    }
}

typedef struct found {
    double  most, sum;
    int64_t index, inside, taps; /* taps: those not beyond the padding */
} found;

static found type(const setup *s, const double *x, int64_t oh, int64_t ow) {
    found f = {-(double)INFINITY, 0, -1, 0, 0};
    for (int64_t a = 0; a < s->kh; a++)
        for (int64_t b = 0; b < s->kw; b++) {
            int64_t i = oh * s->sh - s->ph + a * s->dh,
                    k = ow * s->sw - s->pw + b * s->dw;
            if (i >= s->h + s->ph || k >= s->w + s->pw) continue;
            f.taps++;
            if (i < 0 || i >= s->h || k < 0 || k >= s->w) continue;
            double e = x[i * s->w + k];
            f.inside++;
            f.sum += e;
            if (e > f.most) f.most = e, f.index = i * s->w + k;
        }
    return f;
}

static td_ctx *cx; /* of the running test */
static void    open_cx(void) { cx = td_open(); }

TEST(max_pool2d_agrees_with_looking_at_every_tap) {
    open_cx();
    for (int round = 0; round < 200; round++) {
        setup   s = draw_setup(true);
        int64_t oh = count(s.h, s.kh, s.sh, s.ph, s.dh, s.ceil);
        int64_t ow = count(s.w, s.kw, s.sw, s.pw, s.dw, s.ceil);
        td_scope_begin(cx, "round");
        td_tensor *x = numbers(cx, TD_SHAPE(2, 3, s.h, s.w)), *index;
        td_tensor *y =
            td_op_max_pool2d_with_indices(x, TD_DIMS(s.kh, s.kw), TD_DIMS(s.sh, s.sw),
                                          TD_DIMS(s.ph, s.pw), TD_DIMS(s.dh, s.dw),
                                          s.ceil, &index);
        CHECK(td_ok(cx) == (oh > 0 && ow > 0));
        if (td_ok(cx)) CHECK(td_size(y, 2) == oh && td_size(y, 3) == ow);
        for (int64_t k = 0; td_ok(cx) && k < td_numel(y); k++) {
            const double *plane = (double *)td_data(x) + k / (oh * ow) * s.h * s.w;
            found         f = type(&s, plane, k / ow % oh, k % ow);
            CHECK(((double *)td_data(y))[k] == f.most);
            if (f.inside) CHECK(((int64_t *)td_data(index))[k] == f.index);
        }
        td_clear(cx);
        td_scope_end(cx, "round", NULL);
    }
    td_close(cx);
}

TEST(avg_pool2d_agrees_with_looking_at_every_tap) {
    open_cx();
    for (int round = 0; round < 200; round++) {
        setup   s = draw_setup(false);
        int64_t oh = count(s.h, s.kh, s.sh, s.ph, 1, s.ceil);
        int64_t ow = count(s.w, s.kw, s.sw, s.pw, 1, s.ceil);
        td_scope_begin(cx, "round");
        td_tensor *x = numbers(cx, TD_SHAPE(3, s.h, s.w));
        td_tensor *y = td_op_avg_pool2d(x, TD_DIMS(s.kh, s.kw), TD_DIMS(s.sh, s.sw),
                                        TD_DIMS(s.ph, s.pw), s.ceil, s.count_pad,
                                        s.divisor ? td_value_int(s.divisor) : TD_NONE);
        CHECK(td_ok(cx) == (oh > 0 && ow > 0));
        for (int64_t k = 0; td_ok(cx) && k < td_numel(y); k++) {
            const double *plane = (double *)td_data(x) + k / (oh * ow) * s.h * s.w;
            found         f = type(&s, plane, k / ow % oh, k % ow);
            int64_t       by = s.divisor ? s.divisor : s.count_pad ? f.taps : f.inside;
            CHECK(((double *)td_data(y))[k] == f.sum / (double)by);
        }
        td_clear(cx);
        td_scope_end(cx, "round", NULL);
    }
    td_close(cx);
}

/* One plane each: enough to differentiate. */
static bool pool_all(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                     int n_out) {
    const setup *s = env;
    (void)n_in, (void)n_out;
    out[0] = td_op_max_pool2d(in[0], TD_DIMS(s->kh, s->kw), TD_DIMS(s->sh, s->sw),
                              TD_DIMS(s->ph, s->pw), TD_DIMS(1), s->ceil);
    out[1] = td_op_avg_pool2d(in[0], TD_DIMS(s->kh, s->kw), TD_DIMS(s->sh, s->sw),
                              TD_DIMS(s->ph, s->pw), s->ceil, s->count_pad, TD_NONE);
    out[2] = td_adaptive_avg_pool2d(in[0], TD_SHAPE(2, 3));
    out[3] = td_adaptive_avg_pool2d(in[0], TD_SHAPE(1, 1));
    out[4] = td_interpolate(in[0], TD_SHAPE(5, 7));
    out[5] = td_op_interpolate(in[0], TD_ALL, td_value_float(1.6), "nearest", false,
                               false, false);
    return td_ok(td_ctx_of(in[0]));
}

TEST(pools_have_first_and_second_derivatives) {
    open_cx();
    setup s[] = {{4, 5, 2, 3, 1, 2, 1, 1, 1, 1, true, false, 0},
                 {5, 4, 3, 2, 2, 1, 0, 1, 1, 1, false, true, 0}};
    for (int k = 0; k < 2; k++) {
        td_scope_begin(cx, "round");
        td_tensor *x = td_zeros(cx, TD_SHAPE(2, 2, s[k].h, s[k].w), TD_F64);
        double    *p = td_data(x);
        for (int64_t i = 0; i < td_numel(x); i++) /* no two alike: no kinks nearby */
            p[i] = (double)(i * 37 % td_numel(x)) / 8;
        td_requires_grad_(x);
        CHECK(td_gradcheck(cx, pool_all, &s[k], TD_LIST(x), 6, NULL));
        CHECK(td_gradgradcheck(cx, pool_all, &s[k], TD_LIST(x), 6, NULL));
        td_scope_end(cx, "round", NULL);
    }
    td_close(cx);
}

TEST(of_equal_elements_the_first_and_of_nan_any_is_the_maximum) {
    open_cx();
    td_tensor *index,
        *x = td_reshape(td_tensor1(cx, 1, 3, 3, NAN, 0, 3), TD_SHAPE(1, 2, 3));
    td_tensor *y = td_op_max_pool2d_with_indices(x, TD_DIMS(2), TD_DIMS(1), TD_DIMS(0),
                                                 TD_DIMS(1), false, &index);
    double     v[2];
    int64_t    at[2];
    CHECK(td_read(y, TD_F64, v, sizeof v) && td_read(index, TD_I64, at, sizeof at));
    CHECK(isnan(v[0]) && at[0] == 3);
    CHECK(v[1] == 3 && at[1] == 1);
    td_close(cx);
}

TEST(a_window_that_dilation_steps_over_takes_no_gradient) {
    open_cx();
    td_tensor *x = td_requires_grad_(td_ones(cx, TD_SHAPE(1, 3, 2), TD_F64));
    td_tensor *y = td_max_pool2d(x, TD_DIMS(2), TD_DIMS(1), TD_DIMS(1), TD_DIMS(3));
    CHECK(td_ok(cx) && td_item(td_amax(y)) == -INFINITY);
    CHECK(td_backward(td_sum(y)));
    CHECK_OK(cx);
    td_close(cx);
}

TEST(channels_last_stays_so) {
    open_cx();
    td_tensor *x = td_permute(numbers(cx, TD_SHAPE(2, 4, 6, 3)), TD_DIMS(0, 3, 1, 2));
    td_tensor *y[] = {td_max_pool2d(x, TD_DIMS(2)), td_avg_pool2d(x, TD_DIMS(2)),
                      td_adaptive_avg_pool2d(x, TD_SHAPE(2, 2)),
                      td_interpolate(x, TD_SHAPE(2, 3))};
    for (int k = 0; k < 4; k++)
        CHECK(td_stride(y[k], 1) == 1 && td_stride(y[k], 3) == 3);
    td_tensor *dense = td_contiguous(x);
    CHECK(td_item(td_all(td_eq(y[0], td_max_pool2d(dense, TD_DIMS(2))))) == 1);
    CHECK(td_item(td_all(td_eq(y[1], td_avg_pool2d(dense, TD_DIMS(2))))) == 1);
    CHECK_OK(cx);
    td_close(cx);
}

TEST(nearest_repeats_and_leaves_out) {
    open_cx();
    td_tensor *x = td_reshape(td_tensor1(cx, 0, 1, 2, 3, 4), TD_SHAPE(1, 1, 5));
    double     v[13];
    CHECK(td_read(td_interpolate(x, TD_SHAPE(8)), TD_F64, v, 8 * sizeof *v));
    const double up[] = {0, 0, 1, 1, 2, 3, 3, 4};
    CHECK(!memcmp(v, up, sizeof up));
    CHECK(td_read(td_interpolate(x, TD_SHAPE(3)), TD_F64, v, 3 * sizeof *v));
    CHECK(v[0] == 0 && v[1] == 1 && v[2] == 3);
    /* the scale given rules, not the ratio of the sizes it leads to */
    CHECK(td_read(td_interpolate(x, TD_ALL, 1.5), TD_F64, v, 7 * sizeof *v));
    const double scaled[] = {0, 0, 1, 2, 2, 3, 4};
    CHECK(!memcmp(v, scaled, sizeof scaled));
    td_close(cx);
}

static const char *why(td_tensor *result) {
    static char text[256];
    CHECK(td_is_nil(result) && !td_ok(cx));
    snprintf(text, sizeof text, "%s", td_message(cx));
    td_clear(cx);
    return text;
}

TEST(pools_say_what_is_wrong) {
    open_cx();
    td_tensor *x = td_ones(cx, TD_SHAPE(1, 1, 4, 5)),
              *g = td_ones(cx, TD_SHAPE(1, 1, 2, 2));
    CHECK_SAYS(why(td_max_pool2d(td_ones(cx, TD_SHAPE(2, 3)), TD_DIMS(2))),
               "max_pool2d: self must be [C,H,W] or [N,C,H,W] and not empty "
               "but for N, got f32[2,3] (in max_pool2d_with_indices)");
    CHECK_SAYS(why(td_max_pool2d(x, TD_DIMS(2, 2, 2))),
               "max_pool2d: kernel_size must have 1 or 2 entries, got 3 "
               "(in max_pool2d_with_indices)");
    CHECK_SAYS(why(td_max_pool2d(x, TD_DIMS(3), TD_DIMS(1), TD_DIMS(2))),
               "max_pool2d: padding must be at most half of kernel_size, got "
               "[2,2] for [3,3] (in max_pool2d_with_indices)");
    CHECK_SAYS(why(td_avg_pool2d(x, TD_DIMS(7))),
               "avg_pool2d: a window of [7,7] does not fit into f32[1,1,4,5]");
    CHECK_SAYS(why(td_avg_pool2d(x, TD_DIMS(2), TD_DIMS(0))),
               "avg_pool2d: stride must be at least 1, got [0]");
    CHECK_SAYS(why(td_avg_pool2d(x, TD_DIMS(2), TD_DIMS(1), TD_DIMS(0), false, true,
                                 0)),
               "avg_pool2d: divisor_override must not be zero");
    CHECK_SAYS(why(td_interpolate(x)),
               "interpolate: exactly one of size and scale_factor must be given");
    CHECK_SAYS(why(td_interpolate(x, TD_SHAPE(0, 3))),
               "interpolate: output_size must be positive, got [0,3] "
               "(in upsample_nearest2d)");
    td_tensor *far = td_full(cx, TD_SHAPE(1, 1, 2, 2), 20, TD_I64);
    CHECK_SAYS(
        why(td_op_max_pool2d_with_indices_backward(g, x, TD_DIMS(2), TD_DIMS(2),
                                                   TD_DIMS(0), TD_DIMS(1), false, far)),
        "max_pool2d_with_indices_backward: indices must be from 0 to 19, got 20");
    td_close(cx);
}
