/* aot_explain.c -- explanations, logs and timings of compiled functions. The whole text
 * is pinned down by tests/golden/aot. */
#include "aot_help.h"

#include <cjson/cJSON.h>

static char text[1 << 16];

static td_fn *called_layer(td_ctx *cx) {
    td_tensor  *x = td_ones(cx, TD_SHAPE(4, 3)), *seen = td_zeros(cx, TD_SHAPE());
    td_tensor  *w = td_requires_grad_(td_ones(cx, TD_SHAPE(3, 2))), *out[2];
    td_aot_opts o = {TD_AOT_OPTS, .name = "layer"};
    td_fn      *f = td_aot_function(cx, layer, NULL, &o);
    td_invoke(f, TD_ARGS(x, w, seen), out, 2);
    return f;
}

TEST(an_explanation_says_what_happens_to_inputs_and_results) {
    td_ctx *cx = td_open();
    td_fn  *f = called_layer(cx);
    size_t  n = td_explain(f, text, sizeof text);

    CHECK(n == strlen(text));
    CHECK(strstr(text, "@layer: 1 specialization of at most 64\n"));
    CHECK(strstr(text, "captured 4 ops: 1 view, 1 write, 0 random draws\n"));
    CHECK(strstr(text, "written without history, version +1\n"));
    CHECK(strstr(text, "view of result 0: transpose(0, 1)\n"));
    CHECK(strstr(text, "argument 1: f32[3,2], requires grad, a leaf\n"));
    CHECK(strstr(text, "compiled in "));
    CHECK(td_explain(f, NULL, 0) > 0);
    CHECK(td_explain(f, text, 10) > 10 && !strcmp(text, "@layer: 1"));
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

static bool sum_of_all(td_call *c) {
    td_tensor *sum = td_arg(c, 0);
    for (int i = 1; i < td_arg_count(c); i++) sum = td_add(sum, td_arg(c, i));
    return td_return(c, sum);
}

TEST(columns_are_aligned_beyond_ten_inputs) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(2)), *y;
    td_fn     *f = td_aot_function(cx, sum_of_all, NULL, NULL);
    td_value   in[11];

    for (int i = 0; i < 11; i++) in[i] = td_value_tensor(td_add(x, i));
    CHECK(td_invoke(f, TD_ARGS_OF(in, 11), &y, 1));
    td_explain(f, text, sizeof text);
    CHECK(strstr(text, "\n     9  %x9   f32[2]  only read\n"
                       "    10  %x10  f32[2]  only read\n"));
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

TEST(a_function_nobody_called_is_not_compiled_yet) {
    td_ctx *cx = td_open();
    td_fn  *f = td_aot_function(cx, layer, NULL, NULL);
    td_explain(f, text, sizeof text);
    CHECK_STR(text, "@f: not compiled yet, call it first\n");
    td_fn_drop(f);
    td_close(cx);
}

TEST(an_explanation_for_programs_is_json) {
    td_ctx *cx = td_open();
    td_fn  *f = called_layer(cx);
    td_explain_json(f, text, sizeof text);
    cJSON *all = cJSON_Parse(text);
    CHECK(cJSON_IsObject(all));
    cJSON *s = cJSON_GetArrayItem(cJSON_GetObjectItem(all, "specializations"), 0);
    cJSON *seen = cJSON_GetArrayItem(cJSON_GetObjectItem(s, "inputs"), 2);
    cJSON *update = cJSON_GetObjectItem(seen, "update");
    cJSON *t = cJSON_GetArrayItem(cJSON_GetObjectItem(s, "results"), 1);
    CHECK_STR(cJSON_GetStringValue(cJSON_GetObjectItem(s, "kind")), "training");
    CHECK_STR(cJSON_GetStringValue(cJSON_GetObjectItem(update, "written")), "copy_");
    cJSON *step = cJSON_GetArrayItem(cJSON_GetObjectItem(update, "steps"), 0);
    CHECK_STR(cJSON_GetStringValue(step), "written without history");
    CHECK_STR(cJSON_GetStringValue(cJSON_GetObjectItem(t, "kind")), "view");
    CHECK_STR(cJSON_GetStringValue(cJSON_GetObjectItem(t, "type")), "f32[2,4]{1,2}");
    CHECK(cJSON_GetArraySize(cJSON_GetObjectItem(s, "guards")) == 4);
    cJSON_Delete(all);
    td_fn_drop(f);
    td_close(cx);
}

/* ---- logs --------------------------------------------------------------- */

/* Numbers of functions count up in the process: the log with N for them. */
static const char *log_of(const char *topics) {
    char    id[32];
    td_ctx *cx = open_hearing(topics);
    td_fn  *f = called_layer(cx);
    snprintf(id, sizeof id, ", function %d\n", f->id);
    for (char *at = heard; (at = strstr(at, id)); at++) {
        char *end = at + strlen(id);
        memcpy(at, ", function N\n", 13);
        memmove(at + 13, end, strlen(end) + 1);
    }
    td_fn_drop(f);
    CHECK_OK(cx);
    td_close(cx);
    return heard;
}

TEST(the_log_has_the_graph_of_each_stage) {
    CHECK_STR(log_of(""), "");
    log_of("graphs");
    CHECK(strstr(heard, "graphs: @layer #0: program, function N\nfunc @layer("));
    CHECK(strstr(heard, "graphs: @layer #0: joint graph, function N\nfunc @layer("));
    CHECK(strstr(heard, "graphs: @layer #0: forward graph, function N\nfunc @layer"));
    CHECK(strstr(heard, "graphs: @layer #0: backward graph, function N\nfunc @layer"));
    CHECK(strstr(log_of("capture"), "capture: @layer #0: program, function N\nfunc"));
    CHECK(
        strstr(log_of("joint"), "joint: @layer #0: joint graph, as traced, function"));
}

TEST(the_log_has_facts_partition_wrappers_and_guards) {
    CHECK(strstr(log_of("facts"), "@layer: training graph\n"));
    CHECK(strstr(log_of("partition"),
                 "partition: @layer #0: saved for backward, function N\n"));
    CHECK(strstr(heard, "saved 32 B of 32 B"));
    CHECK(strstr(log_of("wrappers"),
                 "wrappers: @layer #0: inputs and results of a call, function N\n"));
    CHECK(strstr(heard, "written without history, version +1\n"));
    CHECK(strstr(log_of("guards"), "guards: @layer #0: guards, function N\ngrad mode"));
    CHECK(strstr(log_of("compile"), "forward graph of "));
}

/* ---- timings ------------------------------------------------------------ */

TEST(each_stage_is_a_span_and_its_time_is_recorded) {
    td_ctx *cx = td_open();
    td_config_set(cx, "cache_disk_mb", "0"); /* none is left out */
    td__span_collect(cx, true);
    td_fn *f = called_layer(cx);
    CHECK(td__span_total(cx, "specialize").count == 1);
    for (int i = 0; i <= TD_PIPE_FORWARD; i++) {
        bool runs = i != TD_PIPE_FACTS; /* for the log alone */
        CHECK(td__span_total(cx, td__stages[i].name).count == runs);
        CHECK(f->specs->ns[i] == td__span_total(cx, td__stages[i].name).self_ns);
    }
    td__span_collect(cx, false);
    td_fn_drop(f);
    td_close(cx);
}

/* ---- errors ------------------------------------------------------------- */

TEST(an_error_while_compiling_names_the_place) {
    static const char program[] = "func @f(%x: i64[3]) {\n"
                                  "  %a = mul(%x, 2)\n"
                                  "  %b = view(%a, [2])\n"
                                  "  return %b\n"
                                  "}\n";
    td_ctx           *cx = td_open();
    td_gfile         *file = td_graphs_parse(cx, program, sizeof program - 1, "p.td");
    td_fn            *f = td_aot_graph(td_graphs_at(file, 0), NULL);
    td_tensor        *out[1];
    CHECK(!td_invoke(f, TD_ARGS(td_ones(cx, TD_SHAPE(3), TD_I64)), out, 1));
    TD_CHECK_THAT(strstr(td_message(cx), "view") && strstr(td_message(cx), "p.td:3"),
                  "%s", td_message(cx));
    td_fn_drop(f);
    td_graphs_drop(file);
    td_close(cx);
}
