/* sobol.c -- Sobol sequences against PyTorch's SobolEngine: 8 points after 1000 in all
 * dims, in tests/nn/sobol.safetensors, which tools/oracle/sobol.py writes. */
#include "td_test.h"

#include <tandem/tandem.h>

static bool says(td_ctx *cx, td_code code, const char *part) {
    bool ok = td_error(cx) == code && strstr(td_message(cx), part);
    if (!ok) fprintf(stderr, "%s: %s\n", td_code_name(td_error(cx)), td_message(cx));
    td_clear(cx);
    return ok;
}

static double apart(td_tensor *a, td_tensor *b) {
    return td_item(td_amax(td_abs(td_sub(a, b)), TD_ALL));
}

TEST(sobol_points_are_those_of_pytorch_in_all_dims) {
    td_ctx         *cx = td_open();
    td_safetensors *f = td_safetensors_open(cx, "tests/nn/sobol.safetensors");
    td_tensor      *want = td_safetensors_get(f, "points");
    td_sobol        s = {.dim = TD_SOBOL_DIMS, .generated = 1000};
    td_tensor      *got = td_sobol_draw(cx, &s, 8, TD_F64);
    CHECK_OK(cx);
    CHECK(td_size(got, 0) == 8 && td_size(got, 1) == TD_SOBOL_DIMS);
    CHECK(apart(got, want) == 0 && s.generated == 1008);
    s.generated = 1000;
    CHECK(apart(td_sobol_draw(cx, &s, 8, TD_F32), td_to(want, TD_F32)) == 0);
    td_safetensors_close(f);
    td_close(cx);
}

TEST(sobol_points_do_not_depend_on_how_many_are_drawn_at_once) {
    static const double first[] = {0,     0,     0,     0.5,   0.5,   0.5,
                                   0.75,  0.25,  0.25,  0.25,  0.75,  0.75,
                                   0.375, 0.375, 0.625, 0.875, 0.875, 0.125};
    td_ctx             *cx = td_open();
    td_sobol            s = {.dim = 3};
    double              x[18];
    for (int i = 0; i < 6; i += 2)
        CHECK(td_read(td_sobol_draw(cx, &s, 2, TD_F64), TD_F64, x + 3 * i,
                      6 * sizeof *x));
    for (int i = 0; i < 18; i++) CHECK(x[i] == first[i]);
    CHECK_OK(cx);
    td_close(cx);
}

/* Each of the 64 intervals of each dim has one of 64 points, scrambled or not. */
TEST(scrambled_points_are_spread_as_evenly) {
    enum { N = 64, D = 40 };
    static double x[N * D], y[N * D];
    td_ctx       *cx = td_open();
    for (uint64_t seed = 0; seed < 3; seed++) {
        td_sobol s = {.dim = D, .scramble = true, .seed = seed};
        CHECK(td_read(td_sobol_draw(cx, &s, N, TD_F64), TD_F64, x, sizeof x));
        for (int d = 0; d < D; d++) {
            uint64_t seen = 0;
            for (int i = 0; i < N; i++) seen |= (uint64_t)1 << (int)(x[i * D + d] * N);
            CHECK(seen == UINT64_MAX);
        }
        s.generated = 0;
        CHECK(td_read(td_sobol_draw(cx, &s, N, TD_F64), TD_F64, y, sizeof y));
        CHECK(!memcmp(x, y, sizeof x));
        s = (td_sobol){.dim = D, .scramble = true, .seed = seed + 1};
        CHECK(td_read(td_sobol_draw(cx, &s, N, TD_F64), TD_F64, y, sizeof y));
        CHECK(memcmp(x, y, sizeof x) != 0);
    }
    CHECK_OK(cx);
    td_close(cx);
}

TEST(sobol_sequences_out_of_range_are_refused) {
    td_ctx  *cx = td_open();
    td_sobol s = {.dim = TD_SOBOL_DIMS + 1};
    CHECK(td_is_nil(td_sobol_draw(cx, &s, 1, TD_F32)));
    CHECK(says(cx, TD_E_ARG, "td_sobol_draw: dim is 1112; it must be 1 to 1111"));
    s.dim = 2;
    CHECK(td_is_nil(td_sobol_draw(cx, &s, 1, TD_I64)));
    CHECK(says(cx, TD_E_DTYPE, "the dtype is i64; it must be f32 or f64"));
    s.generated = ((int64_t)1 << 30) - 1;
    CHECK(td_is_nil(td_sobol_draw(cx, &s, 2, TD_F32)));
    CHECK(says(cx, TD_E_ARG, "at most 2^30 in all"));
    CHECK(td_is_nil(td_sobol_draw(cx, NULL, 2, TD_F32)));
    CHECK(says(cx, TD_E_ARG, "td_sobol_draw: the sequence is NULL"));
    CHECK(!td_is_nil(td_sobol_draw(cx, &s, 1, TD_F32)));
    td_close(cx);
}
