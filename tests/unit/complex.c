/* complex.c -- complex tensors (docs/complex.md): what every op does with them,
 * elements in and out, files, text, promotion, gradients by differences. */
#include "ops/ops.h"
#include "tandem/tandem.h"
#include "td_files.h"
#include "td_test.h"

static bool says(td_ctx *cx, td_code code, const char *part) {
    bool ok = td_error(cx) == code && strstr(td_message(cx), part);
    if (!ok) fprintf(stderr, "%s: %s\n", td_code_name(td_error(cx)), td_message(cx));
    td_clear(cx);
    return ok;
}

/* n elements k + 1 - k/2 i, in the sizes given. */
static td_tensor *ramp(td_ctx *cx, td_dtype dt, td_ints size) {
    double  v[64];
    int64_t n = 1;
    for (int d = 0; d < size.n; d++) n *= size.v[d];
    for (int64_t k = 0; k < n; k++) {
        v[2 * k] = (double)k + 1;
        v[2 * k + 1] = -0.5 * (double)k;
    }
    return td_to(td_from(cx, TD_C128, size, v), dt);
}

static bool is_part(td_tensor *t, int64_t i, double re, double im) {
    td_tensor *e = td_select(td_reshape(t, TD_SHAPE(-1)), 0, i);
    return fabs(td_item(td_real(e)) - re) < 1e-6 &&
           fabs(td_item(td_imag(e)) - im) < 1e-6;
}

/* ---- every op ------------------------------------------------------------ */

/* An argument of the parameter's type, with complex tensors of rank `rank`. */
static td_value argument(td_ctx *cx, const td_param *p, int rank, td_tensor **list) {
    static const int64_t dims[] = {0};
    static const int64_t sizes[] = {2, 2, 2, 2};
    td_tensor           *z = ramp(cx, TD_C64, (td_ints){sizes, rank});
    bool                 index = strstr(p->name, "ind") || strstr(p->name, "target");
    if (index || !strcmp(p->name, "mask") || !strcmp(p->name, "condition"))
        z = td_zeros(cx, TD_SHAPE_OF(sizes, rank), index ? TD_I64 : TD_BOOL);
    switch ((td_arg_type)p->type) {
    case TD_T_TENSOR:
    case TD_T_OPERAND:
    case TD_T_OPT_TENSOR: return td_value_tensor(z);
    case TD_T_TENSORS:
    case TD_T_OPT_TENSORS:
        list[0] = list[1] = z;
        return td__value_tensors((td_tensors){list, 2});
    case TD_T_INT: return td_value_int(!strcmp(p->name, "dim1"));
    case TD_T_SCALAR:
    case TD_T_FLOAT: return td_value_float(0.5);
    case TD_T_INTS:
        return strstr(p->name, "size") || strstr(p->name, "shape")
                   ? td__value_ints((td_ints){sizes, rank})
                   : td__value_ints((td_ints){dims, 1});
    case TD_T_BOOL: return td_value_bool(false);
    case TD_T_DTYPE: return td__value_dtype(TD_C64);
    case TD_T_STR: return td__value_str("");
    default: return TD_NONE;
    }
}

/* Ops that change autograd or program state, or take graphs and objects. */
static bool is_apart(const td_opinfo *info) {
    if (info->def->flags & (TD_OPF_TAPE | TD_OPF_NESTS | TD_OPF_TYPED | TD_OPF_HOLDS))
        return true;
    for (int i = 0; i < info->s.n_in; i++)
        if (info->s.in[i].type == TD_T_GRAPH || info->s.in[i].type == TD_T_OBJECT)
            return true;
    return false;
}

static bool has_tensor(const td_opinfo *info) {
    for (int i = 0; i < info->s.n_in; i++) {
        uint8_t type = info->s.in[i].type;
        if (type == TD_T_TENSOR || type == TD_T_TENSORS || type == TD_T_OPERAND)
            return true;
    }
    return false;
}

static bool is_complex(const td_tensor *t) {
    return td_dtype_is_complex(td_dtype_of(t));
}

/* Calls op with complex arguments. Without .complex it must say so. */
static void try_op(td_op op, int rank) {
    const td_opinfo *info = td__opinfo(op), *row = info;
    td_ctx          *cx = td_open();
    td_value         in[TD_MAX_ARGS];
    td_tensor       *list[TD_MAX_ARGS][2], *out[64];
    bool             given = false; /* a complex tensor is among the arguments */
    if (info->pure != TD_OP_COUNT && !info->def->complex) row = td__opinfo(info->pure);
    for (int i = 0; i < info->s.n_in; i++) {
        const td_param *p = &info->s.in[i];
        in[i] = p->has_default && p->type != TD_T_OPT_TENSOR
                    ? p->def
                    : argument(cx, p, rank, list[i]);
        if (in[i].kind == TD_K_TENSOR) given |= is_complex(in[i].u.t);
        if (in[i].kind == TD_K_TENSORS && in[i].n) given |= is_complex(in[i].u.ts[0]);
    }
    CHECK_OK(cx);
    int n = td__call_list(cx, op, in, info->s.n_in, out, 64);
    TD_CHECK_THAT(n >= 0 || td_error(cx) != TD_OK, "%s fails without an error",
                  info->s.name);
    TD_CHECK_THAT(!given || row->def->complex || td_error(cx) == TD_E_DTYPE ||
                      td_error(cx) == TD_E_ARG,
                  "%s takes complex tensors: %s", info->s.name, td_message(cx));
    TD_CHECK_THAT(!given || row->def->complex || td_error(cx) == TD_E_ARG ||
                      strstr(td_message(cx), "is not defined on complex numbers"),
                  "%s: %s", info->s.name, td_message(cx));
    TD_CHECK_THAT(n >= 0 || strstr(td_message(cx), info->s.name), "%s: %s",
                  info->s.name, td_message(cx));
    td_close(cx);
}

TEST(every_op_computes_complex_tensors_or_refuses_them_by_name) {
    int tried = 0;
    CHECK(td__table_init());
    for (int op = 0; op < TD_OP_COUNT; op++) {
        const td_opinfo *info = td__opinfo((td_op)op);
        if (is_apart(info) || !has_tensor(info)) continue;
        for (int rank = 0; rank <= 4; rank++) try_op((td_op)op, rank);
        tried++;
    }
    CHECK(tried > 700);
}

/* Results that are real numbers of complex ones by definition. */
TEST(only_named_ops_give_real_numbers) {
    static const char *const real[] = {"abs",
                                       "angle",
                                       "norm",
                                       "real",
                                       "imag",
                                       "dist",
                                       "linalg_vector_norm",
                                       "var",
                                       "std",
                                       "view_as_real",
                                       "view_as_real_copy",
                                       "fft_irfft",
                                       "fft_irfft2",
                                       "fft_irfftn",
                                       "fft_hfft",
                                       "fft_hfft2",
                                       "fft_hfftn",
                                       "istft",
                                       "linalg_svdvals",
                                       "linalg_svd",
                                       "svd",
                                       "_linalg_svd",
                                       "linalg_matrix_rank",
                                       "linalg_cond",
                                       "_linalg_eigh",
                                       "linalg_eigh",
                                       "linalg_eigvalsh",
                                       "linalg_slogdet",
                                       "slogdet"};
    CHECK(td__table_init());
    for (int op = 0; op < TD_OP_COUNT; op++) {
        const td_opinfo *info = td__opinfo((td_op)op);
        td_tensor       *list[TD_MAX_ARGS][2], *out[64];
        td_value         in[TD_MAX_ARGS];
        bool             named = info->writes || !has_tensor(info) || is_apart(info);
        for (size_t i = 0; i < TD_COUNT(real); i++)
            named |= !strcmp(real[i], info->s.name);
        if (named || !info->def->complex || info->def->flags & TD_OPF_INTERNAL)
            continue;
        td_ctx *cx = td_open();
        for (int i = 0; i < info->s.n_in; i++)
            in[i] = info->s.in[i].has_default
                        ? info->s.in[i].def
                        : argument(cx, &info->s.in[i], 2, list[i]);
        int n = td__call_list(cx, (td_op)op, in, info->s.n_in, out, 64);
        for (int i = 0; i < n; i++)
            TD_CHECK_THAT(!td_dtype_is_float(td_dtype_of(out[i])), "%s gives %s",
                          info->s.name, td__type_str(out[i]));
        td_clear(cx);
        td_close(cx);
    }
}

/* ---- elements ------------------------------------------------------------ */

TEST(an_element_is_two_numbers) {
    td_ctx    *cx = td_open();
    td_tensor *z = ramp(cx, TD_C64, TD_SHAPE(3));
    float      parts[6];
    double     real[3];

    CHECK(td_dtype_is_complex(TD_C64) && !td_dtype_is_complex(TD_F64));
    CHECK(td_dtype_size(TD_C64) == 8 && td_dtype_size(TD_C128) == 16);
    CHECK(td_read(z, TD_C64, parts, sizeof parts));
    CHECK(parts[2] == 2 && parts[3] == -0.5F);
    CHECK(isnan(td_item(td_select(z, 0, 1))));
    CHECK(says(cx, TD_E_DTYPE, "td_item: the tensor is c64[], whose element is two"));
    CHECK(td_item_int(td_select(z, 0, 1)) == 0);
    CHECK(says(cx, TD_E_DTYPE, "td_item_int"));
    CHECK(!td_read(z, TD_F64, real, sizeof real));
    CHECK(says(cx, TD_E_DTYPE, "td_read: f64 has no room for the imaginary parts"));
    CHECK(!td_write(td_zeros(cx, TD_SHAPE(3)), TD_C64, parts, sizeof parts));
    CHECK(says(cx, TD_E_DTYPE, "td_write"));
    td_close(cx);
}

TEST(views_of_the_parts_write_through) {
    td_ctx    *cx = td_open();
    td_tensor *z = ramp(cx, TD_C128, TD_SHAPE(3));

    td_fill_(td_imag(z), 7);
    td_mul_(td_real(z), 2);
    td_add_(td_select(td_view_as_real(z), 0, 1), 1);

    CHECK_OK(cx);
    CHECK(is_part(z, 0, 2, 7) && is_part(z, 1, 5, 8) && is_part(z, 2, 6, 7));
    CHECK(td_real(td_ones(cx, TD_SHAPE(2))) != NULL);
    td_imag(td_ones(cx, TD_SHAPE(2)));
    CHECK(says(cx, TD_E_DTYPE, "imag: self must be complex, got f32[2]"));
    td_view_as_real(td_ones(cx, TD_SHAPE(2)));
    CHECK(says(cx, TD_E_DTYPE, "view_as_real: self must be c64 or c128"));
    td_close(cx);
}

TEST(a_conversion_to_real_is_an_error) {
    td_ctx    *cx = td_open();
    td_tensor *z = ramp(cx, TD_C64, TD_SHAPE(2));

    CHECK(is_part(td_to(td_ones(cx, TD_SHAPE(2)), TD_C128), 1, 1, 0));
    CHECK(td_dtype_of(td_to(z, TD_BOOL)) == TD_BOOL);
    CHECK_OK(cx);
    td_to(z, TD_F32);
    CHECK(
        says(cx, TD_E_DTYPE, "to: f32 has no room for the imaginary parts of c64[2]"));
    td_copy_(td_zeros(cx, TD_SHAPE(2)), z);
    CHECK(says(cx, TD_E_DTYPE, "no room for the imaginary parts"));
    td_fill_(td_zeros(cx, TD_SHAPE(2)), td_select(z, 0, 0));
    CHECK(says(cx, TD_E_DTYPE, "no room for the imaginary parts"));
    td_index_fill(td_zeros(cx, TD_SHAPE(2)), 0, td_zeros(cx, TD_SHAPE(1), TD_I64),
                  td_value_tensor(td_select(z, 0, 0)));
    CHECK(says(cx, TD_E_DTYPE, "no room for the imaginary parts"));
    td_mul_(td_ones(cx, TD_SHAPE(2)), z);
    CHECK(says(cx, TD_E_DTYPE, "cannot be stored in"));
    td_sum(z, TD_ALL, false, TD_F32);
    CHECK(says(cx, TD_E_DTYPE, "dtype"));
    td_close(cx);
}

TEST(promotion_goes_to_the_complex_dtype_of_the_wider_precision) {
    static const td_dtype c64[] = {TD_BOOL, TD_U8, TD_I64, TD_F16, TD_BF16, TD_F32};
    td_ctx               *cx = td_open();
    td_tensor            *z = ramp(cx, TD_C64, TD_SHAPE(2)), *w = td_to(z, TD_C128);

    for (int i = 0; i < TD_COUNT(c64); i++)
        CHECK(td_dtype_of(td_mul(z, td_ones(cx, TD_SHAPE(2), c64[i]))) == TD_C64);
    CHECK(td_dtype_of(td_mul(z, td_ones(cx, TD_SHAPE(2), TD_F64))) == TD_C128);
    CHECK(td_dtype_of(td_mul(z, w)) == TD_C128);
    CHECK(td_dtype_of(td_mul(z, td_select(w, 0, 0))) == TD_C64);
    CHECK(td_dtype_of(td_mul(td_ones(cx, TD_SHAPE(2)), td_select(w, 0, 0))) == TD_C64);
    CHECK(td_dtype_of(td_mul(z, 2.5)) == TD_C64);
    CHECK_OK(cx);
    td_close(cx);
}

/* Elements of 16 bytes go through tiles, and rows are reversed. */
TEST(large_copies_keep_elements_whole) {
    td_ctx    *cx = td_open();
    td_tensor *k = td_reshape(td_arange(cx, 0, 80 * 70, 1, TD_F64), TD_SHAPE(80, 70));
    td_tensor *z = td_complex(k, td_neg(k)), *t = td_contiguous(td_t(z));
    td_tensor *f = td_flip(z, TD_DIMS(1));

    CHECK(td_item_int(td_equal(td_real(t), td_t(k))) == 1);
    CHECK(td_item_int(td_equal(td_imag(t), td_neg(td_t(k)))) == 1);
    CHECK(td_item_int(td_equal(td_real(f), td_flip(k, TD_DIMS(1)))) == 1);
    CHECK(td_item_int(td_equal(td_imag(f), td_flip(td_neg(k), TD_DIMS(1)))) == 1);
    CHECK(
        td_item_int(td_equal(td_roll(z, TD_DIMS(3), TD_DIMS(0)),
                             td_complex(td_roll(k, TD_DIMS(3), TD_DIMS(0)),
                                        td_roll(td_neg(k), TD_DIMS(3), TD_DIMS(0))))));
    CHECK_OK(cx);
    td_close(cx);
}

/* ---- files and text ------------------------------------------------------ */

TEST(npy_and_dlpack_have_both_dtypes_and_safetensors_c64) {
    td_ctx    *cx = td_open();
    td_tensor *z = ramp(cx, TD_C64, TD_SHAPE(2, 2)), *w = td_to(z, TD_C128);
    files_begin();

    CHECK(td_save_npy(w, files_path("w.npy")));
    CHECK(is_part(td_load_npy(cx, files_path("w.npy")), 3, 4, -1.5));
    CHECK(is_part(td_from_dlpack(cx, td_to_dlpack(w)), 3, 4, -1.5));
    CHECK(is_part(td_from_dlpack(cx, td_to_dlpack(z)), 2, 3, -1));
    const char *names[] = {"z"};
    CHECK(
        td_safetensors_save(cx, files_path("z.st"), names, (td_tensors){&z, 1}, NULL));
    td_safetensors *f = td_safetensors_open(cx, files_path("z.st"));
    CHECK(is_part(td_safetensors_get(f, "z"), 1, 2, -0.5));
    td_safetensors_close(f);
    CHECK_OK(cx);
    CHECK(
        !td_safetensors_save(cx, files_path("w.st"), names, (td_tensors){&w, 1}, NULL));
    CHECK(says(cx, TD_E_ARG, "is c128, which the format does not have"));
    files_end();
    td_close(cx);
}

/* ---- gradients ----------------------------------------------------------- */

/* Analytic and other functions, real and complex arguments, views and writes. */
static bool many(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                 int n_out) {
    td_tensor *z = in[0], *x = in[1];
    td_tensor *a = td_mul(td_exp(td_mul(z, 0.3)), x);
    td_tensor *b = td_div(td_sin(z), td_add(td_abs(z), 1));
    td_tensor *c = td_clone(td_mm(td_reshape(a, TD_SHAPE(1, 3)),
                                  td_mT(td_conj(td_reshape(b, TD_SHAPE(1, 3))))));
    td_mul_(td_imag(c), 2);
    out[0] = td_sum(td_mul(c, td_polar(td_square(x), x)));
    out[1] = td_sum(td_mul(td_angle(a), td_real(td_sgn(b))));
    (void)env, (void)n_in, (void)n_out;
    return td_ok(td_ctx_of(z));
}

TEST(gradients_of_first_and_second_order_agree_with_differences) {
    td_ctx    *cx = td_open();
    td_tensor *z = td_requires_grad_(ramp(cx, TD_C128, TD_SHAPE(3)));
    td_tensor *x = td_add(td_arange(cx, 0, 3, 1, TD_F64), 0.5);
    td_requires_grad_(x);

    TD_CHECK_THAT(td_gradcheck(cx, many, NULL, TD_LIST(z, x), 2, NULL), "%s",
                  td_message(cx));
    TD_CHECK_THAT(td_gradgradcheck(cx, many, NULL, TD_LIST(z, x), 2, NULL), "%s",
                  td_message(cx));
    td_close(cx);
}

/* A positive-definite matrix of z, its factor, a system and determinants with it. */
static bool systems(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                    int n_out) {
    td_tensor *z = in[0], *log_det, *l, *v, *r;
    td_tensor *a = td_matmul(z, td_mT(td_conj(z)));
    a = td_add(a, td_eye(td_ctx_of(z), 3, 3, TD_F64));
    l = td_linalg_cholesky(a);
    td_tensor *x = td_add(td_linalg_solve(a, l), td_linalg_inv(td_add(z, a)));
    td_tensor *sign = td_linalg_slogdet(td_sub(z, a), &log_det);
    td_tensor *w = td_linalg_eigh(a, "L", &v), *q = td_linalg_qr(z, "reduced", &r);
    td_tensor *root = td_matmul(td_mul(v, td_sqrt(w)), td_mT(td_conj(v)));
    out[0] = td_sum(td_mul(td_mul(x, sign), td_add(root, td_matmul(r, q))));
    out[1] = td_add(log_det, td_abs(td_linalg_det(td_add(z, a))));
    (void)env, (void)n_in, (void)n_out;
    return td_ok(td_ctx_of(z));
}

TEST(systems_have_gradients_of_first_and_second_order) {
    td_ctx    *cx = td_open();
    td_tensor *wave = td_sin(td_mul(ramp(cx, TD_C128, TD_SHAPE(3, 3)), 0.3));
    td_tensor *z = td_requires_grad_(td_add(wave, td_eye(cx, 3, 3, TD_F64)));

    TD_CHECK_THAT(td_gradcheck(cx, systems, NULL, TD_LIST(z), 2, NULL), "%s",
                  td_message(cx));
    TD_CHECK_THAT(td_gradgradcheck(cx, systems, NULL, TD_LIST(z), 2, NULL), "%s",
                  td_message(cx));
    td_close(cx);
}

enum { ROOT, SPAN, PINV, SINE, LENGTHS, EXP, VALUES, SPECTRA };

/* A function of singular vectors or eigenvectors that no phase changes. */
static td_tensor *spectrum(td_tensor *z, int which) {
    td_tensor *wide = td_narrow(z, 0, 0, 2), *s, *vh, *v;
    td_tensor *u = td_linalg_svd(wide, false, &s, &vh), *w = td_linalg_eig(z, &v);
    switch (which) {
    case ROOT: return td_matmul(td_mul(u, td_sqrt(s)), vh);
    case SPAN: return td_matmul(td_mT(td_conj(vh)), vh);
    case PINV: return td_linalg_pinv(wide);
    case SINE: return td_matmul(td_mul(v, td_sin(w)), td_linalg_inv(v));
    case LENGTHS: return td_abs(td_mul(v, w));
    case EXP: return td_linalg_matrix_exp(z);
    default: return td_linalg_svdvals(z);
    }
}

static bool spectra(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                    int n_out) {
    td_tensor *y = spectrum(in[0], *(int *)env);
    out[0] = td_sum(td_mul(y, y));
    (void)n_in, (void)n_out;
    return td_ok(td_ctx_of(y));
}

/* The same of a real matrix with two complex eigenvalues. */
static bool real_spectrum(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                          int n_out) {
    td_tensor *v, *w = td_linalg_eig(in[0], &v);
    td_tensor *f = td_matmul(td_mul(v, td_exp(w)), td_linalg_inv(v));
    out[0] = td_sum(td_mul(td_real(f), td_abs(v)));
    out[1] = td_sum(td_abs(td_linalg_eigvals(in[0])));
    (void)env, (void)n_in, (void)n_out;
    return td_ok(td_ctx_of(w));
}

TEST(spectra_have_gradients_of_first_and_second_order) {
    td_ctx    *cx = td_open();
    td_tensor *wave = td_sin(td_mul(ramp(cx, TD_C128, TD_SHAPE(3, 3)), 0.1));
    td_tensor *z = td_requires_grad_(td_add(wave, td_diag(td_tensor1(cx, 1, 2, 4))));
    td_tensor *x = td_requires_grad_(
        td_add(td_to(td_reshape(td_tensor1(cx, 1, -2, 3, 1.5), TD_SHAPE(2, 2)), TD_F64),
               0.25));

    for (int i = 0; i < SPECTRA; i++) {
        TD_CHECK_THAT(td_gradcheck(cx, spectra, &i, TD_LIST(z), 1, NULL), "%d: %s", i,
                      td_message(cx));
        td_clear(cx);
        TD_CHECK_THAT(td_gradgradcheck(cx, spectra, &i, TD_LIST(z), 1, NULL), "%d: %s",
                      i, td_message(cx));
        td_clear(cx);
    }
    TD_CHECK_THAT(td_gradcheck(cx, real_spectrum, NULL, TD_LIST(x), 2, NULL), "%s",
                  td_message(cx));
    TD_CHECK_THAT(td_gradgradcheck(cx, real_spectrum, NULL, TD_LIST(x), 2, NULL), "%s",
                  td_message(cx));
    td_close(cx);
}

static double apart_of(td_tensor *a, td_tensor *b) {
    return td_item(td_amax(td_abs(td_sub(a, b)), TD_ALL));
}

/* Of matrices of several forms and dtypes: A V = V diag(w), A = U S Vh. */
TEST(eigenvectors_and_singular_vectors_satisfy_their_equations) {
    static const td_dtype dtypes[] = {TD_F32, TD_F64, TD_C64, TD_C128};
    td_ctx               *cx = td_open();
    for (int i = 0; i < 4; i++)
        for (int n = 1; n < 9; n++) {
            double     near = dtypes[i] == TD_F32 || dtypes[i] == TD_C64 ? 2e-4 : 1e-11;
            td_tensor *a = td_to(td_randn(cx, TD_SHAPE(2, n, n), TD_F64), dtypes[i]);
            td_tensor *b = td_to(td_randn(cx, TD_SHAPE(n, 5), TD_F64), dtypes[i]);
            if (i > 1) {
                a = td_mul(a, td_exp(td_mul(a, td_complex(td_tensor1(cx, 0),
                                                          td_tensor1(cx, 1)))));
                b = td_mul(b, td_exp(td_mul(b, td_complex(td_tensor1(cx, 0),
                                                          td_tensor1(cx, 2)))));
            }
            td_tensor *v, *w = td_linalg_eig(a, &v), *s, *vh;
            CHECK(td_dtype_of(w) == td_dtype_of(v));
            CHECK(td_dtype_is_complex(td_dtype_of(w)));
            td_tensor *av = td_matmul(td_to(a, td_dtype_of(v)), v);
            CHECK(apart_of(av, td_mul(v, td_unsqueeze(w, -2))) < near);
            td_tensor *u = td_linalg_svd(b, true, &s, &vh);
            td_tensor *us = td_mul(td_narrow(u, 1, 0, td_size(s, 0)), s);
            CHECK(apart_of(td_matmul(us, td_narrow(vh, 0, 0, td_size(s, 0))), b) <
                  near);
            td_tensor *p = td_linalg_pinv(b);
            CHECK(apart_of(td_matmul(td_matmul(b, p), b), b) < near);
            CHECK_OK(cx);
        }
    td_tensor *bad = td_full(cx, TD_SHAPE(2, 2), INFINITY, TD_F64);
    CHECK(td_is_nil(td_linalg_eigvals(bad)));
    CHECK(says(cx, TD_E_ARG, "did not converge; is an element not finite?"));
    td_close(cx);
}

TEST(the_gradient_descends) {
    td_ctx    *cx = td_open();
    td_tensor *z = td_requires_grad_(ramp(cx, TD_C128, TD_SHAPE(2)));

    td_backward(td_sum(td_square(td_abs(z))));

    CHECK_OK(cx);
    CHECK(is_part(td_grad_of(z), 1, 4, -1)); /* 2 z */
    td_backward(td_sum(z));
    CHECK(says(cx, TD_E_GRAD, "only a real root has an implicit gradient of 1"));
    td_close(cx);
}
