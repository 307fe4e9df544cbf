/* check_differences.c -- case_differences finds a wrong derivative, agrees with right
 * ones, and says why where finite differences cannot tell. */
#include "cli/case_differences.h"
#include "tandem/tandem.h"

#include <stdio.h>
#include <string.h>

static int passed, failed;

static void check_that(bool ok, const char *what, const char *text) {
    passed += ok;
    failed += !ok;
    if (!ok) printf("FAIL %s: %s\n", what, text);
}

static bool cube(const td_op_run *r) {
    const double *x = td_data(r->in[0].u.t);
    double       *y = td_data(r->out[0]);
    for (int64_t i = 0; i < td_numel(r->out[0]); i++) y[i] = x[i] * x[i] * x[i];
    return true;
}

static bool add_op(td_ctx *cx, const char *schema, const char *derivative) {
    return td_register_op(cx, &(td_op_opts){TD_OP_OPTS, .schema = schema,
                                            .doc = "x * x * x.", .shape = "x",
                                            .kernel = cube, .derivative = derivative,
                                            .dtypes = TD_ONLY(TD_F64)});
}

/* The body of a function of x, what precedes its call, and the verdict. */
typedef struct row {
    const char *name, *body, *before, *options;
    case_result want;
    const char *why; /* part of the reason */
} row;

#define LEAF "%x = tensor([0.5, -1.25, 2], f32, requires_grad=true)\n"
#define ZERO "%x = tensor([0, 1, 1], f32, requires_grad=true)\n"

static const row rows[] = {
    {"a right derivative", "%y = right_cube(%x)", LEAF, "seed=1", CASE_EQUAL, ""},
    {"a wrong factor", "%y = wrong_cube(%x)", LEAF, "seed=1", CASE_DIFFERS,
     "line 7: along a random direction of leaf 0 backward says "},
    {"a wrong factor of one element in a thousandth", "%y = near_cube(%x)", LEAF,
     "seed=1", CASE_DIFFERS, "differences say "},
    {"a wrong second derivative", "%y = odd_cube(%x)", LEAF,
     "create_graph=true\n%g = grad %x\nbackward %g", CASE_DIFFERS, "line 9: "},
    {"a right second derivative", "%y = right_cube(%x)", LEAF,
     "create_graph=true\n%g = grad %x\nbackward %g", CASE_EQUAL, ""},
    {"f32 is judged as f64", "%h = exp(%x)\n%y = mul(%h, %x)", LEAF, "", CASE_EQUAL,
     ""},
    {"a kink is left by a shift", "%y = relu(%x)", ZERO, "", CASE_EQUAL, ""},
    {"a kink everywhere", "%z = mul(%x, -1.0)\n%m = maximum(%x, %x)\n%y = mul(%m, %z)",
     ZERO, "", CASE_EQUAL, ""},
    {"random numbers stay the same", "%r = rand_like(%x)\n%y = mul(%x, %r)", LEAF, "",
     CASE_EQUAL, ""},
    {"a detached factor", "%d = detach(%x)\n%y = mul(%x, %d)", LEAF, "", CASE_SKIPPED,
     "gradients stop at detach (line 1)"},
    {"a wrong derivative that no gradient reads",
     "%z = wrong_cube(%x)\n%d = mul(%z, 0.0)\n%y = add(%d, %x)", LEAF, "", CASE_EQUAL,
     ""},
    {"halves", "%h = to(%x, f16)\n%y = mul(%h, %h)", LEAF, "", CASE_SKIPPED,
     "fewer digits"},
    {"a size that depends on values",
     "%p = gt(%x, 0.5)\n%m = masked_select(%x, %p)\n%y = mul(%m, 2.0)", LEAF, "",
     CASE_SKIPPED, "sizes depend on the values"},
    {"a failure", "%z = mul(%x, %x)\n%y = exp(%z)\nadd_(%y, 1.0)", LEAF, "",
     CASE_SKIPPED, "fails in f64: exp: its backward needs its result"},
};

static void test_row(td_ctx *cx, const row *r) {
    char text[1000];
    snprintf(text, sizeof text,
             "func @f(%%x: f32[3]) {%s\n return %%y\n}\ncase \"c\" {\n%scall "
             "@f(%%x)\nbackward %s\n}\n",
             r->body, r->before, r->options);
    /* The statement is line 7 for bodies of one line. */
    td_gfile    *f = td__gfile_parse(cx, text, strlen(text), "text.td");
    case_verdict v = {0};
    check_that(!td_is_nil(f) && case_to_f64(f), r->name, td_message(cx));
    if (td_is_nil(f)) return;
    td_dtype    was = cx->default_dtype;
    case_result got = case_differences(f, f->cases.v[0], &v);
    check_that(got == r->want && strstr(td__buf_str(&v.why), r->why), r->name,
               td__buf_str(&v.why));
    check_that(td_ok(cx) && cx->default_dtype == was, r->name, "the context changed");
    td__buf_free(&v.why);
    td__gfile_drop(f);
}

int main(void) {
    td_ctx *cx = td_open();
    bool    ok = add_op(cx, "right_cube(Tensor x) -> Tensor", "x: 3 * g * x * x") &&
              add_op(cx, "wrong_cube(Tensor x) -> Tensor", "x: 2 * g * x * x") &&
              add_op(cx, "near_cube(Tensor x) -> Tensor", "x: 3.003 * g * x * x") &&
              add_op(cx, "odd_cube(Tensor x) -> Tensor", "x: 3 * g * x * detach(x)");
    check_that(ok, "the ops", td_message(cx));
    for (int i = 0; ok && i < TD_COUNT(rows); i++) test_row(cx, &rows[i]);
    td_close(cx);
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}
