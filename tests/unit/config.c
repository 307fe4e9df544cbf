/* config.c -- settings: defaults, the environment, calls by struct and by name, and
 * what is said about wrong values. */
#include "part/part.h"
#include "tandem/tandem.h"
#include "td_test.h"

#include <stdlib.h>

/* An environment of the test's own: name, value, name, value, ..., NULL. */
static const char *const *vars;

static char *type(const char *name) {
    for (const char *const *v = vars; v && *v; v += 2)
        if (!strcmp(*v, name)) return (char *)(uintptr_t)v[1];
    return NULL;
}

static char heard[4096];

static void hear(void *env, const char *topic, const char *text) {
    (void)env;
    size_t n = strlen(heard);
    snprintf(heard + n, sizeof heard - n, "%s: %s\n", topic, text);
}

/* A context that has read `v` instead of the environment. */
static td_ctx *open_with(const char *const *v) {
    td_ctx *cx = td_open();
    heard[0] = 0;
    vars = v;
    td_log_to(cx, hear, NULL);
    CHECK(td__config_load(cx, type));
    return cx;
}

static bool is(td_ctx *cx, const char *name, const char *want) {
    char text[256];
    td_config_text(cx, name, text, sizeof text);
    if (strcmp(text, want) != 0) fprintf(stderr, "%s is %s\n", name, text);
    return !strcmp(text, want);
}

TEST(every_setting_has_a_right_default_and_a_variable) {
    td_ctx *cx = open_with(NULL);

    for (int i = 0; i < TD_KNOB_COUNT; i++) {
        const td_knob *k = &td__knobs[i];
        CHECK(!strncmp(k->env, "TD_", 3) && k->doc[strlen(k->doc) - 1] == '.');
        if (i >= TD_KNOB_FIELDS) continue;
        CHECK(is(cx, k->name, k->normal));
        CHECK(td__knob_from(cx, i) == TD_FROM_DEFAULT);
        CHECK(td_config_set(cx, k->name, k->normal));
        CHECK(td__knob_from(cx, i) == TD_FROM_CALL);
    }

    CHECK_OK(cx);
    CHECK_STR(heard, "");
    td_close(cx);
}

TEST(the_environment_is_read_when_a_context_opens) {
    setenv("TD_MEMORY_BUDGET", "0.25", 1);
    setenv("TD_DYNAMIC", "off", 1);
    td_ctx *cx = td_open();
    unsetenv("TD_MEMORY_BUDGET");
    unsetenv("TD_DYNAMIC");

    CHECK(td__config(cx)->memory_budget == 0.25);
    CHECK(td__config(cx)->dynamic == TD_SHAPES_STATIC);
    CHECK(td__config(cx)->cse);
    CHECK(td__knob_from(cx, TD_KNOB_NR_memory_budget) == TD_FROM_ENV);
    CHECK(td__knob_from(cx, TD_KNOB_NR_cse) == TD_FROM_DEFAULT);
    td_close(cx);
}

TEST(every_spelling_of_on_and_off_is_read) {
    static const char *const yes[] = {"1", "on", "true", "yes"},
                             *no[] = {"0", "off", "false", "no"};
    td_ctx *cx = td_open();
    for (int i = 0; i < 4; i++) {
        CHECK(td_config_set(cx, "cse", no[i]) && !td__config(cx)->cse);
        CHECK(td_config_set(cx, "cse", yes[i]) && td__config(cx)->cse);
    }
    td_close(cx);
}

TEST(a_wrong_variable_is_one_warning_and_the_default) {
    static const char *const v[] = {
        "TD_MEMORY_BUDGET",        "1.5", "TD_PARTITION",   "mincat", "TD_CSE", "maybe",
        "TD_SPECIALIZATION_LIMIT", "0x",  "TD_NUM_THREADS", "many",   NULL};
    td_ctx *cx = open_with(v);

    CHECK_STR(
        heard,
        "warning: TD_SPECIALIZATION_LIMIT=\"0x\" is not a whole number from 1 to "
        "1000000; the default is used: 64\n"
        "warning: TD_PARTITION=\"mincat\" is not one of mincut, default; the default "
        "is used: mincut\n"
        "warning: TD_MEMORY_BUDGET=\"1.5\" is not a number from 0 to 1; the default is "
        "used: 1\n"
        "warning: TD_CSE=\"maybe\" is not on or off; the default is used: on\n"
        "warning: TD_NUM_THREADS=\"many\" is not a whole number from 0 to 256; the "
        "default is used: 0\n");
    CHECK_OK(cx);
    CHECK(td__config(cx)->memory_budget == 1 && td__config(cx)->cse);
    td_close(cx);

    cx = open_with(v);
    CHECK_STR(heard, ""); /* contexts come and go; the news is old */
    td_close(cx);
}

TEST(an_unknown_topic_is_a_warning_with_the_nearest_one) {
    td_ctx *cx = open_with((const char *const[]){"TD_LOG", "graphs,gaurds", NULL});

    CHECK_STR(heard, "warning: TD_LOG: no topic \"gaurds\"; did you mean guards?\n");
    CHECK(td__log_on(cx, TD_LOG_graphs) && !td__log_on(cx, TD_LOG_guards));
    td_close(cx);

    cx = open_with((const char *const[]){"TD_LOG", "xyzzy", NULL});
    CHECK_STR(heard,
              "warning: TD_LOG: no topic \"xyzzy\"; `tandem config` lists them\n");
    td_close(cx);
}

static bool refused(td_ctx *cx, const char *name, const char *value, const char *says) {
    bool ok = !td_config_set(cx, name, value) && td_error(cx) == TD_E_ARG &&
              td_test_says(td_message(cx), says);
    if (!ok) fprintf(stderr, "%s\n", td_message(cx));
    td_clear(cx);
    return ok;
}

TEST(a_wrong_call_is_an_error_and_changes_nothing) {
    td_ctx *cx = td_open();

    CHECK(refused(cx, "memory_bugdet", "1",
                  "td_config_set: no setting is called \"memory_bugdet\"; did you mean "
                  "memory_budget?"));
    CHECK(refused(cx, "colour", "1", "td_config_set: no setting is called \"colour\""));
    CHECK(refused(cx, "memory_budget", "-1",
                  "td_config_set: memory_budget: \"-1\" is not a number from 0 to 1"));
    CHECK(refused(cx, "memory_budget", "nan",
                  "td_config_set: memory_budget: \"nan\" is not a number from 0 to 1"));
    CHECK(refused(cx, "memory_budget", "",
                  "td_config_set: memory_budget: \"\" is not a number from 0 to 1"));
    CHECK(
        refused(cx, "dynamic", "au",
                "td_config_set: dynamic: \"au\" is not one of auto, on, off, marked"));
    CHECK(refused(cx, "log", "grphs",
                  "td_config_set: log: no topic \"grphs\"; did you mean graphs?"));
    CHECK(
        refused(cx, "threads", "3",
                "td_config_set: threads is a setting of the process; set the variable "
                "TD_NUM_THREADS before it starts, or call td_set_threads"));
    CHECK(refused(cx, "cse", NULL, "td_config_set: cse: \"NULL\" is not on or off"));
    CHECK(is(cx, "memory_budget", "1") && is(cx, "dynamic", "auto"));
    CHECK(is(cx, "log", ""));
    td_close(cx);
}

TEST(a_struct_is_taken_whole_or_not_at_all) {
    td_ctx   *cx = td_open();
    td_config c = {TD_CONFIG};
    CHECK(td_config_get(cx, &c));

    c.memory_budget = 0.5;
    c.knapsack = TD_KNAPSACK_GREEDY;
    c.log = "guards,partition";
    CHECK(td_config_put(cx, &c));

    CHECK(is(cx, "memory_budget", "0.5") && is(cx, "knapsack", "greedy"));
    CHECK(is(cx, "log", "guards,partition") && td__log_on(cx, TD_LOG_partition));
    CHECK(td__knob_from(cx, TD_KNOB_NR_knapsack) == TD_FROM_CALL);
    CHECK(td__knob_from(cx, TD_KNOB_NR_cse) == TD_FROM_DEFAULT);

    c.memory_budget = 0.75;
    c.partition = (td_partition)7;
    CHECK(!td_config_put(cx, &c));
    CHECK_MESSAGE(cx, "td_config_put: partition: \"7\" is not one of mincut, default");
    CHECK(is(cx, "memory_budget", "0.5"));
    td_close(cx);
}

TEST(an_older_struct_leaves_newer_fields_alone) {
    td_ctx   *cx = td_open();
    td_config c = {.size = offsetof(td_config, memory_budget)};
    CHECK(td_config_get(cx, &c));
    c.memory_budget = 77; /* beyond its size: not looked at */
    c.cse = false;
    c.dynamic = TD_SHAPES_DYNAMIC;

    CHECK(td_config_put(cx, &c));
    CHECK(is(cx, "memory_budget", "1") && is(cx, "cse", "on"));
    CHECK(is(cx, "dynamic", "on"));

    c.size = sizeof c + 8;
    CHECK(!td_config_put(cx, &c) && !td_config_get(cx, &c));
    CHECK(strstr(td_message(cx), "start with {TD_CONFIG}") != NULL);
    td_close(cx);
}

TEST(settings_survive_every_failing_allocation) {
    bool done = false;
    for (int64_t n = 0; !done; n++) {
        td_ctx   *cx = td_open();
        td_config c = {TD_CONFIG};
        CHECK(td_config_get(cx, &c));
        c.log = "guards";
        td__fault_arm(n, false);
        bool a = td_config_set(cx, "log", "graphs"), b = td_config_put(cx, &c);
        done = td__fault_count() <= n;
        td__fault_arm(-1, false);
        CHECK((a && b) || td_error(cx) == TD_E_MEMORY);
        CHECK(is(cx, "log", b ? "guards" : a ? "graphs" : ""));
        td_close(cx);
    }
}

TEST(the_partitioner_has_the_same_defaults) {
    td_ctx          *cx = open_with(NULL);
    const td_config *c = td__config(cx);
    td_part_opts     o = td__part_defaults();

    CHECK(o.budget == c->memory_budget && o.knapsack == c->knapsack && o.cse == c->cse);
    CHECK(o.recompute_views == c->recompute_views && o.free_params == c->free_params);
    CHECK(o.aggressive == c->aggressive_recompute);
    CHECK(o.ban_far_apart == c->ban_far_apart && o.ban_reductions == c->ban_reductions);
    CHECK(o.ban_long_chains == c->ban_long_chains);
    CHECK(o.ban_materialized == c->ban_materialized);
    td_close(cx);
}

static char *page;

static bool page_has_row(const td_knob *k) {
    char row[1024], takes[200];
    snprintf(row, sizeof row, "| `%s` | `%s` | `%s` | %s | %s |\n", k->name, k->env,
             k->normal, td__knob_takes(k, takes, sizeof takes), k->doc);
    for (char *p; (p = strstr(row, "``"));) memmove(p, p + 2, strlen(p + 2) + 1);
    bool ok = strstr(page, row) != NULL;
    if (!ok) fprintf(stderr, "docs/config.md has no row\n%s", row);
    return ok;
}

TEST(the_page_lists_every_setting_as_the_table_has_it) {
    static char text[65536];
    FILE       *f = fopen("docs/config.md", "r");
    CHECK(f != NULL);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    page = text;
    int rows = 0;
    for (const char *p = text; (p = strstr(p, "| `TD_")); p++) rows++;

    bool ok = true;
    for (int i = 0; i < TD_KNOB_COUNT; i++) ok = page_has_row(&td__knobs[i]) && ok;
    CHECK(ok && rows == TD_KNOB_COUNT);
    for (int i = 0; i < TD_TOPIC_COUNT; i++) {
        char row[256];
        snprintf(row, sizeof row, "| `%s` | %s |\n", td__topics[i].name,
                 td__topics[i].doc);
        CHECK(strstr(page, row) != NULL);
    }
}
