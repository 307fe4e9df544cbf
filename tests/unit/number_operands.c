/* number_operands.c -- each op of the table that takes a number takes one that varies:
 * an int argument of a compiled function, which is a symbol there. C rules that compute
 * with such a number must fix its value; results and gradients show where one does
 * not. */
#include "aot_help.h"

#include "graph/graph.h"
#include "ops/ops.h"

#include <math.h>
#include <stdlib.h>

static td_op now; /* the op that the body calls */

static bool takes_number(uint8_t type) {
    return type == TD_T_OPERAND || type == TD_T_SCALAR || type == TD_T_OPT_SCALAR;
}

/* The arguments of the op: x for tensors, the number for numbers, up to what has a
 * default. How many; -1: it needs others. */
static int fill_args(const td_opinfo *i, td_tensor *x, td_value number, td_value *in) {
    int n = 0;
    for (; n < i->s.n_in; n++) {
        const td_param *p = &i->s.in[n];
        bool            size = p->type == TD_T_INT && !p->has_default;
        if (p->type == TD_T_TENSOR || (n == 0 && p->type == TD_T_OPERAND))
            in[n] = td_value_tensor(n == 0 && i->writes ? td_op_clone(x, false) : x);
        else if (takes_number(p->type) || size) in[n] = number;
        else return p->has_default ? n : -1;
    }
    return n;
}

static bool calls_op(td_call *c) {
    td_ctx          *cx = td_call_ctx(c);
    const td_opinfo *i = td__opinfo(now);
    td_value         in[TD_MAX_ARGS];
    td_tensor       *out[TD_MAX_RESULTS];
    int              n = fill_args(i, td_arg(c, 0), td_arg_value(c, 1), in);
    if (n < 0) return td_fail(cx, TD_E_ARG, "needs other arguments"), false;
    return td_call_op(cx, i->s.name, (td_values){in, n}, out, i->s.n_out) &&
           td_return(c, out[0]);
}

static bool takes_numbers(td_op op) {
    const td_opinfo *i = td__opinfo(op);
    bool             any = false;
    for (int k = 1; k < i->s.n_in; k++)
        any |= takes_number(i->s.in[k].type) ||
               (i->s.in[k].type == TD_T_INT && !i->s.in[k].has_default);
    return any && i->s.in[0].type <= TD_T_OPERAND && i->s.n_out > 0 &&
           i->s.out[0].type == TD_T_TENSOR && !td__op_draws(op) &&
           !(td__row(op)->flags & (TD_OPF_META | TD_OPF_TAPE | TD_OPF_NESTS));
}

/* Sum of what is finite, and 0.5 for each element that is not. */
static double digest(td_tensor *t) {
    t = td_op_to(t, TD_F64, false);
    td_tensor *whole = td_isfinite(t);
    td_tensor *sum = td_sum(td_where(whole, t, 0.0));
    return td_item(sum) +
           0.5 * td_item(td_sum(td_op_to(td_logical_not(whole), TD_F64, false)));
}

/* Result and gradient of the call; false: it fails. */
static bool run(td_ctx *cx, td_fn *f, td_dtype dt, int64_t number, double *to) {
    td_tensor *x =
        td_op_to(td_add(td_reshape(td_arange(cx, 16), TD_SHAPE(4, 4)), 1.5), dt, false);
    td_tensor *y = NULL;
    td_value   v = TD_NONE;
    bool       ok;
    if (dt == TD_F32) x = td_requires_grad_(td_mul(x, 0.2));
    if (dt == TD_F32) x = td_requires_grad_(td_detach(x));
    if (f) ok = td_invoke(f, TD_ARGS(x, number), &y, 1);
    else ok = td_call_body(cx, calls_op, NULL, TD_ARGS(x, number), &v, 1) == 1;
    y = ok && !f ? v.u.t : y;
    to[0] = ok ? digest(y) : 0;
    to[1] = ok ? (double)td_dtype_of(y) : 0;
    if (ok && td_requires_grad(y) && td_backward(td_sum(td_mul(y, y))) &&
        td_has_grad(x))
        to[2] = digest(td_grad_of(x));
    td_clear(cx);
    return ok;
}

/* Counts the calls that were compared. */
static int check_op(td_op op, td_dtype dt) {
    td_ctx *cx = td_open();
    td_fn  *f = td_aot_function(cx, calls_op, NULL, NULL);
    int     n = 0;
    now = op;
    for (int64_t number = 2; number < 6; number++) {
        double a[3] = {0}, b[3] = {0};
        bool   ok = run(cx, NULL, dt, number, a);
        TD_CHECK_THAT(run(cx, f, dt, number, b) == ok, "%s", td__ops[op].name);
        if (!ok) break;
        /* Native code decomposes norms and may add terms in another order. */
        const char *backend = getenv("TD_BACKEND");
        double      unit = backend && !strcmp(backend, "interp") ? 0 : 1e-5;
        for (int i = 0; i < 3; i++)
            TD_CHECK_THAT(td_test_near(a[i], b[i], unit * (1 + fabs(a[i]))),
                          "%s of %s and %d: %g, compiled %g", td__row(op)->name,
                          td_dtype_name(dt), (int)number, a[i], b[i]);
        n++;
    }
    td_close(cx);
    return n;
}

TEST(every_op_takes_a_number_that_varies) {
    int n = 0;
    CHECK(td__table_init());
    for (int op = 0; op < TD_OP_COUNT; op++)
        if (takes_numbers((td_op)op))
            n += check_op((td_op)op, TD_F32) + check_op((td_op)op, TD_I64);
    CHECK(n > 400);
}
