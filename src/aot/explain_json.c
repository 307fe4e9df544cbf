/* explain_json.c -- explanations for programs. docs/explain.md describes the fields;
 * they stay, new ones may come. */
#include "aot/aot.h"

#include <inttypes.h>

/* ---- pieces ------------------------------------------------------------- */

static void key(td_buf *b, const char *name, bool *any) {
    td__buf_printf(b, "%s\"%s\":", *any ? "," : "", name);
    *any = true;
}

static void text(td_buf *b, const char *name, const char *s, bool *any) {
    key(b, name, any);
    td__json_string(b, s);
}

static void number(td_buf *b, const char *name, int64_t n, bool *any) {
    key(b, name, any);
    td__buf_printf(b, "%" PRId64, n);
}

static void flag(td_buf *b, const char *name, bool on, bool *any) {
    key(b, name, any);
    td__buf_add(b, on ? "true" : "false");
}

static void type(td_buf *b, const td_graph *g, const td_geom *m, bool *any) {
    td_buf t = {0};
    td__explain_type(&t, g, m);
    text(b, "type", td__buf_str(&t), any);
    td__buf_free(&t);
}

/* A list of objects. */
typedef void item_fn(td_buf *b, const td_spec *s, int i, bool *any);
static void  list(td_buf *b, const td_spec *s, const char *name, int n, item_fn *item,
                  bool *any) {
     key(b, name, any);
     td__buf_add(b, "[");
     for (int i = 0; i < n; i++) {
         bool inner = false;
         td__buf_add(b, i ? ",{" : "{");
         item(b, s, i, &inner);
         td__buf_add(b, "}");
    }
     td__buf_add(b, "]");
}

/* ---- inputs and results ------------------------------------------------- */

static void update(td_buf *b, const td_joint *j, const td_update *u, bool *any) {
    static const char *const homes[] = {"same", "input", "new"};
    const char              *how = u->in_graph                  ? "graph"
                                   : u->out >= 0 || u->now >= 0 ? "copy_"
                                                                : "none";
    text(b, "written", how, any);
    flag(b, "history", u->history, any);
    text(b, "storage", homes[u->moved], any);
    if (u->moved == TD_HOME_INPUT) number(b, "storage_of", u->home, any);
    if (u->moved == TD_HOME_FRESH && u->home >= 0)
        number(b, "storage_of", j->updates[u->home].input, any);
    if (u->meta) {
        td_buf t = {0};
        td__explain_type(&t, j->g, &u->end);
        text(b, "becomes", td__buf_str(&t), any);
        td__buf_free(&t);
    }
    flag(b, "detached", u->detached, any);
    flag(b, "requires_grad_now", u->wants, any);
    number(b, "versions", u->versions, any);
}

static void input(td_buf *b, const td_spec *s, int i, bool *any) {
    const td_joint *j = s->plan->j;
    const td_gval  *v = j->g->inputs.v[i];
    td_buf          t = {0};
    text(b, "name", v->name ? v->name : "", any);
    if (v->look) td__look_print(&t, j->g, v->look);
    text(b, "type", td__buf_str(&t), any);
    td__buf_free(&t);
    flag(b, "requires_grad", v->look && v->look->grad, any);
    flag(b, "changes", j->written[i], any);
    for (int k = 0; k < j->n_updates; k++)
        if (j->updates[k].input == i) {
            bool inner = false;
            key(b, "update", any);
            td__buf_add(b, "{");
            update(b, j, &j->updates[k], &inner);
            td__buf_add(b, "}");
        }
}

static void views(td_buf *b, const td_result *r, bool *any) {
    key(b, "views", any);
    td__buf_add(b, "[");
    for (int i = 0; i < r->n_views; i++) {
        td_buf t = {0};
        td__view_op_print(&t, &r->views[i]);
        if (i) td__buf_add(b, ",");
        td__json_string(b, td__buf_str(&t));
        td__buf_free(&t);
    }
    td__buf_add(b, "]");
}

static const char *kind_of(const td_joint *j, const td_result *r) {
    static const char *const words[] = {"value", "input", "again", "view", "lies"};
    if (r->how != TD_RESULT_VALUE) return words[r->how];
    const td_garg *a = r->out >= 0 ? &j->g->outputs.v[r->out] : NULL;
    if (!a || a->kind == TD_G_NONE) return "absent";
    bool tensor =
        a->kind == TD_G_VALUE && a->u.v->look && a->u.v->look->kind == TD_K_TENSOR;
    return tensor ? "value" : "number";
}

static void result(td_buf *b, const td_spec *s, int i, bool *any) {
    static const char *const of[] = {"input", "result", "base",
                                     "left storage of input"};
    const td_joint          *j = s->plan->j;
    const td_result         *r = &j->results[i];
    const char              *kind = kind_of(j, r);
    text(b, "kind", kind, any);
    if (r->how == TD_RESULT_VIEW || r->how == TD_RESULT_LIE)
        text(b, "of", of[r->source], any);
    if (r->how != TD_RESULT_VALUE) number(b, "from", r->from, any);
    if (r->how == TD_RESULT_VIEW) views(b, r, any);
    if (*kind == 'v' || *kind == 'l') type(b, j->g, &r->geom, any);
    flag(b, "history", r->history, any);
    flag(b, "requires_grad_leaf", r->wants, any);
}

static void base(td_buf *b, const td_spec *s, int i, bool *any) {
    const td_joint *j = s->plan->j;
    const td_garg  *a = &j->g->outputs.v[j->bases[i].out];
    td_buf          t = {0};
    if (a->kind == TD_G_VALUE && a->u.v->look) td__look_print(&t, j->g, a->u.v->look);
    text(b, "type", td__buf_str(&t), any);
    td__buf_free(&t);
    flag(b, "history", j->bases[i].history, any);
}

/* ---- gradients, memory -------------------------------------------------- */

static void tangent(td_buf *b, const td_spec *s, int i, bool *any) {
    static const char *const of[] = {"input", "result", "base"};
    const td_joint          *j = s->plan->j;
    const td_tangent        *t = &j->tangents[i];
    int k = t->of == TD_TANGENT_INPUT ? j->updates[t->index].input : t->index;
    text(b, "of", of[t->of], any);
    number(b, "index", k, any);
    type(b, j->g, &t->geom, any);
}

static void target(td_buf *b, const td_spec *s, int i, bool *any) {
    const td_joint *j = s->plan->j;
    number(b, "input", j->targets[i].input, any);
    flag(b, "base", j->targets[i].base, any);
    flag(b, "none", j->g->outputs.v[j->n_fwd + i].kind == TD_G_NONE, any);
}

static void note(td_buf *b, const td_spec *s, int i, bool *any) {
    const td_part_note *n = &td__spec_kept(s)->notes[i];
    text(b, "value", n->value, any);
    text(b, "op", n->op, any);
    number(b, "bytes", n->bytes, any);
    flag(b, "kept", n->saved, any);
    text(b, "why", n->why, any);
}

static void memory(td_buf *b, const td_halves *h, bool *any) {
    bool inner = false;
    key(b, "memory", any);
    td__buf_add(b, "{");
    number(b, "kept", h->bytes_kept, &inner);
    number(b, "kept_most", h->bytes_most, &inner);
    number(b, "peak", h->peak, &inner);
    number(b, "peak_most", h->peak_most, &inner);
    td__buf_add(b, "}");
}

/* ---- guards, times, graphs ---------------------------------------------- */

typedef struct strings {
    td_buf *b;
    bool    any;
} strings;

static void guard(void *env, const char *s) {
    strings *l = env;
    td__buf_add(l->b, l->any ? "," : "");
    td__json_string(l->b, s);
    l->any = true;
}

static void times(td_buf *b, const td_spec *s, bool *any) {
    bool inner = false;
    key(b, "times_ns", any);
    td__buf_add(b, "{");
    for (int i = 0; i < TD_SPENT_COUNT; i++)
        number(b, td__spent_names[i], s->ns[i], &inner);
    td__buf_add(b, "}");
}

static void graphs(td_buf *b, const td_fn *f, const td_spec *s, bool *any) {
    const td_halves *h = s->plan->h;
    const td_graph  *g[] = {td__spec_program(f, s), s->plan->j->g, h ? h->fwd : NULL,
                           h ? h->bwd : NULL};
    const char *names[] = {"program", h ? "joint" : "inference", "forward", "backward"};
    bool        inner = false;
    key(b, "graphs", any);
    td__buf_add(b, "{");
    for (int i = 0; i < 4; i++) {
        if (!g[i]) continue;
        key(b, names[i], &inner);
        td__graph_json(b, g[i]);
    }
    td__buf_add(b, "}");
}

/* ---- native code -------------------------------------------------------- */

static void steps(td_buf *b, const char *name, const td_runner *r, unsigned how,
                  bool *any) {
    int n = td__native_parts(r);
    if (n == 0) return;
    key(b, name, any);
    td__buf_add(b, "[");
    for (int i = 0; i < n; i++) {
        td_native_part p = td__native_part(r, i);
        bool           inner = false;
        td__buf_add(b, i ? ",{" : "{");
        text(b, "label", p.label, &inner);
        if (p.code && how & TD_EXPLAIN_GRAPHS) text(b, "code", p.code, &inner);
        td__buf_add(b, "}");
    }
    td__buf_add(b, "]");
}

static void native(td_buf *b, const td_spec *s, unsigned how, bool *any) {
    bool inner = false;
    key(b, "native", any);
    td__buf_add(b, "{");
    steps(b, "forward", &s->plan->fwd, how, &inner);
    steps(b, "backward", &s->plan->back.code, how, &inner);
    td__buf_add(b, "}");
}

/* ---- all ---------------------------------------------------------------- */

static void captured(td_buf *b, const td_fn *f, const td_spec *s, bool *any) {
    td_op_counts c = td__count_ops(td__spec_program(f, s));
    bool         inner = false;
    key(b, "captured", any);
    td__buf_add(b, "{");
    number(b, "ops", c.ops, &inner);
    number(b, "views", c.views, &inner);
    number(b, "writes", c.writes, &inner);
    number(b, "draws", c.draws, &inner);
    td__buf_add(b, "}");
}

static void compiled(td_buf *b, const td_fn *f, const td_spec *s, bool *any) {
    const td_joint  *j = s->plan->j;
    const td_halves *h = s->plan->h;
    captured(b, f, s, any);
    list(b, s, "inputs", j->n_primals, input, any);
    list(b, s, "results", j->n_results, result, any);
    list(b, s, "bases", j->n_bases, base, any);
    list(b, s, "tangents", j->n_tangents, tangent, any);
    list(b, s, "gradients", j->n_targets, target, any);
    const td_halves *kept = td__spec_kept(s);
    list(b, s, "for_backward", kept ? kept->n_notes : 0, note, any);
    if (kept) memory(b, kept, any);
    if (h) flag(b, "backward_compiled", s->plan->back.code.run != NULL, any);
}

static void spec(td_buf *b, const td_fn *f, const td_spec *s, unsigned how) {
    bool    any = false;
    strings guards = {b, false};
    td__buf_add(b, "{");
    number(b, "nr", s->nr, &any);
    text(b, "kind", !s->plan ? "as is" : s->plan->h ? "training" : "inference", &any);
    if (s->plan) compiled(b, f, s, &any);
    key(b, "guards", &any);
    td__buf_add(b, "[");
    td__key_each(&s->key, guard, &guards);
    td__deps_each(&s->deps, guard, &guards);
    if (s->guard_text && *s->guard_text) guard(&guards, s->guard_text);
    td__buf_add(b, "]");
    if (how & TD_EXPLAIN_TIMES) times(b, s, &any);
    if (how & TD_EXPLAIN_TIMES) flag(b, "found", s->kept.found, &any);
    if (s->plan) native(b, s, how, &any);
    if (s->plan && (how & TD_EXPLAIN_GRAPHS)) graphs(b, f, s, &any);
    td__buf_add(b, "}");
}

bool td__explain_json(td_buf *b, const td_fn *f, unsigned how) {
    bool      any = false;
    td_config c = td__fn_settings(f);
    td__buf_add(b, "{");
    text(b, "function", f->name, &any);
    number(b, "limit", c.specialization_limit, &any);
    key(b, "specializations", &any);
    td__buf_add(b, "[");
    for (int nr = 0; nr < f->n_specs; nr++)
        for (const td_spec *s = f->specs; s; s = s->next)
            if (s->nr == nr) {
                td__buf_add(b, nr ? ",\n " : "\n ");
                spec(b, f, s, how);
            }
    td__buf_add(b, "]}");
    return !b->failed;
}
