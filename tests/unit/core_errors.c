/* core_errors.c -- the first failure sticks, nil flows on, nothing else happens. */
#include "op_help.h"

#include "core/core.h"

/* A context whose last call failed: add of f32[2] and f32[3]. */
static td_tensor *failed(td_ctx *cx) {
    return td_add(td_zeros(cx, TD_SHAPE(2)), td_zeros(cx, TD_SHAPE(3)));
}

TEST(the_first_failure_wins) {
    td_ctx *cx = td_open();

    CHECK(td_is_nil(failed(cx)));
    td_reshape(td_zeros(cx, TD_SHAPE(4)), TD_SHAPE(5));

    CHECK(td_error(cx) == TD_E_SHAPE);
    CHECK_MESSAGE(cx, "add: cannot broadcast f32[2] with f32[3]: dim -1 is 2 and 3; "
                      "sizes must be equal or 1, compared from the last dim on");
    td_close(cx);
}

TEST(a_clean_context_has_an_empty_message) {
    td_ctx *cx = td_open();

    CHECK(td_ok(cx));
    CHECK(td_error(cx) == TD_OK);
    CHECK_STR(td_message(cx), "");

    td_close(cx);
}

TEST(clear_gives_a_clean_slate) {
    td_ctx *cx = td_open();

    failed(cx);
    td_clear(cx);
    CHECK(td_ok(cx));
    CHECK_STR(td_message(cx), "");
    td_tensor *t = td_add(td_ones(cx, TD_SHAPE(2)), 1);

    CHECK_OK(cx);
    CHECK_VALUES(t, 2, 2);
    td_close(cx);
}

TEST(ops_on_good_tensors_still_run_after_a_failure) {
    td_ctx *cx = td_open();

    failed(cx);
    td_tensor *t = td_add(td_ones(cx, TD_SHAPE(2)), 1);

    CHECK_VALUES(t, 2, 2);
    CHECK(td_error(cx) == TD_E_SHAPE);
    td_close(cx);
}

TEST(nil_flows_through_every_kind_of_op) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(2, 2)), *nil = td_nil(cx), *more = NULL,
              *list[3];

    CHECK(td_is_nil(td_exp(nil)));                      /* pointwise */
    CHECK(td_is_nil(td_add(x, nil)));                   /* second argument */
    CHECK(td_is_nil(td_where(nil, x, 1.0)));            /* mask */
    CHECK(td_is_nil(td_sum(nil, TD_DIMS(0))));          /* reduction */
    CHECK(td_is_nil(td_max_dim(nil, 0, false, &more))); /* two results */
    CHECK(td_is_nil(more));
    CHECK(td_is_nil(td_transpose(nil, 0, 1)));                 /* view */
    CHECK(td_is_nil(td_matmul(x, nil)));                       /* composite */
    CHECK(td_is_nil(td_linear(x, x, nil)));                    /* optional argument */
    CHECK(td_is_nil(td_cat(TD_LIST(x, nil, x), 0)));           /* list */
    CHECK(td_is_nil(td_index(x, TD_LIST(NULL, nil))));         /* list with holes */
    CHECK(td_is_nil(td_einsum("ij,jk->ik", TD_LIST(x, nil)))); /* list of a composite */
    CHECK(td_is_nil(td_nonzero(nil)));                         /* sizes from values */
    CHECK(td_is_nil(td_zeros_like(nil)));                      /* creation like */
    CHECK(td_is_nil(td_dropout(nil, 0.5, true)));              /* random */
    CHECK(td_split(nil, 1, 0, list, 3) == -1);                 /* list result */
    CHECK(td_is_nil(list[0]) && td_is_nil(list[2]));

    CHECK_OK(cx); /* nothing was recorded: whoever made the nil did that */
    td_close(cx);
}

TEST(nil_draws_no_random_numbers) {
    td_ctx *cx = td_open();
    td_seed(cx, 7);

    td_dropout(td_nil(cx), 0.5, true);
    td_uniform_(td_nil(cx), 0, 1);

    CHECK(td_rng_offset(cx) == 0);
    td_close(cx);
}

TEST(a_write_with_a_nil_argument_writes_nothing) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_tensor1(cx, 1, 2, 3), *nil = td_nil(cx);

    CHECK(td_is_nil(td_add_(x, nil)));
    CHECK(td_is_nil(td_copy_(x, nil)));
    CHECK(td_is_nil(td_masked_fill_(x, nil, 1.0)));
    CHECK(td_is_nil(td_index_put_(x, TD_LIST(nil), x, false)));
    CHECK(td_is_nil(td_mul_(nil, 2.0)));

    CHECK_VALUES(x, 1, 2, 3);
    CHECK(td_version(x) == 0);
    CHECK_OK(cx);
    td_close(cx);
}

TEST(looking_at_nil_gives_harmless_answers) {
    td_ctx    *cx = td_open();
    td_tensor *nil = td_nil(cx);
    double     v = 5;

    CHECK(isnan(td_item(nil)));
    CHECK(td_item_int(nil) == 0);
    CHECK(td_numel(nil) == 0);
    CHECK(td_size(nil, 7) == 0);
    CHECK(td_data(nil) == NULL);
    CHECK(!td_read(nil, TD_F64, &v, sizeof v) && v == 5);
    CHECK(!td_write(nil, TD_F64, &v, sizeof v));
    CHECK(td_is_nil(td_base(nil)));
    CHECK(!td_requires_grad(nil));
    CHECK(td_is_nil(td_grad_of(nil)));
    CHECK(td_is_nil(td_set_requires_grad(nil, true)));
    CHECK(!td_backward(nil));
    CHECK(td_is_nil(td_share(cx, nil)));
    CHECK(strlen(text_of(nil)) > 0);

    CHECK_OK(cx);
    td_close(cx);
}

static int         heard;
static td_code     heard_code;
static const char *heard_text;
static void        hear(void *env, td_code code, const char *text) {
           heard += *(int *)env;
           heard_code = code;
           heard_text = text;
}

TEST(the_error_hook_receives_each_first_failure) {
    td_ctx *cx = td_open();
    int     step = 1;
    heard = 0;

    td_on_error(cx, hear, &step);
    failed(cx);
    failed(cx);
    CHECK(heard == 1);
    CHECK(heard_code == TD_E_SHAPE);
    CHECK(strstr(heard_text, "cannot broadcast") != NULL);
    td_clear(cx);
    failed(cx);
    CHECK(heard == 2);
    td_clear(cx);
    td_on_error(cx, NULL, NULL);
    failed(cx);

    CHECK(heard == 2);
    td_close(cx);
}

TEST(users_record_failures_of_their_own) {
    td_ctx *cx = td_open();

    td_scope_begin(cx, "load");
    td_tensor *t = td_fail(cx, TD_E_IO, "no file %s", "x.npy");

    CHECK(td_is_nil(t));
    CHECK(td_error(cx) == TD_E_IO);
    CHECK_MESSAGE(cx, "load: no file x.npy");
    td_close(cx);
}

TEST(every_code_has_a_name_of_its_own) {
    for (int a = 0; a < TD_E_COUNT; a++)
        for (int b = 0; b < a; b++)
            CHECK(strcmp(td_code_name((td_code)a), td_code_name((td_code)b)) != 0);
    CHECK_STR(td_code_name((td_code)99), "?");
}

TEST(a_very_long_message_is_cut) {
    td_ctx *cx = td_open();
    char    text[5000];
    memset(text, 'y', sizeof text - 1);
    text[sizeof text - 1] = 0;

    td_fail(cx, TD_E_ARG, "%s", text);

    CHECK(strlen(td_message(cx)) == 2047);
    td_close(cx);
}

/* Runs fn in a child process; its wait status, and what it wrote to stderr. */
static int in_child(bool (*fn)(void), char *text, size_t cap) {
    int  ends[2], status = 0;
    char rest[256];
    fflush(NULL);
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        close(ends[0]);
        child_leaves(fn());
    }
    close(ends[1]);
    size_t  n = 0;
    ssize_t got;
    while (n < cap - 1 && (got = read(ends[0], text + n, cap - 1 - n)) > 0)
        n += (size_t)got;
    text[n] = 0;
    while (read(ends[0], rest, sizeof rest) > 0) continue;
    close(ends[0]);
    waitpid(child, &status, 0);
    return status;
}

static bool fail_strictly(void) {
    setenv("TD_STRICT", "1", 1);
    td_ctx *cx = td_open();
    signal(SIGABRT, SIG_DFL);
    td_scope_begin(cx, "strict");
    failed(cx);
    return true;
}

TEST(a_strict_context_aborts_at_the_first_failure) {
    char text[4096];

    int status = in_child(fail_strictly, text, sizeof text);

    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    CHECK(strstr(text, "strict: add: cannot broadcast f32[2] with f32[3]") != NULL);
}

static bool pass_strictly(void) {
    setenv("TD_STRICT", "1", 1);
    td_ctx *cx = td_open();
    td_add(td_zeros(cx, TD_SHAPE(2)), 1);
    td_close(cx);
    return true;
}

TEST(a_strict_context_lets_right_programs_pass) {
    char text[4096];

    int status = in_child(pass_strictly, text, sizeof text);

    CHECK(child_was_ok(status));
}

static bool pass_null(void) {
    bool ok = td_is_nil(td_relu(NULL));
    ok = ok && td_is_nil(td_relu(td_exp(NULL)));
    ok = ok && td_is_nil(td_zeros(NULL, TD_SHAPE(2)));
    return ok && td_is_nil(td_op_cat((td_tensors){NULL, 0}, 0));
}

TEST(a_null_tensor_is_reported_to_stderr_and_gives_nil) {
    char text[4096];

    int status = in_child(pass_null, text, sizeof text);

    CHECK(child_was_ok(status));
    CHECK(strstr(text, "relu: argument a must be a tensor, got NULL") != NULL);
    CHECK(strstr(text, "exp: argument a must be a tensor, got NULL") != NULL);
    CHECK(strstr(text, "zeros: the context is NULL") != NULL);
    CHECK(strstr(text, "cat: argument tensors must be a list of at least one tensor, "
                       "got an empty list") != NULL);
}

TEST(a_null_beside_a_tensor_is_an_error_of_its_context) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(2, 2)), *none = NULL;

    CHECK(td_is_nil(td_matmul(x, none)));
    CHECK_FAILS(cx, TD_E_ARG, "matmul: argument b must be a tensor");
    CHECK(td_is_nil(td_matmul(none, x)));
    CHECK_FAILS(cx, TD_E_ARG, "matmul: argument a must be a tensor");
    CHECK(td_is_nil(td_add(x, none)));
    CHECK_FAILS(cx, TD_E_ARG, "add: argument b must be a tensor or a number");
    CHECK(td_is_nil(td_cat(TD_LIST(x, NULL), 0)));
    CHECK_FAILS(cx, TD_E_ARG, "cat: entry 1 of");

    td_close(cx);
}

TEST(tensors_of_another_context_are_refused) {
    td_ctx    *cx = td_open(), *other = td_open();
    td_tensor *a = td_ones(cx, TD_SHAPE(2)), *b = td_ones(other, TD_SHAPE(2));

    CHECK(td_is_nil(td_add(a, b)));
    CHECK_FAILS(cx, TD_E_ARG, "add: argument b belongs to another context");
    CHECK_OK(other);
    CHECK(td_is_nil(td_add_(a, b)));
    CHECK_VALUES(a, 1, 1);
    CHECK_FAILS(cx, TD_E_ARG, "add_: argument b belongs to another context");
    CHECK(td_is_nil(td_stack(TD_LIST(a, b), 0)));
    CHECK_FAILS(cx, TD_E_ARG, "belongs to another context");

    td_close(other);
    td_close(cx);
}

TEST(the_nil_of_another_context_does_not_pass_in_silence) {
    td_ctx    *cx = td_open(), *other = td_open();
    td_tensor *a = td_ones(cx, TD_SHAPE(2));

    CHECK(td_is_nil(td_add(a, td_nil(other))));
    CHECK_FAILS(cx, TD_E_ARG, "add: argument b is the nil tensor of another context");

    td_close(other);
    td_close(cx);
}

TEST(contexts_fail_independently) {
    td_ctx *cx = td_open(), *other = td_open();

    failed(cx);

    CHECK(!td_ok(cx));
    CHECK_OK(other);
    td_close(cx);
    CHECK_VALUES(td_add(td_ones(other, TD_SHAPE(2)), 1), 2, 2);
    td_close(other);
}

TEST(a_failed_op_leaks_no_bytes) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(100, 100));
    size_t     before = td_memory_live();

    td_scope_begin(cx, "a");
    td_linear(x, td_ones(cx, TD_SHAPE(7, 9)), NULL);
    td_scope_end(cx, "a", NULL);

    CHECK(td_memory_live() == before);
    td_close(cx);
}

TEST(messages_name_large_ranks_without_overrun) {
    td_ctx *cx = td_open();
    int64_t size[TD_MAX_RANK];
    td_ints sizes = {size, TD_MAX_RANK};
    for (int i = 0; i < TD_MAX_RANK; i++) size[i] = 1;
    size[3] = 123456789;

    td_tensor *x = td_expand(td_zeros(cx, TD_SHAPE(1)), sizes);
    CHECK_OK(cx);
    size[3] = 3;
    td_tensor *y = td_expand(td_zeros(cx, TD_SHAPE(1)), sizes);
    td_add(x, y);

    CHECK_FAILS(cx, TD_E_SHAPE, "add: cannot broadcast f32[1,1,1,123456789,1");
    td_close(cx);
}

/* ---- places ------------------------------------------------------------- */

/* Does the first failure carry this file and `line`, in the message too? */
static bool failed_at(td_ctx *cx, int line) {
    char        want[256];
    int         at = 0;
    const char *file = td_error_place(cx, &at);
    snprintf(want, sizeof want, " (%s:%d)", __FILE__, line);
    bool ok =
        file && !strcmp(file, __FILE__) && at == line && strstr(td_message(cx), want);
    if (!ok) fprintf(stderr, "%s; wanted line %d\n", td_message(cx), line);
    td_clear(cx);
    return ok && !td_error_place(cx, NULL);
}

TEST(a_message_ends_in_the_line_of_the_call) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_requires_grad_(td_zeros(cx, TD_SHAPE(2)));

    td_add(x, td_zeros(cx, TD_SHAPE(3)));
    CHECK(failed_at(cx, __LINE__ - 1));
    td_backward(td_mul(x, 2.0));
    CHECK(failed_at(cx, __LINE__ - 1));
    td_item(x);
    CHECK(failed_at(cx, __LINE__ - 1));
    td_nn_linear(cx, 0, 3, NULL);
    CHECK(failed_at(cx, __LINE__ - 1));
    td_load_npy(cx, "no/such/file.npy");
    CHECK(failed_at(cx, __LINE__ - 1));
    td_fail(cx, TD_E_ARG, "mine: %d", 7);
    CHECK(failed_at(cx, __LINE__ - 1));
    td_close(cx);
}

TEST(a_failure_inside_a_layer_carries_the_line_that_called_it) {
    td_ctx    *cx = td_open();
    td_module *m = td_nn_linear(cx, 4, 3, NULL);
    td_tensor *x = td_zeros(cx, TD_SHAPE(2, 5));

    td_module_call(m, TD_ARGS(x));
    CHECK(failed_at(cx, __LINE__ - 1));
    td_module_free(m);
    td_close(cx);
}

static int body_line;

static bool adds_badly(td_call *c) {
    body_line = __LINE__ + 1;
    return td_return(c, td_add(td_arg(c, 0), td_zeros(td_call_ctx(c), TD_SHAPE(3))));
}

TEST(a_failure_of_a_compiled_body_carries_the_line_in_the_body) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, adds_badly, NULL, NULL);
    td_tensor *y;

    td_invoke(f, TD_ARGS(td_zeros(cx, TD_SHAPE(2))), &y, 1);
    CHECK(failed_at(cx, body_line));
    td_fn_drop(f);
    td_close(cx);
}

TEST(calls_without_macros_have_no_place) {
    td_ctx *cx = td_open();
    td_here = (td_where){0};
    td_op_reshape(td_op_zeros(cx, TD_SHAPE(4), TD_F32), TD_SHAPE(5));
    CHECK_STR(td_message(cx),
              "reshape: sizes [5] do not hold the 4 elements of f32[4]");
    CHECK(!td_error_place(cx, NULL));
    td_close(cx);
}

/* ---- errors that nobody reads -------------------------------------------- */

static char closing[4096];

static void hear_closing(void *env, const char *topic, const char *text) {
    (void)env, (void)topic;
    snprintf(closing, sizeof closing, "%s", text);
}

/* What td_close says after a failed op and `then`. */
static const char *said_at_close(void (*then)(td_ctx *cx)) {
    td_ctx *cx = td_open();
    td_log_to(cx, hear_closing, NULL);
    closing[0] = 0;
    td_add(td_ones(cx, TD_SHAPE(2)), td_ones(cx, TD_SHAPE(3)));
    if (then) then(cx);
    td_close(cx);
    return closing;
}
static void ask_ok(td_ctx *cx) { CHECK(!td_ok(cx)); }
static void read_code(td_ctx *cx) { CHECK(td_error(cx) == TD_E_SHAPE); }
static void read_text(td_ctx *cx) { CHECK(*td_message(cx)); }
static void clear_it(td_ctx *cx) { td_clear(cx); }

static const char *said_with_open_scopes(bool asserts) {
    td_ctx *cx = td_open();
    CHECK(td_config_set(cx, "debug_asserts", asserts ? "on" : "off"));
    td_log_to(cx, hear_closing, NULL);
    closing[0] = 0;
    td_scope_begin(cx, "ended");
    td_scope_end(cx, "ended", NULL);
    td_scope_begin(cx, "open step");
    td_close(cx);
    return closing;
}

TEST(td_close_names_open_scopes_with_debug_asserts) {
    CHECK(!*said_with_open_scopes(false));
    CHECK(strstr(said_with_open_scopes(true), "the scope \"open step\" is still open"));
    CHECK(strstr(closing, "core_errors.c:"));
}

TEST(td_close_prints_an_error_that_nobody_read) {
    CHECK(strstr(said_at_close(NULL), "nobody read this error: add: "));
    CHECK(strstr(said_at_close(ask_ok), "core_errors.c"));
    CHECK(!*said_at_close(read_code) && !*said_at_close(read_text));
    CHECK(!*said_at_close(clear_it));
}
