/* device_text.c -- the text of device kernels. */
#include "device/device_int.h"
#include "tandem/tandem.h"
#include "td_test.h"

/* The kernel of a copy, without what comes before it. */
static const char *copy_text(td_tensor *to, td_tensor *from) {
    static char  text[4096];
    td_call_nest t;
    td_buf       b = {0};
    bool         ok = td__copy_nest(&t, to, from) && td__device_text(&b, &t.nest);
    const char  *at = ok ? strstr(td__buf_str(&b), "TD_KERNEL") : NULL;
    snprintf(text, sizeof text, "%s", at ? at : "none");
    td__buf_free(&b);
    td__call_nest_free(&t);
    return text;
}

TEST(a_kernel_has_sizes_and_strides_as_parameters) {
    td_ctx    *cx = td_open();
    td_tensor *a = td_ones(cx, TD_SHAPE(2, 3)),
              *b = td_zeros(cx, TD_SHAPE(3, 2), TD_F64);
    CHECK_STR(copy_text(td_t(b), a),
              "TD_KERNEL KERNEL(TD_RUN(td_nest_run)) {\n"
              "    TD_OPEN\n"
              "    const int64_t n0 = r->size[0];\n"
              "    const int64_t n1 = r->size[1];\n"
              "    const int64_t n2 = r->size[2];\n"
              "    const int64_t n3 = r->size[3];\n"
              "    const float *p0 = (const float *)r->ptr[0];\n"
              "    double *p1 = (double *)r->ptr[1];\n"
              "    const int64_t count = n0 * n1;\n"
              "    TD_UNROLL\n"
              "    for (int64_t at = TD_FIRST; at < count; at += TD_STEP) {\n"
              "        int64_t rest_j = at;\n"
              "        const int64_t j1 = td_k_split(&rest_j, n1);\n"
              "        const int64_t j0 = rest_j;\n"
              "        const float v0 = p0[j0 + j1 * n2];\n"
              "        const double v1 = (double)(v0);\n"
              "        p1[j0 * n3 + j1] = v1;\n"
              "    }\n"
              "}\n");
    td_close(cx);
}

TEST(equal_texts_serve_all_shapes) {
    td_ctx *cx = td_open();
    char    first[4096];
    snprintf(first, sizeof first, "%s",
             copy_text(td_zeros(cx, TD_SHAPE(4, 5)),
                       td_zeros(cx, TD_SHAPE(4, 5), TD_I64)));
    CHECK_STR(copy_text(td_zeros(cx, TD_SHAPE(7)), td_zeros(cx, TD_SHAPE(7), TD_I64)),
              first);
    td_close(cx);
}
