/* emit.c -- nests written as C: pointwise ones against eager's own loops, bit for
 * bit. */
#include "emit_help.h"

#include "ops/expr.h"

#include <stdlib.h>

enum { LEN = 257 };

static const td_dtype dtype_of[] = {TD_F32, TD_F64, TD_I32, TD_I64};

/* ---- every row that has an expression ------------------------------------ */

static uint64_t noise;

static double some_float(void) {
    static const double special[] = {0,   -0.0, 1,    -1,   INFINITY, -INFINITY,
                                     NAN, 0.5,  1e-3, 3e38, -120,     1e-40};
    noise = noise * 6364136223846793005u + 1442695040888963407u;
    uint64_t k = noise >> 33;
    if (k % 8 == 0) return special[k / 8 % TD_COUNT(special)];
    return ((double)(k % 100003) / 100003.0 - 0.5) * (k % 3 ? 4 : 40);
}

static void fill(td_dtype dt, void *p, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        char  *at = (char *)p + i * td__dtype_bytes[dt];
        double x = some_float();
        if (td__is_float(dt)) td__store_f(dt, at, x);
        else td__store_i(dt, at, dt == TD_BOOL ? x > 0 : isfinite(x) ? (int64_t)x : 7);
    }
}

typedef struct row_case {
    td_op      op;
    td_compute type;
    int        n;
    uint8_t    masks;
} row_case;

/* A nest of that op alone; false: it is not defined on the type. */
static bool make_row(maker *m, row_case *c) {
    char             text[TD_EXPR_MOST];
    const td_schema *s = &td__opinfo(c->op)->s;
    td_scalars      *p;
    td_stmt          e = {.kind = TD_S_EXPR, .op = c->op, .compute = (uint8_t)c->type};
    if (!td__ops[c->op].expr ||
        !td__expr_pick(td__ops[c->op].expr, td__expr_types[c->type].is_float, text))
        return false;
    BEGIN(m, 0, LEN);
    for (int i = 0; i < s->n_in; i++) {
        int k = td__expr_operand(s, i);
        if (k < 0) continue;
        bool mask = td__expr_names(text, '%', s->in[i].name);
        if (mask) e.masks |= (uint8_t)(1u << k);
        e.a[k] = LOAD(m, mask ? TD_BOOL : dtype_of[c->type], 1);
        e.n = (uint8_t)(k + 1);
    }
    p = &m->numbers[0];
    for (int k = 0; k < TD_LOOP_SCALARS; k++) p->f[k] = 0.25 + k, p->i[k] = k + 1;
    e.p = p;
    e.dtype =
        td__ops[c->op].dtypes & TD_DT_BOOL_OUT ? TD_BOOL : (uint8_t)dtype_of[c->type];
    STORE(m, maker_add(m, e), 1);
    c->n = e.n;
    c->masks = e.masks;
    return true;
}

static bool same_bytes(const row_case *c, const maker *m, built *b, int i) {
    _Alignas(64) char buf[TD_LOOP_INPUTS][LEN * 8], want[LEN * 8], got[LEN * 8];
    void             *ptr[TD_LOOP_INPUTS + 1];
    const void       *in[TD_LOOP_INPUTS];
    for (int k = 0; k < c->n; k++) {
        fill(c->masks >> k & 1 ? TD_BOOL : dtype_of[c->type], buf[k], LEN);
        in[k] = ptr[k] = buf[k];
    }
    ptr[c->n] = got;
    memset(want, 0, sizeof want);
    memset(got, 0, sizeof got);
    td__isa()->loops[c->type][c->op](LEN, want, in, &m->numbers[0]);
    run(b, i, (run_args){.ptr = ptr, .rows = LEN, .inside = 1, .parts = 3});
    return first_unequal((td_dtype)m->ptr[c->n].dtype, want, got, LEN) < 0;
}

static void check_rows(const char *cc) {
    static maker    m[1024];
    static row_case cases[1024];
    static built    b;
    int             n = 0;
    memset(&b, 0, sizeof b);
    noise = 1;
    for (int op = 0; op < TD_OP_COUNT; op++)
        for (int t = 0; t < TD_COMPUTE_C64; t++) { /* the emitter has no complex type */
            CHECK(n < 1024);
            cases[n] = (row_case){.op = (td_op)op, .type = (td_compute)t};
            if (make_row(&m[n], &cases[n])) build_add(&b, &m[n].n), n++;
        }
    CHECK(n > 250);
    build(&b, cc, "");
    for (int i = 0; i < n; i++)
        TD_CHECK_THAT(same_bytes(&cases[i], &m[i], &b, i), "%s of %s differs:\n%s",
                      td__ops[cases[i].op].name, td__expr_types[cases[i].type].suffix,
                      td__buf_str(&b.code[i].text));
    build_end(&b);
}

TEST(every_expression_gives_the_bits_of_the_eager_loop) {
    CHECK(td__table_init());
    check_rows("gcc");
}

TEST(every_expression_gives_these_bits_with_clang_too) {
    CHECK(td__table_init());
    if (has_compiler("clang")) check_rows("clang");
}

/* ---- no memory ------------------------------------------------------------ */

TEST(without_memory_it_says_so_and_leaks_nothing) {
    static maker m;
    td_nest_code code = {0};
    td_buf       text = {0};
    bool         ok = false;
    CHECK(td__table_init());
    BEGIN(&m, 2, 3, -1, 4, -2);
    int v = LOAD(&m, TD_BF16, 0, 0, 4, 1), e = op1(&m, TD_OP_exp, v);
    m.stride[v][0] = (td_extent){12, 0};
    int s = fold(&m, TD_S_REDUCE, TD_FOLD_SUM, e);
    int c = fold(&m, TD_S_COLUMN, TD_FOLD_SUM, e);
    STORE(&m, op2(&m, TD_OP_div, e, s), 9, 4, 4, 1);
    STORE(&m, c, 0, 0, 4, 1);
    for (int64_t n = 0; !ok && n < 1000; n++) {
        td__fault_arm(n, true);
        ok = td__nest_emit(&m.n, &code) &&
             td__helpers_text(&text, td__buf_str(&code.helpers));
        td__fault_arm(-1, false);
        CHECK(ok || n < 900);
        td__nest_code_free(&code);
        td__buf_free(&text);
    }
    CHECK(ok);
}

TEST(helpers_bring_all_they_use_and_unknown_names_are_refused) {
    td_buf text = {0};
    CHECK(td__helpers_text(&text, "td_m_tanh_f32\ntd_m_tanh_f32\n"));
    const char *all = td__buf_str(&text), *tanh = strstr(all, "td_m_tanh_f32(float");
    CHECK(tanh && !strstr(tanh + 1, "td_m_tanh_f32(float"));
    CHECK(strstr(all, "td_m_exp_neg64_f32(float") < tanh);
    CHECK(strstr(all, "#define TD_MAGIC_F32") && !strstr(all, "td_m_sin_f32"));
    CHECK(!td__helpers_text(&text, "td_m_tanh_f33\n"));
    td__buf_free(&text);
}
