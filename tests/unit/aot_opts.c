/* aot_opts.c -- options of compiled functions: the user's backends, passes and
 * partitioners, decompositions, parameters by number; and the stages one by one. */
#include "tower_help.h"

#include "td_test.h"

/* y = silu(x w), and seen is counted up. */
static bool layer(td_call *c) {
    td_tensor *w = td_arg(c, 0), *seen = td_arg(c, 1), *x = td_arg(c, 2);
    td_add_(seen, 1);
    return td_return(c, td_silu(td_matmul(x, w)));
}

typedef struct args {
    td_ctx    *cx;
    td_tensor *w, *seen, *x;
} args;

static args args_make(void) {
    td_ctx *cx = td_open();
    td_seed(cx, 1);
    td_tensor *w = td_set_requires_grad(td_randn(cx, TD_SHAPE(3, 2)), true);
    return (args){cx, w, td_zeros(cx, TD_SHAPE()), td_randn(cx, TD_SHAPE(4, 3))};
}

/* The gradient of w after one call as it is, or of f. */
static td_tensor *gradient(const args *a, td_fn *f) {
    td_value   v;
    td_tensor *y = td_nil(a->cx);
    td_values  in = TD_ARGS(a->w, a->seen, a->x);
    td_set_grad(a->w, NULL);
    td_scope_begin(a->cx, "call"); /* and no history is left */
    if (f) td_invoke(f, in, &y, 1);
    else if (td_call_body(a->cx, layer, NULL, in, &v, 1) == 1) y = v.u.t;
    if (td_ok(a->cx)) td_backward(td_sum(y));
    td_scope_end(a->cx, "call", NULL);
    return td_grad_of(a->w);
}

static bool right(const args *a, td_fn *f) {
    td_tensor *want = td_clone(gradient(a, NULL));
    return f && aot_near(want, gradient(a, f)) && td_ok(a->cx);
}

/* ---- backends ----------------------------------------------------------- */

typedef struct heard {
    int  dropped, compiled, ids[8], nrs[8];
    char halves[8];
    int  nodes;
} heard;

static bool run_graph(void *env, td_ctx *cx, const td_value *in, td_value *out) {
    const td_graph *g = env;
    (void)cx;
    return td_graph_run(g, in, td_graph_inputs(g), out, td_graph_outputs(g));
}

static bool compile_graph(void *env, const td_graph *g, const td_compile_info *info,
                          td_runner *code) {
    heard *h = env;
    int    i = h->compiled++;
    h->ids[i] = info->id;
    h->nrs[i] = info->nr;
    h->halves[i] = "fbi"[info->half];
    h->nodes += td_graph_nodes(g);
    *code = (td_runner){.run = run_graph, .env = (void *)(uintptr_t)g};
    return true;
}

static void drop_heard(void *env) { ((heard *)env)->dropped++; }

TEST(a_backend_receives_the_function_and_the_graph_it_compiles) {
    args       a = args_make();
    heard      h = {0};
    td_backend b = {.name = "ours", .compile = compile_graph, .env = &h};
    b.drop = drop_heard;
    td_aot_opts o = {TD_AOT_OPTS, .forward = &b, .backward = &b, .inference = &b};
    td_fn      *f = td_aot_function(a.cx, layer, NULL, &o);
    memset(&b, 0xff, sizeof b); /* it was copied */

    CHECK(right(&a, f) && !strcmp(h.halves, "fb"));
    td_set_grad_enabled(a.cx, false);
    td_tensor *y;
    CHECK(td_invoke(f, TD_ARGS(a.w, a.seen, a.x), &y, 1));
    td_set_grad_enabled(a.cx, true);

    CHECK_STR(h.halves, "fbi");
    CHECK(h.nrs[0] == 0 && h.nrs[1] == 0 && h.nrs[2] == 1 && h.nodes > 0);
    CHECK(h.ids[0] > 0 && h.ids[0] == h.ids[2]);
    td_fn_drop(f);
    CHECK(h.dropped == 1);
    td_close(a.cx);
}

TEST(a_history_keeps_the_backend_its_backward_needs) {
    args       a = args_make();
    heard      h = {0};
    td_backend b = {.compile = compile_graph, .env = &h, .drop = drop_heard};
    td_fn     *f =
        td_aot_function(a.cx, layer, NULL, &(td_aot_opts){TD_AOT_OPTS, .backward = &b});
    td_tensor *y;
    td_scope_begin(a.cx, "history");
    CHECK(td_invoke(f, TD_ARGS(a.w, a.seen, a.x), &y, 1));

    td_fn_drop(f);

    CHECK(h.dropped == 0);
    td_backward(td_sum(y)); /* compiled only now */
    CHECK(h.compiled == 1 && !td_is_nil(td_grad_of(a.w)));
    td_scope_end(a.cx, "history", NULL);
    CHECK(h.dropped == 1);
    CHECK_OK(a.cx);
    td_close(a.cx);
}

static bool no_code(void *env, const td_graph *g, const td_compile_info *info,
                    td_runner *code) {
    (void)env, (void)g, (void)info, (void)code;
    return false;
}

TEST(a_backend_that_gives_nothing_is_named) {
    args        a = args_make();
    td_backend  b = {.name = "lazy", .compile = no_code};
    td_aot_opts o = {TD_AOT_OPTS, .forward = &b};
    td_fn      *f = td_aot_function(a.cx, layer, NULL, &o);

    CHECK(td_is_nil(gradient(&a, f)));
    CHECK(aot_says(a.cx, TD_E_UNSUPPORTED,
                   "backend lazy: compile returned no forward code"));
    td_fn_drop(f);
    td_close(a.cx);
}

/* ---- parameters by number ----------------------------------------------- */

typedef struct seen {
    char      text[8000];
    td_gfile *file;
    int       dropped, asked;
} seen;

static bool type(void *env, const td_graph **g) {
    seen *s = env;
    s->asked++;
    td_graph_format(*g, s->text, sizeof s->text);
    return true;
}

static void drop_seen(void *env) { ((seen *)env)->dropped++; }

TEST(first_arguments_are_parameters_and_buffers_by_name_or_number) {
    static const char *const names[] = {"fc.weight", "fc.seen"};
    args                     a = args_make();
    seen                     s = {0};
    td_aot_opts              o = {TD_AOT_OPTS, .n_params = 1, .n_buffers = 1};
    o.pass = (td_pass){.run = type, .env = &s, .drop = drop_seen};
    td_fn *f = td_aot_function(a.cx, layer, NULL, &o);
    CHECK(right(&a, f) && strstr(s.text, "%p0: f32[3,2] grad <param \"p0\">"));
    CHECK(strstr(s.text, "%b0: f32[] <buffer \"b0\">"));
    td_fn_drop(f);

    o.state_names = names;
    f = td_aot_function(a.cx, layer, NULL, &o);
    CHECK(right(&a, f) && strstr(s.text, "<param \"fc.weight\">"));
    td_tensor *y;
    CHECK(!td_invoke(f, TD_ARGS(a.w), &y, 1));
    CHECK(aot_says(a.cx, TD_E_ARG, "called with 1 arguments; td_aot_opts promises 2"));
    td_fn_drop(f);
    CHECK(s.dropped == 2);
    td_close(a.cx);
}

TEST(wrong_options_are_refused_and_callbacks_dropped) {
    args        a = args_make();
    seen        s = {0};
    td_aot_opts o = {TD_AOT_OPTS, .n_params = -1};
    o.pass = (td_pass){.run = type, .env = &s, .drop = drop_seen};

    CHECK(td_is_nil(td_aot_function(a.cx, layer, NULL, &o)) && s.dropped == 1);
    CHECK(aot_says(a.cx, TD_E_ARG, "td_aot_opts.n_params is -1"));
    o = (td_aot_opts){TD_AOT_OPTS, .log = "grafs"};
    CHECK(td_is_nil(td_aot_function(a.cx, layer, NULL, &o)));
    CHECK(aot_says(a.cx, TD_E_ARG, "there is no topic grafs"));
    o = (td_aot_opts){TD_AOT_OPTS, .decompose = "nosuch"};
    td_fn *f = td_aot_function(a.cx, layer, NULL, &o);
    CHECK(td_is_nil(gradient(&a, f)));
    CHECK(aot_says(a.cx, TD_E_ARG, "there is no op nosuch"));
    td_fn_drop(f);
    td_close(a.cx);
}

/* Is `o` refused with these words? */
static bool refused(td_ctx *cx, const td_aot_opts *o, const char *words) {
    return td_is_nil(td_aot_function(cx, layer, NULL, o)) &&
           aot_says(cx, TD_E_ARG, words);
}

TEST(incomplete_callbacks_and_numbers_out_of_range_are_named) {
    args       a = args_make();
    heard      h = {0};
    td_backend own = {.name = "own", .env = &h, .drop = drop_heard}, nameless = {0};
    CHECK(refused(a.cx, &(td_aot_opts){TD_AOT_OPTS, .forward = &nameless},
                  "td_aot_opts.forward: the backend without a name has no compile"));
    CHECK(refused(a.cx, &(td_aot_opts){TD_AOT_OPTS, .backward = &own},
                  "td_aot_opts.backward: the backend own has no compile"));
    CHECK(refused(a.cx, &(td_aot_opts){TD_AOT_OPTS, .inference = &own},
                  "td_aot_opts.inference: the backend own has no compile"));
    CHECK(h.dropped == 2);
    CHECK(refused(a.cx, &(td_aot_opts){TD_AOT_OPTS, .pass = {.env = &h}},
                  "td_aot_opts.pass.run is NULL"));
    CHECK(refused(a.cx, &(td_aot_opts){TD_AOT_OPTS, .chooser = {.env = &h}},
                  "td_aot_opts.chooser.choose is NULL"));
    td_chooser dropped = {.env = &h, .drop = drop_heard};
    CHECK(refused(a.cx, &(td_aot_opts){TD_AOT_OPTS, .chooser = dropped},
                  "td_aot_opts.chooser.choose is NULL"));
    CHECK(h.dropped == 3);
    CHECK(
        refused(a.cx, &(td_aot_opts){TD_AOT_OPTS, .n_buffers = -2}, "n_buffers is -2"));
    CHECK(refused(a.cx, &(td_aot_opts){TD_AOT_OPTS, .limit = -1},
                  "td_aot_opts.limit is -1"));
    CHECK(refused(a.cx, &(td_aot_opts){TD_AOT_OPTS, .log = "guard"},
                  "there is no topic guard; did you mean guards"));
    CHECK(refused(a.cx, &(td_aot_opts){TD_AOT_OPTS, .log = "qqqqqqqqqqqq"},
                  "there is no topic qqqqqqqqqqqq"));
    td_close(a.cx);
}

/* ---- decompositions ----------------------------------------------------- */

TEST(chosen_ops_are_decomposed_forward_and_backward) {
    args        a = args_make();
    seen        s = {0};
    td_aot_opts o = {TD_AOT_OPTS, .pass = {.run = type, .env = &s}};
    td_fn      *f = td_aot_function(a.cx, layer, NULL, &o);
    CHECK(right(&a, f) && strstr(s.text, "silu("));
    td_fn_drop(f);

    o.decompose = "silu";
    f = td_aot_function(a.cx, layer, NULL, &o);

    CHECK(right(&a, f) && !strstr(s.text, " silu(") && strstr(s.text, "sigmoid("));
    CHECK(strstr(s.text, " backward"));
    td_fn_drop(f);
    td_close(a.cx);
}

/* ---- passes ------------------------------------------------------------- */

/* Reads its own text back, with `from` replaced by `to`. */
typedef struct edit {
    const char *from, *to;
    td_gfile   *file;
} edit;

static bool rewrite(void *env, const td_graph **g) {
    edit *e = env;
    char  text[8000], out[8000];
    td_graph_format(*g, text, sizeof text);
    char *at = e->from ? strstr(text, e->from) : NULL;
    if (at) *at = 0;
    snprintf(out, sizeof out, "%s%s%s", text, at ? e->to : "",
             at ? at + strlen(e->from) : "");
    td_ctx *cx = td_graph_ctx(*g);
    e->file = td_graphs_parse(cx, out, strlen(out), "edited");
    if (!e->file) return false;
    *g = td_graphs_at(e->file, 0);
    return true;
}

static td_fn *edited(const args *a, edit *e) {
    td_aot_opts o = {TD_AOT_OPTS, .pass = {"edit", rewrite, e, NULL}};
    return td_aot_function(a->cx, layer, NULL, &o);
}

static td_tensor *edited_call(const args *a, edit *e) {
    td_fn     *f = edited(a, e);
    td_tensor *y;
    td_invoke(f, TD_ARGS(a->w, a->seen, a->x), &y, 1);
    td_graphs_drop(e->file);
    td_fn_drop(f);
    e->file = NULL;
    return y;
}

TEST(a_pass_may_put_parsed_text_in_the_place_of_the_graph) {
    args   a = args_make();
    edit   e = {0};
    td_fn *f = edited(&a, &e);
    CHECK(right(&a, f)); /* the same text */
    td_graphs_drop(e.file);
    td_fn_drop(f);

    td_tensor *y = edited_call(&a, &(edit){"silu(", "tanh(", NULL});

    CHECK(aot_near(y, td_tanh(td_matmul(a.x, a.w))));
    CHECK_OK(a.cx);
    td_close(a.cx);
}

TEST(what_a_pass_leaves_is_verified_and_the_pass_named) {
    args a = args_make();

    CHECK(td_is_nil(edited_call(&a, &(edit){"silu(", "nosuch(", NULL})));
    CHECK(aot_says(a.cx, TD_E_ARG, "edited:"));
    CHECK(td_is_nil(edited_call(&a, &(edit){"<grad 0>", "<grad 1>", NULL})));
    CHECK(aot_says(a.cx, TD_E_ARG,
                   "edit: @f cannot replace the joint graph: its output"));
    CHECK(td_is_nil(edited_call(&a, &(edit){"f32[3,2]", "f32[2,3]", NULL})));
    CHECK(aot_says(a.cx, TD_E_ARG, "input 0 has another dtype or other sizes"));
    CHECK(td_is_nil(edited_call(&a, &(edit){"f32[3,2]", "f64[3,2]", NULL})));
    CHECK(aot_says(a.cx, TD_E_ARG, "input 0 has another dtype or other sizes"));
    CHECK(td_is_nil(edited_call(&a, &(edit){"f32[3,2]", "f32[3,2,1]", NULL})));
    CHECK(aot_says(a.cx, TD_E_ARG, "input 0 has another dtype or other sizes"));
    CHECK(td_is_nil(
        edited_call(&a, &(edit){"<grad 0>", "<grad 0>, none <grad 1>", NULL})));
    CHECK(aot_says(a.cx, TD_E_ARG, "output 3 does not exist in the joint graph"));
    CHECK(td_is_nil(edited_call(&a, &(edit){"return ", "return none, ", NULL})));
    CHECK(aot_says(a.cx, TD_E_ARG, "output 0 "));
    CHECK(
        td_is_nil(edited_call(&a, &(edit){"silu(", "add(tensor([1.0], f32), ", NULL})));
    td_clear(a.cx);
    td_close(a.cx);
}

static bool silent(void *env, const td_graph **g) {
    if (env) *g = NULL;
    return env != NULL;
}

TEST(a_pass_that_says_nothing_of_its_failure_is_named) {
    args        a = args_make();
    td_aot_opts o = {TD_AOT_OPTS, .pass = {.name = "mute", .run = silent}};
    td_fn      *f = td_aot_function(a.cx, layer, NULL, &o);
    CHECK(td_is_nil(gradient(&a, f)));
    CHECK(aot_says(a.cx, TD_E_ARG,
                   "mute: the pass returned false without reporting an error"));
    td_fn_drop(f);
    o.pass.env = &a;
    f = td_aot_function(a.cx, layer, NULL, &o);
    CHECK(td_is_nil(gradient(&a, f)) &&
          aot_says(a.cx, TD_E_ARG, "mute: the pass set the graph to NULL"));
    td_fn_drop(f);
    td_close(a.cx);
}

/* ---- partitioners ------------------------------------------------------- */

typedef struct wish {
    const char *op; /* save results of this op; NULL: none */
    int         asked, saved;
    int         bad; /* ask for what cannot be */
} wish;

static bool choose(void *env, td_split *s) {
    wish *w = env;
    w->asked++;
    if (w->bad == 1) return td_split_save_named(s, "nothing");
    if (w->bad == 2) return td_split_save(s, 1000);
    if (w->bad == 4) return false;
    for (int i = 0; i < td_split_values(s); i++) {
        td_split_value v = td_split_value_at(s, i);
        if (w->bad == 3 && !v.forward) return td_split_save(s, i);
        if (!w->op || strcmp(v.op, w->op) != 0 || !v.forward) continue;
        if (!td_split_save_named(s, v.name)) return false;
        w->saved += td_split_value_at(s, i).saved && v.bytes == 4 * 2 * 4;
    }
    return td_graph_nodes(td_split_graph(s)) > 0;
}

static bool net(td_call *c) {
    td_tensor *h = td_matmul(td_arg(c, 2), td_arg(c, 0));
    td_add_(td_arg(c, 1), 1);
    return td_return(c, td_mul(td_tanh(h), td_exp(h)));
}

/* Bytes a forward keeps beside its inputs and outputs, by what is live after it. */
static size_t kept(const args *a, wish *w) {
    td_aot_opts o = {TD_AOT_OPTS, .chooser = {.choose = choose, .env = w}};
    td_fn      *f = td_aot_function(a->cx, net, NULL, &o);
    td_tensor  *y;
    td_value    v;
    td_values   in = TD_ARGS(a->w, a->seen, a->x);
    td_scope_begin(a->cx, "kept");
    td_call_body(a->cx, net, NULL, in, &v, 1);
    td_set_grad(a->w, NULL);
    td_backward(td_sum(v.u.t));
    td_tensor *want = td_clone(td_grad_of(a->w));
    size_t     before = td_memory_live();
    CHECK(td_invoke(f, in, &y, 1));
    size_t bytes = td_memory_live() - before;
    td_set_grad(a->w, NULL);
    td_backward(td_sum(y));
    CHECK(aot_near(want, td_grad_of(a->w)));
    td_scope_end(a->cx, "kept", NULL);
    td_fn_drop(f);
    CHECK_OK(a->cx);
    return bytes;
}

TEST(a_partitioner_of_the_user_decides_what_is_saved) {
    args a = args_make();
    wish none = {0}, two = {.op = "tanh"};

    size_t least = kept(&a, &none), more = kept(&a, &two);

    CHECK(none.asked == 1 && two.saved == 1 && more > least);
    td_close(a.cx);
}

TEST(what_a_partitioner_may_not_save_is_refused) {
    static const char *const says[] = {
        "no value %nothing", "no value 1000", "so backward computes it",
        "cutter: the partitioner returned false without reporting an error"};
    args a = args_make();
    for (int i = 1; i <= 4; i++) {
        wish        w = {.bad = i};
        td_aot_opts o = {TD_AOT_OPTS, .chooser = {"cutter", choose, &w, NULL}};
        td_fn      *f = td_aot_function(a.cx, layer, NULL, &o);
        CHECK(td_is_nil(gradient(&a, f)));
        CHECK(aot_says(a.cx, TD_E_ARG, says[i - 1]));
        td_fn_drop(f);
    }
    td_close(a.cx);
}

/* ---- stages ------------------------------------------------------------- */

TEST(stages_show_the_program_and_the_joint_graph) {
    args        a = args_make();
    td_aot_opts o = {TD_AOT_OPTS, .n_params = 1, .n_buffers = 1, .name = "layer"};
    td_staged  *s = td_stage_capture(a.cx, layer, NULL, TD_ARGS(a.w, a.seen, a.x), &o);
    CHECK_OK(a.cx);

    CHECK(strstr(aot_text(td_stage_program(s)), "add_("));
    CHECK(strstr(aot_text(td_stage_joint(s)), "silu("));
    CHECK(td_stage_inputs(s) == 4 && td_stage_outputs(s) == 3);
    td_slot w = td_stage_input(s, 0), t = td_stage_input(s, 3);
    CHECK(w.kind == TD_SLOT_PARAM && w.tensor && w.requires_grad && w.size[0] == 3);
    CHECK_STR(w.name, "p0");
    CHECK(td_stage_input(s, 1).kind == TD_SLOT_BUFFER);
    CHECK(td_stage_input(s, 2).kind == TD_SLOT_PLAIN);
    CHECK(t.kind == TD_SLOT_TANGENT && t.index == 0 && t.rank == 2);
    CHECK(td_stage_output(s, 0).kind == TD_SLOT_UPDATE);
    CHECK_STR(td_stage_output(s, 0).name, "b0");
    CHECK(td_stage_output(s, 1).kind == TD_SLOT_PLAIN);
    CHECK(td_stage_output(s, 2).kind == TD_SLOT_GRAD);
    CHECK_STR(td_stage_output(s, 2).name, "p0");
    CHECK(td_item(a.seen) == 0); /* nothing was called */

    td_fn *f = td_stage_compile(s);
    CHECK(right(&a, f) && td_fn_specializations(f) == 1);
    CHECK(td_is_nil(td_stage_compile(s)) &&
          aot_says(a.cx, TD_E_ARG, "was compiled already"));
    CHECK(!td_stage_program(s) && !td_stage_joint(s) && td_stage_inputs(s) == 0);
    td_stage_drop(s);
    td_tensor *y, *x = td_randn(a.cx, TD_SHAPE(5, 3));
    CHECK(!td_invoke(f, TD_ARGS(a.w, a.seen, x), &y, 1));
    CHECK(aot_says(a.cx, TD_E_UNSUPPORTED,
                   "layer: this function was staged for other arguments"));
    td_fn_drop(f);
    td_close(a.cx);
}

TEST(a_stage_for_many_sizes_is_one_function) {
    args        a = args_make();
    td_aot_opts o = {TD_AOT_OPTS, .dynamic = TD_SHAPES_DYNAMIC, .name = "layer"};
    td_staged  *s = td_stage_capture(a.cx, layer, NULL, TD_ARGS(a.w, a.seen, a.x), &o);
    CHECK_OK(a.cx);
    CHECK(strstr(aot_text(td_stage_joint(s)), "[s0,"));
    edit            e = {"silu(", "tanh(", NULL};
    const td_graph *g = td_stage_joint(s);
    CHECK(rewrite(&e, &g) && td_stage_replace(s, g));
    td_graphs_drop(e.file);
    td_fn *f = td_stage_compile(s);
    td_stage_drop(s);
    for (int n = 2; n < 9; n += 3) {
        td_tensor *x = td_randn(a.cx, TD_SHAPE(n, 3)), *y;
        CHECK(td_invoke(f, TD_ARGS(a.w, a.seen, x), &y, 1) && td_size(y, 0) == n);
        CHECK(td_item(td_max(td_abs(td_sub(y, td_tanh(td_matmul(x, a.w)))))) < 1e-6);
    }
    CHECK(td_fn_specializations(f) == 1);
    td_fn_drop(f);
    td_close(a.cx);
}

TEST(a_stage_takes_another_joint_graph) {
    args       a = args_make();
    td_staged *s = td_stage_capture(a.cx, layer, NULL, TD_ARGS(a.w, a.seen, a.x), NULL);
    edit       e = {"silu(", "tanh(", NULL};
    const td_graph *g = td_stage_joint(s);
    CHECK(rewrite(&e, &g) && td_stage_replace(s, g));
    td_graphs_drop(e.file);

    e = (edit){"<grad 0>", "", NULL};
    g = td_stage_joint(s);
    CHECK(rewrite(&e, &g) && !td_stage_replace(s, g));
    CHECK(aot_says(a.cx, TD_E_ARG,
                   "td_stage_replace: @f cannot replace the joint graph"));
    td_graphs_drop(e.file);
    td_fn     *f = td_stage_compile(s);
    td_tensor *y;
    td_stage_drop(s);

    CHECK(td_invoke(f, TD_ARGS(a.w, a.seen, a.x), &y, 1));
    CHECK(aot_near(y, td_tanh(td_matmul(a.x, a.w))));
    td_fn_drop(f);
    CHECK_OK(a.cx);
    td_close(a.cx);
}

TEST(stages_of_a_module_list_its_members) {
    td_ctx    *cx = td_open();
    td_module *m = tower_make(cx);
    td_tensor *x = td_randn(cx, TD_SHAPE(4, 3)), *out[2];
    td_staged *s = td_stage_module(m, TD_ARGS(x), NULL);
    CHECK_OK(cx);

    CHECK_STR(td_stage_input(s, 0).name, "in");
    CHECK_STR(td_stage_input(s, 1).name, "norm.weight");
    CHECK_STR(td_stage_input(s, 3).name, "norm.mean");
    CHECK(td_stage_input(s, 3).kind == TD_SLOT_BUFFER);
    td_fn *f = td_stage_compile(s);
    td_stage_drop(s);

    CHECK(td_invoke(f, TD_ARGS(x), out, 2));
    td_backward(out[1]);
    CHECK(!td_is_nil(td_grad_of(td_module_get(m, "in"))));
    CHECK(td_item(td_sum(td_abs(td_module_get(m, "norm.mean")))) > 0);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_module_free(m);
    td_close(cx);
}

TEST(a_stage_that_fails_gives_nothing) {
    args       a = args_make();
    td_staged *s = td_stage_capture(a.cx, layer, NULL, TD_ARGS(a.w, a.seen), NULL);

    CHECK(td_is_nil(s) && aot_says(a.cx, TD_E_ARG, "there is no argument 2"));
    td_stage_drop(s);
    td_close(a.cx);
}
