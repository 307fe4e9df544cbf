/* log.c -- messages by topic: who gets them, what they look like, and threads. */
#include "core/core.h"
#include "tandem/tandem.h"
#include "td_test.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct ear {
    td_ctx *cx;
    int     n;
    char    topic[40], text[4096];
} ear;

static void hear(void *env, const char *topic, const char *text) {
    ear *e = env;
    e->n++;
    snprintf(e->topic, sizeof e->topic, "%s", topic);
    snprintf(e->text, sizeof e->text, "%s", text);
    td__warn(e->cx, "from within"); /* dropped, or this would never end */
}

TEST(only_chosen_topics_are_logged) {
    ear e = {.cx = td_open()};
    td_log_to(e.cx, hear, &e);

    td__log(e.cx, TD_LOG_guards, "off");
    CHECK(e.n == 0 && !td__log_on(e.cx, TD_LOG_guards));
    CHECK(td_config_set(e.cx, "log", "guards, partition"));
    td__log(e.cx, TD_LOG_guards, "size of %s is %d", "x", 3);
    CHECK(e.n == 1);
    CHECK_STR(e.topic, "guards");
    CHECK_STR(e.text, "size of x is 3");
    td__log(e.cx, TD_LOG_graphs, "off");
    CHECK(e.n == 1);
    td__warn(e.cx, "always");
    CHECK(e.n == 2);
    CHECK_STR(e.topic, "warning");
    CHECK(td_config_set(e.cx, "log", "all"));
    for (int i = 0; i < TD_TOPIC_COUNT; i++) td__log(e.cx, (td_topic)i, "%d", i);
    CHECK(e.n == 2 + TD_TOPIC_COUNT);
    CHECK(td_config_set(e.cx, "log", ""));
    td__log(e.cx, TD_LOG_guards, "off again");
    CHECK(e.n == 2 + TD_TOPIC_COUNT);
    td_close(e.cx);
}

static bool mse_body(td_call *c) {
    return td_return(c, td_mse_loss(td_arg(c, 0), td_arg(c, 1)));
}

TEST(a_loss_of_different_sizes_warns_once_for_each_call) {
    ear e = {.cx = td_open()};
    td_log_to(e.cx, hear, &e);
    td_tensor *x = td_ones(e.cx, TD_SHAPE(4, 1)), *y = td_ones(e.cx, TD_SHAPE(4)), *out;

    CHECK(!td_is_nil(td_mse_loss(x, x)) && e.n == 0);
    for (int i = 0; i < 3; i++) td_mse_loss(x, y);
    CHECK(e.n == 1);
    CHECK_STR(e.topic, "warning");
    TD_CHECK_THAT(strstr(e.text, "mse_loss: target is f32[4] and self is f32[4,1]"),
                  "%s", e.text);
    TD_CHECK_THAT(strstr(e.text, "log.c:"), "%s", e.text);
    td_l1_loss(x, y);
    td_smooth_l1_loss(x, y);
    td_huber_loss(x, y);
    CHECK(e.n == 4);

    td_fn *f =
        td_aot_function(e.cx, mse_body, NULL,
                        &(td_aot_opts){TD_AOT_OPTS, .dynamic = TD_SHAPES_DYNAMIC});
    for (int i = 0; i < 3; i++) CHECK(td_invoke(f, TD_ARGS(x, y), &out, 1));
    CHECK(e.n == 5);
    CHECK(
        td_is_nil(td_l1_loss(x, td_ones(e.cx, TD_SHAPE(2, 3))))); /* cannot broadcast */
    CHECK(e.n == 5);
    td_clear(e.cx);
    td_close(e.cx);
}

TEST(a_long_text_is_logged_whole_below_its_heading) {
    ear    e = {.cx = td_open()};
    char   text[2000];
    size_t n = sizeof text;
    memset(text, 'x', n);
    text[n - 1] = 0;
    text[n - 2] = text[n - 3] = '\n'; /* ends of line at the end are cut */
    td_log_to(e.cx, hear, &e);
    CHECK(td_config_set(e.cx, "log", "graphs"));

    td__log_text(e.cx, TD_LOG_graphs, "graph after joint", text);

    CHECK(!strncmp(e.text, "graph after joint\nxxx", 21));
    CHECK(strlen(e.text) == 18 + n - 3);
    td__fault_arm(0, true);
    td__log_text(e.cx, TD_LOG_graphs, "graph after joint", text);
    td__fault_arm(-1, false);
    CHECK(e.n == 2 && strlen(e.text) == 511); /* cut, for want of memory */
    CHECK_OK(e.cx);
    td_close(e.cx);
}

/* stderr of fn, which is restored. */
static void catch_stderr(void (*fn)(void), char *out, size_t cap) {
    char name[] = "/tmp/td-log-XXXXXX";
    int  fd = mkstemp(name), was = dup(2);
    CHECK(fd >= 0 && was >= 0);
    unlink(name);
    fflush(stderr);
    dup2(fd, 2);
    fn();
    fflush(stderr);
    dup2(was, 2);
    close(was);
    lseek(fd, 0, SEEK_SET);
    ssize_t n = read(fd, out, cap - 1);
    out[n < 0 ? 0 : n] = 0;
    close(fd);
}

static void *write_many(void *arg) {
    (void)arg;
    td_ctx *cx = td_open();
    td_config_set(cx, "log", "graphs");
    for (int i = 0; i < 50; i++)
        td__log_text(cx, TD_LOG_graphs, "heading", "line one\nline two");
    td_close(cx);
    return NULL;
}

static void from_two_threads(void) {
    pthread_t t;
    pthread_create(&t, NULL, write_many, NULL);
    write_many(NULL);
    pthread_join(t, NULL);
}

TEST(threads_do_not_mix_their_messages) {
    static const char one[] = "tandem: graphs: heading\nline one\nline two\n";
    static char       text[1 << 14];
    catch_stderr(from_two_threads, text, sizeof text);

    size_t n = strlen(one);
    CHECK(strlen(text) == 100 * n);
    for (int i = 0; i < 100; i++) CHECK(!strncmp(text + (size_t)i * n, one, n));
}
