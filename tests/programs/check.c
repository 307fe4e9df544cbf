/* check.c -- case_check finds what it must: ways of execution that do all as eager does
 * but for one thing, each of another kind. */
#include "cli/case_check.h"
#include "tandem/tandem.h"

#include <stdio.h>
#include <string.h>

static int passed, failed;

static void check_that(bool ok, const char *what, const char *text) {
    passed += ok;
    failed += !ok;
    if (!ok) printf("FAIL %s: %s\n", what, text);
}

/* ---- ways that go wrong ------------------------------------------------- */

/* Called with the results of an eager call; false fails it. */
typedef bool tamper_fn(td_ctx *cx, const td_value *in, td_value *out);

static bool wrong_call(case_run *run, const td_graph *fn, const td_value *in,
                       td_value *out) {
    tamper_fn *const *tamper = run->way->env;
    return td__graph_replay(fn, in, out) && (*tamper)(run->file->cx, in, out);
}

static bool nothing(td_ctx *cx, const td_value *in, td_value *out) {
    (void)in, (void)out;
    return td_ok(cx);
}

/* Writes behind the back of versions. */
static void poke(td_tensor *t) {
    float f = 77;
    memcpy(td__ptr(t), &f, sizeof f);
}

static bool value(td_ctx *cx, const td_value *in, td_value *out) {
    (void)in;
    poke(out[1].u.t);
    return td_ok(cx);
}

static bool input(td_ctx *cx, const td_value *in, td_value *out) {
    (void)out;
    poke(in[1].u.t);
    return td_ok(cx);
}

static bool replace(td_value *out, td_tensor *t) {
    *out = td_value_tensor(t);
    return !td_is_nil(t);
}

static bool dtype(td_ctx *cx, const td_value *in, td_value *out) {
    (void)cx, (void)in;
    return replace(&out[1], td_op_to(out[1].u.t, TD_F64, false));
}

static bool sizes(td_ctx *cx, const td_value *in, td_value *out) {
    (void)cx, (void)in;
    return replace(&out[1], td_op_unsqueeze(out[1].u.t, 0));
}

static bool strides(td_ctx *cx, const td_value *in, td_value *out) {
    (void)cx, (void)in;
    td_tensor *t = td_op_contiguous(td_op_t(out[1].u.t));
    return replace(&out[1], td_op_t(t));
}

static bool offset(td_ctx *cx, const td_value *in, td_value *out) {
    (void)cx;
    return replace(&out[0], td_op_select(in[1].u.t, 0, 0));
}

static bool alias(td_ctx *cx, const td_value *in, td_value *out) {
    (void)cx, (void)in;
    return replace(&out[0], td_op_clone(out[0].u.t, true));
}

static bool same(td_ctx *cx, const td_value *in, td_value *out) {
    (void)cx, (void)in;
    return replace(&out[2], td_op_alias(out[2].u.t));
}

static bool version(td_ctx *cx, const td_value *in, td_value *out) {
    (void)out;
    td_op_add_(in[1].u.t, td_value_int(0), td_value_int(1));
    return td_ok(cx);
}

static bool flag(td_ctx *cx, const td_value *in, td_value *out) {
    (void)cx, (void)in;
    return replace(&out[1], td_op_detach(out[1].u.t));
}

/* The value is as it was, the gradient twice what it was. */
static bool gradient(td_ctx *cx, const td_value *in, td_value *out) {
    (void)cx, (void)in;
    td_tensor *y = out[1].u.t;
    td_tensor *zero = td_op_sub(y, td_value_tensor(td_op_detach(y)), td_value_int(1));
    return replace(&out[1], td_op_add(y, td_value_tensor(zero), td_value_int(1)));
}

static bool generator(td_ctx *cx, const td_value *in, td_value *out) {
    (void)in, (void)out;
    td_rng_set(cx, td_rng_seed(cx), td_rng_offset(cx) + 4);
    return td_ok(cx);
}

static bool mode(td_ctx *cx, const td_value *in, td_value *out) {
    (void)in, (void)out;
    td_set_grad_enabled(cx, false);
    return td_ok(cx);
}

static bool error(td_ctx *cx, const td_value *in, td_value *out) {
    (void)in, (void)out;
    return td__fail(cx, TD_E_INDEX, "planted");
}

static bool refusal(td_ctx *cx, const td_value *in, td_value *out) {
    (void)in, (void)out;
    return td__fail(cx, TD_E_UNSUPPORTED, "planted");
}

static bool other_kind(td_ctx *cx, const td_value *in, td_value *out) {
    (void)in;
    out[1] = td_value_int(3);
    return td_ok(cx);
}

/* Values and flags are right, but writing the result fails. */
static bool unwritable(td_ctx *cx, const td_value *in, td_value *out) {
    (void)cx, (void)in;
    out[1].u.t->st->readonly = true;
    return true;
}

/* ---- cases -------------------------------------------------------------- */

/* Results: a view of the second input, a product with a history, the first input. */
static const char text[] = "func @f(%x: f32[2,2], %s: f32[2,2]) {\n"
                           "  mul_(%s, 3.0)\n"
                           "  %v = select(%s, 0, 1)\n"
                           "  %y = mul(%x, 2.0)\n"
                           "  return %v, %y, %x\n}\n"
                           "case \"c\" {\n"
                           "  %x = randn([2,2], seed=1, requires_grad=true)\n"
                           "  %s = randn([2,2], seed=2)\n"
                           "  call @f(%x, %s)\n"
                           "  backward %out.1\n}\n"
                           "func @bad(%x: f32[2]) {\n"
                           "  %y = select(%x, 0, 5)\n"
                           "  return %y\n}\n"
                           "case \"bad\" {\n"
                           "  %x = ones([2])\n"
                           "  call @bad(%x)\n}\n";

static const struct {
    const char *name, *says;
    tamper_fn  *tamper;
    case_result result;
} rows[] = {
    {"nothing", "", nothing, CASE_EQUAL},
    {"value", "%out.1: element 0 is", value, CASE_DIFFERS},
    {"input", "%s: element 0 is", input, CASE_DIFFERS},
    {"dtype", "%out.1 is f32[2,2], wrong f64[2,2]", dtype, CASE_DIFFERS},
    {"sizes", "%out.1 is f32[2,2], wrong f32[1,2,2]", sizes, CASE_DIFFERS},
    {"strides", "%out.1 has strides [2,1], wrong [1,2]", strides, CASE_DIFFERS},
    {"offset", "%out.0 has offset 2, wrong 0", offset, CASE_DIFFERS},
    {"alias", "%out.0 shares storage with %s, not wrong", alias, CASE_DIFFERS},
    {"same", "%out.2 is the same tensor as %x, not wrong", same, CASE_DIFFERS},
    {"version", "%s has version 1, wrong 2", version, CASE_DIFFERS},
    {"flag", "%out.1 has requires_grad, wrong does not", flag, CASE_DIFFERS},
    {"gradient", "%x's gradient: element 0 is 2, wrong 4", gradient, CASE_DIFFERS},
    {"generator", "the generator is at seed:offset 0:0, wrong at 0:4", generator,
     CASE_DIFFERS},
    {"mode", "grad mode is on, wrong off", mode, CASE_DIFFERS},
    {"error", "eager works, wrong fails: planted", error, CASE_DIFFERS},
    {"refusal", "eager works, wrong fails: planted", refusal, CASE_DIFFERS},
    {"kind", "%out.1 is another value", other_kind, CASE_DIFFERS},
    {"unwritable", "%out.1 written: eager works, wrong fails", unwritable,
     CASE_DIFFERS},
};

static void test_rows(const td_gfile *f) {
    for (int i = 0; i < TD_COUNT(rows); i++) {
        tamper_fn   *tamper = rows[i].tamper;
        case_way     way = {.name = "wrong", .call = wrong_call, .env = &tamper};
        case_verdict v;
        case_result  got = case_check(f, f->cases.v[0], &way, &v);
        const char  *why = td__buf_str(&v.why);
        check_that(got == rows[i].result && strstr(why, rows[i].says), rows[i].name,
                   why);
        check_that(td_ok(f->cx) && td_grad_enabled(f->cx), rows[i].name,
                   "the context is not as it was");
        td__buf_free(&v.why);
    }
}

static bool never_fails(case_run *run, const td_graph *fn, const td_value *in,
                        td_value *out) {
    (void)fn;
    out[0] = in[0];
    return td_ok(run->file->cx);
}

static bool fails_otherwise(case_run *run, const td_graph *fn, const td_value *in,
                            td_value *out) {
    (void)fn, (void)in, (void)out;
    run->refused = run->way->env != NULL;
    return td__fail(run->file->cx, run->refused ? TD_E_UNSUPPORTED : TD_E_GRAD, "no");
}

static void test_error(const td_gfile *f, const case_way *way, case_result want,
                       const char *says) {
    case_verdict v;
    case_result  got = case_check(f, f->cases.v[1], way, &v);
    const char  *why = td__buf_str(&v.why);
    check_that(got == want && strstr(why, says), "a case that fails", why);
    td__buf_free(&v.why);
}

static void test_errors(const td_gfile *f) {
    int      refuses;
    case_way works = {.name = "wrong", .call = never_fails};
    case_way other = {.name = "wrong", .call = fails_otherwise};
    case_way no = {.name = "wrong", .call = fails_otherwise, .env = &refuses};
    test_error(f, case_ways[0], CASE_BOTH_FAIL, "select");
    test_error(f, &works, CASE_DIFFERS, "wrong does not");
    test_error(f, &other, CASE_DIFFERS, "both fail, with different errors: ");
    test_error(f, &no, CASE_BOTH_FAIL, "select"); /* eager fails too: no refusal */
}

/* ---- tolerance ---------------------------------------------------------- */

static bool nearly(td_ctx *cx, const td_value *in, td_value *out) {
    (void)cx, (void)in;
    float *p = (float *)(void *)td__ptr(out[1].u.t);
    p[0] += p[0] * 4e-7f;
    return true;
}

static void test_slack(const td_gfile *f) {
    for (int i = 0; i < 2; i++) {
        tamper_fn   *tamper = nearly;
        case_way     way = {.name = "wrong",
                            .call = wrong_call,
                            .env = &tamper,
                            .slack = i * 8};
        case_verdict v;
        case_result  got = case_check(f, f->cases.v[0], &way, &v);
        check_that(got == (i ? CASE_EQUAL : CASE_DIFFERS), "slack",
                   td__buf_str(&v.why));
        td__buf_free(&v.why);
    }
}

/* ---- memory ------------------------------------------------------------- */

/* Every allocation fails once: whatever is said, all is let go and the next check is
 * as good as ever. */
static void test_faults(const td_gfile *f) {
    case_verdict v;
    bool         more = true;
    for (int64_t n = 0; more; n++) {
        td__fault_arm(n, false);
        case_check(f, f->cases.v[0], case_ways[0], &v);
        more = td__fault_count() > n;
        td__fault_arm(-1, false);
        td__buf_free(&v.why);
    }
    case_result got = case_check(f, f->cases.v[0], case_ways[0], &v);
    check_that(got == CASE_EQUAL, "without faults", td__buf_str(&v.why));
    td__buf_free(&v.why);
}

int main(void) {
    td_ctx   *cx = td_open();
    td_gfile *f = td__gfile_parse(cx, text, strlen(text), "text.td");
    check_that(!td_is_nil(f), "the text", td_message(cx));
    if (f) {
        test_rows(f);
        test_errors(f);
        test_slack(f);
        test_faults(f);
    }
    td__gfile_drop(f);
    td_close(cx);
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}
