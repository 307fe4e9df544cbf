/* explain_parts.c -- pieces of explanations that text, JSON and logs share: what is
 * done to an input, what a result is, types and counts. */
#include "aot/aot.h"

#include <stdio.h>
#include <string.h>

void td__explain_type(td_buf *b, const td_graph *g, const td_geom *geom) {
    td_look l = {.kind = TD_K_TENSOR,
                 .dtype = (uint8_t)geom->dtype,
                 .rank = (uint8_t)geom->rank,
                 .dense = td__is_dense(geom->rank, geom->size, geom->stride),
                 .offset = geom->offset,
                 .size = geom->size,
                 .stride = geom->stride};
    td__look_print(b, g, &l);
}

const char *td__size_text(char out[32], int64_t bytes) {
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double                   n = (double)bytes;
    int                      u = 0;
    for (; n >= 1024 && u < TD_COUNT(unit) - 1; u++) n /= 1024;
    snprintf(out, 32, u ? "%.1f %s" : "%.0f %s", n, unit[u]);
    return out;
}

td_op_counts td__count_ops(const td_graph *g) {
    td_op_counts c = {0};
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *n = g->nodes.v[i];
        if (n->kind != TD_N_OP) continue;
        c.ops++;
        c.writes += td__opinfo(n->op)->writes;
        c.views += td__opinfo(n->op)->view_of >= 0;
        c.draws += td__op_draws(n->op);
    }
    return c;
}

/* ---- inputs ------------------------------------------------------------- */

/* Adds to a list of words. */
static void word(td_buf *b, size_t start, const char *text) {
    if (b->n > start) td__buf_add(b, ", ");
    td__buf_add(b, text);
}

static void elements(td_buf *b, size_t start, const td_update *u) {
    bool back = u->out >= 0 || u->now >= 0;
    if (u->in_graph) word(b, start, "written by the graph itself");
    else if (back) word(b, start, "written back by copy_");
    else if (u->history) word(b, start, "gets a history");
    if (u->in_graph || back)
        td__buf_add(b, u->history ? " with history" : " without history");
}

static void geometry(td_buf *b, size_t start, const td_joint *j, const td_update *u) {
    if (!u->meta) return;
    if (u->moved == TD_HOME_SAME) word(b, start, "as_strided_ to ");
    else if (u->moved == TD_HOME_INPUT || u->home >= 0) {
        int k = u->moved == TD_HOME_INPUT ? u->home : j->updates[u->home].input;
        word(b, start, "set_ to the bytes ");
        td__buf_printf(b, "input %d %s, as ", k,
                       u->moved == TD_HOME_INPUT ? "came in" : "ends in");
    } else word(b, start, "set_ to new bytes, as ");
    td__explain_type(b, j->g, &u->end);
}

static void update_words(td_buf *b, const td_joint *j, const td_update *u) {
    size_t start = b->n;
    elements(b, start, u);
    geometry(b, start, j, u);
    if (b->n == start)
        word(b, start,
             j->written[u->input] ? "written through another input"
                                  : "elements left alone");
    if (u->detached) word(b, start, "its history ends (detach_)");
    if (u->wants) word(b, start, "requires grad from now on");
    if (u->versions) {
        word(b, start, "version ");
        td__buf_printf(b, "+%lld", (long long)u->versions);
    }
}

void td__explain_input(td_buf *b, const td_joint *j, int i) {
    for (int k = 0; k < j->n_updates; k++)
        if (j->updates[k].input == i) {
            update_words(b, j, &j->updates[k]);
            return;
        }
    if (j->written[i]) td__buf_add(b, "written through another input");
}

/* ---- results ------------------------------------------------------------ */

static void value_words(td_buf *b, const td_joint *j, const td_result *r) {
    const td_garg *a = r->out >= 0 ? &j->g->outputs.v[r->out] : NULL;
    bool           value = a && a->kind == TD_G_VALUE;
    if (!a || a->kind == TD_G_NONE) td__buf_add(b, "absent");
    else if (value && a->u.v->look && a->u.v->look->kind == TD_K_TENSOR)
        td__buf_add(b, "computed");
    else td__buf_add(b, "a number");
}

static void source_words(td_buf *b, const td_result *r) {
    static const char *const of[] = {"input", "result", "base", "input", "room"};
    td__buf_printf(b, "%s %d", of[r->source], r->from);
    if (r->source == TD_OF_CAME) td__buf_add(b, " came in");
}

static void view_words(td_buf *b, const td_result *r) {
    td__buf_add(b, "view of ");
    source_words(b, r);
    for (int i = 0; i < r->n_views; i++) {
        td__buf_add(b, i ? ", " : ": ");
        td__view_op_print(b, &r->views[i]);
    }
}

void td__explain_result(td_buf *b, const td_joint *j, int i) {
    const td_result *r = &j->results[i];
    switch (r->how) {
    case TD_RESULT_VALUE: value_words(b, j, r); break;
    case TD_RESULT_INPUT: td__buf_printf(b, "input %d itself", r->from); break;
    case TD_RESULT_AGAIN: td__buf_printf(b, "result %d itself", r->from); break;
    case TD_RESULT_VIEW: view_words(b, r); break;
    case TD_RESULT_LIE:
        td__buf_add(b, "in the bytes of ");
        source_words(b, r);
        break;
    }
    if (r->history) td__buf_add(b, ", with history");
    if (r->wants) td__buf_add(b, ", a leaf that requires grad");
    if (r->inference) td__buf_add(b, ", an inference tensor");
    if (r->how == TD_RESULT_VIEW && r->creation == TD_MADE_NO_GRAD)
        td__buf_add(b, ", made in no_grad");
}
