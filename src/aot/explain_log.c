/* explain_log.c -- what the pipeline says while it compiles, by topic. Nothing is put
 * together when nobody listens. */
#include "aot/aot.h"

#include <stdio.h>

static void say(const td_fn *f, const td_spec *s, td_topic topic, const char *what,
                td_buf *text) {
    char heading[160];
    snprintf(heading, sizeof heading, "@%.60s #%d: %.60s", f->name, s->nr, what);
    if (!text->failed) td__log_text(f->cx, topic, heading, td__buf_str(text));
    td__buf_free(text);
}

/* Under its own topic, or with all other graphs. */
void td__log_graph(const td_fn *f, const td_spec *s, td_topic topic, const char *what,
                   const td_graph *g) {
    td_buf b = {0};
    if (td__log_on(f->cx, TD_LOG_graphs)) topic = TD_LOG_graphs;
    if (!td__log_on(f->cx, topic)) return;
    td__graph_print(&b, g,
                    TD_PRINT_TYPES | TD_PRINT_PLACES | TD_PRINT_SCOPES |
                        TD_PRINT_BRIEF);
    say(f, s, topic, what, &b);
}

void td__log_facts(const td_fn *f, const td_graph *program, const td_value *in) {
    td_buf b = {0};
    if (!td__log_on(f->cx, TD_LOG_facts)) return;
    td_facts *facts = td__facts(program, in, td__fn_settings(f).keep_mutations);
    if (facts && td__facts_print(&b, facts))
        td__log_text(f->cx, TD_LOG_facts, f->name, td__buf_str(&b));
    td__facts_drop(facts);
    td__buf_free(&b);
    if (td_error(f->cx) != TD_E_MEMORY) td_clear(f->cx); /* joint says it better */
}

static void guard_line(void *env, const char *text) {
    td__buf_printf(env, "%s\n", text);
}

void td__log_spec(const td_fn *f, const td_spec *s) {
    td_ctx          *cx = f->cx;
    const td_halves *h = s->plan->h;
    td_buf           b = {0};
    if (h) {
        td__log_graph(f, s, TD_LOG_graphs, "forward graph", h->fwd);
        td__log_graph(f, s, TD_LOG_graphs, "backward graph", h->bwd);
    }
    if (td__spec_kept(s) && td__log_on(cx, TD_LOG_partition)) {
        td__halves_report(&b, td__spec_kept(s));
        say(f, s, TD_LOG_partition, "kept for backward", &b);
        b = (td_buf){0};
    }
    if (td__log_on(cx, TD_LOG_wrappers)) {
        td__explain_wrappers(&b, s);
        say(f, s, TD_LOG_wrappers, "around the code", &b);
        b = (td_buf){0};
    }
    if (td__log_on(cx, TD_LOG_guards)) {
        td__spec_guards(s, guard_line, &b);
        say(f, s, TD_LOG_guards, "guards", &b);
    }
}
