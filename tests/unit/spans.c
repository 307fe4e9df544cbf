/* spans.c -- stage timings: nesting, totals, and the trace file, which is read back
 * by a JSON parser after every event. */
#include "core/core.h"
#include "tandem/tandem.h"
#include "td_files.h"
#include "td_test.h"

#include <cjson/cJSON.h>
#include <pthread.h>

#define PATH files_path("trace.json")

static char text[1 << 20];

/* The events of the file; fails the test when it is no complete JSON. */
static cJSON *events(void) {
    text[files_read("trace.json", text, sizeof text - 1)] = 0;
    cJSON *list = cJSON_Parse(text);
    TD_CHECK_THAT(cJSON_IsArray(list), "no JSON array: %.200s", text);
    return list;
}

static const char *field(const cJSON *e, const char *key) {
    const char *s = cJSON_GetStringValue(cJSON_GetObjectItem(e, key));
    return s ? s : "";
}

static double number(const cJSON *e, const char *key) {
    return cJSON_GetNumberValue(cJSON_GetObjectItem(e, key));
}

static int count_events(const char *kind) {
    cJSON *list = events(), *e;
    int    n = 0;
    cJSON_ArrayForEach(e, list) n += !strcmp(field(e, "ph"), kind);
    cJSON_Delete(list);
    return n;
}

static int  warnings;
static char last[512];

static void hear(void *env, const char *topic, const char *message) {
    (void)env;
    warnings += !strcmp(topic, "warning");
    snprintf(last, sizeof last, "%s", message);
}

TEST(spans_that_nobody_wants_leave_no_trace) {
    td_ctx *cx = td_open();
    td__span_begin(cx, "joint");
    td__span_arg(cx, "nodes", 3);
    td__span_end(cx, "joint");
    int n;
    td__span_totals(cx, &n);
    CHECK(n == 0 && !cx->spans.on && cx->spans.open.n == 0);
    td_close(cx);
}

TEST(totals_add_up_by_name_and_know_their_own_part) {
    td_ctx *cx = td_open();
    td__span_collect(cx, true);
    for (int i = 0; i < 3; i++) {
        td__span_begin(cx, "joint");
        td__span_begin(cx, "clean");
        usleep(1000);
        td__span_end(cx, "clean");
        td__span_end(cx, "joint");
    }

    td_span_total joint = td__span_total(cx, "joint"), clean;
    clean = td__span_total(cx, "clean");
    CHECK(joint.count == 3 && clean.count == 3);
    CHECK(clean.ns >= 3000000 && clean.self_ns == clean.ns);
    CHECK(joint.ns >= clean.ns && joint.self_ns == joint.ns - clean.ns);
    CHECK(td__span_total(cx, "else").count == 0);
    td__span_collect(cx, false);
    td__span_begin(cx, "joint");
    td__span_end(cx, "joint");
    CHECK(td__span_total(cx, "joint").count == 3);
    td__span_reset(cx);
    CHECK(td__span_total(cx, "joint").count == 0);
    td_close(cx);
}

TEST(the_end_of_a_span_ends_those_left_open_inside) {
    td_ctx *cx = td_open();
    td__span_collect(cx, true);
    td__span_begin(cx, "a");
    td__span_begin(cx, "b");
    td__span_begin(cx, "c");
    td__span_end(cx, "b");
    CHECK(cx->spans.open.n == 1 && td__span_total(cx, "c").count == 1);
    td__span_end(cx, "never begun");
    CHECK(cx->spans.open.n == 1);
    td__span_end(cx, "a");
    CHECK(cx->spans.open.n == 0);
    td__span_begin(cx, "left open");
    td_close(cx);
}

TEST(the_file_is_complete_after_every_event) {
    files_begin();
    td_ctx *cx = td_open();
    CHECK(td_trace_start(cx, PATH));
    CHECK(count_events("M") == 1);

    td__span_begin(cx, "compile \"f\"\n");
    CHECK(count_events("B") == 1);
    td__span_begin(cx, "joint");
    td__span_arg(cx, "nodes", 12);
    td__span_arg(cx, "bytes", -5);
    td__span_end(cx, "joint");
    CHECK(count_events("E") == 1);
    cJSON *list = events();
    cJSON *b = cJSON_GetArrayItem(list, 1), *e = cJSON_GetArrayItem(list, 3);
    cJSON *inner = cJSON_GetArrayItem(list, 2), *args = cJSON_GetObjectItem(e, "args");
    CHECK_STR(field(b, "name"), "compile \"f\" ");
    CHECK_STR(field(inner, "name"), "joint");
    CHECK(number(b, "ts") > 0 && number(e, "ts") >= number(inner, "ts"));
    CHECK(number(b, "pid") == getpid() && number(b, "tid") == number(e, "tid"));
    CHECK(number(args, "nodes") == 12 && number(args, "bytes") == -5);
    cJSON_Delete(list);

    td_trace_stop(cx); /* ends in the file what is open */
    CHECK(count_events("E") == 2 && !cx->spans.on);
    td__span_end(cx, "compile \"f\"\n");
    CHECK(count_events("E") == 2);
    td_close(cx);
    files_end();
}

TEST(a_later_context_goes_on_with_the_same_file) {
    files_begin();
    setenv("TD_TRACE", PATH, 1);
    for (int i = 0; i < 3; i++) {
        td_ctx *cx = td_open();
        td__span_begin(cx, "stage");
        td_close(cx); /* with a span open */
    }
    CHECK(count_events("B") == 3 && count_events("E") == 3 && count_events("M") == 1);
    unlink(PATH); /* somebody removed it: begun anew */
    td_ctx *cx = td_open();
    td__span_begin(cx, "stage");
    td__span_end(cx, "stage");
    td_close(cx);
    unsetenv("TD_TRACE");
    CHECK(count_events("B") == 1 && count_events("M") == 1);
    files_end();
}

static void *work(void *path) {
    td_ctx *cx = td_open();
    td_trace_start(cx, path);
    for (int i = 0; i < 200; i++) {
        td__span_begin(cx, "stage");
        td__span_end(cx, "stage");
    }
    td_close(cx);
    return NULL;
}

TEST(threads_share_a_file) {
    files_begin();
    char path[512];
    snprintf(path, sizeof path, "%s", PATH);
    pthread_t t[3];
    for (int i = 0; i < 3; i++) pthread_create(&t[i], NULL, work, path);
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    CHECK(count_events("B") == 600 && count_events("E") == 600);
    files_end();
}

TEST(a_killed_process_leaves_a_file_that_loads) {
    files_begin();
    pid_t child = fork();
    if (child == 0) {
        td_ctx *cx = td_open();
        td_trace_start(cx, PATH);
        td__span_begin(cx, "stage");
        raise(SIGKILL);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(count_events("B") == 1);
    files_end();
}

TEST(a_forked_child_does_not_write_into_its_parents_file) {
    files_begin();
    td_ctx *cx = td_open();
    CHECK(td_trace_start(cx, PATH));
    pid_t child = fork();
    if (child == 0) {
        td__span_begin(cx, "child");
        child_leaves(true);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    td__span_begin(cx, "parent");
    td_close(cx);
    CHECK(count_events("B") == 1 && strstr(text, "parent") && !strstr(text, "child"));
    files_end();
}

TEST(processes_do_not_write_into_one_file) {
    files_begin();
    td_ctx *cx = td_open();
    CHECK(td_trace_start(cx, PATH));
    pid_t child = fork();
    if (child == 0) {
        td_ctx *own = td_open();
        td_log_to(own, hear, NULL);
        bool ok = !td_trace_start(own, PATH) && strstr(last, "another process");
        td__span_begin(own, "child");
        ok = ok && td_trace_start(own, files_path("own-%p.json"));
        td__span_begin(own, "child");
        td_close(own);
        child_leaves(ok);
    }
    int  status;
    char own[64];
    CHECK(waitpid(child, &status, 0) == child && child_was_ok(status));
    snprintf(own, sizeof own, "own-%ld.json", (long)child);
    CHECK(files_read(own, text, sizeof text) > 0 && strstr(text, "child"));
    td__span_begin(cx, "parent");
    CHECK(count_events("B") == 1 && strstr(text, "parent") && !strstr(text, "child"));
    td_close(cx);
    files_end();
}

TEST(a_file_that_cannot_be_written_is_one_warning) {
    td_ctx *cx = td_open();
    td_log_to(cx, hear, NULL);
    warnings = 0;

    CHECK(!td_trace_start(cx, "/nowhere/at all/trace.json"));
    CHECK(warnings == 1);
    CHECK_STR(last,
              "trace file /nowhere/at all/trace.json: cannot be opened, no trace is "
              "written: No such file or directory");
    CHECK(!td_trace_start(cx, "/nowhere/at all/trace.json") && warnings == 1);
    CHECK(!td_trace_start(cx, "/dev/full") && warnings == 2);
    td__span_begin(cx, "stage");
    td__span_end(cx, "stage");

    CHECK_OK(cx);
    CHECK(warnings == 2 && td_item(td_sum(td_ones(cx, TD_SHAPE(3)))) == 3);
    td_close(cx);
}

TEST(a_full_disk_ends_the_trace_and_nothing_else) {
    files_begin();
    pid_t child = fork();
    if (child == 0) {
        td_ctx *cx = td_open();
        warnings = 0; /* other tests may have run in this process */
        td_log_to(cx, hear, NULL);
        bool ok = td_trace_start(cx, PATH);
        child_limits_files(1000);
        for (int i = 0; i < 100; i++) {
            td__span_begin(cx, "stage");
            td__span_end(cx, "stage");
        }
        ok = ok && warnings == 1 && td_ok(cx) && !cx->spans.on;
        ok = ok && strstr(last, "no more events are recorded: File too large");
        td_close(cx);
        child_leaves(ok);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && child_was_ok(status));
    CHECK(count_events("B") >= 2);
    files_end();
}

TEST(a_span_without_memory_is_lost_and_no_error) {
    for (int64_t n = 0; n < 8; n++) {
        td_ctx *cx = td_open();
        td__span_collect(cx, true);
        td__fault_arm(n, true);
        for (int i = 0; i < 20; i++) td__span_begin(cx, "deep");
        for (int i = 0; i < 20; i++) td__span_end(cx, "deep");
        td__fault_arm(-1, false);
        CHECK_OK(cx);
        CHECK(cx->spans.open.n == 0);
        td_close(cx);
    }
}
