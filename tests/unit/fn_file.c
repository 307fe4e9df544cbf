/* fn_file.c -- td_fn_save and td_fn_load: a compiled function as a file that runs
 * without its body, and files that are damaged, forged, or for something else. */
#include "aot_help.h"
#include "child.h"
#include "core/files.h"

#include <stdlib.h>

static char path[64];
static int  runs; /* of a body */

/* A context, and a file name of the test's own. */
static td_ctx *enter(void) {
    td_ctx *cx = open_hearing("");
    snprintf(path, sizeof path, "/tmp/td-fn-%ld.tdfn", (long)getpid());
    runs = 0;
    return cx;
}

static void leave(td_ctx *cx) {
    td_close(cx);
    unlink(path);
}

static const td_aot_opts savable = {TD_AOT_OPTS, .savable = true};

static bool counted(td_call *c) {
    runs++;
    return layer(c);
}

/* What a call of `counted` and its backward leave. */
typedef struct outcome {
    float y[4], grad[6], seen;
} outcome;

static bool call(td_ctx *cx, td_fn *f, outcome *to) {
    td_scope_begin(cx, "call");
    td_tensor *x = td_ones(cx, TD_SHAPE(2, 3)), *seen = td_zeros(cx, TD_SHAPE(1));
    td_tensor *w = td_requires_grad_(td_full(cx, TD_SHAPE(3, 2), 0.25)), *out[2];
    bool ok = td_invoke(f, TD_ARGS(x, w, seen), out, 2) && out[0]->st == out[1]->st &&
              td_backward(td_sum(out[1]));
    if (ok) {
        memcpy(to->y, td__ptr(out[0]), sizeof to->y);
        memcpy(to->grad, td__ptr(td_grad_of(w)), sizeof to->grad);
        memcpy(&to->seen, td__ptr(seen), sizeof to->seen);
    }
    td_scope_end(cx, "call", NULL);
    return ok;
}

/* Saves `counted` after one call, whose outcome is *a. */
static void save_counted(td_ctx *cx, outcome *a) {
    td_fn *f = td_aot_function(cx, counted, NULL, &savable);
    CHECK(call(cx, f, a));
    CHECK(td_fn_save(f, path));
    td_fn_drop(f);
}

TEST(a_saved_function_runs_without_its_body_and_does_the_same) {
    outcome a, b;
    td_ctx *cx = enter();
    save_counted(cx, &a);
    CHECK(runs == 1);
    td_fn *f = td_fn_load(cx, path, NULL);
    CHECK(td_ok(cx) && td_fn_specializations(f) == 0);
    CHECK(call(cx, f, &b) && call(cx, f, &b) && td_fn_specializations(f) == 1);
    CHECK(runs == 1 && !memcmp(&a, &b, sizeof a) && a.seen == 1);
    char text[4096];
    td_explain(f, text, sizeof text);
    CHECK(strstr(text, "loaded from /tmp/td-fn-"));
    td_fn_forget(f);
    CHECK(call(cx, f, &b) && !memcmp(&a, &b, sizeof a));
    leave(cx);
}

TEST(another_process_runs_the_file) {
    outcome a, b;
    int     status = 0;
    td_ctx *cx = enter();
    pid_t   pid = fork();
    if (pid == 0) {
        td_fn *f = td_aot_function(cx, counted, NULL, &savable);
        child_leaves(call(cx, f, &a) && td_fn_save(f, path));
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && child_was_ok(status));
    td_fn *f = td_fn_load(cx, path, NULL), *g = td_aot_function(cx, layer, NULL, NULL);
    CHECK(call(cx, f, &a) && call(cx, g, &b) && !memcmp(&a, &b, sizeof a));
    leave(cx);
}

TEST(a_loaded_function_is_saved_again) {
    outcome a, b;
    td_ctx *cx = enter();
    save_counted(cx, &a);
    td_fn *f = td_fn_load(cx, path, NULL);
    CHECK(td_fn_save(f, path));
    td_fn_drop(f);
    f = td_fn_load(cx, path, NULL);
    CHECK(call(cx, f, &b) && !memcmp(&a, &b, sizeof a));
    leave(cx);
}

TEST(a_call_that_fits_nothing_in_the_file_fails_and_names_the_difference) {
    outcome    a;
    td_ctx    *cx = enter();
    td_tensor *y;
    save_counted(cx, &a);
    td_fn     *f = td_fn_load(cx, path, NULL);
    td_tensor *x = td_ones(cx, TD_SHAPE(2, 3)), *seen = td_zeros(cx, TD_SHAPE(1));
    td_tensor *w = td_requires_grad_(td_full(cx, TD_SHAPE(3, 5), 0.25));
    CHECK(!td_invoke(f, TD_ARGS(x, w, seen), &y, 1) && td_error(cx) == TD_E_ARG);
    CHECK(strstr(td_message(cx), "#0: argument 1: size 5 at dim 1, was 2"));
    td_clear(cx);
    CHECK(!td_invoke(f, TD_ARGS(x, w), &y, 1));
    CHECK(strstr(td_message(cx), "2 arguments, were 3"));
    td_clear(cx);
    x = td_to(x, TD_F64);
    CHECK(!td_invoke(f, TD_ARGS(x, w, seen), &y, 1));
    CHECK(strstr(td_message(cx), "argument 0: dtype f64, was f32"));
    td_clear(cx);
    CHECK(call(cx, f, &a));
    leave(cx);
}

/* ---- sizes, numbers, orders ---------------------------------------------- */

static bool cubes(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_sum(td_mul(td_mul(x, x), x)));
}

static double slope(td_ctx *cx, td_fn *f, int n) {
    td_tensor *x = td_requires_grad_(td_full(cx, TD_SHAPE(n), 0.5)), *y;
    if (!td_invoke(f, TD_ARGS(x), &y, 1) || !td_backward(y)) return -1;
    return td_item(td_sum(td_grad_of(x)));
}

TEST(symbolic_sizes_stay_symbolic_in_a_file) {
    td_ctx     *cx = enter();
    td_aot_opts o = savable;
    o.dynamic = TD_SHAPES_DYNAMIC;
    td_fn *f = td_aot_function(cx, cubes, NULL, &o);
    CHECK(slope(cx, f, 4) == 3 && td_fn_save(f, path));
    f = td_fn_load(cx, path, NULL);
    CHECK(slope(cx, f, 4) == 3 && slope(cx, f, 12) == 9);
    CHECK(td_fn_specializations(f) == 1);
    CHECK(slope(cx, f, 1) == -1 && strstr(td_message(cx), "#0: the guard "));
    leave(cx);
}

TEST(a_file_has_all_specializations) {
    td_ctx     *cx = enter();
    td_aot_opts o = savable;
    o.dynamic = TD_SHAPES_STATIC;
    td_fn *f = td_aot_function(cx, cubes, NULL, &o);
    CHECK(slope(cx, f, 4) == 3 && slope(cx, f, 8) == 6 && td_fn_save(f, path));
    f = td_fn_load(cx, path, NULL);
    CHECK(slope(cx, f, 8) == 6 && slope(cx, f, 4) == 3);
    CHECK(slope(cx, f, 6) == -1);
    CHECK(strstr(td_message(cx), "was 4") && strstr(td_message(cx), "#1: argument 0"));
    leave(cx);
}

TEST(gradients_of_gradients_of_a_loaded_function) {
    td_ctx *cx = enter();
    td_fn  *f = td_aot_function(cx, cubes, NULL, &savable);
    CHECK(slope(cx, f, 4) == 3 && td_fn_save(f, path));
    f = td_fn_load(cx, path, NULL);
    td_tensor   *x = td_requires_grad_(td_full(cx, TD_SHAPE(4), 0.5)), *y, *g, *h;
    td_grad_opts twice = {TD_GRAD_OPTS, .create_graph = true};
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1));
    CHECK(td_grad(TD_LIST(y), TD_LIST(x), &g, &twice));
    CHECK(td_grad(TD_LIST(td_sum(g)), TD_LIST(x), &h, NULL));
    CHECK(td_item(td_sum(h)) == 12); /* 6x, four times */
    leave(cx);
}

static bool two(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_exp(x), td_mul(x, x));
}

TEST(a_loaded_function_goes_backward_from_one_of_two_results) {
    td_ctx    *cx = enter();
    td_tensor *x = td_requires_grad_(td_full(cx, TD_SHAPE(2), 3.0)), *y[2], *g;
    td_fn     *f = td_aot_function(cx, two, NULL, &savable);
    CHECK(td_invoke(f, TD_ARGS(x), y, 2) && td_fn_save(f, path));
    f = td_fn_load(cx, path, NULL);
    CHECK(td_invoke(f, TD_ARGS(x), y, 2));
    CHECK(td_grad(TD_LIST(td_sum(y[1])), TD_LIST(x), &g, NULL));
    CHECK(td_item(td_sum(g)) == 12);
    leave(cx);
}

static bool scaled(td_call *c) {
    return td_return(c, td_mul(td_arg(c, 0), td_arg_value(c, 1)));
}

TEST(numbers_that_vary_vary_in_a_loaded_function) {
    td_ctx    *cx = enter();
    td_tensor *x = td_ones(cx, TD_SHAPE(2)), *y;
    td_fn     *f = td_aot_function(cx, scaled, NULL, &savable);
    for (int i = 1; i < 4; i++) CHECK(td_invoke(f, TD_ARGS(x, i + 0.5), &y, 1));
    CHECK(td_fn_specializations(f) == 2 && td_fn_save(f, path));
    f = td_fn_load(cx, path, NULL);
    CHECK(td_invoke(f, TD_ARGS(x, 40.0), &y, 1) && td_item(td_sum(y)) == 80);
    leave(cx);
}

TEST(a_graph_as_a_file) {
    static const char text[] = "func @g(%x: f32[2], %s: float) {\n"
                               "  %y = mul(%x, %s) : f32[2]\n"
                               "  return %y\n"
                               "}\n";
    td_ctx           *cx = enter();
    td_tensor        *x = td_ones(cx, TD_SHAPE(2)), *y;
    td_gfile         *t = td__gfile_parse(cx, text, sizeof text - 1, "g.td");
    td_fn            *f = t ? td_aot_graph(t->graphs.v[0], &savable) : NULL;
    CHECK(f && td_invoke(f, TD_ARGS(x, 2.5), &y, 1) && td_fn_save(f, path));
    td_fn_drop(f);
    td__gfile_drop(t);
    f = td_fn_load(cx, path, NULL);
    CHECK(td_invoke(f, TD_ARGS(x, 2.5), &y, 1) && td_item(td_sum(y)) == 5);
    leave(cx);
}

/* ---- modules and steps ---------------------------------------------------- */

TEST(a_module_is_given_again_by_the_names_of_its_members) {
    td_ctx    *cx = enter();
    td_tensor *x = td_ones(cx, TD_SHAPE(4, 3)), *y, *z;
    td_seed(cx, 1);
    td_module *net = td_nn_linear(cx, 3, 2, NULL),
              *other = td_nn_linear(cx, 3, 2, NULL);
    td_fn *f = td_aot_module(net, &savable);
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1) && td_fn_save(f, path));
    (void)td_fn_load(cx, path, NULL);
    CHECK(strstr(td_message(cx), "was compiled from a module; pass one"));
    td_clear(cx);
    td_fn *g = td_fn_load(cx, path, &(td_aot_opts){TD_AOT_OPTS, .module = net});
    CHECK(td_invoke(g, TD_ARGS(x), &z, 1) && td_item(td_sum(y)) == td_item(td_sum(z)));
    g = td_fn_load(cx, path, &(td_aot_opts){TD_AOT_OPTS, .module = other});
    CHECK(td_invoke(g, TD_ARGS(x), &z, 1));
    CHECK(td_item(td_sum(td_module_call(other, TD_ARGS(x)))) == td_item(td_sum(z)));
    CHECK(td_backward(td_sum(z)) && td_grad_of(td_module_get(other, "weight")));
    td_module_train(other, false);
    CHECK(!td_invoke(g, TD_ARGS(x), &z, 1) && strstr(td_message(cx), "eval"));
    td_clear(cx);
    td_module *relu = td_nn_relu(cx);
    (void)td_fn_load(cx, path, &(td_aot_opts){TD_AOT_OPTS, .module = relu});
    CHECK(strstr(td_message(cx), "saved with 2 members, and td_aot_opts has 0"));
    leave(cx);
}

static td_tensor *weight;

static bool step(td_call *c) {
    td_tensor *loss = td_sum(td_mul(weight, td_arg(c, 0))), *g;
    if (!td_grad(TD_LIST(loss), TD_LIST(weight), &g, NULL)) return false;
    td_grad_mode was = td_no_grad_begin(td_call_ctx(c));
    td_sub_(weight, td_mul(g, 0.5));
    td_no_grad_end(td_call_ctx(c), was);
    return td_return(c, loss);
}

TEST(a_training_step_as_a_file_writes_the_state_it_is_given) {
    static const char *const names[] = {"w"};
    td_ctx                  *cx = enter();
    weight = td_requires_grad_(td_ones(cx, TD_SHAPE(2)));
    td_tensor  *x = td_ones(cx, TD_SHAPE(2)), *w = weight, *loss;
    td_aot_opts o = {TD_AOT_OPTS, .state = TD_LIST(w), .state_names = names};
    td_aot_opts s = o;
    s.savable = true;
    td_fn *f = td_aot_step(cx, step, NULL, &s);
    CHECK(td_invoke(f, TD_ARGS(x), &loss, 1) && td_fn_save(f, path));
    weight = NULL;
    f = td_fn_load(cx, path, &o);
    CHECK(td_invoke(f, TD_ARGS(x), &loss, 1) && td_item(loss) == 1);
    CHECK(td_item(td_sum(td_detach(w))) == 0);
    static const char *const others[] = {"v"};
    o.state_names = others;
    (void)td_fn_load(cx, path, &o);
    CHECK(strstr(td_message(cx), "member 0 is w where the function was saved, and v"));
    td_clear(cx);
    o.module = td_nn_relu(cx);
    (void)td_fn_load(cx, path, &o);
    CHECK(strstr(td_message(cx), "has no module; leave td_aot_opts.module NULL"));
    td_clear(cx);
    leave(cx);
}

/* ---- what is refused ------------------------------------------------------ */

static bool closes_over(td_call *c) {
    return td_return(c, td_mul(td_arg(c, 0), weight));
}

TEST(what_no_file_can_have_is_refused_with_the_reason) {
    td_ctx    *cx = enter();
    td_tensor *x = td_ones(cx, TD_SHAPE(2)), *y;
    weight = td_ones(cx, TD_SHAPE(2));
    td_fn *f = td_aot_function(cx, closes_over, NULL, &savable);
    CHECK(!td_fn_save(f, path) && strstr(td_message(cx), "has no specialization yet"));
    td_clear(cx);
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1) && !td_fn_save(f, path));
    CHECK(td_error(cx) == TD_E_UNSUPPORTED && strstr(td_message(cx), "closes over"));
    td_clear(cx);
    f = td_aot_function(cx, two, NULL, NULL);
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1) && !td_fn_save(f, path));
    CHECK(strstr(td_message(cx), "was made without td_aot_opts.savable"));
    td_clear(cx);
    CHECK(access(path, F_OK) != 0);
    leave(cx);
}

static bool calls_loaded(td_call *c) {
    td_tensor *y;
    return td_invoke(td_call_env(c), TD_ARGS(td_arg(c, 0)), &y, 1) && td_return(c, y);
}

TEST(a_loaded_function_cannot_be_captured) {
    td_ctx *cx = enter();
    td_fn  *f = td_aot_function(cx, cubes, NULL, &savable);
    CHECK(slope(cx, f, 4) == 3 && td_fn_save(f, path));
    f = td_fn_load(cx, path, NULL);
    td_fn *g = td_aot_function(cx, calls_loaded, f, NULL);
    CHECK(slope(cx, g, 4) == -1 && strstr(td_message(cx), "and has no body"));
    td_clear(cx);
    CHECK(slope(cx, f, 4) == 3);
    leave(cx);
}

TEST(options_that_were_decided_are_refused) {
    td_ctx *cx = enter();
    td_fn  *f = td_aot_function(cx, cubes, NULL, &savable);
    CHECK(slope(cx, f, 4) == 3 && td_fn_save(f, path));
    (void)td_fn_load(cx, path, &(td_aot_opts){TD_AOT_OPTS, .decompose = "all"});
    CHECK(strstr(td_message(cx), "td_aot_opts.decompose was decided when"));
    td_clear(cx);
    td_aot_opts o = {TD_AOT_OPTS, .offload = {.store = td_store_file(cx, "d", "/tmp")}};
    (void)td_fn_load(cx, path, &o);
    CHECK(strstr(td_message(cx), "td_aot_opts.offload was decided when"));
    td_clear(cx);
    (void)td_fn_load(cx, "/nowhere/f", NULL);
    CHECK(td_error(cx) == TD_E_IO);
    leave(cx);
}

static td_compiled last_end;

static void at_end(void *env, const td_compile_info *i, const td_compiled *how) {
    if (!strcmp(i->stage, "specialize")) last_end = *how, ++*(int *)env;
}

TEST(what_is_compiled_of_a_file_counts_as_found) {
    int         ends = 0;
    td_ctx     *cx = enter();
    td_fn      *f = td_aot_function(cx, cubes, NULL, &savable);
    td_aot_opts o = {TD_AOT_OPTS, .on_compile = {.end = at_end, .env = &ends}};
    CHECK(slope(cx, f, 4) == 3 && td_fn_save(f, path));
    f = td_fn_load(cx, path, &o);
    CHECK(slope(cx, f, 4) == 3 && ends == 1 && last_end.ok && last_end.found);
    CHECK(slope(cx, f, 5) == -1 && ends == 2 && !last_end.ok && !last_end.found);
    td_clear(cx);
    leave(cx);
}

/* ---- damage --------------------------------------------------------------- */

static bool valid_words(const int64_t *v, int n) {
    td_key k = {0};
    for (int i = 0; i < n; i++) CHECK(td__vec_push(&k, v[i]));
    bool is = td__key_valid(&k);
    td__vec_free(&k);
    return is;
}
static bool valid(int64_t bits, int64_t count, int n) {
    int64_t v[] = {1, 0, TD_K_TENSOR, bits, 0, count, 7, 8, 9};
    return valid_words(v, n);
}

TEST(words_of_a_file_are_a_key_only_with_all_that_its_bits_announce) {
    int64_t typed = (int64_t)1 << TD_KEY_TYPED, object = (int64_t)1 << TD_KEY_OBJECT;
    CHECK(valid(0, 0, 5) && !valid(0, 0, 4));
    CHECK(valid(object, 0, 6) && !valid(object, 0, 5));
    int64_t read = (int64_t)1 << TD_KEY_READ,
            grad[] = {1, 0, TD_KEY_GRAD, 4, TD_K_NONE};
    CHECK(valid(read, -1, 6) && valid(read, 0, 6) && valid(read, 3, 9));
    CHECK(!valid(read, 0, 5) && !valid(read, 3, 8) && !valid(read, -2, 6));
    CHECK(!valid(read, TD_MAX_RANK + 1, 9));
    CHECK(!valid((int64_t)(TD_MAX_RANK + 1) << TD_KEY_RANK, 0, 9));
    CHECK(valid_words(grad, 5) && !valid_words(grad, 4) && !valid_words(grad, 3));
    grad[3] = 5; /* of an item beyond the end */
    CHECK(!valid_words(grad, 5));
    CHECK(valid(typed, 3, 9) && !valid(typed, 3, 8) && !valid(typed, 0, 5));
    CHECK(!valid(typed, 2, 8) && !valid(typed, 4, 9) && !valid(typed, -1, 9));
    CHECK(!valid(typed, INT64_MAX, 9) && !valid(typed, TD_KEY_ANY, 9));
}

/* A call and its backward, whatever they give: the file may be for another function. */
static void call_any(td_ctx *cx, td_fn *f) {
    td_scope_begin(cx, "call");
    td_tensor *x = td_ones(cx, TD_SHAPE(2, 3)), *seen = td_zeros(cx, TD_SHAPE(1));
    td_tensor *w = td_requires_grad_(td_full(cx, TD_SHAPE(3, 2), 0.25)), *out[2];
    if (td_invoke(f, TD_ARGS(x, w, seen), out, 2)) (void)td_backward(td_sum(out[1]));
    td_scope_end(cx, "call", NULL);
}

/* Changes byte `at` of the bytes, signs them anew if `sign`, and loads and calls what
 * results. */
static void try_changed(td_ctx *cx, const td_buf *of, size_t at, int by, bool sign) {
    td_buf b = {0};
    td__buf_addn(&b, of->s, of->n);
    b.s[at] = (char)(b.s[at] ^ by);
    td_hash128 sum = td__hash128(b.s, b.n - sizeof sum);
    if (sign) memcpy(b.s + b.n - sizeof sum, &sum, sizeof sum);
    td_shared_opts *h = td__shared_opts_make(cx, NULL);
    td_fn          *f = h ? td__fn_read(cx, h, b.s, b.n, "f.tdfn") : NULL;
    CHECK(sign || (!f && td_error(cx) == TD_E_IO));
    td_clear(cx);
    if (f) call_any(cx, f);
    td_clear(cx);
    td__fn_free(f);
    td__buf_free(&b);
}

TEST(a_changed_byte_is_found_or_does_no_harm) {
    outcome a;
    td_buf  b = {0};
    td_ctx *cx = enter();
    td_config_set(cx, "backend", "interp");
    save_counted(cx, &a);
    td_mapping *m = td__mapping_open(cx, "test", path);
    CHECK(m != NULL);
    td__buf_addn(&b, (const char *)m->bytes, m->n);
    td__mapping_drop(m);
    for (size_t i = 0; i < b.n; i += 7) try_changed(cx, &b, i, 1 << i % 8, false);
    for (size_t i = 0; i + 16 < b.n; i++) {
        try_changed(cx, &b, i, 1, true);
        try_changed(cx, &b, i, 0x55, true);
    }
    for (size_t n = 0; n < b.n; n += 11) { /* cut off */
        td_shared_opts *h = td__shared_opts_make(cx, NULL);
        CHECK(!td__fn_read(cx, h, b.s, n, "f.tdfn"));
        td_clear(cx);
    }
    td__buf_free(&b);
    leave(cx);
}

TEST(a_file_of_another_build_is_refused) {
    outcome a;
    td_buf  b = {0};
    td_ctx *cx = enter();
    save_counted(cx, &a);
    td_mapping *m = td__mapping_open(cx, "test", path);
    td__buf_addn(&b, (const char *)m->bytes, m->n);
    td__mapping_drop(m);
    char *at = memmem(b.s, b.n, "sources ", 8);
    CHECK(at != NULL);
    at[9] ^= 1;
    td_hash128 sum = td__hash128(b.s, b.n - sizeof sum);
    memcpy(b.s + b.n - sizeof sum, &sum, sizeof sum);
    CHECK(!td__fn_read(cx, td__shared_opts_make(cx, NULL), b.s, b.n, "f.tdfn"));
    CHECK(strstr(td_message(cx), "another build of Tandem"));
    td__buf_free(&b);
    leave(cx);
}
