/* tensor_types.c -- two types of tensors: weights of one byte that are trained, and a
 * diagonal matrix whose products take n^2 steps. */
#include <stdio.h>
#include <string.h>
#include <tandem/tandem.h>

/* ---- int8 weights: w = q * scale ----------------------------------------- */

static td_tensor *make_int8(const td_type *type, td_tensor *w) {
    td_tensor *scale = td_div(td_amax(td_abs(w)), 127.0);
    td_tensor *q = td_to(td_round(td_div(w, scale)), TD_I8);
    return td_type_make(type, TD_LIST(q, scale), "", td_sizes(w), (td_ints){0}, TD_F32);
}

static td_tensor *plain(void *env, td_tensor *t) {
    (void)env;
    return td_mul(td_to(td_type_inner(t, 0), TD_F32), td_type_inner(t, 1));
}

static td_tensor *pack(void *env, td_tensor *w, td_tensor *like) {
    (void)env;
    return make_int8(td_type_of(like), w); /* an update rounds to 8 bits */
}

/* A transposed weight is a view of q; all else is computed with floats. */
static bool int8_op(void *env, td_mode_call *h) {
    td_tensor *w = td_mode_call_arg(h, 0).u.t;
    (void)env;
    if (strcmp(td_mode_call_name(h), "transpose") != 0) return td_type_plain(h);
    td_tensor *q = td_transpose(td_type_inner(w, 0), td_mode_call_arg(h, 1).u.i,
                                td_mode_call_arg(h, 2).u.i);
    return td_mode_call_answer(h, 0,
                               td_type_make(td_type_of(w),
                                            TD_LIST(q, td_type_inner(w, 1)), "",
                                            td_sym_sizes(q), (td_ints){0}, TD_F32));
}

static bool loss_of(td_call *c) {
    td_tensor *y = td_matmul(td_arg(c, 0), td_arg(c, 1));
    return td_return(c, td_mean(td_square(td_sub(y, td_arg(c, 2)))));
}

/* Trains the weights through a compiled function; the last loss. */
static double train(td_ctx *cx) {
    static const char *const names[] = {"q", "scale"};
    const td_type           *int8 =
        td_register_type(cx,
                         &(td_type_opts){TD_TYPE_OPTS, .name = "int8_weight",
                                         .inner = names, .n_inner = 2, .call = int8_op,
                                         .plain = plain, .pack = pack, .version = 1});
    td_tensor *x = td_randn(cx, TD_SHAPE(64, 8)), *loss = NULL;
    td_tensor *y = td_matmul(x, td_randn(cx, TD_SHAPE(8, 2)));
    td_tensor *w = td_requires_grad_(make_int8(int8, td_randn(cx, TD_SHAPE(8, 2))));
    td_fn     *f = td_aot_function(cx, loss_of, NULL, NULL);
    for (int step = 0; step < 60 && td_invoke(f, TD_ARGS(x, w, y), &loss, 1); step++) {
        td_backward(loss);
        td_grad_mode was = td_no_grad_begin(cx);
        td_sub_(w, td_mul(td_grad_of(w), 0.3));
        td_no_grad_end(cx, was);
        td_zero_grad(w);
    }
    return td_ok(cx) ? td_item(loss) : 1;
}

/* ---- a diagonal matrix --------------------------------------------------- */

static td_tensor *dense(void *env, td_tensor *t) {
    (void)env;
    return td_mul(td_eye(td_ctx_of(t), td_sym_size(t, 0)),
                  td_unsqueeze(td_type_inner(t, 0), 1));
}

static bool diag_op(void *env, td_mode_call *h) {
    td_value a = td_mode_call_arg(h, 0);
    bool     left = a.kind == TD_K_TENSOR && td_type_of(a.u.t);
    (void)env;
    if (strcmp(td_mode_call_name(h), "mm") != 0 || !left) return td_type_plain(h);
    td_tensor *d = td_type_inner(a.u.t, 0), *x = td_mode_call_arg(h, 1).u.t;
    if (td_type_of(x)) return td_type_plain(h);
    return td_mode_call_answer(h, 0, td_mul(td_unsqueeze(d, 1), x));
}

static bool scaled(td_call *c) {
    return td_return(c, td_tanh(td_matmul(td_arg(c, 0), td_arg(c, 1))));
}

/* The product by the type and by a dense matrix; how much they differ. */
static double multiply(td_ctx *cx) {
    static const char *const names[] = {"d"};
    const td_type           *diag =
        td_register_type(cx,
                         &(td_type_opts){TD_TYPE_OPTS, .name = "diag", .inner = names,
                                         .n_inner = 1, .call = diag_op, .plain = dense,
                                         .version = 1});
    td_tensor *d = td_randn(cx, TD_SHAPE(16)), *x = td_randn(cx, TD_SHAPE(16, 3)), *y;
    td_tensor *m =
        td_type_make(diag, TD_LIST(d), "", TD_SHAPE(16, 16), (td_ints){0}, TD_F32);
    td_fn *f = td_aot_function(cx, scaled, NULL, NULL);
    if (!td_invoke(f, TD_ARGS(m, x), &y, 1)) return 1;
    return td_item(td_amax(td_abs(td_sub(y, td_tanh(td_matmul(dense(NULL, m), x))))));
}

int main(void) {
    td_ctx *cx = td_open();
    td_seed(cx, 1);
    double loss = train(cx), apart = multiply(cx);
    bool   good = td_ok(cx) && loss < 0.01 && apart < 1e-5;
    printf("int8 weights: loss %.5f; diagonal: %g apart %s\n", loss, apart,
           td_message(cx));
    td_close(cx);
    return !good;
}
