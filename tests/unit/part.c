/* part.c -- what the partitioners keep and what they compute again, rule by rule. */
#include "part_help.h"

static td_part_opts usual(void) { return td__part_defaults(); }

static const char cosines[] = "func @f(%x: f32[8], %t: f32[8] <tangent 0>) {\n"
                              "  %a = cos(%x)\n"
                              "  %b = cos(%a)\n"
                              "  %y = cos(%b)\n"
                              "  %sb = sin(%b) backward\n"
                              "  %nb = neg(%sb) backward\n"
                              "  %gb = mul(%t, %nb) backward\n"
                              "  %sa = sin(%a) backward\n"
                              "  %na = neg(%sa) backward\n"
                              "  %ga = mul(%gb, %na) backward\n"
                              "  %sx = sin(%x) backward\n"
                              "  %nx = neg(%sx) backward\n"
                              "  %gx = mul(%ga, %nx) backward\n"
                              "  return %y, %gx <grad 0>\n"
                              "}\n";

TEST(default_keeps_what_backward_reads) {
    cut c = cut_with(cosines, false, usual());
    CHECK_STR(kept_names(c.h), "x a b");
    CHECK_STR(again_names(c.h), "");
    CHECK(c.h->n_saved == 3);
    CHECK(c.h->saved[0].from == TD_SAVED_PRIMAL && c.h->saved[0].index == 0);
    CHECK(c.h->saved[1].from == TD_SAVED_FRESH && c.h->saved[1].index == 1);
    CHECK(c.h->bytes_saved == 64);
    cut_end(&c);
}

TEST(mincut_keeps_the_input_of_a_pointwise_chain) {
    cut c = cut_with(cosines, true, usual());
    CHECK_STR(kept_names(c.h), "x");
    CHECK_STR(again_names(c.h), "a b");
    CHECK(c.h->fwd->inputs.n == 1 && c.h->fwd->outputs.n == 1);
    CHECK(c.h->bwd->inputs.n == 2 && c.h->bwd->outputs.n == 1);
    CHECK(c.h->bytes_saved == 0);
    CHECK(c.h->bytes_most == 64);
    cut_end(&c);
}

TEST(mincut_keeps_one_sum_instead_of_four_inputs) {
    cut c = cut_with("func @f(%a: f32[8], %b: f32[8], %c: f32[8], %d: f32[8],\n"
                     "        %t: f32[8] <tangent 0>) {\n"
                     "  %p = add(%a, %b)\n"
                     "  %q = add(%p, %c)\n"
                     "  %s = add(%q, %d)\n"
                     "  %u = cos(%s)\n"
                     "  %y = cos(%u)\n"
                     "  %su = sin(%u) backward\n"
                     "  %gu = mul(%t, %su) backward\n"
                     "  %ss = sin(%s) backward\n"
                     "  %g = mul(%gu, %ss) backward\n"
                     "  return %y, %g <grad 0>, %g <grad 1>, %g <grad 2>, %g <grad 3>\n"
                     "}\n",
                     true, usual());
    CHECK_STR(kept_names(c.h), "s");
    CHECK(c.h->fwd->outputs.n == 2 && c.h->bwd->outputs.n == 4);
    cut_end(&c);
}

TEST(parameters_are_free_to_keep) {
    const char *text = "func @f(%x: f32[8,8]%s, %t: f32[8,8] <tangent 0>) {\n"
                       "  %a = sin(%x)\n"
                       "  %s = sum(%a, [1], true)\n"
                       "  %b = mul(%s, %s)\n"
                       "  %e = expand(%b, [8,8])\n"
                       "  %y = exp(%e)\n"
                       "  %c = cos(%x) backward\n"
                       "  %m = mul(%c, %y) backward\n"
                       "  %g = mul(%m, %t) backward\n"
                       "  return %y, %g <grad 0>\n"
                       "}\n";
    char        buf[1000];
    snprintf(buf, sizeof buf, "%.*s <param \"w\">%s", (int)(strstr(text, "%s") - text),
             text, strstr(text, "%s") + 2);
    cut c = cut_with(buf, true, usual());
    CHECK(strstr(kept_names(c.h), "x") != NULL);
    CHECK(c.h->saved[0].from == TD_SAVED_PRIMAL);
    cut_end(&c);
}

/* ---- views -------------------------------------------------------------- */

TEST(views_are_not_saved_when_their_base_is) {
    cut c = cut_with("func @f(%x: f32[4,6], %w: f32[4,5], %t: f32[6,5] <tangent 0>) {\n"
                     "  %h = exp(%x)\n"
                     "  %v = transpose(%h, 0, 1)\n"
                     "  %y = mm(%v, %w)\n"
                     "  %wt = transpose(%w, 0, 1) backward\n"
                     "  %gv = mm(%t, %wt) backward\n"
                     "  %vt = transpose(%v, 0, 1) backward\n"
                     "  %gw = mm(%vt, %t) backward\n"
                     "  %gh = transpose(%gv, 0, 1) backward\n"
                     "  %gx = mul(%gh, %h) backward\n"
                     "  return %y, %gx <grad 0>, %gw <grad 1>\n"
                     "}\n",
                     true, usual());
    CHECK_STR(kept_names(c.h), "w h");
    CHECK_STR(again_names(c.h), "v");
    CHECK_STR(c.h->notes[2].why, "a view of an available value");
    cut_end(&c);
}

/* ---- random ops --------------------------------------------------------- */

static const char dropped[] = "func @f(%x: f32[8,8], %t: f32[8,8] <tangent 0>) {\n"
                              "  %r = rand_like(%x)%s\n"
                              "  %k = sin(%r)\n"
                              "  %u = rand_like(%x)%s\n"
                              "  %a = mul(%x, %u)%s\n"
                              "  %z = exp(%a)%s\n"
                              "  %y = add(%z, %k)\n"
                              "  %g1 = mul(%t, %z) backward\n"
                              "  %g = mul(%g1, %u) backward\n"
                              "  %q = rand_like(%x) backward\n"
                              "  %gq = mul(%g, %q) backward\n"
                              "  return %y, %gq <grad 0>\n"
                              "}\n";

static const char *tagged(const char *text, const char *tag) {
    static char out[4000];
    char       *to = out;
    for (const char *p = text; *p;) {
        if (p[0] == '%' && p[1] == 's') {
            to += sprintf(to, "%s", tag);
            p += 2;
        } else *to++ = *p++;
    }
    *to = 0;
    return out;
}

TEST(random_values_are_saved) {
    cut c = cut_with(tagged(dropped, ""), true, usual());
    CHECK_STR(kept_names(c.h), "x u");
    CHECK(c.h->n_draws == 0);
    CHECK(count_op(c.h->fwd, TD_OP_rand_like) == 2);
    CHECK(count_op(c.h->bwd, TD_OP_rand_like) == 1);
    cut_end(&c);
}

static void check_drawn_again(cut *c) {
    CHECK_STR(kept_names(c->h), "x");
    CHECK_STR(again_names(c->h), "u a z");
    CHECK(c->h->n_draws == 1 && c->h->n_saved == 2);
    CHECK(c->h->saved[1].from == TD_SAVED_FRESH && c->h->saved[1].bytes == 16);
    CHECK(count_op(c->h->fwd, TD_OP_random_state) == 1);
    CHECK(count_op(c->h->bwd, TD_OP_random_state) == 2);
    cut_end(c);
}

TEST(random_ops_a_checkpoint_repeats_draw_the_same) {
    static const char *const wish[] = {" must_recompute 1", " prefer_recompute 1"};
    for (int i = 0; i < 4; i++) {
        cut c = cut_with(tagged(dropped, wish[i / 2]), i % 2, usual());
        check_drawn_again(&c);
    }
}

TEST(without_a_budget_random_ops_are_drawn_again) {
    td_part_opts o = usual();
    o.budget = 0;
    cut c = cut_with(tagged(dropped, ""), true, o);
    check_drawn_again(&c);
}

/* ---- checkpoints -------------------------------------------------------- */

/* sigmoid(mm(sin x, w)), twice, in regions 1 and 2. */
static const char regions[] =
    "func @f(%x: f32[8,8], %w: f32[8,8], %t: f32[8,8] <tangent 0>) {\n"
    "  %s1 = sin(%x) must_recompute 1\n"
    "  %m1 = mm(%s1, %w) must_recompute 1\n"
    "  %h1 = tanh(%m1) must_recompute 1\n"
    "  %s2 = sin(%h1) must_recompute 2\n"
    "  %m2 = mm(%s2, %w) must_recompute 2\n"
    "  %h2 = tanh(%m2) must_recompute 2\n"
    "  %g1 = tanh_backward(%t, %h2) backward\n"
    "  %wt = transpose(%w, 0, 1) backward\n"
    "  %g2 = mm(%g1, %wt) backward\n"
    "  %st = transpose(%s2, 0, 1) backward\n"
    "  %gw = mm(%st, %g1) backward\n"
    "  %c2 = cos(%h1) backward\n"
    "  %g3 = mul(%g2, %c2) backward\n"
    "  %g4 = tanh_backward(%g3, %h1) backward\n"
    "  %g5 = mm(%g4, %wt) backward\n"
    "  %c1 = cos(%x) backward\n"
    "  %gx = mul(%g5, %c1) backward\n"
    "  return %h2, %gx <grad 0>, %gw <grad 1>\n"
    "}\n";

TEST(regions_are_recomputed_and_values_between_them_saved) {
    for (int mincut = 0; mincut < 2; mincut++) {
        cut c = cut_with(regions, mincut, usual());
        CHECK_STR(kept_names(c.h), "x w h1");
        CHECK_STR(again_names(c.h), "s2 m2 h2");
        CHECK(count_op(c.h->fwd, TD_OP_mm) == 2);
        CHECK(count_op(c.h->bwd, TD_OP_mm) == 4);
        cut_end(&c);
    }
}

TEST(must_save_holds_inside_a_region_and_at_budget_0) {
    char text[4000];
    snprintf(text, sizeof text, "%s", regions);
    memcpy(strstr(text, "%m2 = mm(%s2, %w) must_recompute 2"),
           "%m2 = mm(%s2, %w) must_save 2     ", 34);
    for (int i = 0; i < 3; i++) {
        td_part_opts o = usual();
        o.budget = i == 2 ? 0 : 1;
        cut c = cut_with(text, i > 0, o);
        CHECK(strstr(kept_names(c.h), "m2") != NULL);
        CHECK_STR(again_names(c.h), "s2 h2");
        cut_end(&c);
    }
}

/* ---- outputs, gradients, effects ---------------------------------------- */

TEST(an_output_backward_needs_is_not_handed_out_twice) {
    cut c = cut_with("func @f(%x: f32[8], %t: f32[8] <tangent 0>) {\n"
                     "  %y = exp(%x)\n"
                     "  %g = mul(%t, %y) backward\n"
                     "  return %y, %g <grad 0>\n"
                     "}\n",
                     false, usual());
    CHECK(c.h->n_saved == 1);
    CHECK(c.h->saved[0].from == TD_SAVED_OUTPUT && c.h->saved[0].index == 0);
    CHECK(c.h->fwd->outputs.n == 1);
    CHECK(c.h->bytes_saved == 32);
    cut_end(&c);
}

TEST(a_gradient_may_be_a_forward_value_or_an_input) {
    for (int mincut = 0; mincut < 2; mincut++) {
        cut c = cut_with("func @f(%x: f32[8], %z: f32[8], %t: f32[8] <tangent 0>) {\n"
                         "  %y = exp(%x)\n"
                         "  %u = cos(%x) backward\n"
                         "  return %y, %y <grad 0>, %z <grad 1>, %u <grad 2>, none "
                         "<grad 1>, %t <grad 0>\n"
                         "}\n",
                         mincut, usual());
        CHECK(c.h->bwd->outputs.n == 5);
        CHECK(c.h->bwd->outputs.v[3].kind == TD_G_NONE);
        cut_end(&c);
    }
}

TEST(a_graph_without_gradients_has_no_backward_half) {
    cut c = cut_with("func @f(%x: f32[8]) {\n"
                     "  %y = exp(%x)\n"
                     "  %z = sin(%x)\n"
                     "  return %y\n"
                     "}\n",
                     true, usual());
    CHECK(c.h->bwd == NULL);
    CHECK(c.h->fwd->nodes.n == 1);
    cut_end(&c);
}

static const char writing[] =
    "func @f(%x: f32[8], %b: f32[8], %t: f32[8] <tangent 0>) {\n"
    "  %c = clone(%b) must_save 0\n"
    "  %n = add(%b, 1.0)\n"
    "  %a = mul(%x, %c)\n"
    "  %y = exp(%a)\n"
    "  %g1 = mul(%t, %y) backward\n"
    "  %g = mul(%g1, %c) backward\n"
    "  %s = sin(%n) backward\n"
    "  %g2 = mul(%g, %s) backward\n"
    "  %nx = mul(%g, 2.0) backward\n"
    "  copy_(%b, %n)\n"
    "  copy_(%x, %nx) backward\n"
    "  return %y, %g2 <grad 0>\n"
    "}\n";

TEST(writes_stay_in_their_half_and_are_done_once) {
    for (int mincut = 0; mincut < 2; mincut++) {
        cut c = cut_with(writing, mincut, usual());
        CHECK(count_op(c.h->fwd, TD_OP_copy_) == 1);
        CHECK(count_op(c.h->bwd, TD_OP_copy_) == 1);
        CHECK(c.h->bwd->nodes.v[c.h->bwd->nodes.n - 1]->op == TD_OP_copy_);
        for (int i = 0; i < c.h->n_saved; i++)
            CHECK(c.h->saved[i].from != TD_SAVED_PRIMAL || c.h->saved[i].index != 1);
        cut_end(&c);
    }
}

TEST(backward_may_not_read_an_input_that_forward_writes) {
    td_ctx      *cx = td_open();
    char         text[2000];
    td_part_opts o = usual();
    td_joint     j;
    snprintf(text, sizeof text, "%s", writing);
    memcpy(strstr(text, "mul(%g1, %c)"), "mul(%g1, %b)", 12);
    td_gfile *f = parse(cx, text);
    CHECK_OK(cx);
    CHECK(td__graph_infer(f->graphs.v[0]) && td__joint_over(f->graphs.v[0], &j));
    CHECK(td__part_mincut(&j, &o) == NULL);
    CHECK(strstr(td_message(cx), "backward reads input 1 after forward wrote it"));
    td__gfile_drop(f);
    td_close(cx);
}

/* ---- symbolic sizes ----------------------------------------------------- */

TEST(sizes_backward_reads_are_handed_over) {
    for (int mincut = 0; mincut < 2; mincut++) {
        cut c = cut_with("func @f(%x: f32[s0,s1], %t: f32[s0] <tangent 0>) {\n"
                         "  %e = exp(%x) : f32[s0,s1]\n"
                         "  %y = sum(%e, [1]) : f32[s0]\n"
                         "  %u = unsqueeze(%t, 1) : f32[s0,1] backward\n"
                         "  %g = expand(%u, [s0,s1]) : f32[s0,s1]{1,0} backward\n"
                         "  return %y, %g <grad 0>\n"
                         "}\n",
                         mincut, usual());
        CHECK(c.h->n_saved == 1 && c.h->n_saved_syms == 1);
        CHECK(c.h->saved[0].from == TD_SAVED_FRESH && c.h->saved[0].index == 1);
        CHECK(c.h->fwd->outputs.v[1].kind == TD_G_SYM);
        CHECK(c.h->bwd->inputs.v[0]->type->kind == TD_K_INT);
        cut_end(&c);
    }
}

/* ---- the backward half's order ------------------------------------------ */

TEST(what_is_computed_again_stands_just_before_its_reader) {
    cut             c = cut_with(regions, true, usual());
    const td_graph *g = c.h->bwd;
    CHECK_STR(td__ops[g->nodes.v[0]->op].name, "sin");
    CHECK(g->nodes.v[0]->origin == TD_FROM_FORWARD);
    CHECK_STR(td__ops[g->nodes.v[3]->op].name, "tanh_backward");
    cut_end(&c);
}

/* ---- options ------------------------------------------------------------ */

TEST(a_budget_outside_0_to_1_is_refused) {
    td_ctx      *cx = td_open();
    td_gfile    *f = parse(cx, cosines);
    td_part_opts o = usual();
    td_joint     j;
    CHECK(td__graph_infer(f->graphs.v[0]) && td__joint_over(f->graphs.v[0], &j));
    o.budget = 1.5;
    CHECK(td__part_mincut(&j, &o) == NULL);
    CHECK(td_error(cx) == TD_E_ARG);
    CHECK(strstr(td_message(cx), "the memory budget is 1.5") != NULL);
    td__gfile_drop(f);
    td_close(cx);
}

TEST(the_joint_graph_is_left_as_it_was) {
    td_ctx   *cx = td_open();
    td_gfile *f = parse(cx, regions);
    td_joint  j;
    CHECK(td__graph_infer(f->graphs.v[0]) && td__joint_over(f->graphs.v[0], &j));
    td_part_opts o = usual();
    td_graph    *was = td__graph_clone(j.g);
    td_halves   *h = td__part_mincut(&j, &o);
    char         why[200];
    CHECK(h && td__graph_equal(was, j.g, why, sizeof why));
    td__halves_drop(h);
    td__graph_drop(was);
    td__gfile_drop(f);
    td_close(cx);
}
