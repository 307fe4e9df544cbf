/* stage_log.c -- logs of the pipeline, by topic. Text is built only if its topic is
 * on. */
#include "aot/aot.h"

#include <stdio.h>
#include <string.h>

/* Logs text under "@name #nr: what, function id", and frees it. */
static void log_text(const td_fn *f, const td_spec *s, td_topic topic, const char *what,
                     td_buf *text) {
    char heading[176];
    snprintf(heading, sizeof heading, "@%.60s #%d: %.60s, function %d", f->name, s->nr,
             what, f->id);
    if (!text->failed) td__log_text(f->cx, topic, heading, td__buf_str(text));
    td__buf_free(text);
}

/* A graph is logged under its own topic, or under `graphs` if that is on. */
static void log_artifact(const td_fn *f, const td_spec *s, const td_artifact *m) {
    bool     graphs = m->graph && td__log_on(f->cx, TD_LOG_graphs);
    td_topic topic = graphs ? TD_LOG_graphs : m->topic;
    td_buf   b = {0};
    if (!td__log_on(f->cx, topic)) return;
    const td_graph *g = m->graph ? m->graph(f, s) : NULL;
    if (g)
        td__graph_print(&b, g,
                        TD_PRINT_TYPES | TD_PRINT_PLACES | TD_PRINT_SCOPES |
                            TD_PRINT_BRIEF);
    else if (m->text) m->text(&b, s);
    bool inference = m->name && !strcmp(m->name, "joint") && !s->j->n_tangents;
    if (b.n) log_text(f, s, topic, inference ? "inference graph" : m->title, &b);
    else td__buf_free(&b);
}

void td__stage_log(const td_fn *f, const td_spec *s, const td_stage_row *r) {
    for (int i = 0; i < TD_STAGE_ARTIFACTS; i++)
        if (r->artifacts[i].title) log_artifact(f, s, &r->artifacts[i]);
}

static void guard_line(void *env, const char *text) {
    td__buf_printf(env, "%s\n", text);
}

void td__log_guards(const td_fn *f, const td_spec *s) {
    td_buf b = {0};
    if (!td__log_on(f->cx, TD_LOG_guards)) return;
    td__spec_guards(s, guard_line, &b);
    log_text(f, s, TD_LOG_guards, "guards", &b);
}
