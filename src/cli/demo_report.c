/* demo_report.c -- the HTML report of `tandem demo`: results of the run, a small
 * function, and the kernels of the training step. */
#include "cli/demo_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

const td_plan *report_plan(const td_fn *f) { return f->specs ? f->specs->plan : NULL; }

/* ---- a small function --------------------------------------------------- */

enum { ROWS = 256, WIDE = 64, INNER = 256, BLOCK_ARGS = 6 };

static const char *const block_source =
    "static bool block(td_call *c) {\n"
    "    td_tensor *w = td_arg(c, 0), *b = td_arg(c, 1), *x = td_arg(c, 5);\n"
    "    td_tensor *n = td_layer_norm(x, TD_SHAPE(64), w, b);\n"
    "    td_tensor *gate = td_silu(td_linear(n, td_arg(c, 2)));\n"
    "    td_tensor *h = td_mul(gate, td_linear(n, td_arg(c, 3)));\n"
    "    td_tensor *y = td_add(x, td_linear(h, td_arg(c, 4)));\n"
    "    return td_return(c, td_mean(td_mul(y, y)));\n"
    "}\n";

static const char *const block_names[] = {"norm.w", "norm.b", "gate", "up", "down"};

/* The function in block_source. */
static bool block(td_call *c) {
    td_tensor *w = td_arg(c, 0), *b = td_arg(c, 1), *x = td_arg(c, 5);
    td_tensor *n = td_layer_norm(x, TD_SHAPE(WIDE), w, b);
    td_tensor *gate = td_silu(td_linear(n, td_arg(c, 2)));
    td_tensor *h = td_mul(gate, td_linear(n, td_arg(c, 3)));
    td_tensor *y = td_add(x, td_linear(h, td_arg(c, 4)));
    return td_return(c, td_mean(td_mul(y, y)));
}

/* Compiles the block, runs it forward and backward once; NULL after td__fail. */
static td_fn *make_block(td_ctx *cx, td_partition how) {
    td_ints     shape[] = {TD_SHAPE(WIDE),        TD_SHAPE(WIDE),
                           TD_SHAPE(INNER, WIDE), TD_SHAPE(INNER, WIDE),
                           TD_SHAPE(WIDE, INNER), TD_SHAPE(ROWS, WIDE)};
    td_value    arg[BLOCK_ARGS];
    td_tensor  *y;
    td_aot_opts o = {TD_AOT_OPTS, .name = "block", .partition = how,
                     .n_params = BLOCK_ARGS - 1, .state_names = block_names};
    td_fn      *f = td_aot_function(cx, block, NULL, &o);
    for (int i = 0; i < BLOCK_ARGS; i++)
        arg[i] = td_value_tensor(td_requires_grad_(td_randn(cx, shape[i])));
    bool ok = f && td_invoke(f, (td_values){arg, BLOCK_ARGS}, &y, 1) && td_backward(y);
    if (ok && report_plan(f) && report_plan(f)->h) return f;
    td_fn_drop(f);
    return NULL;
}

static bool about_block(td_buf *b, const td_fn *f, const td_fn *all) {
    const td_plan *p = report_plan(f);
    char           one[32], most[32];
    td__report_open(
        b, "joint", "A function and its joint graph",
        "The body runs once, on tensors without bytes. <span class=\"fwd\">Forward"
        "</span> goes down the left, <span class=\"bwd\">backward</span> up the "
        "right. <span class=\"kept\">Green</span> lines are values saved for "
        "backward, <span class=\"again\">dashed</span> ones are recomputed "
        "there. Point at a node to see what it reads.");
    td__buf_add(b, "<pre class=\"c-code\">");
    td__report_text(b, block_source);
    td__buf_add(b, "</pre>\n");
    bool ok = td__report_joint(b, p);
    td__report_graph_text(b, "the joint graph as text", p->j->g);
    td__report_explained(b, f);
    td__report_close(b);
    td__report_open(b, "kept", "Saved for backward or recomputed, and why",
                    "Every value of the forward graph that backward reads.");
    td__report_choices(b, p->h);
    td__report_close(b);
    td__report_open(b, "memory", "Memory over time",
                    "Bytes alive while each node runs, beside inputs, as the "
                    "partition counts them. The dashed line is the "
                    "same function with everything saved that backward reads.");
    td__buf_printf(b, "<p>Saved between the halves: <b>%s</b> of %s.</p>\n",
                   td__size_text(one, p->h->bytes_saved),
                   td__size_text(most, p->h->bytes_most));
    ok = ok && td__report_memory(b, p->h, report_plan(all)->h);
    td__report_close(b);
    return ok;
}

static bool block_sections(td_buf *b, td_ctx *cx) {
    td_scope_begin(cx, "block");
    td_fn *f = make_block(cx, TD_PARTITION_MINCUT);
    td_fn *all = f ? make_block(cx, TD_PARTITION_DEFAULT) : NULL;
    bool   ok = all && about_block(b, f, all);
    td_fn_drop(f);
    td_fn_drop(all);
    td_scope_end(cx, "block", NULL);
    return ok;
}

/* ---- the model ---------------------------------------------------------- */

static void cards(td_buf *b, const report *r) {
    const demo_gpt *g = r->gpt;
    char            one[96], two[160];
    double          last = 0, worst = 0;
    int64_t         n = g->size.steps, tail = n < 20 ? n : 20, checked = 0;
    for (int64_t i = n - tail; i < n; i++) last += (double)r->loss[i] / (double)tail;
    for (int i = 0; i < DEMO_CHECKS; i++) {
        checked += r->checks[i].count;
        if (r->checks[i].worst > worst) worst = r->checks[i].worst;
    }
    td__buf_add(b, "<div class=\"cards\">\n");
    snprintf(one, sizeof one, "%.2f \u2192 %.2f", (double)r->loss[0], last);
    snprintf(two, sizeof two, "loss in %" PRId64 " compiled steps", n);
    td__report_card(b, one, two);
    snprintf(one, sizeof one, "%.1f k", g->compiled.tokens / 1e3);
    snprintf(two, sizeof two, "tokens/s compiled; eager %.1f k, a factor of %.2f",
             g->eager.tokens / 1e3, g->eager.ms / g->compiled.ms);
    td__report_card(b, one, two);
    snprintf(one, sizeof one, "%.1f MiB", (double)g->compiled.peak / 1048576);
    snprintf(two, sizeof two, "at most, compiled; eager %.1f MiB; state %.1f MiB",
             (double)g->eager.peak / 1048576, (double)g->state / 1048576);
    td__report_card(b, one, two);
    snprintf(one, sizeof one, "%.2f s", g->compile_s);
    td__report_card(b, one,
                    "to compile a whole step; less when the cache on disk has it");
    snprintf(one, sizeof one, "%.0e", worst);
    snprintf(two, sizeof two, "largest error of %" PRId64 " derivatives checked",
             checked);
    td__report_card(b, one, two);
    td__buf_add(b, "</div>\n");
}

static void gradients(td_buf *b, const report *r) {
    td__report_open(
        b, "gradients", "Gradients",
        "Compiled functions against central differences, in double precision.");
    td__buf_add(b,
                "<table><tr><th>function</th><th></th><th class=\"n\">derivatives</th>"
                "<th class=\"n\">largest error</th><th></th></tr>\n");
    for (int i = 0; i < DEMO_CHECKS; i++) {
        const demo_check *c = &r->checks[i];
        td__buf_printf(
            b,
            "<tr><td>%s</td><td class=\"dim\">%s</td><td class=\"n\">%" PRId64
            "</td><td class=\"n\">%.0e</td><td class=\"%s\">%s</td></tr>\n",
            c->name, c->what, c->count, c->worst, c->good ? "good" : "bad",
            c->good ? "agree" : "differ");
    }
    td__buf_add(b, "</table>\n");
    td__report_close(b);
}

static bool model_sections(td_buf *b, const report *r) {
    td__report_open(b, "loss", "Loss",
                    "The model reads a text of its own, byte by byte.");
    td__report_loss(b, r->loss, (int)r->gpt->size.steps);
    td__buf_add(b, "<p class=\"about\">What it writes after that:</p><blockquote>");
    td__report_text(b, td__buf_str(r->wrote));
    td__buf_add(b, "</blockquote>\n");
    td__report_close(b);
    gradients(b, r);
    return true;
}

/* Runs some steps with spans on, so that kernels have times. */
static bool time_kernels(const report *r) {
    bool ok = true;
    td__span_reset(r->cx);
    td__span_collect(r->cx, true);
    for (int i = 0; i < 10 && ok; i++) ok = !isnan(demo_gpt_idle(r->gpt, true));
    td__span_collect(r->cx, false);
    return ok;
}

static bool kernel_section(td_buf *b, const report *r) {
    const td_plan *p = report_plan(r->gpt->step);
    td__report_open(
        b, "kernels", "Kernels of the training step",
        "Loss, gradients, clipping and AdamW are one graph. Kernels are loops "
        "written for it; products of matrices and the like are called. Measured, "
        "kernels of one name together; unfold one to read its C.");
    bool ok = p && time_kernels(r) && td__report_kernels(b, r->cx, &p->fwd);
    if (p) td__report_graph_text(b, "the whole step as a graph", p->j->g);
    td__report_close(b);
    return ok;
}

/* ---- the page ----------------------------------------------------------- */

static void head(td_buf *b, const report *r) {
    const gpt2_sizes *s = &r->gpt->size.net;
    char              about[300];
    snprintf(about, sizeof about,
             "A GPT of %" PRId64 " parameters (%" PRId64 " blocks, %" PRId64
             " heads, width %" PRId64 ", %" PRId64 " bytes of context, batch %" PRId64
             "), trained by one compiled function.",
             demo_gpt_numel(r->gpt), s->layers, s->heads, s->width, s->context,
             r->gpt->size.batch);
    td__report_begin(b, "Tandem demo", about,
                     "<a href=\"#loss\">Loss</a><a href=\"#gradients\">Gradients</a>"
                     "<a href=\"#joint\">Joint graph</a><a href=\"#kept\">Saved</a>"
                     "<a href=\"#memory\">Memory</a><a href=\"#kernels\">Kernels</a>");
}

bool report_write(const report *r, const char *path) {
    td_buf b = {0};
    head(&b, r);
    cards(&b, r);
    bool ok =
        model_sections(&b, r) && block_sections(&b, r->cx) && kernel_section(&b, r);
    td__report_end(&b, "tandem demo");
    ok = ok && td__report_save(r->cx, "tandem demo", &b, path);
    td__buf_free(&b);
    return ok;
}
