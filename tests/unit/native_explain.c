/* native_explain.c -- what explanations and traces say of native code: each kernel and
 * each call with its space, bytes, operations and time, the memory of a run, and where
 * the code came from. The numbers are worked out by hand here. */
#include "aot_help.h"
#include "td_files.h"

#include <cjson/cJSON.h>

/* f32[16,32] has 2048 bytes, f32[32,32] 4096. */
static const char program[] = "func @f(%x: f32[16,32], %w: f32[32,32]) {\n"
                              "  %h = mm(%x, %w)\n"
                              "  %e = exp(%h)\n"
                              "  %u = mm(%e, %w)\n"
                              "  %s = softmax(%u, 1)\n"
                              "  %y = sum(%s)\n"
                              "  return %y\n"
                              "}\n";

typedef struct scene {
    td_ctx   *cx;
    td_gfile *file;
    td_fn    *f;
    char      text[1 << 14];
} scene;

static void enter(scene *s, const char *cache_mb) {
    files_begin();
    *s = (scene){.cx = td_open()};
    td_config_set(s->cx, "backend", "native");
    td_config_set(s->cx, "cache_dir", files_dir);
    td_config_set(s->cx, "cache_disk_mb", cache_mb);
    td_config_set(s->cx, "cc_flags", "-O0");
    s->file = td_graphs_parse(s->cx, program, sizeof program - 1, "p.td");
    s->f = td_aot_graph(td_graphs_at(s->file, 0), NULL);
}

static void call(scene *s) {
    td_tensor *x = td_ones(s->cx, TD_SHAPE(16, 32)), *out;
    CHECK(td_invoke(s->f, TD_ARGS(x, td_ones(s->cx, TD_SHAPE(32, 32))), &out, 1));
    CHECK_OK(s->cx);
}

static void leave(scene *s) {
    td_fn_drop(s->f);
    td_graphs_drop(s->file);
    td_close(s->cx);
    files_end();
}

/* The rest of the line that begins so, without blanks before it. */
static const char *line(scene *s, const char *begin) {
    static char rest[256];
    td_explain(s->f, s->text, sizeof s->text);
    char *at = strstr(s->text, begin);
    TD_CHECK_THAT(at, "no line \"%s\" in\n%s", begin, s->text);
    at += strlen(begin);
    at += strspn(at, " ");
    snprintf(rest, sizeof rest, "%.*s", (int)strcspn(at, "\n"), at);
    return rest;
}

TEST(each_kernel_and_each_call_has_a_line_with_its_work) {
    scene s;
    enter(&s, "0");
    call(&s);
    CHECK_STR(line(&s, "\n  its code:"), "2 kernels");
    CHECK_STR(line(&s, "\n    exp "),
              "1 x 512, reads 2048 B, writes 2048 B, 512 flops");
    CHECK_STR(
        line(&s, "\n    amax+sub+exp+sum+div+sum "),
        "16 x 32, reads 2048 B, writes 4 B, 3088 flops"); /* and 16 sums of rows */
    CHECK_STR(line(&s, "\n    mm "),
              "called 2 times, reads 12288 B, writes 4096 B, 65536 flops");
    leave(&s);
}

/* %h, over which %e is written, and %u are there at once; a block counts 128 bytes
 * more, as does the arena. */
TEST(the_memory_of_a_run_is_said) {
    scene s;
    enter(&s, "0");
    call(&s);
    CHECK_STR(line(&s, "\n    peak memory of a run:"),
              "4356 B (4352 B with every value allocated separately)");
    CHECK_STR(line(&s, "\n    arena:"),
              "2 values in 4096 B, at most 4096 B of it in use at once; 1 value "
              "allocated separately");
    leave(&s);
}

TEST(times_are_said_where_they_are_measured) {
    static const char *const all[] = {"\n    exp ", "\n    mm ",
                                      "\n    amax+sub+exp+sum+div+sum "};
    scene                    s;
    enter(&s, "0");
    td__span_collect(s.cx, true);
    for (int i = 0; i < 3; i++) call(&s);
    for (int i = 0; i < TD_COUNT(all); i++) {
        const char *flops = strstr(line(&s, all[i]), " flops, ");
        double      us = flops ? atof(flops + 8) : -1;
        TD_CHECK_THAT(us >= 0 && us < 1e6 && strstr(flops, " us"), "%s", s.text);
    }
    CHECK(td__span_total(s.cx, "mm").count == 6);
    CHECK(td__span_total(s.cx, "exp").count == 3);
    td__span_collect(s.cx, false);
    leave(&s);
}

TEST(code_that_was_found_on_disk_is_said_to_be) {
    scene s;
    enter(&s, "64");
    call(&s);
    td_explain(s.f, s.text, sizeof s.text);
    CHECK(!strstr(s.text, "read from the disk cache"));
    td_fn_drop(s.f);
    s.f = td_aot_graph(td_graphs_at(s.file, 0), NULL);
    call(&s);
    CHECK(!strncmp(line(&s, "\n  read from the disk cache,"), "f_", 2));
    CHECK_STR(line(&s, "\n  its code:"), "2 kernels"); /* as when it was made */
    leave(&s);
}

/* Loops of what was found are made again for an explanation, which may fail. */
TEST(an_explanation_without_memory_keeps_an_older_failure) {
    scene s;
    enter(&s, "64");
    call(&s);
    td_fn_drop(s.f);
    s.f = td_aot_graph(td_graphs_at(s.file, 0), NULL);
    call(&s);
    td_fail(s.cx, TD_E_ARG, "an older failure");
    for (int64_t n = 0, more = 1; more; n++) {
        td__fault_arm(n, false);
        td_explain(s.f, s.text, sizeof s.text);
        more = td__fault_count() > n;
        td__fault_arm(-1, false);
        CHECK(td_error(s.cx) == TD_E_ARG);
    }
    CHECK(strstr(s.text, "its code: 2 kernels"));
    td_clear(s.cx);
    leave(&s);
}

/* ---- traces ------------------------------------------------------------- */

static double number(const cJSON *e, const char *key) {
    const cJSON *n = cJSON_GetObjectItem(e, key);
    return cJSON_IsNumber(n) ? cJSON_GetNumberValue(n) : -1;
}

static bool is_event(const cJSON *e, const char *kind) {
    return !strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(e, "ph")), kind);
}

/* The args of the first span of that name, at its end. */
static const cJSON *args_of(const cJSON *list, const char *name, double *us) {
    double       at = 0;
    int          deep = 0;
    const cJSON *e;
    cJSON_ArrayForEach(e, list) {
        const char *said = cJSON_GetStringValue(cJSON_GetObjectItem(e, "name"));
        if (deep == 0 && !(is_event(e, "B") && !strcmp(said, name))) continue;
        if (deep == 0) at = number(e, "ts");
        deep += is_event(e, "B") ? 1 : is_event(e, "E") ? -1 : 0;
        *us = number(e, "ts") - at;
        if (deep == 0) return cJSON_GetObjectItem(e, "args");
    }
    return NULL;
}

static void check_args(const cJSON *list, const char *name, double read, double written,
                       double flops) {
    double       us = -1;
    const cJSON *a = args_of(list, name, &us);
    TD_CHECK_THAT(a && us >= 0, "no span of %s", name);
    TD_CHECK_THAT(number(a, "read") == read && number(a, "written") == written &&
                      number(a, "flops") == flops,
                  "%s: %g %g %g", name, number(a, "read"), number(a, "written"),
                  number(a, "flops"));
}

TEST(a_trace_has_every_kernel_and_call_with_its_work) {
    scene s;
    enter(&s, "64");
    CHECK(td_trace_start(s.cx, files_path("trace.json")));
    call(&s);
    td_trace_stop(s.cx);
    s.text[files_read("trace.json", s.text, sizeof s.text - 1)] = 0;
    cJSON *list = cJSON_Parse(s.text);
    CHECK(cJSON_IsArray(list));
    check_args(list, "exp", 2048, 2048, 512);
    check_args(list, "amax+sub+exp+sum+div+sum", 2048, 4, 3088);
    check_args(list, "mm", 6144, 2048, 32768); /* each call by itself */
    double us;
    CHECK(number(args_of(list, "find", &us), "found") == 0);
    for (const char *const *n = (const char *const[]){"capture", "joint", "simplify",
                                                      "lower", "fuse", "emit", NULL};
         *n; n++) {
        us = -1;
        args_of(list, *n, &us);
        TD_CHECK_THAT(us >= 0, "no span of %s", *n);
    }
    cJSON_Delete(list);
    leave(&s);
}

/* Three steps of the forward code are kernels or calls, in the order they run. */
TEST(json_has_the_steps_of_native_code_with_their_c) {
    static const char *const labels[] = {"mm", "exp", "mm", "amax+sub+exp+sum+div+sum"};
    scene                    s;
    enter(&s, "0");
    call(&s);
    td_buf b = {0};
    CHECK(td__explain_json(&b, s.f, TD_EXPLAIN_GRAPHS));
    cJSON *all = cJSON_Parse(td__buf_str(&b));
    cJSON *spec = cJSON_GetArrayItem(cJSON_GetObjectItem(all, "specializations"), 0);
    cJSON *steps = cJSON_GetObjectItem(cJSON_GetObjectItem(spec, "native"), "forward");
    CHECK(cJSON_GetArraySize(steps) == TD_COUNT(labels));
    for (int i = 0; i < TD_COUNT(labels); i++) {
        cJSON *step = cJSON_GetArrayItem(steps, i);
        cJSON *code = cJSON_GetObjectItem(step, "code");
        CHECK_STR(cJSON_GetStringValue(cJSON_GetObjectItem(step, "label")), labels[i]);
        CHECK((code != NULL) == (i % 2 == 1));
        CHECK(!code || strstr(cJSON_GetStringValue(code), "for ("));
    }
    cJSON_Delete(all);
    td__buf_free(&b);
    leave(&s);
}
