/* emit_casts.c -- dtypes and places in nests: casts and half floats against eager's
 * loops, strides of all kinds against plain indexing. */
#include "emit_help.h"

enum { REAL_DTYPES = TD_BOOL + 1 }; /* the emitter has no complex type */

#include <stdlib.h>

enum { LEN = 1031 };

static void fill(td_dtype dt, void *p, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        char    *at = (char *)p + i * td__dtype_bytes[dt];
        uint64_t x = (uint64_t)(i + 1) * 0x9e3779b97f4a7c15u;
        if (td__is_float(dt) && i % 5)
            td__store_f(dt, at, (double)(int64_t)x * 0x1p-52);
        else if (dt == TD_BOOL) *at = (char)(x >> 40 & 1);
        else memcpy(at, &x, td__dtype_bytes[dt]); /* any bits, NaN and infinity too */
    }
}

TEST(every_cast_gives_the_bits_of_eagers) {
    static maker             m;
    static built             b;
    static _Alignas(64) char from[LEN * 8], want[LEN * 8], got[LEN * 8];
    for (int s = 0; s < REAL_DTYPES; s++)
        for (int d = 0; d < REAL_DTYPES; d++) {
            BEGIN(&m, 0, LEN);
            STORE(&m, cast(&m, LOAD(&m, (td_dtype)s, 1), (td_dtype)d), 1);
            build_add(&b, &m.n);
        }
    build(&b, "gcc", "");
    for (int i = 0; i < b.n; i++) {
        td_dtype s = (td_dtype)(i / REAL_DTYPES), d = (td_dtype)(i % REAL_DTYPES);
        void    *ptr[] = {from, got};
        fill(s, from, LEN);
        td__isa()->convert[s][d](LEN, want, td__dtype_bytes[d], from,
                                 td__dtype_bytes[s]);
        run(&b, i, (run_args){.ptr = ptr, .rows = LEN, .inside = 1, .parts = 2});
        int64_t bad = first_unequal(d, want, got, LEN);
        TD_CHECK_THAT(bad < 0, "%s to %s differs at %lld", td_dtype_name(s),
                      td_dtype_name(d), (long long)bad);
    }
    build_end(&b);
}

/* gcc 12 makes trunc of a float by way of an integer, if it may. */
TEST(a_cast_by_way_of_another_dtype_goes_there) {
    static maker             m;
    static built             b;
    static const td_dtype    ends[] = {TD_F32, TD_F64, TD_BF16};
    static _Alignas(64) char from[LEN * 8], mid[LEN * 8], want[LEN * 8], got[LEN * 8];
    for (int e = 0; e < 9; e++)
        for (int via = 0; via < REAL_DTYPES; via++) {
            BEGIN(&m, 0, LEN);
            int v = cast(&m, LOAD(&m, ends[e / 3], 1), (td_dtype)via);
            STORE(&m, cast(&m, v, ends[e % 3]), 1);
            build_add(&b, &m.n);
        }
    build(&b, "gcc", "");
    for (int i = 0; i < b.n; i++) {
        td_dtype via = (td_dtype)(i % REAL_DTYPES);
        td_dtype s = ends[i / REAL_DTYPES / 3], d = ends[i / REAL_DTYPES % 3];
        int64_t  w = td__dtype_bytes[via];
        void    *ptr[] = {from, got};
        fill(s, from, LEN);
        td__isa()->convert[s][via](LEN, mid, w, from, td__dtype_bytes[s]);
        td__isa()->convert[via][d](LEN, want, td__dtype_bytes[d], mid, w);
        run(&b, i, (run_args){.ptr = ptr, .rows = LEN, .inside = 1, .parts = 1});
        int64_t bad = first_unequal(d, want, got, LEN);
        TD_CHECK_THAT(bad < 0, "%s, %s, %s differs at %lld", td_dtype_name(s),
                      td_dtype_name(via), td_dtype_name(d), (long long)bad);
    }
    build_end(&b);
}

TEST(each_op_on_halves_rounds_its_result) {
    static maker          m;
    static built          b;
    static const td_dtype halves[] = {TD_F16, TD_BF16};
    static uint16_t       x[LEN], y[LEN], sum[LEN], want[LEN], got[LEN];
    static float          wide[LEN], other[LEN];
    CHECK(td__table_init());
    for (int h = 0; h < 2; h++) {
        BEGIN(&m, 0, LEN);
        int a = LOAD(&m, halves[h], 1), c = LOAD(&m, halves[h], 1);
        int s = op2(&m, TD_OP_add, a, c);
        STORE(&m, s, 1);
        STORE(&m, op2(&m, TD_OP_mul, s, a), 1);
        build_add(&b, &m.n);
    }
    build(&b, "gcc", "");
    for (int h = 0; h < 2; h++) {
        td_convert_fn *widen = td__isa()->convert[halves[h]][TD_F32];
        td_convert_fn *narrow = td__isa()->convert[TD_F32][halves[h]];
        void          *ptr[] = {x, y, sum, got};
        fill(halves[h], x, LEN);
        fill(halves[h], y, LEN);
        widen(LEN, (char *)wide, 4, (char *)x, 2);
        widen(LEN, (char *)other, 4, (char *)y, 2);
        run(&b, h, (run_args){.ptr = ptr, .rows = LEN, .inside = 1, .parts = 1});
        for (int i = 0; i < LEN; i++) other[i] += wide[i];
        narrow(LEN, (char *)want, 2, (char *)other, 4);
        CHECK(first_unequal(halves[h], want, sum, LEN) < 0);
        widen(LEN, (char *)other, 4, (char *)want, 2);
        for (int i = 0; i < LEN; i++) other[i] *= wide[i];
        narrow(LEN, (char *)want, 2, (char *)other, 4);
        CHECK(first_unequal(halves[h], want, got, LEN) < 0);
    }
    build_end(&b);
}

TEST(narrow_integers_wrap_after_each_op) {
    static maker  m;
    static built  b;
    static int8_t x[LEN], y[LEN], got[LEN];
    CHECK(td__table_init());
    BEGIN(&m, 0, LEN);
    int a = LOAD(&m, TD_I8, 1), c = LOAD(&m, TD_I8, 1);
    STORE(&m, op2(&m, TD_OP_div_trunc, op2(&m, TD_OP_mul, a, c), number(&m, TD_I8, 3)),
          1);
    fill(TD_I8, x, LEN);
    fill(TD_I8, y, LEN);
    void *ptr[] = {x, y, got};
    build_one(&b, &m, "gcc");
    run(&b, 0, (run_args){.ptr = ptr, .rows = LEN, .inside = 1, .parts = 1});
    for (int i = 0; i < LEN; i++) CHECK(got[i] == (int8_t)((int8_t)(x[i] * y[i]) / 3));
    build_end(&b);
}

/* ---- strides -------------------------------------------------------------- */

TEST(places_are_strides_times_indices) {
    static maker m;
    static built b;
    enum { A = 3, B = 4, C = 5, D = 6, ALL = A * B * C * D };
    static float   x[ALL], row[B], got[ALL];
    static int64_t place[ALL];
    CHECK(td__table_init());
    for (int outer = 0; outer <= 4; outer++) {
        /* x is read transposed, row by one dim only, and a column backwards. */
        BEGIN(&m, outer, A, B, C, D);
        int v = LOAD(&m, TD_F32, B * C * D, 1, B, B * C),
            w = LOAD(&m, TD_F32, 0, 1, 0, 0);
        int u = LOAD(&m, TD_F32, 0, -1, 0, 0);
        int p = PLACE(&m, B * C * D, C * D, D, 1);
        STORE(&m, op2(&m, TD_OP_sub, op2(&m, TD_OP_mul, v, w), u), B * C * D, C * D, D,
              1);
        STORE(&m, p, B * C * D, C * D, D, 1);
        int64_t rows = 1;
        for (int d = 0; d < outer; d++) rows *= (int[]){A, B, C, D}[d];
        for (int i = 0; i < ALL; i++) x[i] = (float)i, got[i] = -1;
        for (int i = 0; i < B; i++) row[i] = (float)(i * 10 + 1);
        void *ptr[] = {x, row, row + B - 1, got, place};
        build_one(&b, &m, "gcc");
        run(&b, 0,
            (run_args){.ptr = ptr, .rows = rows, .inside = ALL / rows, .parts = 2});
        for (int i = 0; i < ALL; i++) {
            int d = i % D, c = i / D % C, k = i / D / C % B, a = i / D / C / B;
            CHECK(place[i] == i);
            CHECK(got[i] ==
                  x[a * B * C * D + k + c * B + d * B * C] * row[k] - row[B - 1 - k]);
        }
        build_end(&b);
    }
}

TEST(sizes_of_the_run_are_read_when_it_runs) {
    static maker m;
    static built b;
    static float x[900], got[900];
    CHECK(td__table_init());
    BEGIN(&m, 1, -1, -2);
    int v = LOAD(&m, TD_F32, 0, 1), s = STORE(&m, op1(&m, TD_OP_neg, v), 0, 1);
    m.stride[v][0] = m.stride[s][0] = (td_extent){2, 1};
    m.n.rows = (td_extent){1, 0};
    m.n.inside = (td_extent){1, 1};
    build_one(&b, &m, "gcc");
    for (int64_t rows = 0; rows < 4; rows++)
        for (int64_t len = 0; len < 70; len += 23) {
            int64_t size[] = {rows, len};
            void   *ptr[] = {x, got};
            for (int i = 0; i < 900; i++) x[i] = (float)(i + 1), got[i] = 0;
            run(&b, 0, (run_args){ptr, size, NULL, rows, len, 1});
            for (int64_t i = 0; i < 900; i++) {
                bool in = len && i / (2 * len) < rows && i % (2 * len) < len;
                CHECK(got[i] == (in ? -x[i] : 0));
            }
        }
    build_end(&b);
}

TEST(what_rows_share_is_computed_once_and_given_numbers_are_read) {
    static maker m;
    static built b;
    static float x[40], got[40], scale = 3, one;
    CHECK(td__table_init());
    BEGIN(&m, 1, 4, 10);
    int v = LOAD(&m, TD_F32, 10, 1), f = LOAD(&m, TD_F32, 0, 0);
    int g = maker_add(&m, (td_stmt){.kind = TD_S_GIVEN, .dtype = TD_F32, .ptr = 1});
    int k = op2(&m, TD_OP_mul, f, g);
    STORE(&m, op2(&m, TD_OP_mul, v, k), 10, 1);
    STORE(&m, k, 0, 0);
    float   half = 0.5f;
    int64_t given[2] = {0};
    memcpy(&given[1], &half, sizeof half);
    void *ptr[] = {x, &scale, got, &one};
    for (int i = 0; i < 40; i++) x[i] = (float)i;
    build_one(&b, &m, "gcc");
    run(&b, 0, (run_args){ptr, NULL, given, 4, 10, 3});
    for (int i = 0; i < 40; i++) CHECK(got[i] == 1.5f * x[i]);
    CHECK(one == 1.5f);
    build_end(&b);
}
