/* checkpoints.c -- all state of a run in one file; groups by name, averages, summaries.
 * */
#include "nn_help.h"
#include "td_files.h"

static bool says(td_ctx *cx, td_code code, const char *part) {
    bool ok = td_error(cx) == code && strstr(td_message(cx), part);
    if (!ok) fprintf(stderr, "%s: %s\n", td_code_name(td_error(cx)), td_message(cx));
    td_clear(cx);
    return ok;
}

/* ---- a run ---------------------------------------------------------------- */

static const uint8_t text[] = "a text whose bytes are tokens, some of them twice";

typedef struct run {
    td_ctx    *cx;
    td_module *net, *ema;
    td_optim  *opt;
    td_loader *loader;
    td_plateau plateau;
    int64_t    step;
} run;

static run run_begin(uint64_t seed) {
    run r = {.cx = td_open(), .plateau = td_lr_plateau()};
    td_seed(r.cx, seed);
    r.net = td_nn_sequential(r.cx, TD_MODULES(td_nn_linear(r.cx, 4, 8, NULL),
                                              td_nn_dropout(r.cx, 0.5),
                                              td_nn_batch_norm1d(r.cx, 8, NULL),
                                              td_nn_linear(r.cx, 8, 1, NULL)));
    r.ema = td_module_copy(r.net);
    r.opt = td_optim_make(r.cx);
    td_rule plain = td_nadam(0.05), decayed = plain;
    decayed.weight_decay = 0.1;
    td_optim_add_module(r.opt, r.net, decayed, td_param_is_matrix, NULL);
    td_optim_add_module(r.opt, r.net, plain, NULL, NULL);
    td_loader_opts o = {TD_LOADER_OPTS, .type = TD_TOKENS_U8, .batch = 3, .window = 4,
                        .ahead = -1};
    r.loader = td_loader_over(r.cx, text, sizeof text - 1, &o);
    r.plateau.patience = 0;
    CHECK_OK(r.cx);
    return r;
}

static void run_end(run *r) {
    CHECK_OK(r->cx);
    td_close(r->cx);
}

static td_checkpoint_parts parts(run *r) {
    return (td_checkpoint_parts){TD_CHECKPOINT_PARTS,    .module = r->net,
                                 .optim = r->opt,        .average = r->ema,
                                 .plateau = &r->plateau, .loader = r->loader,
                                 .step = &r->step};
}

static double step(run *r) {
    td_tensor *x, *y;
    td_scope_begin(r->cx, "step");
    CHECK(td_loader_next(r->loader, &x, &y));
    x = td_div(td_to(x, TD_F32), 100.0);
    td_tensor *loss = td_mean(td_square(td_module_call(r->net, TD_ARGS(x))));
    td_backward(loss);
    td_optim_step(r->opt);
    td_optim_zero_grad(r->opt);
    td_module_average(r->ema, r->net, 0.1);
    double is = td_item(loss);
    is += td_item(td_sum(td_detach(td_module_get(r->ema, "0.weight"))));
    double lr = td_lr_plateau_step(&r->plateau, is, td_optim_lr(r->opt, 0));
    td_optim_set_lr(r->opt, -1, lr);
    r->step++;
    td_scope_end(r->cx, "step", NULL);
    return is;
}

TEST(a_run_goes_on_from_its_checkpoint_as_if_it_had_not_stopped) {
    run                 r = run_begin(1), s = run_begin(2);
    td_checkpoint_parts of_r = parts(&r), of_s = parts(&s);
    files_begin();
    for (int i = 0; i < 7; i++) step(&r);
    CHECK(td_checkpoint_save(r.cx, files_path("c"), &of_r));
    CHECK(td_checkpoint_load(s.cx, files_path("c"), &of_s));
    CHECK(s.step == 7 &&
          td_loader_tell(s.loader).batch == td_loader_tell(r.loader).batch);
    for (int i = 0; i < 7; i++) CHECK(step(&r) == step(&s));
    CHECK(td_optim_lr(s.opt, 1) == td_optim_lr(r.opt, 0) &&
          td_optim_lr(s.opt, 1) < 0.05);
    files_end();
    run_end(&s);
    run_end(&r);
}

/* ---- mistakes ------------------------------------------------------------- */

TEST(a_checkpoint_without_a_part_or_of_another_model_changes_nothing) {
    run                 r = run_begin(1);
    td_checkpoint_parts all = parts(&r), some = all;
    files_begin();
    some.optim = NULL;
    some.plateau = NULL;
    CHECK(td_checkpoint_save(r.cx, files_path("c"), &some));
    double at = td_item(td_sum(td_detach(td_module_get(r.net, "0.weight"))));
    step(&r);
    double now = td_item(td_sum(td_detach(td_module_get(r.net, "0.weight"))));
    CHECK(at != now);
    CHECK(!td_checkpoint_load(r.cx, files_path("c"), &all));
    CHECK(says(r.cx, TD_E_ARG, "has no tensor \"optim.group.0.lr\""));
    all.optim = NULL;
    CHECK(!td_checkpoint_load(r.cx, files_path("c"), &all));
    CHECK(says(r.cx, TD_E_ARG, "has no \"plateau\"; it was saved without that part"));
    all = some;
    all.module = td_nn_linear(r.cx, 4, 8, NULL);
    CHECK(!td_checkpoint_load(r.cx, files_path("c"), &all));
    CHECK(says(r.cx, TD_E_ARG, "td_checkpoint_load:") && r.step == 1);
    all.module = td_nn_sequential(r.cx, TD_MODULES(td_nn_linear(r.cx, 4, 8, NULL)));
    CHECK(!td_checkpoint_load(r.cx, files_path("c"), &all));
    CHECK(says(r.cx, TD_E_ARG, "0 names missing, 7 unexpected; unexpected: module.2."));
    CHECK(td_item(td_sum(td_detach(td_module_get(r.net, "0.weight")))) == now);
    CHECK(td_checkpoint_load(r.cx, files_path("c"), &some) && r.step == 0);
    CHECK(td_item(td_sum(td_detach(td_module_get(r.net, "0.weight")))) == at);
    /* a part that nobody asks for stays in the file */
    all = (td_checkpoint_parts){TD_CHECKPOINT_PARTS, .module = r.net};
    CHECK(td_checkpoint_load(r.cx, files_path("c"), &all));
    files_end();
    run_end(&r);
}

TEST(a_damaged_checkpoint_is_an_error_wherever_it_ends) {
    run                 r = run_begin(1);
    td_checkpoint_parts all = parts(&r);
    static char         bytes[1 << 16];
    files_begin();
    CHECK(td_checkpoint_save(r.cx, files_path("c"), &all));
    size_t n = files_read("c", bytes, sizeof bytes);
    CHECK(n > 1000 && n < sizeof bytes);
    double now = td_item(td_sum(td_detach(td_module_get(r.net, "0.weight"))));
    for (size_t cut = 0; cut < n; cut += 97) {
        files_write("cut", bytes, cut);
        CHECK(!td_checkpoint_load(r.cx, files_path("cut"), &all));
        CHECK(says(r.cx, TD_E_IO, "td_checkpoint_load"));
    }
    CHECK(td_item(td_sum(td_detach(td_module_get(r.net, "0.weight")))) == now);
    CHECK(!td_checkpoint_save(r.cx, "/no-such-folder/c", &all));
    CHECK(says(r.cx, TD_E_IO, "no-such-folder"));
    td_checkpoint_parts none = {0};
    CHECK(!td_checkpoint_load(r.cx, files_path("c"), &none));
    CHECK(says(r.cx, TD_E_ARG, "TD_CHECKPOINT_PARTS"));
    files_end();
    run_end(&r);
}

/* ---- groups by name --------------------------------------------------------- */

static bool is_bias(void *env, const char *name, td_tensor *p) {
    (void)p;
    ++*(int *)env;
    size_t n = strlen(name);
    return n >= 4 && !strcmp(name + n - 4, "bias");
}

TEST(filters_put_parameters_into_groups) {
    run        r = run_begin(1);
    td_tensor *t[64];
    char       name[80];
    int        calls = 0;
    CHECK(td_optim_groups(r.opt) == 2 && td_optim_params(r.opt, t, 8) == 6);
    CHECK(td_rank(t[0]) == 2 && td_rank(t[1]) == 2 && td_rank(t[2]) == 1);
    td_optim_tensor_name(r.opt, 2, name, sizeof name);
    CHECK_STR(name, "state.0.weight.exp_avg");
    td_optim *o = td_optim_make(r.cx);
    CHECK(td_optim_add_module(o, r.net, td_sgd(1), is_bias, &calls) == 0);
    CHECK(calls == 6 && td_optim_params(o, t, 8) == 3);
    CHECK(td_optim_add_module(o, NULL, td_sgd(1), NULL, NULL) == -1);
    td_clear(r.cx);
    run_end(&r);
}

/* ---- averages --------------------------------------------------------------- */

static bool average_body(td_call *c) {
    td_module **m = td_call_env(c);
    return td_module_average(m[0], m[1], 0.25) && td_return(c);
}

TEST(averages_are_the_same_compiled) {
    td_ctx    *cx = td_open();
    td_module *m[2] = {td_nn_batch_norm1d(cx, 3, NULL),
                       td_nn_batch_norm1d(cx, 3, NULL)};
    td_fn     *f = td_aot_function(cx, average_body, m, NULL);
    td_init_constant(td_module_get(m[1], "weight"), 5);
    td_fill_(td_module_get(m[1], "running_mean"), 7.0);
    CHECK(td_module_average(m[0], m[1], 0.25));
    CHECK(td_item(td_amax(td_detach(td_module_get(m[0], "weight")), TD_ALL)) == 2);
    CHECK(td_item(td_amax(td_module_get(m[0], "running_mean"), TD_ALL)) == 7);
    td_invoke(f, (td_values){NULL, 0}, NULL, 0);
    CHECK_OK(cx);
    CHECK(td_item(td_amax(td_detach(td_module_get(m[0], "weight")), TD_ALL)) == 2.75);

    td_module *other = td_nn_batch_norm1d(cx, 4, NULL);
    CHECK(!td_module_average(m[0], other, 0.5));
    CHECK(says(cx, TD_E_SHAPE, "\"weight\" is f32[4] in `from`, but f32[3] in `into`"));
    CHECK(!td_module_average(m[0], td_nn_linear(cx, 3, 3, NULL), 0.5));
    CHECK(says(cx, TD_E_SHAPE, "f32[3,3]"));
    CHECK(!td_module_average(m[0], td_nn_relu(cx), 0.5) && td_error(cx) == TD_E_ARG);
    td_clear(cx);
    CHECK(!td_module_average(m[0], m[1], NAN) && says(cx, TD_E_ARG, "w is nan"));
    td_fn_drop(f);
    td_close(cx);
}

/* ---- summaries -------------------------------------------------------------- */

TEST(a_summary_lists_each_module_once) {
    td_ctx    *cx = td_open();
    td_module *m =
        td_nn_sequential(cx, TD_MODULES(td_nn_linear(cx, 3, 4, NULL), td_nn_relu(cx),
                                        td_nn_batch_norm1d(cx, 4, NULL)));
    char out[1024];
    td_requires_grad_(td_module_get(m, "0.bias"));
    size_t n = td_module_summary(m, out, sizeof out);
    CHECK(n == strlen(out));
    CHECK(!strncmp(out, "0: Linear  weight f32[4,3], bias f32[4]  ", 41));
    CHECK(strstr(out, "  16\n1: ReLU\n2: BatchNorm1d  weight f32[4], bias f32[4], "));
    CHECK(strstr(out, "  8\nSequential\n24 parameters, 24 of them require grad; "
                      "9 elements in buffers; 136 bytes\n"));
    CHECK(td_module_summary(m, NULL, 0) == n);
    td_close(cx);
}
