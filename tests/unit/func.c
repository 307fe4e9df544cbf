/* func.c -- the functional graph of a program, with its plan behind it, does what the
 * program does: values, writes, geometry, aliasing. The programs are the files in
 * tests/cases/func; each case calls one. */
#include "func_help.h"
#include "pure_help.h"

/* ---- comparing ---------------------------------------------------------- */

/* Strides count where they are used; the offset of a result that lies in no argument
 * is its own affair. */
static bool same_tensor(td_tensor *a, td_tensor *b) {
    bool same = a->dtype == b->dtype && a->rank == b->rank;
    for (int d = 0; d < a->rank && same; d++)
        same = a->size[d] == b->size[d] &&
               (a->stride[d] == b->stride[d] || a->size[d] == 1 || a->numel == 0);
    double *va = same ? values_of(a) : NULL, *vb = same ? values_of(b) : NULL;
    for (int64_t i = 0; same && i < a->numel; i++)
        same = va[i] == vb[i] || (isnan(va[i]) && isnan(vb[i]));
    free(va);
    free(vb);
    return same;
}

static void check_value(const char *name, const char *what, int i, td_value a,
                        td_value b) {
    static char text[2048];
    bool        same = a.kind == b.kind;
    TD_CHECK_THAT(same, "%s: %s %d has another kind", name, what, i);
    if (a.kind != TD_K_TENSOR) return;
    td_format(a.u.t, text, sizeof text);
    TD_CHECK_THAT(same_tensor(a.u.t, b.u.t), "%s: %s %d differs:\n%s{%d}+%d\n%s{%d}+%d",
                  name, what, i, text, a.u.t->rank ? (int)a.u.t->stride[0] : 0,
                  (int)a.u.t->offset, text_of(b.u.t),
                  b.u.t->rank ? (int)b.u.t->stride[0] : 0, (int)b.u.t->offset);
}

/* Arguments, then results. */
static td_tensor *seen(side *s, int i) {
    td_value v = i < s->n_in ? s->in[i] : s->out[i - s->n_in];
    return v.kind == TD_K_TENSOR ? v.u.t : NULL;
}

static void check_aliases(const char *name, side *a, side *b) {
    for (int i = 0; i < a->n_in + a->n_out; i++)
        for (int k = 0; k < i; k++) {
            if (!seen(a, i) || !seen(a, k)) continue;
            if (seen(a, i)->st == seen(a, k)->st)
                TD_CHECK_THAT(seen(a, i)->offset - seen(a, k)->offset ==
                                  seen(b, i)->offset - seen(b, k)->offset,
                              "%s: %d and %d lie elsewhere", name, k, i);
            TD_CHECK_THAT((seen(a, i) == seen(a, k)) == (seen(b, i) == seen(b, k)),
                          "%s: %d and %d are one tensor in one run only", name, k, i);
            TD_CHECK_THAT((seen(a, i)->st == seen(a, k)->st) ==
                              (seen(b, i)->st == seen(b, k)->st),
                          "%s: %d and %d share bytes in one run only", name, k, i);
        }
}

static void compare(const td_gcase *c, side *a, side *b) {
    for (int i = 0; i < a->n_in; i++)
        check_value(c->name, "argument", i, a->in[i], b->in[i]);
    for (int i = 0; i < a->n_out; i++)
        check_value(c->name, "result", i, a->out[i], b->out[i]);
    for (int i = 0; i < c->g->n_values; i++) /* bases of arguments too */
        check_value(c->name, "value", i, a->r.val[i], b->r.val[i]);
    check_aliases(c->name, a, b);
}

/* ---- running ------------------------------------------------------------ */

static void show(const td_plan *p) {
    td_buf b = {0};
    if (!getenv("TD_SHOW")) return;
    td__graph_print(&b, p->j->g, TD_PRINT_TYPES);
    td__graph_print(&b, p->j->epilogue, TD_PRINT_TYPES);
    fprintf(stderr, "%s\n", td__buf_str(&b));
    td__buf_free(&b);
}

/* Who is to fail? */
typedef enum fate { NOBODY, BOTH } fate;

static void check_case(td_ctx *cx, const td_gcase *c, fate fails, bool symbols) {
    side a, b;
    td_scope_begin(cx, NULL);
    build(cx, &a, c);
    build(cx, &b, c);
    td_seed(cx, 7);
    bool ran = td__graph_replay(a.fn, a.in, a.out);
    TD_CHECK_THAT(ran == (fails != BOTH), "%s: %s", c->name, td_message(cx));
    td_code code = td_error(cx);
    td_clear(cx);
    uint64_t offset = cx->rng_offset;
    td_seed(cx, 7);
    td_plan *f = pure_form(b.fn, b.in, symbols);
    if (symbols && !f && strstr(td_message(cx), " grow")) {
        CHECK(td_error(cx) == TD_E_UNSUPPORTED && !fails);
        td_clear(cx);
    } else if (fails) {
        TD_CHECK_THAT(!f && td_error(cx) && td_error(cx) == code, "%s: %s", c->name,
                      td_message(cx));
        td_clear(cx);
    } else {
        TD_CHECK_THAT(td_ok(cx), "%s: %s", c->name, td_message(cx));
        show(f);
        CHECK(cx->rng_offset == 0);
        pure_call(f, b.in, b.out);
        TD_CHECK_THAT(td_ok(cx), "%s: %s", c->name, td_message(cx));
        CHECK(cx->rng_offset == offset);
        compare(c, &a, &b);
    }
    td__plan_drop(f);
    td__replay_end(&a.r);
    td__replay_end(&b.r);
    td_scope_end(cx, NULL, NULL);
}

static int check_file(const char *path, fate fails) {
    td_ctx   *cx = td_open();
    td_gfile *file = td__gfile_read(cx, path);
    CHECK_OK(cx);
    const char *only = getenv("TD_CASE");
    int         n = 0;
    for (int i = 0; i < file->cases.n; i++) {
        if (only && strcmp(only, file->cases.v[i]->name)) continue;
        check_case(cx, file->cases.v[i], fails, false);
        check_case(cx, file->cases.v[i], fails, true);
        n++;
    }
    td__gfile_drop(file);
    td_close(cx);
    return n;
}

TEST(views_are_written_through) {
    CHECK(check_file("tests/cases/func/views.td", NOBODY));
}
TEST(chains_are_followed) { CHECK(check_file("tests/cases/func/chains.td", NOBODY)); }
TEST(writers_have_twins) { CHECK(check_file("tests/cases/func/writers.td", NOBODY)); }
TEST(geometry_is_written) { CHECK(check_file("tests/cases/func/meta.td", NOBODY)); }
TEST(arguments_may_alias) { CHECK(check_file("tests/cases/func/inputs.td", NOBODY)); }
TEST(errors_are_eager_errors) { CHECK(check_file("tests/cases/func/errors.td", BOTH)); }
TEST(the_last_element_that_is_written_to_a_place_stays) {
    CHECK(check_file("tests/cases/func/shared_places.td", NOBODY));
}
