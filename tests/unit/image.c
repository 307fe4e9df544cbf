/* image.c -- graphs as bytes: they come back as they were, and bytes that are wrong in
 * any way give no graph, and nothing worse. */
#include "graph/graph_image.h"
#include "graph_help.h"

static const char text[] =
    "func @f(%x: f32[2,3] @1 <param \"w\">, %y: f32[s0,3] @1, %n: float) {\n"
    "  given s0 >= 2, s0 < 100\n"
    "  %c = tensor([[1, 2, 3], [4, 5, 6]], f32)\n"
    "  %a = transpose(%x, 0, 1)\n"
    "  %p... = split(%a, 1)\n"
    "  %k = cat([%p.2, %p.0])\n"
    "  no_grad {\n"
    "    %z = mul(%k, %n)\n"
    "  }\n"
    "  add_(%x, 2.5)\n"
    "  %d = to(%c, f64)\n"
    "  %v = view(%y, [s0*3])\n"
    "  return %z <update 0>, %v, %d, 3, none\n"
    "}\n";

static td_graph *make(td_ctx *cx, td_gfile **f) {
    *f = parse(cx, text);
    CHECK(*f);
    td_graph *g = (*f)->graphs.v[0];
    g->nodes.v[1]->scope = "model/attn";
    g->nodes.v[3]->here = (td_where){"model.c", 41};
    return g;
}

static bool put(td_buf *b, const td_graph *g, bool bare) {
    td_image m;
    bool     ok = td__image_begin(&m, b, g, bare) && td__image_graph(&m, g);
    td__image_end(&m);
    return ok && !b->failed;
}

static td_graph *get(td_ctx *cx, const char *bytes, size_t n, const td_graph *from) {
    td_reader r = td__reader(bytes, n);
    td_graph *g = td__image_read(&r, cx, from);
    CHECK(!g == r.bad);
    return g;
}

TEST(a_graph_is_read_back_as_it_was_written) {
    td_ctx   *cx = td_open();
    td_gfile *f;
    td_graph *g = make(cx, &f), *h;
    td_buf    b = {0}, was = {0}, is = {0};
    unsigned  how = TD_PRINT_TYPES | TD_PRINT_PLACES | TD_PRINT_SCOPES;
    CHECK(put(&b, g, false));
    CHECK((h = get(cx, b.s, b.n, g)));
    CHECK(td__graph_print(&was, g, how) && td__graph_print(&is, h, how));
    CHECK_STR(is.s, was.s);
    CHECK(td__graph_verify(h, TD_STAGE_PROGRAM));
    CHECK(h->consts.n == 1 && h->consts.v[0] == g->consts.v[0]);
    CHECK_STR(h->nodes.v[3]->here.file, "model.c");
    CHECK(h->nodes.v[3]->here.line == 41);
    CHECK_OK(cx);
    td__graph_drop(h);
    td__gfile_drop(f);
    td__buf_free(&b);
    td__buf_free(&was);
    td__buf_free(&is);
    td_close(cx);
}

TEST(every_origin_of_a_node_is_read_back) {
    td_ctx   *cx = td_open();
    td_gfile *f;
    td_graph *g = make(cx, &f), *h;
    for (int origin = 0; origin < TD_FROM_COUNT; origin++) {
        td_buf b = {0};
        g->nodes.v[1]->origin = (uint8_t)origin;
        CHECK(put(&b, g, false));
        CHECK((h = get(cx, b.s, b.n, g)));
        CHECK(h->nodes.v[1]->origin == origin);
        td__graph_drop(h);
        td__buf_free(&b);
    }
    td__gfile_drop(f);
    td_close(cx);
}

TEST(places_are_those_of_the_graph_it_was_made_of) {
    td_ctx   *cx = td_open();
    td_gfile *f;
    td_graph *g = make(cx, &f), *h;
    td_buf    b = {0};
    CHECK(put(&b, g, false));
    g->nodes.v[3]->here.line = 57; /* the user's source has more lines by now */
    CHECK((h = get(cx, b.s, b.n, g)));
    CHECK(h->nodes.v[3]->here.line == 57);
    td__graph_drop(h);
    td__gfile_drop(f);
    td__buf_free(&b);
    td_close(cx);
}

TEST(to_be_compared_places_and_names_do_not_count) {
    td_ctx   *cx = td_open();
    td_gfile *f;
    td_graph *g = make(cx, &f);
    td_buf    a = {0}, b = {0}, c = {0};
    CHECK(put(&a, g, true));
    g->nodes.v[3]->here.line = 57;
    g->nodes.v[2]->out[0]->name = "other";
    CHECK(put(&b, g, true));
    CHECK(a.n == b.n && !memcmp(a.s, b.s, a.n));
    g->nodes.v[0]->in[1].u.i ^= 1;
    CHECK(put(&c, g, true));
    CHECK(a.n != c.n || memcmp(a.s, c.s, a.n));
    td__gfile_drop(f);
    td__buf_free(&a);
    td__buf_free(&b);
    td__buf_free(&c);
    td_close(cx);
}

TEST(wrong_bytes_are_no_graph_and_nothing_worse) {
    td_ctx   *cx = td_open();
    td_gfile *f;
    td_graph *g = make(cx, &f);
    td_buf    b = {0};
    int       read_well = 0;
    CHECK(put(&b, g, false));
    for (size_t n = 0; n < b.n; n++) CHECK(!get(cx, b.s, n, g));
    for (size_t i = 0; i < b.n; i++)
        for (int by = 1; by < 256; by++) {
            b.s[i] = (char)(b.s[i] ^ by);
            td_graph *h = get(cx, b.s, b.n, g);
            if (h) read_well++, (void)td__graph_verify(h, TD_STAGE_PROGRAM);
            td__graph_drop(h);
            td_clear(cx);
            b.s[i] = (char)(b.s[i] ^ by);
        }
    CHECK(read_well > 0);
    td__gfile_drop(f);
    td__buf_free(&b);
    td_close(cx);
}

static bool everything(td_ctx *cx, const td_graph *g) {
    td_buf    b = {0};
    bool      ok = put(&b, g, false);
    td_graph *h = ok ? get(cx, b.s, b.n, g) : NULL;
    td__graph_drop(h);
    td__buf_free(&b);
    return h != NULL;
}

TEST(every_failing_allocation_is_a_graph_that_is_not_there) {
    td_ctx   *cx = td_open();
    td_gfile *f;
    td_graph *g = make(cx, &f);
    int       failures = 0;
    CHECK(everything(cx, g));
    for (int n = 0;; n++) {
        td__fault_arm(n, false);
        bool ok = everything(cx, g);
        bool hit = td__fault_count() > n;
        td__fault_arm(-1, false);
        td_clear(cx);
        failures += !ok;
        if (!hit) break;
    }
    CHECK(failures > 10);
    td__gfile_drop(f);
    td_close(cx);
}
