/* explain_json.c -- td_explain_json. docs/explain.md describes the fields; fields stay,
 * new ones may be added. */
#include "aot/explain.h"

#include <inttypes.h>

/* ---- pieces ------------------------------------------------------------- */

/* Each function appends a member of an object; *any tells whether it needs a comma. */
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

/* The text in t, which is freed. */
static void text_of(td_buf *b, const char *name, td_buf *t, bool *any) {
    text(b, name, td__buf_str(t), any);
    b->failed |= t->failed;
    td__buf_free(t);
}

static void type_of(td_buf *b, const char *name, const td_joint *j, const td_gval *v,
                    bool *any) {
    td_buf t = {0};
    td__epi_type(&t, j, v);
    text_of(b, name, &t, any);
}

/* An array of strings; add_string is its td_line_fn. */
typedef struct strings {
    td_buf *b;
    bool    any;
} strings;

static void add_string(void *env, const char *s) {
    strings *l = env;
    td__buf_add(l->b, l->any ? "," : "");
    if (s) td__json_string(l->b, s);
    else l->b->failed = true;
    l->any = true;
}

/* Appends the members of the i-th object of an array. */
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

/* The effects on v as lines of text. */
static void effects(td_buf *b, const td_joint *j, const td_gval *v, bool *any) {
    key(b, "steps", any);
    td__buf_add(b, "[");
    td__epi_effect_lines(j, v, add_string, &(strings){b, false});
    td__buf_add(b, "]");
}

/* Which storage set_ gave a tensor: the same, a new one, or an input's. */
static void storage(td_buf *b, const td_joint *j, const td_gval *to, bool *any) {
    while (to && td__epi_viewed(to)) to = td__epi_viewed(to);
    text(b, "storage", !to ? "same" : to->node ? "new" : "input", any);
    if (to && !to->node) number(b, "storage_of", td__epi_name(j, to).index, any);
}

/* How the call changes input i; nothing if it only reads it. */
static void update(td_buf *b, const td_joint *j, int i, bool *any) {
    const td_gval *v = j->epilogue->inputs.v[i];
    td_effect_sum  sum = td__epi_sum(j, v);
    bool           code = td__epi_code_writes(j, i), inner = false;
    int64_t        versions = td__epi_versions(j, i);
    if (!sum.any && !code && !versions) return;
    key(b, "update", any);
    td__buf_add(b, "{");
    text(b, "written", code ? "graph" : sum.written ? "copy_" : "none", &inner);
    flag(b, "history", sum.history, &inner);
    storage(b, j, sum.moved_to, &inner);
    if (sum.geometry) type_of(b, "becomes", j, v, &inner);
    flag(b, "detached", sum.detached, &inner);
    flag(b, "requires_grad_now", sum.requires_grad, &inner);
    number(b, "versions", versions, &inner);
    effects(b, j, v, &inner);
    td__buf_add(b, "}");
}

static void input(td_buf *b, const td_spec *s, int i, bool *any) {
    const td_joint *j = s->plan->j;
    const td_gval  *v = j->g->inputs.v[i];
    td_buf          t = {0};
    text(b, "name", v->name ? v->name : "", any);
    if (v->type) td__gtype_print(&t, j->g, v->type);
    text_of(b, "type", &t, any);
    flag(b, "requires_grad", v->type && v->type->grad, any);
    flag(b, "changes", j->primals[i].written, any);
    update(b, j, i, any);
}

/* What result i is; docs/explain.md lists the kinds. */
static const char *kind_of(const td_joint *j, int i) {
    const td_garg *a = &j->epilogue->outputs.v[i];
    if (a->kind == TD_G_NONE) return "absent";
    if (a->kind != TD_G_VALUE) return "number";
    if (td__epi_name(j, a->u.v).as == TD_NAMED_INPUT) return "input";
    if (!td__epi_is_new(j, i)) return "duplicate";
    if (td__epi_made_of(j, a->u.v) >= 0) return "value";
    return td__epi_is_detached(j, a->u.v) ? "detached" : "view";
}

static const char *const named[] = {"input", "result", "base", "view"};

/* The origin of a view and the view ops that lead to it. */
static void view(td_buf *b, const td_joint *j, const td_gval *v, bool *any) {
    const td_gval *of = td__epi_origin(j, v);
    td_named       name = td__epi_name(j, of);
    text(b, "of", named[name.as], any);
    number(b, "from", name.index, any);
    key(b, "views", any);
    td__buf_add(b, "[");
    td__epi_views(j, v, of, add_string, &(strings){b, false});
    td__buf_add(b, "]");
}

/* Type, history and flags of a tensor that the call makes. */
static void tensor(td_buf *b, const td_joint *j, const td_gval *v, bool *any) {
    td_effect_sum sum = td__epi_sum(j, v);
    int           made = td__epi_made_of(j, v);
    type_of(b, "type", j, v, any);
    flag(b, "history", sum.history || (made >= 0 && j->fwd[made].tangent >= 0), any);
    flag(b, "requires_grad_leaf", sum.requires_grad, any);
    effects(b, j, v, any);
}

static void result(td_buf *b, const td_spec *s, int i, bool *any) {
    const td_joint *j = s->plan->j;
    const td_garg  *a = &j->epilogue->outputs.v[i];
    bool            is_new = td__epi_is_new(j, i);
    text(b, "kind", kind_of(j, i), any);
    if (a->kind == TD_G_VALUE && !is_new)
        number(b, "from", td__epi_name(j, a->u.v).index, any);
    if (is_new && td__epi_viewed(a->u.v)) view(b, j, a->u.v, any);
    if (is_new) tensor(b, j, a->u.v, any);
    else flag(b, "history", false, any), flag(b, "requires_grad_leaf", false, any);
}

static void base(td_buf *b, const td_spec *s, int i, bool *any) {
    tensor(b, s->plan->j, td__epi_base(s->plan->j, i), any);
}

/* The epilogue, line by line. */
static void plan(td_buf *b, const td_joint *j, bool *any) {
    key(b, "plan", any);
    td__buf_add(b, "[");
    td__epi_lines(j, add_string, &(strings){b, false});
    td__buf_add(b, "]");
}

/* ---- gradients, memory -------------------------------------------------- */

/* Names the tensor that the tangent belongs to: a result, a written input, or the base
 * of a view. */
static void tangent(td_buf *b, const td_spec *s, int i, bool *any) {
    const td_joint   *j = s->plan->j;
    const td_tangent *t = &j->tangents[i];
    const td_gnode   *n = td__epi_user(j, t->index);
    const td_gval    *v = !n ? NULL : n->op == TD_OP__made ? n->out[0] : n->in[0].u.v;
    td_buf            type = {0};
    if (v && td__epi_name(j, v).as == TD_NAMED_VIEW) v = td__epi_origin(j, v);
    text(b, "of", v ? named[td__epi_name(j, v).as] : "output", any);
    number(b, "index", v ? td__epi_name(j, v).index : t->index, any);
    flag(b, "written", n && n->op != TD_OP__made, any);
    td__explain_type(&type, j->g, &t->geom);
    text_of(b, "type", &type, any);
}

static void target(td_buf *b, const td_spec *s, int i, bool *any) {
    const td_joint *j = s->plan->j;
    const td_gval  *leaf = td__epi_leaf(j, i);
    td_buf          t = {0};
    number(b, "input", j->targets[i].input, any);
    flag(b, "base", j->targets[i].base, any);
    flag(b, "none", j->g->outputs.v[j->n_fwd + i].kind == TD_G_NONE, any);
    if (!leaf) return;
    td__epi_name_print(&t, j, leaf);
    text_of(b, "leaf", &t, any);
}

static void note(td_buf *b, const td_spec *s, int i, bool *any) {
    const td_part_note *n = &td__spec_partition(s)->notes[i];
    text(b, "value", n->value, any);
    text(b, "op", n->op, any);
    number(b, "bytes", n->bytes, any);
    flag(b, "saved", n->saved, any);
    text(b, "why", n->why, any);
}

static void memory(td_buf *b, const td_halves *h, bool *any) {
    bool inner = false;
    key(b, "memory", any);
    td__buf_add(b, "{");
    number(b, "saved", h->bytes_saved, &inner);
    number(b, "saved_most", h->bytes_most, &inner);
    number(b, "peak", h->peak, &inner);
    number(b, "peak_most", h->peak_most, &inner);
    td__buf_add(b, "}");
}

/* ---- guards, times, graphs ---------------------------------------------- */

static void times(td_buf *b, const td_spec *s, bool *any) {
    bool inner = false;
    key(b, "times_ns", any);
    td__buf_add(b, "{");
    for (int i = 0; i < TD_PIPE_COUNT; i++)
        number(b, td__stages[i].name, s->ns[i], &inner);
    td__buf_add(b, "}");
}

/* The graphs of all stages, as `tandem show --json` prints them. */
static void graphs(td_buf *b, const td_fn *f, const td_spec *s, bool *any) {
    const td_halves *h = s->plan->h;
    const td_graph  *g[] = {td__spec_program(f, s), s->plan->j->g,
                           h || s->plan->fwd_form ? td__plan_forward_code(s->plan)
                                                   : NULL,
                            td__plan_backward_code(s->plan), s->plan->j->epilogue};
    const char *names[] = {"program", h ? "joint" : "inference", "forward", "backward",
                           "plan"};
    bool        inner = false;
    key(b, "graphs", any);
    td__buf_add(b, "{");
    for (int i = 0; i < TD_COUNT(g); i++) {
        if (!g[i]) continue;
        key(b, names[i], &inner);
        td__graph_json(b, g[i]);
    }
    td__buf_add(b, "}");
}

/* ---- native code -------------------------------------------------------- */

/* The kernels of compiled code, with their C if the graphs are wanted. */
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
    list(b, s, "bases", td__epi_n_bases(j), base, any);
    plan(b, j, any);
    list(b, s, "tangents", j->n_tangents, tangent, any);
    list(b, s, "gradients", j->n_targets, target, any);
    const td_halves *kept = td__spec_partition(s);
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
    if (f->loaded) text(b, "loaded", f->loaded, &any);
    if (s->plan) compiled(b, f, s, &any);
    key(b, "guards", &any);
    td__buf_add(b, "[");
    td__spec_guards(s, add_string, &guards);
    td__buf_add(b, "]");
    if (how & TD_EXPLAIN_TIMES) times(b, s, &any);
    if (how & TD_EXPLAIN_TIMES) flag(b, "found", s->cache.found, &any);
    if (s->plan) native(b, s, how, &any);
    if (s->plan && (how & TD_EXPLAIN_GRAPHS)) graphs(b, f, s, &any);
    td__buf_add(b, "}");
}

/* Specializations are a list with the newest first; they are printed by number. */
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
