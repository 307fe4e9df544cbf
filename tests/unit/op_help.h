/* op_help.h -- short words for tests that compare tensors with numbers. */
#ifndef TD_OP_HELP_H
#define TD_OP_HELP_H

#include "td_test.h"

#include "tandem/tandem.h"

#include <stdlib.h>

/* All elements of t, row-major, as doubles; the caller frees. NULL: t is nil. */
static inline double *values_of(td_tensor *t) {
    size_t  n = (size_t)td_numel(t);
    double *v = malloc(sizeof(double) * (n + 1));
    if (td_is_nil(t) || !v || !td_read(t, TD_F64, v, sizeof(double) * n)) {
        free(v);
        return NULL;
    }
    return v;
}

/* Index of the first element that is not near its expected value, -1 when none is,
 * -2 when the counts differ. */
static inline int64_t first_bad(td_tensor *t, const double *want, int64_t n,
                                double tol) {
    if (td_is_nil(t) || td_numel(t) != n) return -2;
    double *got = values_of(t);
    int64_t bad = got ? -1 : -2;
    for (int64_t i = 0; got && bad < 0 && i < n; i++)
        if (!td_test_near(got[i], want[i], tol + tol * fabs(want[i]))) bad = i;
    free(got);
    return bad;
}

/* f64, ((i * k) mod 11 - 5) / 4 for element i: small sums of products are exact. */
static inline td_tensor *pattern(td_ctx *cx, td_ints sizes, int k) {
    int64_t n = 1;
    for (int d = 0; d < sizes.n; d++) n *= sizes.v[d];
    double *v = malloc(sizeof(double) * (size_t)(n + 1));
    for (int64_t i = 0; v && i < n; i++) v[i] = (double)(i * k % 11 - 5) / 4;
    td_tensor *t = v ? td_from(cx, TD_F64, sizes, v) : td_nil(cx);
    free(v);
    return t;
}

static inline const char *text_of(td_tensor *t) {
    static char text[2048];
    td_format(t, text, sizeof text);
    return text;
}

static inline bool has_shape(td_tensor *t, td_ints want) {
    if (td_is_nil(t) || td_rank(t) != want.n) return false;
    for (int i = 0; i < want.n; i++)
        if (td_sizes(t).v[i] != want.v[i]) return false;
    return true;
}

#define COUNT_OF(...) \
    ((int64_t)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)))
#define CHECK_ARRAY(t, want, n, tol)                        \
    TD_CHECK_THAT(first_bad((t), (want), (n), (tol)) == -1, \
                  "%s: element %lld is wrong in %s", #t,    \
                  (long long)first_bad((t), (want), (n), (tol)), text_of(t))
/* The elements of t, row-major, within 1e-5. */
#define CHECK_VALUES(t, ...) \
    CHECK_ARRAY((t), ((const double[]){__VA_ARGS__}), COUNT_OF(__VA_ARGS__), 1e-5)
#define CHECK_SHAPE(t, ...)                                                            \
    TD_CHECK_THAT(has_shape((t), TD_SHAPE(__VA_ARGS__)), "%s has other sizes: %s", #t, \
                  text_of(t))
/* The context has failed with this code and a message that contains the words; the
 * error is cleared for the next check. */
#define CHECK_FAILS(cx, code, words)                                                   \
    do {                                                                               \
        TD_CHECK_THAT(td_error(cx) == (code), "code is %s, not %s: \"%s\"",            \
                      td_code_name(td_error(cx)), td_code_name(code), td_message(cx)); \
        TD_CHECK_THAT(strstr(td_message(cx), words) != NULL,                           \
                      "the message is \"%s\", without \"%s\"", td_message(cx), words); \
        td_clear(cx);                                                                  \
    } while (0)

#endif
