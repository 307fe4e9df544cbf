/* aot_help.h -- what tests of compiled functions share: a layer, ears for the log. */
#ifndef TD_AOT_TEST_HELP_H
#define TD_AOT_TEST_HELP_H

#include "aot/aot.h"
#include "tandem/tandem.h"
#include "td_test.h"

#include <math.h>

static char heard[1 << 16];

static inline void hear(void *env, const char *topic, const char *text) {
    (void)env;
    size_t n = strlen(heard);
    snprintf(heard + n, sizeof heard - n, "%s: %s\n", topic, text);
}

/* A context whose log comes to `heard`. */
static inline td_ctx *open_hearing(const char *topics) {
    td_ctx *cx = td_open();
    td_log_to(cx, hear, NULL);
    td_config_set(cx, "log", topics);
    heard[0] = 0;
    return cx;
}

/* Does code give eager's bits always? Native code sums in an order of its own
 * (docs/numerics.md). */
static inline bool is_exact(td_ctx *cx) {
    td_config c = {TD_CONFIG};
    return td_config_get(cx, &c) && c.backend == TD_BACKEND_INTERP;
}

/* The same number, or all but. */
static inline bool is_number(td_ctx *cx, double a, double b, double rel) {
    return is_exact(cx) ? a == b : fabs(a - b) <= rel * fabs(b);
}

/* A written argument and two results in one storage. */
static inline bool layer(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1), *calls = td_arg(c, 2);
    td_add_(calls, 1.0);
    td_tensor *h = td_tanh(td_matmul(x, w));
    return td_return(c, h, td_transpose(h, 0, 1));
}

static inline bool product(td_call *c) {
    return td_return(c, td_mul(td_arg(c, 0), td_arg(c, 1)));
}

/* Which difference to specialization 0 the log names since heard was emptied, or "it
 * fits". */
static inline const char *difference(void) {
    static char text[300];
    char       *at = strstr(heard, "not #0: ");
    snprintf(text, sizeof text, "it fits");
    if (at) sscanf(at, "not #0: %299[^\n]", text);
    return text;
}

/* Calls f with the first arguments, then with the second; the difference between. */
static inline const char *difference_of(td_fn *f, td_values first, td_values second) {
    td_tensor *out[1];
    if (!td_invoke(f, first, out, 1)) return "first call failed";
    heard[0] = 0;
    return td_invoke(f, second, out, 1) ? difference() : "second call failed";
}

#endif
