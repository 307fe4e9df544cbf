/* report.c -- puts the page together: figures, text, and what the other files draw. */
#include "cli/report.h"
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* ---- HTML --------------------------------------------------------------- */

void report_textn(td_buf *b, const char *s, size_t n) {
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c == '<') td__buf_add(b, "&lt;");
        else if (c == '>') td__buf_add(b, "&gt;");
        else if (c == '&') td__buf_add(b, "&amp;");
        else if (c == '"') td__buf_add(b, "&quot;");
        else if ((c >= 32 && c < 127) || c == '\n') td__buf_addn(b, s + i, 1);
        else td__buf_add(b, "\u00b7");
    }
}

void report_text(td_buf *b, const char *s) { report_textn(b, s, strlen(s)); }

void report_open(td_buf *b, const char *id, const char *title, const char *about) {
    td__buf_printf(b, "<section id=\"%s\"><h2>%s</h2>\n<p class=\"about\">%s</p>\n", id,
                   title, about);
}

void report_close(td_buf *b) { td__buf_add(b, "</section>\n"); }

void report_folded(td_buf *b, const char *title, const char *text) {
    td__buf_printf(b, "<details><summary>%s</summary><pre>", title);
    report_text(b, text);
    td__buf_add(b, "</pre></details>\n");
}

static void all_of(td_buf *b, const char *const *lines) {
    for (; *lines; lines++) {
        td__buf_add(b, *lines);
        td__buf_add(b, "\n");
    }
}

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

/* As block_source has it. */
static bool block(td_call *c) {
    td_tensor *w = td_arg(c, 0), *b = td_arg(c, 1), *x = td_arg(c, 5);
    td_tensor *n = td_layer_norm(x, TD_SHAPE(WIDE), w, b);
    td_tensor *gate = td_silu(td_linear(n, td_arg(c, 2)));
    td_tensor *h = td_mul(gate, td_linear(n, td_arg(c, 3)));
    td_tensor *y = td_add(x, td_linear(h, td_arg(c, 4)));
    return td_return(c, td_mean(td_mul(y, y)));
}

/* Compiled for arguments of its own and called once; NULL after a failure. */
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

static void explained(td_buf *b, const td_fn *f) {
    td_buf text = {0};
    td__explain(&text, f, TD_EXPLAIN_TIMES);
    report_folded(b, "all that td_explain says of it", td__buf_str(&text));
    td__buf_free(&text);
}

static void graph_text(td_buf *b, const char *title, const td_graph *g) {
    td_buf text = {0}, head = {0};
    td__graph_print(&text, g, TD_PRINT_TYPES | TD_PRINT_BRIEF);
    td__buf_printf(&head, "%s (%d nodes)", title, g->nodes.n);
    report_folded(b, td__buf_str(&head), td__buf_str(&text));
    td__buf_free(&head);
    td__buf_free(&text);
}

static bool about_block(td_buf *b, const td_fn *f, const td_fn *all) {
    const td_plan *p = report_plan(f);
    char           one[32], most[32];
    report_open(
        b, "joint", "A function and its joint graph",
        "The body runs once, on tensors without bytes. <span class=\"fwd\">Forward"
        "</span> goes down the left, <span class=\"bwd\">backward</span> up the "
        "right. <span class=\"kept\">Green</span> lines are values kept for "
        "backward, <span class=\"again\">dashed</span> ones are computed again "
        "there. Point at a node to see what it reads.");
    td__buf_add(b, "<pre class=\"c-code\">");
    report_text(b, block_source);
    td__buf_add(b, "</pre>\n");
    bool ok = report_joint(b, p);
    graph_text(b, "the joint graph as text", p->j->g);
    explained(b, f);
    report_close(b);
    report_open(b, "kept", "What is kept, what is computed again, and why",
                "Every value of the forward half that backward needs.");
    report_choices(b, p->h);
    report_close(b);
    report_open(b, "memory", "Memory over time",
                "Bytes alive while each node runs, beside inputs, as the "
                "partition counts them. The dashed line is the "
                "same function with everything kept that backward reads.");
    td__buf_printf(b, "<p>Kept between the halves: <b>%s</b> of %s.</p>\n",
                   td__size_text(one, p->h->bytes_kept),
                   td__size_text(most, p->h->bytes_most));
    ok = ok && report_memory(b, p->h, report_plan(all)->h);
    report_close(b);
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

static void card(td_buf *b, const char *figure, const char *what) {
    td__buf_printf(b, "<div class=\"card\"><b>%s</b><span>%s</span></div>\n", figure,
                   what);
}

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
    card(b, one, two);
    snprintf(one, sizeof one, "%.1f k", g->compiled.tokens / 1e3);
    snprintf(two, sizeof two, "tokens/s compiled; eager %.1f k, a factor of %.2f",
             g->eager.tokens / 1e3, g->eager.ms / g->compiled.ms);
    card(b, one, two);
    snprintf(one, sizeof one, "%.1f MiB", (double)g->compiled.peak / 1048576);
    snprintf(two, sizeof two, "at most, compiled; eager %.1f MiB; state %.1f MiB",
             (double)g->eager.peak / 1048576, (double)g->state / 1048576);
    card(b, one, two);
    snprintf(one, sizeof one, "%.2f s", g->compile_s);
    card(b, one, "to compile a whole step; less when the cache on disk has it");
    snprintf(one, sizeof one, "%.0e", worst);
    snprintf(two, sizeof two, "largest error of %" PRId64 " derivatives checked",
             checked);
    card(b, one, two);
    td__buf_add(b, "</div>\n");
}

static void gradients(td_buf *b, const report *r) {
    report_open(b, "gradients", "Gradients",
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
    report_close(b);
}

static bool model_sections(td_buf *b, const report *r) {
    report_open(b, "loss", "Loss", "The model reads a text of its own, byte by byte.");
    report_loss(b, r->loss, (int)r->gpt->size.steps);
    td__buf_add(b, "<p class=\"about\">What it writes after that:</p><blockquote>");
    report_text(b, td__buf_str(r->wrote));
    td__buf_add(b, "</blockquote>\n");
    report_close(b);
    gradients(b, r);
    return true;
}

static bool kernel_section(td_buf *b, const report *r) {
    const td_plan *p = report_plan(r->gpt->step);
    report_open(
        b, "kernels", "Kernels of the training step",
        "Loss, gradients, clipping and AdamW are one graph. Kernels are loops "
        "written for it; products of matrices and the like are called. Measured, "
        "kernels of one name together; unfold one to read its C.");
    bool ok = report_kernels(b, r);
    if (p) graph_text(b, "the whole step as a graph", p->j->g);
    report_close(b);
    return ok;
}

/* ---- the page ----------------------------------------------------------- */

static void head(td_buf *b, const report *r) {
    const gpt2_sizes *s = &r->gpt->size.net;
    td__buf_add(b, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                   "<meta name=\"viewport\" content=\"width=device-width\">"
                   "<title>Tandem: what was compiled</title>\n<style>\n");
    all_of(b, report_style);
    td__buf_printf(b,
                   "</style></head><body>\n<header><h1>Tandem</h1><p class=\"about\">A "
                   "GPT of %" PRId64 " parameters (%" PRId64 " blocks, %" PRId64
                   " heads, width %" PRId64 ", %" PRId64
                   " bytes of context, batch %" PRId64
                   "), trained on %d threads by one compiled function.</p>\n"
                   "<nav><a href=\"#loss\">Loss</a><a href=\"#gradients\">Gradients</a>"
                   "<a href=\"#joint\">Joint graph</a><a href=\"#kept\">Kept</a>"
                   "<a href=\"#memory\">Memory</a><a "
                   "href=\"#kernels\">Kernels</a></nav></header>\n"
                   "<main>\n",
                   demo_gpt_numel(r->gpt), s->layers, s->heads, s->width, s->context,
                   r->gpt->size.batch, td_threads());
}

static bool save(const report *r, const td_buf *b, const char *path) {
    if (b->failed) return td__fail_memory(r->cx);
    FILE *f = fopen(path, "w");
    bool  ok = f && fwrite(b->s, 1, b->n, f) == b->n;
    if (f) ok &= fclose(f) == 0;
    return ok ||
           td__fail(r->cx, TD_E_IO, "cannot write %.200s: %s", path, strerror(errno));
}

bool report_write(const report *r, const char *path) {
    td_buf b = {0};
    head(&b, r);
    cards(&b, r);
    bool ok =
        model_sections(&b, r) && block_sections(&b, r->cx) && kernel_section(&b, r);
    td__buf_add(&b, "</main>\n<footer>written by <code>tandem demo</code></footer>\n"
                    "<script>\n");
    all_of(&b, report_script);
    td__buf_add(&b, "</script>\n</body></html>\n");
    ok = ok && save(r, &b, path);
    td__buf_free(&b);
    return ok;
}
