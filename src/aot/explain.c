/* explain.c -- td_explain: what was compiled, as text. docs/explain.md explains each
 * line. */
#include "aot/explain.h"
#include "trace/sym.h"

#include <stdio.h>
#include <string.h>

/* ---- columns ------------------------------------------------------------ */

/* A line of the table of inputs or results. */
typedef struct row {
    char name[72], type[100];
} row;

/* Copies b to out, cut to fit. */
static void put(char *out, size_t cap, const td_buf *b) {
    snprintf(out, cap, "%s", td__buf_str(b));
}

/* The width of a column: at least `least`, at most `most`. */
static int wide(int least, const char *text, int most) {
    int n = (int)strlen(text);
    return n <= least ? least : n < most ? n : most;
}

/* The width of the numbers of n rows. */
static int digits(int n) { return snprintf(NULL, 0, "%d", n > 0 ? n - 1 : 0); }

/* Writes the type in l; "" for NULL. */
static void type_text(char *out, size_t cap, const td_graph *g, const td_gtype *l) {
    td_buf b = {0};
    if (l) td__gtype_print(&b, g, l);
    put(out, cap, &b);
    td__buf_free(&b);
}

/* ---- inputs, results, bases --------------------------------------------- */

static row input_row(const td_joint *j, int i) {
    const td_gval *v = j->g->inputs.v[i];
    row            r = {"", ""};
    if (v->name) snprintf(r.name, sizeof r.name, "%%%.64s", v->name);
    type_text(r.type, sizeof r.type, j->g, v->type);
    return r;
}

/* A table with columns as wide as their longest entry, up to a limit. */
static void inputs(td_buf *b, const td_joint *j) {
    int name = 0, type = 0;
    for (int i = 0; i < j->n_primals; i++) {
        row r = input_row(j, i);
        name = wide(name, r.name, 64);
        type = wide(type, r.type, 48);
    }
    if (j->n_primals) td__buf_add(b, "  inputs\n");
    for (int i = 0; i < j->n_primals; i++) {
        const td_gtype *l = j->g->inputs.v[i]->type;
        row             r = input_row(j, i);
        td__buf_printf(b, "    %*d  %-*s  %-*s  ", digits(j->n_primals), i, name,
                       r.name, type, r.type);
        size_t start = b->n;
        td__explain_input(b, j, i);
        if (b->n == start) td__buf_add(b, "only read");
        if (l && l->grad) td__buf_add(b, "; requires grad");
        td__buf_add(b, "\n");
    }
}

/* A result that is an input or an earlier result has no type of its own. */
static row result_row(const td_joint *j, int i) {
    row    to = {"", ""};
    td_buf b = {0};
    if (td__epi_is_new(j, i)) td__epi_type(&b, j, j->epilogue->outputs.v[i].u.v);
    put(to.type, sizeof to.type, &b);
    td__buf_free(&b);
    return to;
}

static void results(td_buf *b, const td_joint *j) {
    int type = 0;
    for (int i = 0; i < j->n_results; i++) type = wide(type, result_row(j, i).type, 32);
    if (j->n_results) td__buf_add(b, "  results\n");
    for (int i = 0; i < j->n_results; i++) {
        td__buf_printf(b, "    %*d  %-*s%s", digits(j->n_results), i, type,
                       result_row(j, i).type, type ? "  " : "");
        td__explain_result(b, j, i);
        td__buf_add(b, "\n");
    }
}

/* Bases: new tensors that are no results. */
static void bases(td_buf *b, const td_joint *j) {
    int n = td__epi_n_bases(j);
    if (n)
        td__buf_add(
            b, "  bases: new tensors that are not returned, but share storage with "
               "results or inputs\n");
    for (int i = 0; i < n; i++) {
        td__buf_printf(b, "    %*d  ", digits(n), i);
        td__epi_type(b, j, td__epi_base(j, i));
        td__buf_add(b, "  ");
        td__explain_base(b, j, i);
        td__buf_add(b, "\n");
    }
}

static void step_line(void *env, const char *line) {
    td_buf *b = env;
    if (line) td__buf_printf(b, "    %s\n", line);
    else b->failed = true;
}

/* Everything a call does besides running code; also the text of TD_LOG=wrappers. */
void td__explain_wrappers(td_buf *b, const td_spec *s) {
    const td_joint *j = s->plan->j;
    inputs(b, j);
    results(b, j);
    bases(b, j);
    td__buf_add(
        b, "  epilogue, after the forward code, whose outputs are %f0, %f1, ...\n");
    td__epi_lines(j, step_line, b);
    if (j->left) td__buf_add(b, "  the grad mode is another one after the call\n");
}

/* ---- gradients ---------------------------------------------------------- */

/* The incoming gradients. */
static void tangents(td_buf *b, const td_joint *j) {
    for (int i = 0; i < j->n_tangents; i++) {
        const td_tangent *t = &j->tangents[i];
        td__buf_add(b, "    in   ");
        td__explain_tangent(b, j, i);
        td__buf_add(b, ": ");
        td__explain_type(b, j->g, &t->geom);
        td__buf_add(b, "\n");
        if (t->broken)
            td__buf_printf(b, "         backward fails as in eager: %s\n", t->broken);
    }
    if (j->broken)
        td__buf_printf(b, "    backward from all of them fails as in eager: %s\n",
                       j->broken);
}

/* Incoming gradients (in), and the tensors that backward computes gradients of (out).
 */
static void gradients(td_buf *b, const td_joint *j) {
    if (!j->n_tangents) return;
    td__buf_add(b, "  gradients\n");
    tangents(b, j);
    for (int i = 0; i < j->n_targets; i++) {
        bool none = j->g->outputs.v[j->n_fwd + i].kind == TD_G_NONE;
        td__buf_add(b, "    out  ");
        td__explain_target(b, j, i);
        td__buf_add(b, none ? ": no gradient reaches it\n" : "\n");
    }
}

/* ---- saved and recomputed ------------------------------------------------ */

/* The partition's table: each value that backward needs. */
static void notes(td_buf *b, const td_halves *h) {
    int  value = 5, op = 5;
    char size[32];
    for (int i = 0; i < h->n_notes; i++) {
        value = wide(value, h->notes[i].value, 24);
        op = wide(op, h->notes[i].op, 20);
    }
    td__buf_add(b, "  for backward\n");
    for (int i = 0; i < h->n_notes; i++) {
        const td_part_note *n = &h->notes[i];
        td__buf_printf(b, "    %%%-*s  %-*s  %10s  %-10s  %s\n", value, n->value, op,
                       n->op, td__size_text(size, n->bytes),
                       n->saved ? "saved" : "recomputed", n->why);
    }
    if (!h->n_notes) td__buf_add(b, "    nothing is saved\n");
}

/* Inputs that only double backward reads. */
static void saved_for_double(td_buf *b, const td_plan *p) {
    for (int i = p->n_saved; i < p->n_saves; i++) {
        for (int k = 0; k < p->j->n_primals; k++)
            if (p->primal_save[k] == i && p->needs[k])
                td__buf_printf(b, "    input %d is saved too, for double backward\n",
                               k);
    }
}

/* Saved values that backward frees after their last use. */
static void donated(td_buf *b, const td_plan *p) {
    int n = 0;
    for (int i = 0; p->donates && i < p->n_saved; i++) {
        if (!td__plan_donates(p, i)) continue;
        td__buf_add(b, n++ ? " " : "    donated to backward: ");
        td__buf_printf(b, "<saved %d>", i);
    }
    if (n) td__buf_add(b, "\n");
}

static int64_t bytes_of(const td_halves *h, int i) { return h->saved[i].bytes; }

/* The node that offloads result k of pack; NULL: it is saved itself. */
static const td_gnode *offloads(const td_graph *pack, int k) {
    const td_gnode *n = pack->outputs.v[k].u.v->node;
    return n && n->op == TD_OP_offload_store ? n : NULL;
}

/* Saved value i of the partition without packing goes to a store as it is. */
static void offloaded(td_buf *b, const td_halves *h, int k) {
    const td_gnode *n = offloads(h->pack, k);
    int             i = h->pack->out_desc.v[k].index;
    char            text[32];
    td__buf_printf(b, "    saved value %d is offloaded to store %s: <saved %d>, %s\n",
                   i, n->in[1].u.s, k, td__size_text(text, bytes_of(h->plain, i)));
}

/* Does pack save value k as the store's handle of an argument, without computing? */
static bool is_only_offloaded(const td_graph *pack, int k) {
    const td_gnode *n = offloads(pack, k);
    return n && !n->in[0].u.v->node;
}

/* Which saved values pack replaced, and by what. */
static void packed(td_buf *b, const td_halves *h) {
    const td_graph *g = h->pack;
    for (int k = 0; g && k < g->outputs.n;) {
        int     i = g->out_desc.v[k].index, n = 0;
        int64_t bytes = 0;
        char    before[32], after[32];
        if (is_only_offloaded(g, k)) {
            offloaded(b, h, k++);
            continue;
        }
        td__buf_printf(b, "    saved value %d is packed:", i);
        for (; k < g->outputs.n && g->out_desc.v[k].index == i; k++, n++) {
            const td_gnode *to = offloads(g, k);
            td__buf_printf(b, " <saved %d>", k);
            if (to) td__buf_printf(b, " (offloaded to store %s)", to->in[1].u.s);
            bytes += bytes_of(h, k);
        }
        td__buf_printf(b, ", %s of %s\n", td__size_text(after, bytes),
                       td__size_text(before, bytes_of(h->plain, i)));
    }
}

/* Bytes saved and the estimated peak, against saving everything as eager does. */
static void memory(td_buf *b, const td_halves *h) {
    char one[32], most[32];
    td__buf_printf(b, "  memory, without inputs and incoming gradients\n");
    td__buf_printf(b, "    saved %10s  of %s that backward reads\n",
                   td__size_text(one, h->bytes_saved),
                   td__size_text(most, h->bytes_most));
    td__buf_printf(b, "    peak  %10s  estimated; %s if all of it were saved\n",
                   td__size_text(one, h->peak), td__size_text(most, h->peak_most));
    if (h->fell_back)
        td__buf_add(b, "    everything is saved: recomputing would raise the peak\n");
    if (h->n_draws)
        td__buf_printf(b, "    %d random ops are recomputed with the same numbers\n",
                       h->n_draws);
}

/* ---- guards, time, graphs ----------------------------------------------- */

/* Calls fn with each line: the key, then modules and watched bytes, then guards on
 * sizes. */
void td__spec_guards(const td_spec *s, void (*fn)(void *env, const char *text),
                     void          *env) {
    td_buf b = {0};
    td__key_each(&s->key, fn, env);
    td__deps_each(&s->deps, fn, env);
    if (s->guards) td__guard_lines_print(&s->guards->all, &b);
    if (b.n) fn(env, td__buf_str(&b));
    td__buf_free(&b);
}

static void guard_line(void *env, const char *text) {
    td__buf_printf(env, "    %s\n", text);
}

/* Total and per stage, in milliseconds; stages below 0.5 us are left out. */
static void times(td_buf *b, const td_spec *s) {
    int64_t all = 0;
    bool    any = false;
    for (int i = 0; i < TD_PIPE_COUNT; i++) all += s->ns[i];
    if (s->cache.found)
        td__buf_printf(b, "  read from the disk cache, %s\n", s->cache.name);
    td__buf_printf(b, "  compiled in %.3f ms (", (double)all * 1e-6);
    for (int i = 0; i < TD_PIPE_COUNT; i++) {
        if (s->ns[i] < 500) continue;
        td__buf_printf(b, "%s%s %.3f", any ? ", " : "", td__stages[i].name,
                       (double)s->ns[i] * 1e-6);
        any = true;
    }
    td__buf_add(b, ")\n");
}

/* How many variants of the backward and of double backward are compiled. */
static void backward_state(td_buf *b, const td_plan *p) {
    int n = p->back.code.run != NULL;
    for (const td_back *k = p->back.next; k; k = k->next) n += k->code.run != NULL;
    if (n == 0) td__buf_add(b, "  backward will be compiled when it first runs\n");
    else
        td__buf_printf(b, "  backward is compiled, %d variant%s\n", n,
                       n == 1 ? "" : "s, one per set of arrived gradients");
    if (p->later.n_plans)
        td__buf_printf(b, "  double backward is compiled, %d variant%s\n",
                       p->later.n_plans, p->later.n_plans == 1 ? "" : "s");
}

/* A graph's text, indented under a title. */
static void graph(td_buf *b, const char *what, const td_graph *g) {
    td__buf_printf(b, "  %s\n", what);
    td_buf text = {0};
    td__graph_print(&text, g, TD_PRINT_TYPES | TD_PRINT_BRIEF);
    for (const char *p = td__buf_str(&text); *p;) {
        size_t n = strcspn(p, "\n");
        td__buf_printf(b, "    %.*s\n", (int)n, p);
        p += n + (p[n] == '\n');
    }
    b->failed |= text.failed;
    td__buf_free(&text);
}

static void graphs(td_buf *b, const td_fn *f, const td_spec *s) {
    const td_halves *h = s->plan->h;
    graph(b, "program", td__spec_program(f, s));
    graph(b, h ? "joint graph" : "inference graph", s->plan->j->g);
    if (h || s->plan->fwd_form) graph(b, "forward", td__plan_forward_code(s->plan));
    if (h) graph(b, "backward", td__plan_backward_code(s->plan));
    graph(b, "plan", s->plan->j->epilogue);
}

/* ---- all ---------------------------------------------------------------- */

/* Counts of ops in the captured program. */
static void captured(td_buf *b, const td_fn *f, const td_spec *s) {
    td_op_counts c = td__count_ops(td__spec_program(f, s));
    td__buf_printf(b, "  captured %d op%s: %d view%s, %d write%s, %d random draw%s\n",
                   c.ops, c.ops == 1 ? "" : "s", c.views, c.views == 1 ? "" : "s",
                   c.writes, c.writes == 1 ? "" : "s", c.draws,
                   c.draws == 1 ? "" : "s");
}

/* One specialization. */
static void spec(td_buf *b, const td_fn *f, const td_spec *s, unsigned how) {
    td__buf_printf(b, "specialization %d: ", s->nr);
    if (!s->plan) {
        td__buf_add(b, "not compiled, runs eagerly\n");
        return;
    }
    const td_halves *h = s->plan->h;
    td__buf_printf(b, "%s\n",
                   f->step
                       ? "a training step: forward, backward and update in one graph"
                   : h ? "forward and backward"
                       : "forward only");
    if (f->loaded) td__buf_printf(b, "  loaded from %s, without a body\n", f->loaded);
    captured(b, f, s);
    td__explain_wrappers(b, s);
    gradients(b, s->plan->j);
    if (td__spec_partition(s)) notes(b, td__spec_partition(s));
    if (h) packed(b, h);
    if (h) donated(b, s->plan);
    if (h) saved_for_double(b, s->plan);
    if (td__spec_partition(s)) memory(b, td__spec_partition(s));
    td__explain_regions(b, s->plan->j->g);
    td__native_report(b, &s->plan->fwd, h ? "forward" : "its");
    td__native_report(b, &s->plan->back.code, "backward");
    td__buf_add(b, "  guards\n");
    td__spec_guards(s, guard_line, b);
    if (h) backward_state(b, s->plan);
    if (how & TD_EXPLAIN_TIMES) times(b, s);
    if (how & TD_EXPLAIN_GRAPHS) graphs(b, f, s);
}

/* In the order of compilation; the list is by last use. */
bool td__explain(td_buf *b, const td_fn *f, unsigned how) {
    td_config c = td__fn_settings(f);
    td__buf_printf(b, "@%s: ", f->name);
    if (!f->n_specs) td__buf_add(b, "not compiled yet, call it first\n");
    else
        td__buf_printf(b, "%d specialization%s of at most %lld\n", f->n_specs,
                       f->n_specs == 1 ? "" : "s", (long long)c.specialization_limit);
    for (int nr = 0; nr < f->n_specs; nr++)
        for (const td_spec *s = f->specs; s; s = s->next)
            if (s->nr == nr) spec(b, f, s, how);
    return !b->failed;
}

/* ---- public ------------------------------------------------------------- */

/* td__text_out of b, which is freed; the empty text if it failed. */
static size_t hand_out(td_buf *b, char *out, size_t cap) {
    size_t n = td__text_out(td__buf_str(b), b->failed ? 0 : b->n, out, cap);
    td__buf_free(b);
    return n;
}

size_t td_explain(const td_fn *f, char *out, size_t cap) {
    if (!TD_ENTER(f, FN) || !td__may_read(f->cx, __func__, "what was compiled"))
        return td__text_out("", 0, out, cap);
    td_buf b = {0};
    td__explain(&b, f, TD_EXPLAIN_TIMES);
    return hand_out(&b, out, cap);
}

size_t td_explain_json(const td_fn *f, char *out, size_t cap) {
    if (!TD_ENTER(f, FN) || !td__may_read(f->cx, __func__, "what was compiled"))
        return td__text_out("", 0, out, cap);
    td_buf b = {0};
    td__explain_json(&b, f, TD_EXPLAIN_TIMES);
    return hand_out(&b, out, cap);
}
