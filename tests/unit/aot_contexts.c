/* aot_contexts.c -- bodies that use a second context: a tensor shared from there is
 * read again in each call, anything else is refused. */
#include "aot_help.h"

static td_ctx    *own, *other;
static td_tensor *theirs; /* of the other context */
static td_fn     *their_fn;

static td_tensor *shared(td_call *c) { return td_share(td_call_ctx(c), theirs); }

static bool shares(td_call *c) {
    return td_return(c, td_add(td_sum(td_arg(c, 0)), shared(c)));
}
static bool branch(td_call *c) { return td_return(c, td_mul(td_sum(shared(c)), 2.0)); }
static bool shares_in_a_branch(td_call *c) {
    td_tensor  *y, *x = td_arg(c, 0);
    td_branches both = {.yes = branch, .no = branch};
    return td_cond(td_gt(td_sum(x), 0.0), both, TD_ARGS(x), &y, 1) && td_return(c, y);
}
static bool writes_shared(td_call *c) {
    td_tensor *s = shared(c);
    td_add_(s, 1.0);
    return td_return(c, td_add(td_arg(c, 0), td_sum(s)));
}

static bool computes(td_call *c) {
    return td_return(c, td_share(td_call_ctx(c), td_exp(theirs)));
}
static bool reads_item(td_call *c) {
    return td_return(c, td_mul(td_arg(c, 0), td_item(td_select(theirs, 0, 0))));
}
static bool reads_data(td_call *c) {
    double *v = td_data(theirs);
    return td_return(c, td_mul(td_arg(c, 0), v ? *v : 0.0));
}
static bool reads_size(td_call *c) {
    return td_return(c, td_mul(td_arg(c, 0), (double)td_size(theirs, 0)));
}
static bool writes(td_call *c) {
    td_add_(theirs, 1.0);
    return td_return(c, td_exp(td_arg(c, 0)));
}
static bool makes(td_call *c) {
    td_tensor *t = td_from(other, TD_F64, TD_SHAPE(1), &(double){1});
    return td_return(c, td_share(td_call_ctx(c), t));
}
static bool invokes(td_call *c) {
    td_tensor *y;
    return td_invoke(their_fn, TD_ARGS(theirs), &y, 1) && td_return(c, td_arg(c, 0));
}
static bool mixes(td_call *c) { return td_return(c, td_add(theirs, td_arg(c, 0))); }
static bool prints(td_call *c) {
    char text[100];
    td_format(theirs, text, sizeof text);
    return td_return(c, td_mul(td_arg(c, 0), (double)strlen(text)));
}

static void open_both(void) {
    own = td_open();
    other = td_open();
    theirs = td_ones(other, TD_SHAPE(3), TD_F64);
    their_fn = td_aot_function(other, writes, NULL, NULL);
}

/* Eager's sum of the result, and the compiled function's; NAN: it failed. */
static double sum_of(td_fn *f, td_body *body) {
    td_tensor *y, *x = td_ones(own, TD_SHAPE(3), TD_F64);
    td_value   v;
    bool       ok = f ? td_invoke(f, TD_ARGS(x), &y, 1)
                      : td_call_body(own, body, NULL, TD_ARGS(x), &v, 1) > 0;
    return ok ? td_item(td_sum(f ? y : v.u.t)) : NAN;
}

/* Changes of the shared tensor between calls. */
static void change(int k) {
    if (k == 0) td_mul_(theirs, 3.0);
    if (k == 1) td_set_(theirs, td_full(other, TD_SHAPE(3), 7.0, TD_F64));
    if (k == 2) td_resize_(theirs, TD_SHAPE(2));
    if (k == 3) td_set_(theirs, td_full(other, TD_SHAPE(2, 2), 5.0, TD_F64));
    if (k == 4) td_drop(theirs);
    if (k == 4) theirs = td_full(other, TD_SHAPE(2, 2), 4.0, TD_F64);
}

TEST(a_tensor_shared_in_a_body_is_read_again_in_each_call) {
    td_body *const bodies[] = {shares, shares_in_a_branch, writes_shared};
    for (int b = 0; b < 3; b++) {
        double want[6] = {0};
        for (int compiled = 0; compiled < 2; compiled++) {
            open_both();
            td_fn *f = compiled ? td_aot_function(own, bodies[b], NULL, NULL) : NULL;
            for (int k = 0; k < 6; k++) {
                double got = sum_of(f, bodies[b]);
                if (!compiled) want[k] = got;
                TD_CHECK_THAT(got == want[k], "body %d, call %d: %g, not %g. %s", b, k,
                              got, want[k], td_message(own));
                change(k);
            }
            CHECK_OK(own);
            td_close(own);
            td_close(other);
        }
    }
}

TEST(a_shared_tensor_whose_context_closed_is_no_longer_used) {
    open_both();
    td_fn *f = td_aot_function(own, shares, NULL, NULL);
    CHECK(sum_of(f, NULL) == 12);
    td_close(other);
    CHECK(isnan(sum_of(f, NULL)) && strstr(td_message(own), "td_share"));
    td_clear(own);
    td_close(own);
}

TEST(a_captured_body_does_nothing_in_another_context) {
    td_body *const bodies[] = {computes, reads_item, reads_data, reads_size, writes,
                               makes,    invokes,    mixes,      prints};
    for (size_t b = 0; b < sizeof bodies / sizeof *bodies; b++) {
        open_both();
        td_fn *f = td_aot_function(own, bodies[b], NULL, NULL);
        CHECK(isnan(sum_of(f, NULL)));
        TD_CHECK_THAT(td_error(own) == TD_E_TRACE &&
                          strstr(td_message(own), "in another context"),
                      "body %zu: %s", b, td_message(own));
        CHECK(td_version(theirs) == 0);
        CHECK_OK(other);
        td_clear(own);
        td_close(own);
        td_close(other);
    }
}
