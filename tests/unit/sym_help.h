/* sym_help.h -- a body captured once with dynamic sizes does at other sizes what the
 * body itself does there, in every respect a caller can see (trace_help.h). */
#ifndef TD_SYM_HELP_H
#define TD_SYM_HELP_H

#include "trace_help.h"

#include "pure_help.h"
#include "trace/sym_args.h"

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
    TD_CHECK_THAT(!td_is_nil(p), "%s", td_message(cx));
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

/* Captured and made functional in one trace. */
static inline td_plan *functional_at(td_ctx *cx, td_body *body, make_fn *make,
                                     nature n) {
    static world model;
    td_symargs   a;
    td_symenv   *e = td__symenv_make(cx);
    grown = 0;
    prepare(cx, &model, make, n);
    td__symenv_begin(e);
    CHECK(td__symargs_make(&a, e, (td_values){model.in, model.n_in},
                           (td_symplan){.dynamic = TD_DYNAMIC_ALL}));
    td_graph *g = td__capture(cx, body, NULL, (td_values){a.v, a.n});
    CHECK_OK(cx);
    check_text(cx, g);
    td_plan *f = pure_plan(td__joint(g, a.v, &(td_joint_opts){0}));
    TD_CHECK_THAT(f != NULL, "%s", td_message(cx));
    check_text(cx, f->j->g);
    check_text(cx, f->j->epilogue);
    td__symargs_drop(&a);
    td__symenv_end(e);
    td__symenv_drop(e);
    td__graph_drop(g);
    return f;
}

static inline void check_elements(td_tensor *x, td_tensor *y, nature n) {
    SAME("rank", td_rank(x), td_rank(y));
    SAME("count", td_numel(x), td_numel(y));
    size_t  bytes = (size_t)td_numel(x) * sizeof(double);
    double *v = malloc(2 * bytes + 1), *w = v + td_numel(x);
    bool    same = td_read(x, TD_F64, v, bytes) && td_read(y, TD_F64, w, bytes) &&
                !memcmp(v, w, bytes);
    free(v);
    TD_CHECK_THAT(same, "nature %d: values differ", (int)n);
}

/* Elements, where they lie, and who shares them. */
static inline void check_places(const world *a, const world *b, nature n) {
    SAME("count of results", a->n_out, b->n_out);
    for (int i = 0; i < a->n_in + a->n_out; i++) {
        td_tensor *x = nth(a, i), *y = nth(b, i);
        if (!x) continue;
        SAME("offset", td_offset(x), td_offset(y));
        for (int d = 0; d < td_rank(x); d++)
            SAME("stride", td_stride(x, d), td_stride(y, d));
        check_elements(x, y, n);
        for (int k = 0; k < i; k++)
            if (nth(a, k))
                SAME("aliasing", td_same_storage(x, nth(a, k)),
                     td_same_storage(y, nth(b, k)));
    }
}

static inline void check_functional(td_body *body, make_fn *make, nature n, int64_t k) {
    td_ctx      *cx = td_open();
    static world a, b;
    td_plan     *f = functional_at(cx, body, make, n);
    grown = k;
    prepare(cx, &a, make, n);
    run_eager(cx, &a, body, NULL);
    prepare(cx, &b, make, n);
    b.n_out = f->j->n_results;
    bool ok = pure_call(f, b.in, b.out);
    TD_CHECK_THAT(ok, "functional, sizes %d: %s", (int)k, td_message(cx));
    check_places(&a, &b, n);
    td__plan_drop(f);
    td_close(cx);
}

/* Whatever takes gradients, at several sizes. */
static inline void check_dynamic(td_body *body, make_fn *make) {
    for (int n = 0; n < NATURES; n++)
        for (int64_t k = 0; k < 4; k++) {
            check_sizes(body, make, (nature)n, k);
            check_functional(body, make, (nature)n, k);
        }
}

#endif
