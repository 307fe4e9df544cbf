/* stored_dtypes.c -- u16, u32, u64 and 8-bit floats: made, cast, printed, saved,
 * compiled; ops that compute refuse them. Casts are compared with PyTorch's by
 * tests/ops/samples_stored.def. */
#include "core/dtype.h"
#include "tandem/dlpack.h"
#include "tandem/tandem.h"
#include "td_files.h"
#include "td_test.h"

#include <math.h>

static const td_dtype stored[] = {TD_U16, TD_U32, TD_U64, TD_F8E4M3, TD_F8E5M2};

static bool says(td_ctx *cx, td_code code, const char *part) {
    bool ok = td_error(cx) == code && strstr(td_message(cx), part);
    if (!ok) fprintf(stderr, "%s: %s\n", td_code_name(td_error(cx)), td_message(cx));
    td_clear(cx);
    return ok;
}

/* Every f8 is read as f32 by both conversions, and both write it back. */
TEST(every_f8_survives_f32) {
    td_ctx    *cx = td_open();
    td_tensor *all = td_to(td_arange(cx, 0, 256), TD_U8);
    for (int i = 3; i < 5; i++) {
        td_dtype   dt = stored[i];
        td_tensor *f = td_to(td_view_dtype(all, dt), TD_F32);
        td_tensor *back = td_view_dtype(td_to(f, dt), TD_U8);
        for (int b = 0; b < 256; b++) {
            uint8_t one = (uint8_t)b, two;
            float   v = ((float *)td_data(f))[b];
            double  w = td__load_f(dt, &one);
            CHECK(isnan(v) ? isnan(w) : (double)v == w && !signbit(v) == !signbit(w));
            td__store_f(dt, &two, w);
            bool nan = isnan(v); /* has one pattern for each sign after a cast */
            CHECK(nan ? (two & 0x7f) == 0x7f : two == b);
            CHECK(nan || ((uint8_t *)td_data(back))[b] == b);
        }
    }
    CHECK_OK(cx);
    td_close(cx);
}

/* Both conversions round a sweep of numbers to the same bits. */
TEST(f8_of_single_numbers_is_f8_of_tensors) {
    td_ctx *cx = td_open();
    enum { N = 40000 };
    static float v[N];
    for (int i = 0; i < N; i++)
        v[i] = ldexpf((float)(i % 257) / 128 - 1, i / 257 % 60 - 30) *
               (i % 3 ? 1 : 1.001f);
    td_tensor *x = td_from(cx, TD_F32, TD_SHAPE(N), v);
    for (int i = 3; i < 5; i++) {
        td_tensor     *y = td_to(x, stored[i]);
        const uint8_t *bits = td_data(y);
        int            bad = 0;
        for (int k = 0; k < N; k++) {
            uint8_t one;
            td__store_f(stored[i], &one, (double)v[k]);
            bad += one != bits[k];
        }
        CHECK(bad == 0);
    }
    td_close(cx);
}

TEST(ops_that_compute_name_the_dtype_and_the_remedy) {
    td_ctx *cx = td_open();
    for (int i = 0; i < 5; i++) {
        td_tensor *x = td_ones(cx, TD_SHAPE(2, 2), stored[i]);
        td_add(x, x);
        CHECK(says(cx, TD_E_DTYPE, td_dtype_name(stored[i])));
        td_matmul(x, x);
        CHECK(says(cx, TD_E_DTYPE, "td_to(t, "));
        td_add_(x, 1);
        CHECK(says(cx, TD_E_DTYPE, "add_"));
        td_sum(x);
        CHECK(says(cx, TD_E_DTYPE, "sum"));
        td_kron(x, x);
        CHECK(says(cx, TD_E_DTYPE, "kron"));
        td_arange(cx, 0, 3, 1, stored[i]);
        CHECK(says(cx, TD_E_DTYPE, "arange"));
        td_cat(TD_LIST(x, td_ones(cx, TD_SHAPE(2, 2), TD_I8)), 0);
        CHECK(says(cx, TD_E_DTYPE, "cat"));
    }
    td_close(cx);
}

TEST(stored_dtypes_print_and_read) {
    td_ctx    *cx = td_open();
    char       text[200];
    int64_t    big;
    uint64_t   top[] = {UINT64_MAX, 1};
    td_tensor *x = td_from(cx, TD_U64, TD_SHAPE(2), top);
    td_format(x, text, sizeof text);
    CHECK_STR(text, "tensor([18446744073709551615,                    1], dtype=u64)");
    td_format(td_to(td_tensor1(cx, 0.3, 448, -1000), TD_F8E4M3), text, sizeof text);
    CHECK(strstr(text, "3.1250e-01") && strstr(text, "-4.4800e+02") &&
          strstr(text, "f8e4m3"));
    big = td_item_int(td_select(x, 0, 0));
    CHECK(big == -1); /* the bits */
    CHECK(td_item(td_select(x, 0, 0)) == 0x1p64);
    CHECK_OK(cx);
    td_close(cx);
}

TEST(files_and_exchange_keep_stored_dtypes) {
    td_ctx *cx = td_open();
    files_begin();
    td_tensor  *x[5];
    const char *names[] = {"a", "b", "c", "d", "e", NULL};
    for (int i = 0; i < 5; i++) x[i] = td_to(td_arange(cx, 0, 6), stored[i]);
    CHECK(td_safetensors_save(cx, files_path("x.st"), names, TD_LIST_OF(x, 5), NULL));
    td_safetensors *f = td_safetensors_open(cx, files_path("x.st"));
    for (int i = 0; i < 5; i++) {
        td_tensor *y = td_safetensors_get(f, names[i]);
        CHECK(td_dtype_of(y) == stored[i] && td_item(td_select(y, 0, 5)) == 5);
        DLManagedTensorVersioned *m = td_to_dlpack(x[i]);
        td_tensor                *z = td_from_dlpack(cx, m);
        CHECK(td_dtype_of(z) == stored[i] && td_item(td_select(z, 0, 3)) == 3);
    }
    CHECK_OK(cx);
    td_save_npy(x[3], files_path("x.npy"));
    CHECK(says(cx, TD_E_UNSUPPORTED, "f8e4m3"));
    files_end();
    td_close(cx);
}

/* x in f32 -> f8 -> f32, and integers through u16 and u64. */
static bool body(td_call *c) {
    td_tensor *x = td_arg(c, 0), *n = td_arg(c, 1);
    td_tensor *q = td_to(td_mul(x, 2.0), TD_F8E4M3);
    td_tensor *y = td_tanh(td_to(q, TD_F32));
    td_tensor *u = td_to(td_sub(n, 3), TD_U64), *w = td_to(n, TD_U16);
    return td_return(c, td_detach(q), y, td_to(u, TD_F32), td_add(td_to(w, TD_I32), 1),
                     td_clone(u));
}

TEST(compiled_casts_are_eager_ones) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_requires_grad_(td_randn(cx, TD_SHAPE(40, 9))),
              *n = td_arange(cx, -2, 6);
    td_tensor *a[5], *b[5], *g[2];
    td_fn     *f = td_aot_function(cx, body, NULL, NULL);
    CHECK(td_invoke(f, TD_ARGS(x, n), a, 5));
    td_value v[5];
    CHECK(td_call_body(cx, body, NULL, TD_ARGS(x, n), v, 5) == 5);
    for (int i = 0; i < 5; i++) b[i] = v[i].u.t;
    for (int i = 0; i < 5; i++) {
        CHECK(td_dtype_of(a[i]) == td_dtype_of(b[i]));
        td_tensor *near = td_allclose(td_to(a[i], TD_F64), td_to(b[i], TD_F64));
        CHECK(td_item(near) != 0);
    }
    for (int i = 0; i < 2; i++) {
        td_backward(td_sum(i ? b[1] : a[1]));
        g[i] = td_clone(td_grad_of(x));
        td_zero_grad(x);
    }
    CHECK_OK(cx);
    CHECK(td_item(td_allclose(g[0], g[1])) != 0);
    td_fn_drop(f);
    td_close(cx);
}
