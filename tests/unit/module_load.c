/* module_load.c -- files that do not fit a module: what is missing is listed, counted
 * and told, and where values cannot go nothing is written. */
#include "base/base.h"
#include "td_files.h"
#include "td_test.h"
#include "tower_help.h"

static const td_module_type bare = {.name = "Bare"};

/* A module of n parameters p0, p1, ... */
static td_module *many(td_ctx *cx, int n) {
    td_module *m = td_module_make(cx, &bare);
    char       name[16];
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "p%d", i);
        td_module_param(m, name, td_full(cx, TD_SHAPE(2), (double)i));
    }
    return m;
}

static void save(td_ctx *cx, const char *const *names, td_tensors all) {
    CHECK(td_safetensors_save(cx, files_path("m.safetensors"), names, all, NULL));
}

static int missed, extra;

static void hear(void *env, const char *name, bool missing) {
    CHECK(env == &missed && name);
    missed += missing;
    extra += !missing;
}

TEST(names_on_one_side_only_are_listed_and_counted) {
    td_ctx      *cx = td_open();
    td_module   *m = many(cx, 12);
    const char  *names[11];
    char         text[11][8];
    td_tensor   *t[11];
    td_load_opts o = {TD_LOAD_OPTS, .tell = hear, .env = &missed};
    files_begin();
    for (int i = 0; i < 11; i++) { /* p11 and ten others */
        snprintf(text[i], sizeof text[i], i == 10 ? "p11" : "q%d", i);
        names[i] = text[i];
        t[i] = td_full(cx, TD_SHAPE(2), 100.0 + i);
    }
    save(cx, names, (td_tensors){t, 11});
    missed = extra = 0;
    CHECK(!td_module_load(m, files_path("m.safetensors"), &o));
    CHECK(missed == 11 && extra == 10);
    CHECK(aot_says(cx, TD_E_ARG,
                   "11 names missing, 10 unexpected; missing: p0, p1, p2, p3, p4, p5, "
                   "p6, p7 and 3 more; unexpected: q0, q1, q2, q3, q4, q5, q6, q7 and "
                   "2 more"));
    CHECK(!td_module_load(m, files_path("m.safetensors"), NULL));
    CHECK(aot_says(cx, TD_E_ARG, "11 names missing"));
    CHECK(td_item(td_sum(td_detach(td_module_get(m, "p11")))) == 22);
    o.partial = true;
    CHECK(td_module_load(m, files_path("m.safetensors"), &o));
    CHECK(td_item(td_sum(td_detach(td_module_get(m, "p11")))) == 220);
    CHECK(td_item(td_sum(td_detach(td_module_get(m, "p10")))) == 20);
    CHECK_OK(cx);
    td_module_free(m);
    files_end();
    td_close(cx);
}

/* Another dtype is converted where that is asked for, and only then. */
TEST(another_dtype_takes_an_option) {
    td_ctx      *cx = td_open();
    td_module   *m = many(cx, 1);
    const char  *name = "p0";
    td_tensor   *half = td_full(cx, TD_SHAPE(2), 0.5, TD_F64);
    td_load_opts o = {TD_LOAD_OPTS, .cast = true};
    files_begin();
    save(cx, &name, TD_LIST(half));
    CHECK(!td_module_load(m, files_path("m.safetensors"), NULL));
    CHECK(aot_says(cx, TD_E_DTYPE, "set td_load_opts.cast to convert it"));
    CHECK(td_module_load(m, files_path("m.safetensors"), &o));
    CHECK(td_item(td_sum(td_detach(td_module_get(m, "p0")))) == 1);
    CHECK(td_dtype_of(td_module_get(m, "p0")) == TD_F32);
    td_module_free(m);
    files_end();
    td_close(cx);
}

TEST(what_cannot_be_written_is_refused_before_anything_is) {
    td_ctx     *cx = td_open();
    td_module  *m = many(cx, 1);
    const char *names[] = {"p0", "map"};
    td_tensor  *t[] = {td_full(cx, TD_SHAPE(2), 7.0), td_full(cx, TD_SHAPE(2), 8.0)};
    files_begin();
    save(cx, names, (td_tensors){t, 2});
    td_safetensors *file = td_safetensors_open(cx, files_path("m.safetensors"));
    td_module_buffer(m, "map", td_safetensors_get(file, "map"), true);
    CHECK_OK(cx);
    CHECK(!td_module_load(m, files_path("m.safetensors"), NULL));
    CHECK(aot_says(cx, TD_E_ALIAS,
                   "where it is read-only: its storage is mapped from a file"));
    CHECK(td_module_set(m, "map", td_expand(td_ones(cx, TD_SHAPE(1)), TD_SHAPE(2))));
    CHECK(!td_module_load(m, files_path("m.safetensors"), NULL));
    CHECK(aot_says(cx, TD_E_ALIAS, "where elements share memory"));
    CHECK(td_item(td_sum(td_detach(td_module_get(m, "p0")))) == 0);
    CHECK(td_module_set(m, "map", td_ones(cx, TD_SHAPE(3))));
    CHECK(!td_module_load(m, files_path("m.safetensors"), NULL));
    CHECK(aot_says(cx, TD_E_SHAPE,
                   "\"map\" is f32[2] in the file and f32[3] in the module"));
    CHECK(td_module_set(m, "map", td_ones(cx, TD_SHAPE(2))));
    CHECK(td_module_load(m, files_path("m.safetensors"), NULL));
    CHECK(td_item(td_sum(td_detach(td_module_get(m, "p0")))) == 14);
    td_safetensors_close(file);
    td_module_free(m);
    files_end();
    td_close(cx);
}

TEST(names_of_one_tensor_agree_in_a_file) {
    td_ctx     *cx = td_open();
    td_module  *m = td_module_make(cx, &bare);
    td_tensor  *w = td_zeros(cx, TD_SHAPE(2));
    const char *names[] = {"a", "b"};
    td_module_param(m, "a", w);
    td_module_param(m, "b", w);
    files_begin();
    save(cx, names, TD_LIST(td_ones(cx, TD_SHAPE(2)), td_full(cx, TD_SHAPE(2), 2.0)));
    CHECK(!td_module_load(m, files_path("m.safetensors"), NULL));
    CHECK(aot_says(cx, TD_E_IO,
                   "\"a\" and \"b\" are one tensor in the module, but "
                   "differ in the file"));
    save(cx, names,
         TD_LIST(td_ones(cx, TD_SHAPE(2)), td_ones(cx, TD_SHAPE(2), TD_F64)));
    CHECK(!td_module_load(m, files_path("m.safetensors"),
                          &(td_load_opts){TD_LOAD_OPTS, .cast = true}));
    CHECK(aot_says(cx, TD_E_IO, "differ in the file"));
    save(cx, names + 1, TD_LIST(td_full(cx, TD_SHAPE(2), 3.0))); /* one name suffices */
    CHECK(td_module_load(m, files_path("m.safetensors"), NULL));
    CHECK(td_item(td_sum(td_detach(w))) == 6);
    CHECK_OK(cx);
    td_module_free(m);
    files_end();
    td_close(cx);
}
