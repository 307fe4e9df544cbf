/* grad_help.h -- short words for the autograd tests. */
#ifndef TD_GRAD_HELP_H
#define TD_GRAD_HELP_H

#include "td_test.h"

#include "tandem/grad.h"
#include "tandem/ops.h"
#include "tandem/tensor.h"

/* A leaf that requires grad. */
#define LEAF(cx, ...) td_set_requires_grad(td_tensor1((cx), __VA_ARGS__), true)
/* The same as the result of an op: not a leaf. */
#define MADE(cx, ...) td_mul(LEAF(cx, __VA_ARGS__), 1.0)

static inline bool same_values(td_tensor *t, const double *want, int n) {
    double got[64];
    if (td_is_nil(t) || td_numel(t) != n || n > 64) return false;
    if (!td_read(t, TD_F64, got, sizeof(double) * (size_t)n)) return false;
    for (int i = 0; i < n; i++)
        if (!td_test_near(got[i], want[i], 1e-5 + 1e-5 * fabs(want[i]))) return false;
    return true;
}

static inline const char *shown(td_tensor *t) {
    static char text[512];
    td_format(t, text, sizeof text);
    return text;
}

#define CHECK_VALUES(t, ...)                                                \
    TD_CHECK_THAT(same_values((t), (const double[]){__VA_ARGS__},           \
                              (int)(sizeof((const double[]){__VA_ARGS__}) / \
                                    sizeof(double))),                       \
                  "%s is %s, not %s", #t, shown(t), #__VA_ARGS__)
/* The context has failed with a message that contains the words. */
#define CHECK_FAILS(cx, words)                                         \
    TD_CHECK_THAT(!td_ok(cx) && strstr(td_message(cx), words) != NULL, \
                  "the message is \"%s\", without \"%s\"", td_message(cx), words)

static inline td_tensor *grad1(td_tensor *y, td_tensor *x, const td_grad_opts *opts) {
    td_tensor *g = NULL;
    td_grad((td_tensors){&y, 1}, (td_tensors){&x, 1}, &g, opts);
    return g;
}

#endif
