/* func_facts.c -- facts about programs, pinned down: tests/cases/func/facts.td gives
 * the programs, facts.txt beside it what is to be found. The kinds, flags and counts
 * are those PyTorch's own analysis gives for the same functions. */
#include "func_help.h"

static void add_case(td_ctx *cx, const td_gcase *c, bool keep, td_buf *b) {
    side s;
    td_scope_begin(cx, NULL);
    build(cx, &s, c);
    td_facts *f = td__facts(s.fn, s.in, keep);
    TD_CHECK_THAT(td_ok(cx), "%s: %s", c->name, td_message(cx));
    td__buf_printf(b, "# case %s\n", c->name);
    td__facts_print(b, f);
    td__buf_add(b, "\n");
    td__facts_drop(f);
    td__replay_end(&s.r);
    td_scope_end(cx, NULL, NULL);
}

static char *read_text(const char *path) {
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 1 << 18);
    CHECK(file && text);
    CHECK(fread(text, 1, (1 << 18) - 1, file) > 0);
    fclose(file);
    return text;
}

/* The first line that differs. */
static void check_text(const char *got, const char *want) {
    int line = 1;
    while (*got && *got == *want) {
        line += *got == '\n';
        got++, want++;
    }
    TD_CHECK_THAT(*got == *want, "line %d: ...%.60s\n  is not ...%.60s", line, got,
                  want);
}

TEST(facts_are_as_pinned_down) {
    td_ctx   *cx = td_open();
    td_gfile *file = td__gfile_read(cx, "tests/cases/func/facts.td");
    td_buf    b = {0};
    CHECK_OK(cx);
    for (int i = 0; i < file->cases.n; i++) add_case(cx, file->cases.v[i], false, &b);
    char *want = read_text("tests/cases/func/facts.txt");
    check_text(td__buf_str(&b), want);
    free(want);
    td__buf_free(&b);
    td__gfile_drop(file);
    td_close(cx);
}

static td_facts *facts_of(td_ctx *cx, td_gfile *file, const char *name, bool keep) {
    td_facts *f = NULL;
    side      s;
    for (int i = 0; i < file->cases.n; i++) {
        if (strcmp(file->cases.v[i]->name, name) != 0) continue;
        build(cx, &s, file->cases.v[i]);
        f = td__facts(s.fn, s.in, keep);
        td__replay_end(&s.r);
    }
    CHECK_OK(cx);
    CHECK(f != NULL);
    return f;
}

static td_mutation first_mutation(td_ctx *cx, td_gfile *file, const char *name) {
    td_facts   *f = facts_of(cx, file, name, true);
    td_mutation m = f->in[0].mutation;
    td__facts_drop(f);
    return m;
}

TEST(writes_stay_in_the_graph_where_they_may) {
    td_ctx   *cx = td_open();
    td_gfile *file = td__gfile_read(cx, "tests/cases/func/facts.td");
    CHECK(first_mutation(cx, file, "data write") == TD_MUTATED_OUT_GRAPH);
    CHECK(first_mutation(cx, file, "data write, no gradients") == TD_MUTATED_IN_GRAPH);
    CHECK(first_mutation(cx, file, "all under no_grad") == TD_MUTATED_IN_GRAPH);
    CHECK(first_mutation(cx, file, "some writes under no_grad") ==
          TD_MUTATED_OUT_GRAPH);
    CHECK(first_mutation(cx, file, "metadata write") == TD_MUTATED_OUT_GRAPH);
    CHECK(first_mutation(cx, file, "view of an input") == TD_NOT_MUTATED);
    td__gfile_drop(file);
    td_close(cx);
}

TEST(view_sequences_lead_from_base_to_result) {
    td_ctx   *cx = td_open();
    td_gfile *file = td__gfile_read(cx, "tests/cases/func/facts.td");
    td_facts *f = facts_of(cx, file, "a view and a view of it", false);
    CHECK(f->n_bases == 1 && f->n_out == 2);
    CHECK(f->out[1].n_views == 2);
    CHECK(!strcmp(f->out[1].views[0].op, "t"));
    CHECK(!strcmp(f->out[1].views[1].op, "select"));
    CHECK(f->out[1].views[1].n_in == 3 && f->out[1].views[1].in[2].u.i == 0);
    td__facts_drop(f);
    td__gfile_drop(file);
    td_close(cx);
}

TEST(functions_are_looked_at_by_their_types) {
    static const char text[] = "func @f(%a: f32[4,3] grad, %b: f32[3], %n: int) {\n"
                               "  add_(%b, 1.0)\n  %y = mul(%a, %b)\n  return %y\n}\n";
    td_ctx           *cx = td_open();
    td_gfile         *file = td__gfile_parse(cx, text, strlen(text), "t.td");
    td_value          in[3];
    CHECK_OK(cx);
    CHECK(td__inputs_like(file->graphs.v[0], in));
    td_facts *f = td__facts(file->graphs.v[0], in, false);
    CHECK_OK(cx);
    CHECK(f->trains && f->n_tangents == 1 && !f->in[2].tensor);
    CHECK(f->in[0].is_leaf && f->in[0].requires_grad && !f->in[0].mutates_data);
    CHECK(f->in[1].mutates_data && !f->in[1].requires_grad);
    td__facts_drop(f);
    td__gfile_drop(file);
    td_close(cx);
}
