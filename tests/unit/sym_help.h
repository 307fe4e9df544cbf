/* sym_help.h -- a body captured once with dynamic sizes does at other sizes what the
 * body itself does there, in every respect a caller can see (trace_help.h). */
#ifndef TD_SYM_HELP_H
#define TD_SYM_HELP_H

#include "trace_help.h"

/* Which sizes the arguments are made with; 0: those of the capture. */
static int64_t grown;

static inline char *guards_of(const td_program *p) {
    size_t n = td_program_guards(p, NULL, 0);
    char  *s = malloc(n + 1);
    td_program_guards(p, s, n + 1);
    return s;
}

static inline char *text_of_program(const td_program *p) {
    size_t n = td_program_text(p, NULL, 0);
    char  *s = malloc(n + 1);
    td_program_text(p, s, n + 1);
    return s;
}

static inline td_program *capture_at(td_ctx *cx, td_body *body, make_fn *make, nature n,
                                     const td_capture_opts *opts) {
    static world model;
    grown = 0;
    prepare(cx, &model, make, n);
    td_program *p =
        td_capture_with(cx, body, NULL, (td_values){model.in, model.n_in}, opts);
    TD_CHECK_THAT(p != NULL, "%s", td_message(cx));
    return p;
}

/* The program for sizes 0 at sizes k. */
static inline void check_sizes(td_body *body, make_fn *make, nature n, int64_t k) {
    td_capture_opts opts = {TD_CAPTURE_OPTS, .dynamic = TD_DYNAMIC_ALL};
    td_ctx         *cx = td_open();
    static world    a, b;
    td_program     *p = capture_at(cx, body, make, n, &opts);
    grown = k;
    prepare(cx, &a, make, n);
    run_eager(cx, &a, body, NULL);
    CHECK_OK(cx);
    prepare(cx, &b, make, n);
    b.n_out = td_program_results(p);
    bool ok = td_program_run(p, (td_values){b.in, b.n_in}, b.out, MOST);
    b.offset = td_rng_offset(cx);
    char *text = text_of_program(p);
    TD_CHECK_THAT(ok, "sizes %d, %s in\n%s", (int)k, td_message(cx), text);
    free(text);
    SAME("random offset", a.offset, b.offset);
    check_worlds(&a, &b, n);
    check_grads(cx, &a, &b, n);
    check_writes(cx, &a, &b, n);
    td_program_drop(p);
    td_close(cx);
}

/* Whatever takes gradients, at several sizes. */
static inline void check_dynamic(td_body *body, make_fn *make) {
    for (int n = 0; n < NATURES; n++)
        for (int64_t k = 0; k < 4; k++) check_sizes(body, make, (nature)n, k);
}

#endif
