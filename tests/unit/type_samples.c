/* type_samples.c -- the types of type_samples.h: one definition for all tests of a
 * process, because a type is registered once. */
#include "type_samples.h"

/* ---- pair --------------------------------------------------------------- */

static bool pair_call(void *env, td_mode_call *h) {
    (void)env;
    return td_type_each(h);
}

/* A pair becomes the sum of its parts where a plain tensor is expected, and a pair of
 * other metadata where that is. */
static td_tensor *pair_coerce(void *env, td_tensor *g, const td_type *type,
                              const char *metadata) {
    (void)env;
    if (strcmp(td_type_metadata(g), "converts") != 0) return NULL;
    td_tensor *a = td_type_inner(g, 0), *b = td_type_inner(g, 1);
    if (!type) return td_add(a, b);
    return td_type_make(type, TD_LIST(a, b), metadata, td_sizes(g), (td_ints){0},
                        TD_F32);
}

const td_type *pair_type(td_ctx *cx) {
    static const char *const names[] = {"a", "b"};
    return td_register_type(cx, &(td_type_opts){TD_TYPE_OPTS, .name = "pair",
                                                .inner = names, .n_inner = 2,
                                                .call = pair_call,
                                                .coerce = pair_coerce, .version = 1});
}

td_tensor *make_pair(td_tensor *a, td_tensor *b, const char *metadata) {
    return td_type_make(pair_type(td_ctx_of(a)), TD_LIST(a, b), metadata, td_sizes(a),
                        (td_ints){0}, td_dtype_of(a));
}

/* ---- int8 weights ------------------------------------------------------- */

/* w = q * scale */
static td_tensor *int8_plain(void *env, td_tensor *t) {
    (void)env;
    return td_mul(td_to(td_type_inner(t, 0), TD_F32), td_type_inner(t, 1));
}

static td_tensor *int8_pack(void *env, td_tensor *plain, td_tensor *like) {
    (void)env;
    td_tensor *scale = td_div(td_amax(td_abs(plain)), 127.0);
    td_tensor *q = td_to(td_round(td_div(plain, scale)), TD_I8);
    return td_type_make(td_type_of(like), TD_LIST(q, scale), td_type_metadata(like),
                        td_sizes(plain), (td_ints){0}, TD_F32);
}

/* Views are views of q; all else is computed with floats. */
static bool int8_call(void *env, td_mode_call *h) {
    const char *op = td_mode_call_name(h);
    td_tensor  *w = td_mode_call_arg(h, 0).u.t;
    (void)env;
    bool view = !strcmp(op, "transpose") || !strcmp(op, "t") || !strcmp(op, "detach") ||
                !strcmp(op, "alias") || !strcmp(op, "permute");
    bool copy = !strcmp(op, "clone");
    if (!view && !copy) return td_type_plain(h);
    td_value   in[4];
    td_tensor *q;
    int        n = td_mode_call_args(h);
    for (int i = 0; i < n && i < 4; i++) in[i] = td_mode_call_arg(h, i);
    in[0] = td_value_tensor(td_type_inner(w, 0));
    if (!td_call_op(td_mode_call_ctx(h), op, (td_values){in, n}, &q, 1)) return false;
    td_tensor *scale = td_type_inner(w, 1);
    return td_mode_call_answer(h, 0,
                               td_type_make(td_type_of(w), TD_LIST(q, scale),
                                            td_type_metadata(w), td_sizes(q),
                                            td_strides(q), TD_F32));
}

static const td_type *int8_type(td_ctx *cx) {
    static const char *const names[] = {"q", "scale"};
    return td_register_type(cx, &(td_type_opts){TD_TYPE_OPTS, .name = "int8_weight",
                                                .inner = names, .n_inner = 2,
                                                .call = int8_call, .plain = int8_plain,
                                                .pack = int8_pack, .version = 1});
}

td_tensor *make_int8(td_tensor *w) {
    td_tensor *scale = td_div(td_amax(td_abs(w)), 127.0);
    td_tensor *q = td_to(td_round(td_div(w, scale)), TD_I8);
    return td_type_make(int8_type(td_ctx_of(w)), TD_LIST(q, scale), "", td_sizes(w),
                        (td_ints){0}, TD_F32);
}

/* ---- diagonal matrices --------------------------------------------------- */

static td_tensor *diag_plain(void *env, td_tensor *t) {
    (void)env;
    td_tensor *d = td_type_inner(t, 0);
    return td_mul(td_eye(td_ctx_of(t), td_sym_size(t, 0)), td_unsqueeze(d, 1));
}

static bool is_diag(td_value v) {
    return v.kind == TD_K_TENSOR && v.u.t &&
           !strcmp("diag", td_type_name(td_type_of(v.u.t)));
}

static td_tensor *diag_of(td_tensor *like, td_tensor *d) {
    int64_t n = td_sym_size(d, 0); /* may be a symbol */
    return td_type_make(td_type_of(like), TD_LIST(d), "", TD_SHAPE(n, n), (td_ints){0},
                        td_dtype_of(d));
}

/* A product takes n^2 steps in place of n^3. */
static bool diag_call(void *env, td_mode_call *h) {
    const char *op = td_mode_call_name(h);
    td_value    a = td_mode_call_arg(h, 0);
    td_value    b = td_mode_call_args(h) > 1 ? td_mode_call_arg(h, 1) : TD_NONE;
    td_tensor  *d = is_diag(a) ? td_type_inner(a.u.t, 0) : NULL, *to = NULL;
    (void)env;
    if (!strcmp(op, "mm")) {
        td_tensor *e = is_diag(b) ? td_type_inner(b.u.t, 0) : NULL;
        to = d && e ? diag_of(a.u.t, td_mul(d, e))
             : d    ? td_mul(td_unsqueeze(d, 1), b.u.t)
                    : td_mul(a.u.t, e);
    } else if (d && (!strcmp(op, "transpose") || !strcmp(op, "t") ||
                     !strcmp(op, "alias") || !strcmp(op, "detach")))
        to = diag_of(a.u.t, td_alias(d));
    else if (d && (!strcmp(op, "clone") || !strcmp(op, "neg")))
        to = diag_of(a.u.t, !strcmp(op, "neg") ? td_neg(d) : td_clone(d));
    return to ? td_mode_call_answer(h, 0, to) : td_type_plain(h);
}

static const td_type *diag_type(td_ctx *cx) {
    static const char *const names[] = {"d"};
    return td_register_type(cx, &(td_type_opts){TD_TYPE_OPTS, .name = "diag",
                                                .inner = names, .n_inner = 1,
                                                .call = diag_call, .plain = diag_plain,
                                                .version = 2});
}

td_tensor *make_diag(td_tensor *d) {
    int64_t n = td_size(d, 0);
    return td_type_make(diag_type(td_ctx_of(d)), TD_LIST(d), "", TD_SHAPE(n, n),
                        (td_ints){0}, td_dtype_of(d));
}

/* ---- a wrapper that counts ----------------------------------------------- */

int n_counted;

static bool counted_call(void *env, td_mode_call *h) {
    (void)env;
    n_counted++;
    return td_type_each(h);
}

/* Without a version: functions of it are not cached on disk. */
const td_type *counted_type(td_ctx *cx) {
    static const char *const names[] = {"x"};
    return td_register_type(cx, &(td_type_opts){TD_TYPE_OPTS, .name = "counted",
                                                .inner = names, .n_inner = 1,
                                                .call = counted_call});
}

td_tensor *make_counted(td_tensor *x) {
    return td_type_make(counted_type(td_ctx_of(x)), TD_LIST(x), "", td_sizes(x),
                        (td_ints){0}, td_dtype_of(x));
}
