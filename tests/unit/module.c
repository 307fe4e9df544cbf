/* module.c -- modules: names, order and ties as PyTorch has them, files both ways,
 * and failures that leave everything as it was. */
#include "module_help.h"

#include "module/modules.h"
#include "module_torch.h"
#include "td_files.h"
#include "td_test.h"

#define PATH files_path("net.safetensors")

static bool says(td_ctx *cx, td_code code, const char *part) {
    bool ok = td_error(cx) == code && strstr(td_message(cx), part);
    if (!ok) fprintf(stderr, "%s: %s\n", td_code_name(td_error(cx)), td_message(cx));
    td_clear(cx);
    return ok;
}

static char names[512];

static bool add_name(void *env, const td_member *m) {
    (void)env;
    size_t n = strlen(names);
    snprintf(names + n, sizeof names - n, "%s ", m->name);
    return true;
}

static const char *names_of(td_module *m, int what) {
    names[0] = 0;
    CHECK(td_module_visit(m, what, add_name, NULL));
    return names;
}

static bool same(td_tensor *a, td_tensor *b) {
    return td_item(td_sum(td_abs(td_sub(a, b)))) == 0;
}

TEST(names_and_order_are_those_of_pytorch) {
    td_ctx    *cx = td_open();
    td_module *m = net_make(cx);
    CHECK_OK(cx);

    CHECK_STR(names_of(m, TD_VISIT_PARAMS),
              "tok.weight layers.0.weight layers.0.bias layers.1.weight ");
    CHECK_STR(names_of(m, TD_VISIT_BUFFERS), "steps mask ");
    CHECK_STR(names_of(m, TD_VISIT_ALL | TD_VISIT_DUPLICATES),
              "steps mask tok.weight layers.0.weight layers.0.bias layers.1.weight "
              "head.weight ");
    td_tensor *p[3];
    CHECK(td_module_parameters(m, p, 3) == 4 && td_module_buffers(m, NULL, 0) == 2);
    CHECK(p[0] == td_module_get(m, "head.weight"));
    CHECK(p[2] == td_module_get(m, "layers.0.bias") && td_requires_grad(p[2]));
    CHECK(td_module_get(m, "layers.1.bias") == NULL);
    td_module_free(m);
    td_close(cx);
}

TEST(flat_lists_each_tensor_once_with_all_its_names) {
    td_ctx    *cx = td_open();
    td_module *m = net_make(cx);

    td_flat *f = td_module_flat(m);

    CHECK(f->n_params == 4 && f->n_buffers == 2);
    CHECK(f->entries[0].n_names == 2 && f->entries[1].n_names == 1);
    CHECK_STR(f->entries[0].names[0], "tok.weight");
    CHECK_STR(f->entries[0].names[1], "head.weight");
    CHECK_STR(f->entries[3].names[0], "layers.1.weight");
    CHECK_STR(f->entries[5].names[0], "mask");
    CHECK(f->entries[4].persistent && !f->entries[5].persistent);
    CHECK(f->entries[4].buffer && !f->entries[3].buffer);
    td_module_free(m);
    CHECK(td_numel(f->entries[0].t) == 12); /* it holds them */
    td_flat_drop(f);
    td_close(cx);
}

TEST(what_may_not_be_registered_is_refused_with_the_reason) {
    td_ctx    *cx = td_open(), *other = td_open();
    td_module *m = net_make(cx);
    td_tensor *x = td_ones(cx, TD_SHAPE(2));

    CHECK(td_is_nil(td_module_param(m, "a.b", x)) &&
          says(cx, TD_E_ARG, "contain a dot"));
    CHECK(td_is_nil(td_module_param(m, "", x)) && says(cx, TD_E_ARG, "be empty"));
    CHECK(td_is_nil(td_module_param(m, "steps", x)) && says(cx, TD_E_ARG, "is in use"));
    CHECK(td_is_nil(td_module_buffer(m, "layers", x, true)));
    CHECK(says(cx, TD_E_ARG, "td_module_buffer: Net \"layers\": the name is in use"));
    CHECK(td_is_nil(td_module_param(m, "i", td_ones(cx, TD_SHAPE(2), TD_I64))));
    CHECK(says(cx, TD_E_DTYPE, "this is i64[2]. Register it as a buffer"));
    CHECK(
        td_is_nil(td_module_param(m, "y", td_mul(td_module_get(m, "tok.weight"), 2))));
    CHECK(says(cx, TD_E_GRAD, "was made by mul; a parameter must be a leaf"));
    CHECK(td_is_nil(td_module_param(m, "o", td_ones(other, TD_SHAPE(2)))));
    CHECK(says(cx, TD_E_ARG, "another context"));
    td_module *in = td_module_find(m, "layers.0");
    CHECK(td_is_nil(td_module_child(in, "up", m)) &&
          says(cx, TD_E_ARG, "contains the module itself"));
    td_module_free(in);
    CHECK(says(cx, TD_E_ARG, "free the parent instead"));
    CHECK(td_is_nil(td_module_get(m, "layers.7.weight")));
    CHECK(says(cx, TD_E_ARG, "Net has no parameter or buffer \"layers.7.weight\""));
    CHECK(td_is_nil(td_module_find(m, "tok.x")) &&
          says(cx, TD_E_ARG, "no child \"tok.x\""));
    CHECK(td_module_parameters(m, NULL, 0) == 4);
    td_module_free(m);
    td_close(other);
    td_close(cx);
}

TEST(a_shared_child_is_freed_once_and_listed_once) {
    td_ctx    *cx = td_open();
    td_module *m = td_module_make(cx, &list_type), *l = linear_make(cx, 2, 2, true);
    CHECK(td_module_child(m, "a", l) == l && td_module_child(m, "b", l) == l);

    CHECK_STR(names_of(m, TD_VISIT_PARAMS), "a.weight a.bias ");
    CHECK_STR(names_of(m, TD_VISIT_PARAMS | TD_VISIT_DUPLICATES),
              "a.weight a.bias b.weight b.bias ");
    td_module *copy = td_module_copy(m);
    CHECK(td_module_find(copy, "a") == td_module_find(copy, "b"));
    CHECK(td_module_find(copy, "a") != l);
    td_module_free(copy);
    td_module_free(m);
    CHECK_OK(cx);
    td_close(cx);
}

TEST(a_replaced_tensor_is_followed_and_unties) {
    td_ctx    *cx = td_open();
    td_module *m = net_make(cx), *head = td_module_find(m, "head");
    td_tensor *w = td_ones(cx, TD_SHAPE(4, 3));
    uint64_t   epoch = td__module_epoch();
    td_set_requires_grad(td_module_get(m, "head.weight"), false);

    CHECK(td_module_set(m, "head.weight", w));

    CHECK(((linear *)td_module_state(head))->weight == w && !td_requires_grad(w));
    CHECK(td_module_get(m, "tok.weight") != w && td__module_epoch() != epoch);
    CHECK(td_module_parameters(m, NULL, 0) == 5);
    CHECK(td_module_set(m, "layers.0.bias", NULL));
    CHECK(td_module_get(m, "layers.0.bias") == NULL && td_ok(cx));
    td_module_free(m);
    td_close(cx);
}

static bool count_module(void *env, td_module *m, const char *name) {
    (void)m;
    size_t n = strlen(names);
    snprintf(names + n, sizeof names - n, "[%s]", name);
    ++*(int *)env;
    return true;
}

TEST(modes_reach_children_and_apply_goes_bottom_up) {
    td_ctx    *cx = td_open();
    td_module *m = net_make(cx);
    int        n = 0;

    CHECK(td_module_training(td_module_find(m, "layers.1")));
    td_module_train(m, false);
    CHECK(!td_module_training(m) && !td_module_training(td_module_find(m, "layers.1")));
    names[0] = 0;
    CHECK(td_module_apply(m, count_module, &n) && n == 6);
    CHECK_STR(names, "[tok][layers.0][layers.1][layers][head][]");
    CHECK(td_module_requires_grad(m, false));
    CHECK(!td_requires_grad(td_module_get(m, "layers.0.bias")));
    td_module_free(m);
    td_close(cx);
}

/* ---- files -------------------------------------------------------------- */

TEST(a_file_written_by_pytorch_loads_and_computes_the_same) {
    td_ctx    *cx = td_open();
    td_module *m = net_make(cx);
    files_begin();
    files_write("net.safetensors", torch_file, sizeof torch_file);

    CHECK(td_module_load(m, PATH, NULL)); /* has head.weight only, of the tied two */

    int64_t    in[] = {0, 3}, target[] = {1, 2};
    td_tensor *x = td_from(cx, TD_I64, TD_SHAPE(2), in);
    td_tensor *y = td_module_call(m, TD_ARGS(x));
    td_tensor *t = td_from(cx, TD_I64, TD_SHAPE(2), target);
    td_tensor *loss = td_cross_entropy(y, t);
    float      out[8], grad[12];
    CHECK(td_backward(loss) && td_read(y, TD_F32, out, sizeof out));
    CHECK(
        td_read(td_grad_of(td_module_get(m, "tok.weight")), TD_F32, grad, sizeof grad));
    for (int i = 0; i < 8; i++) CHECK_NEAR(out[i], torch_out[i], 1e-6);
    for (int i = 0; i < 12; i++) CHECK_NEAR(grad[i], torch_grad[i], 1e-6);
    CHECK_NEAR(td_item(loss), torch_loss, 1e-6);
    CHECK(td_item_int(td_module_get(m, "steps")) == 7);
    td_module_zero_grad(m);
    CHECK(td_is_nil(td_grad_of(td_module_get(m, "tok.weight"))));
    td_module_free(m);
    files_end();
    td_close(cx);
}

TEST(a_saved_module_loads_with_ties_under_every_name) {
    td_ctx    *cx = td_open();
    td_module *a = net_make(cx), *b = net_make(cx);
    files_begin();
    for (int distinct = 0; distinct < 2; distinct++) {
        td_save_opts o = {TD_SAVE_OPTS, .distinct = distinct};
        td_module_set(b, "layers.0.bias", td_zeros(cx, TD_SHAPE(3)));
        uint64_t version = td_version(td_module_get(b, "tok.weight"));

        CHECK(td_module_save(a, PATH, &o));
        td_safetensors *f = td_safetensors_open(cx, PATH);
        CHECK(td_safetensors_count(f) == 6 - distinct);
        CHECK_STR(td_safetensors_note(f, "format"), "pt");
        if (distinct) CHECK_STR(td_safetensors_note(f, "head.weight"), "tok.weight");
        td_safetensors_close(f);

        CHECK(td_module_load(b, PATH, NULL));
        CHECK(same(td_module_get(a, "tok.weight"), td_module_get(b, "head.weight")));
        CHECK(
            same(td_module_get(a, "layers.0.bias"), td_module_get(b, "layers.0.bias")));
        CHECK(td_version(td_module_get(b, "tok.weight")) > version);
    }
    CHECK_OK(cx);
    td_module_free(a);
    td_module_free(b);
    files_end();
    td_close(cx);
}

static void tell(void *env, const char *name, bool missing) {
    size_t n = strlen(names);
    (void)env;
    snprintf(names + n, sizeof names - n, "%c%s ", missing ? '-' : '+', name);
}

/* Saves these as the file, in f32. */
static void write_file(td_ctx *cx, const char *const *n, td_tensors t) {
    CHECK(td_safetensors_save(cx, PATH, n, t, NULL));
}

TEST(loading_is_strict_and_lists_the_names_by_default) {
    static const char *const file[] = {"tok.weight", "extra", "mask"};
    td_ctx                  *cx = td_open();
    td_module               *m = net_make(cx);
    td_tensor *one = td_ones(cx, TD_SHAPE(4, 3)), *x = td_ones(cx, TD_SHAPE(3));
    td_tensor *before = td_clone(td_module_get(m, "tok.weight"));
    files_begin();
    write_file(cx, file, TD_LIST(one, x, x));

    CHECK(!td_module_load(m, PATH, NULL));
    CHECK(says(cx, TD_E_ARG,
               "4 names missing, 2 unexpected; missing: steps, layers.0.weight, "
               "layers.0.bias, layers.1.weight; unexpected: extra, mask"));
    CHECK(same(before, td_module_get(m, "tok.weight")));

    names[0] = 0;
    CHECK(td_module_load(m, PATH,
                         &(td_load_opts){TD_LOAD_OPTS, .partial = true, .tell = tell}));
    CHECK_STR(names, "-steps -layers.0.weight -layers.0.bias -layers.1.weight +extra "
                     "+mask ");
    CHECK(same(one, td_module_get(m, "head.weight")));
    td_module_free(m);
    files_end();
    td_close(cx);
}

TEST(a_wrong_tensor_in_a_file_is_an_error_before_anything_is_written) {
    static const char *const file[] = {"weight", "bias"};
    td_ctx                  *cx = td_open();
    td_module               *m = linear_make(cx, 2, 3, true);
    td_tensor *w = td_full(cx, TD_SHAPE(3, 2), 5.0), *b = td_full(cx, TD_SHAPE(3), 5.0);
    td_tensor *before = td_clone(td_module_get(m, "weight"));
    files_begin();

    write_file(cx, file, TD_LIST(w, td_ones(cx, TD_SHAPE(4))));
    CHECK(!td_module_load(m, PATH, NULL));
    CHECK(says(cx, TD_E_SHAPE,
               "\"bias\" is f32[4] in the file and f32[3] in the module"));
    write_file(cx, file, TD_LIST(w, td_to(b, TD_F64)));
    CHECK(!td_module_load(m, PATH, NULL));
    CHECK(
        says(cx, TD_E_DTYPE,
             "is f64[3] in the file and f32[3] in the module; set td_load_opts.cast"));
    CHECK(same(before, td_module_get(m, "weight")));
    CHECK(td_module_load(m, PATH, &(td_load_opts){TD_LOAD_OPTS, .cast = true}));
    CHECK(same(b, td_module_get(m, "bias")) && same(w, td_module_get(m, "weight")));
    CHECK(!td_module_load(m, files_path("nothing"), NULL));
    CHECK(says(cx, TD_E_IO, "nothing"));
    td_module_free(m);
    files_end();
    td_close(cx);
}

TEST(tied_names_that_differ_in_a_file_are_refused) {
    static const char *const file[] = {"a", "b"};
    td_ctx                  *cx = td_open();
    td_module               *m = td_module_make(cx, &list_type);
    td_tensor               *t = td_module_param(m, "a", td_ones(cx, TD_SHAPE(2)));
    td_module_param(m, "b", t);
    files_begin();
    write_file(cx, file, TD_LIST(td_zeros(cx, TD_SHAPE(2)), td_ones(cx, TD_SHAPE(2))));

    CHECK(!td_module_load(m, PATH, NULL));

    CHECK(
        says(cx, TD_E_IO, "\"a\" and \"b\" are one tensor in the module, but differ"));
    CHECK(td_item(td_sum(t)) == 2);
    td_module_free(m);
    files_end();
    td_close(cx);
}

/* ---- dtypes and copies -------------------------------------------------- */

TEST(a_module_of_another_dtype_keeps_its_tensors_and_trains) {
    td_ctx    *cx = td_open();
    td_module *m = net_make(cx);
    td_tensor *w = td_module_get(m, "tok.weight"), *was = td_clone(w);
    td_tensor *x = td_zeros(cx, TD_SHAPE(2), TD_I64);
    CHECK(td_backward(td_sum(td_module_call(m, TD_ARGS(x)))));
    td_tensor *grad = td_to(td_grad_of(w), TD_F64);

    CHECK(td_module_to(m, TD_F64));

    CHECK(td_module_get(m, "head.weight") == w && td_dtype_of(w) == TD_F64);
    CHECK(td_requires_grad(w) && td_is_leaf(w) && same(was, w));
    CHECK(td_dtype_of(td_grad_of(w)) == TD_F64 && same(grad, td_grad_of(w)));
    CHECK(td_dtype_of(td_module_get(m, "mask")) == TD_F64);
    CHECK(td_dtype_of(td_module_get(m, "steps")) == TD_I64);
    CHECK(td_backward(td_sum(td_module_call(m, TD_ARGS(x)))));
    td_tensor *twice = td_mul(grad, 2.0);
    CHECK_NEAR(td_item(td_sum(td_abs(td_sub(twice, td_grad_of(w))))), 0, 1e-5);
    CHECK(!td_module_to(m, TD_I32) && says(cx, TD_E_DTYPE, "must be a float dtype"));
    td_module_free(m);
    td_close(cx);
}

TEST(a_history_from_before_a_change_of_dtype_is_an_error) {
    td_ctx    *cx = td_open();
    td_module *m = linear_make(cx, 2, 2, false);
    td_tensor *x = td_requires_grad_(td_ones(cx, TD_SHAPE(1, 2)));
    td_tensor *y = td_sum(td_module_call(m, TD_ARGS(x)));

    CHECK(td_module_to(m, TD_F64));

    CHECK(!td_backward(y) && says(cx, TD_E_GRAD, "td_module_to"));
    td_module_free(m);
    td_close(cx);
}

TEST(a_copy_is_its_own_and_tied_alike) {
    td_ctx    *cx = td_open();
    td_module *m = net_make(cx);
    td_module_train(m, false);
    td_set_requires_grad(td_module_get(m, "layers.0.bias"), false);

    td_module *c = td_module_copy(m);

    CHECK(c && !td_module_training(c));
    CHECK_STR(names_of(c, TD_VISIT_ALL | TD_VISIT_DUPLICATES),
              "steps mask tok.weight layers.0.weight layers.0.bias layers.1.weight "
              "head.weight ");
    td_tensor *w = td_module_get(c, "tok.weight");
    CHECK(w == td_module_get(c, "head.weight") && w != td_module_get(m, "tok.weight"));
    CHECK(!td_requires_grad(td_module_get(c, "layers.0.bias")) && td_requires_grad(w));
    linear *l = td_module_state(td_module_find(c, "head"));
    CHECK(l->weight == w); /* the slot is the copy's */
    td_tensor *x = td_zeros(cx, TD_SHAPE(1), TD_I64);
    td_tensor *ym = td_module_call(m, TD_ARGS(x)), *yc = td_module_call(c, TD_ARGS(x));
    CHECK(same(ym, yc));
    td_module_free(m);
    CHECK(same(yc, td_module_call(c, TD_ARGS(x))));
    td_module_free(c);
    td_close(cx);
}

static int alive;

static bool holder_copy(td_module *to, td_module *from) {
    (void)from;
    alive++;
    return td_ok(td_module_ctx(to));
}
static void holder_drop(td_module *m) {
    (void)m;
    alive--;
}
static const td_module_type holder_type = {.name = "Holder",
                                           .drop = holder_drop,
                                           .copy = holder_copy};
static const td_module_type selfish_type = {.name = "Selfish", .drop = holder_drop};

TEST(states_with_things_of_their_own_are_copied_by_their_type) {
    td_ctx    *cx = td_open();
    td_module *m = td_module_make(cx, &list_type);
    td_module_child(m, "h", td_module_make(cx, &holder_type));
    alive = 1;

    td_module_free(td_module_copy(m));
    CHECK(alive == 1 && td_ok(cx));
    td_module_child(m, "s", td_module_make(cx, &selfish_type));
    CHECK(td_is_nil(td_module_copy(m)) &&
          says(cx, TD_E_ARG, "\"s\": td_module_type of Selfish has `drop`"));
    td_module_free(m);
    CHECK(alive == -1);
    td_close(cx);
}

/* ---- calls -------------------------------------------------------------- */

TEST(errors_name_the_module_they_come_from) {
    td_ctx    *cx = td_open();
    td_module *m = net_make(cx);
    CHECK(td_module_set(m, "layers.1.weight", td_ones(cx, TD_SHAPE(5, 5))));

    td_tensor *x = td_zeros(cx, TD_SHAPE(1), TD_I64);
    CHECK(td_is_nil(td_module_call(m, TD_ARGS(x))));
    CHECK(says(cx, TD_E_SHAPE, "Net/1: "));
    CHECK(cx->scopes.n == 0);
    td_module *list = td_module_find(m, "layers");
    CHECK(td_is_nil(td_module_call(list, TD_ARGS(x))));
    CHECK(says(cx, TD_E_ARG, "ModuleList has no forward"));
    td_module_free(m);
    td_close(cx);
}

TEST(a_module_can_be_captured) {
    td_ctx     *cx = td_open();
    td_module  *m = net_make(cx);
    td_tensor  *x = td_zeros(cx, TD_SHAPE(2), TD_I64);
    td_value    out;
    td_program *p = td_capture(cx, td_module_body, m, TD_ARGS(x));
    CHECK_OK(cx);

    CHECK(td_program_run(p, TD_ARGS(x), &out, 1));

    CHECK(same(out.u.t, td_module_call(m, TD_ARGS(x))));
    td_program_drop(p);
    td_module_free(m);
    td_close(cx);
}
