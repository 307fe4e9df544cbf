/* emit_draw.c -- draws in nests give what eager's give for the same seed and offset. */
#include "emit_help.h"

#include "tandem/tandem.h"

#include <stdlib.h>

enum { ROWS = 7, LEN = 333, ALL = ROWS * LEN };

static int draw(maker *m, td_draw_kind how, td_dtype dt, int place) {
    return maker_add(m, (td_stmt){.kind = TD_S_DRAW,
                                  .dtype = (uint8_t)dt,
                                  .how = (uint8_t)how,
                                  .n = 1,
                                  .a = {place},
                                  .num.f = 0.3});
}

static td_tensor *eager(td_ctx *cx, td_draw_kind how, td_dtype dt) {
    td_ints size = TD_SHAPE(ROWS, LEN);
    if (how == TD_DRAW_UNIFORM) return td_rand(cx, size, dt);
    if (how == TD_DRAW_NORMAL) return td_randn(cx, size, dt);
    return td_bernoulli_p(td_zeros(cx, size, TD_BOOL), 0.3);
}

/* With the last dim inside, all inside, all outside, as elements, and transposed. */
static void make(maker *m, int way, td_draw_kind how, td_dtype dt) {
    if (way == 3) {
        BEGIN(m, 0, ALL);
        STORE(m, draw(m, how, dt, PLACE(m, 1)), 1);
        return;
    }
    if (way == 4) {
        BEGIN(m, 1, LEN, ROWS);
        STORE(m, draw(m, how, dt, PLACE(m, 1, LEN)), 1, LEN);
        return;
    }
    int outer = way == 0 ? 1 : way == 1 ? 0 : 2;
    BEGIN(m, outer, ROWS, LEN);
    STORE(m, draw(m, how, dt, PLACE(m, LEN, 1)), LEN, 1);
}

static void check(const char *cc) {
    static const struct {
        td_draw_kind how;
        td_dtype     dt;
    } c[] = {{TD_DRAW_UNIFORM, TD_F32},  {TD_DRAW_UNIFORM, TD_F16},
             {TD_DRAW_UNIFORM, TD_BF16}, {TD_DRAW_UNIFORM, TD_F64},
             {TD_DRAW_NORMAL, TD_F32},   {TD_DRAW_NORMAL, TD_BF16},
             {TD_DRAW_NORMAL, TD_F16},   {TD_DRAW_NORMAL, TD_F64},
             {TD_DRAW_COIN, TD_BOOL}};
    static const int64_t rows[] = {ROWS, 1, ALL, ALL, LEN};
    static maker         m;
    static built         b;
    static char          want[ALL * 8], got[ALL * 8];
    memset(&b, 0, sizeof b);
    for (int i = 0; i < TD_COUNT(c) * 5; i++) {
        make(&m, i % 5, c[i / 5].how, c[i / 5].dt);
        build_add(&b, &m.n);
    }
    build(&b, cc, "");
    td_ctx *cx = td_open();
    for (int i = 0; i < b.n; i++) {
        td_dtype dt = c[i / 5].dt;
        size_t   bytes = td__dtype_bytes[dt];
        int64_t  given[2] = {42, 0};
        void    *ptr[] = {got};
        td_seed(cx, 42);
        td_tensor *t = eager(cx, c[i / 5].how, dt);
        CHECK(td_read(t, dt, want, bytes * ALL));
        memset(got, 1, sizeof got);
        run(&b, i, (run_args){ptr, NULL, given, rows[i % 5], ALL / rows[i % 5], 3});
        int64_t bad = first_unequal(dt, want, got, ALL);
        TD_CHECK_THAT(bad < 0, "draw %d of %s, way %d: element %lld", c[i / 5].how,
                      td_dtype_name(dt), i % 5, (long long)bad);
    }
    td_close(cx);
    build_end(&b);
}

TEST(draws_give_the_bits_of_eagers) {
    CHECK(td__table_init());
    check("gcc");
}

TEST(draws_give_these_bits_with_clang_too) {
    CHECK(td__table_init());
    if (has_compiler("clang")) check("clang");
}
