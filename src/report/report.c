/* report.c -- td_report, and the frame and small pieces of every HTML page. */
#include "report/report.h"

#include "kernels/loops/loops.h"
#include "tandem/tandem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- HTML --------------------------------------------------------------- */

/* Escapes HTML; bytes that are not printable ASCII become a middle dot. */
void td__report_textn(td_buf *b, const char *s, size_t n) {
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

void td__report_text(td_buf *b, const char *s) { td__report_textn(b, s, strlen(s)); }

void td__report_card(td_buf *b, const char *figure, const char *what) {
    td__buf_printf(b, "<div class=\"card\"><b>%s</b><span>%s</span></div>\n", figure,
                   what);
}

void td__report_open(td_buf *b, const char *id, const char *title, const char *about) {
    td__buf_printf(b, "<section id=\"%s\"><h2>%s</h2>\n<p class=\"about\">%s</p>\n", id,
                   title, about);
}

void td__report_close(td_buf *b) { td__buf_add(b, "</section>\n"); }

void td__report_folded(td_buf *b, const char *title, const char *text) {
    td__buf_printf(b, "<details><summary>%s</summary><pre>", title);
    td__report_text(b, text);
    td__buf_add(b, "</pre></details>\n");
}

void td__report_graph_text(td_buf *b, const char *title, const td_graph *g) {
    td_buf text = {0}, head = {0};
    td__graph_print(&text, g, TD_PRINT_TYPES | TD_PRINT_BRIEF);
    td__buf_printf(&head, "%s (%d nodes)", title, g->nodes.n);
    td__report_folded(b, td__buf_str(&head), td__buf_str(&text));
    td__buf_free(&head);
    td__buf_free(&text);
}

void td__report_explained(td_buf *b, const td_fn *f) {
    td_buf text = {0};
    td__explain(&text, f, TD_EXPLAIN_TIMES);
    td__report_folded(b, "the text of td_explain", td__buf_str(&text));
    td__buf_free(&text);
}

/* ---- the frame ---------------------------------------------------------- */

static void all_of(td_buf *b, const char *const *lines) {
    for (; *lines; lines++) {
        td__buf_add(b, *lines);
        td__buf_add(b, "\n");
    }
}

void td__report_begin(td_buf *b, const char *title, const char *about,
                      const char *nav) {
    char cpu[128];
    td__buf_add(b, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                   "<meta name=\"viewport\" content=\"width=device-width, "
                   "initial-scale=1\"><title>Tandem: ");
    td__report_text(b, title);
    td__buf_add(b, "</title>\n<style>\n");
    all_of(b, td__report_style);
    td__buf_add(b, "</style></head><body>\n<header><h1>");
    td__report_text(b, title);
    td__buf_printf(b,
                   "</h1><p class=\"about\">%s</p>\n<p class=\"about\">Tandem "
                   "%s on ",
                   about, TD_VERSION_STRING);
    td__report_text(b, td__cpu_name(cpu, sizeof cpu));
    td__buf_printf(b, ", %s code, %d thread%s</p>\n<nav>%s</nav></header>\n<main>\n",
                   td__isa()->name, td_threads(), td_threads() == 1 ? "" : "s", nav);
}

void td__report_end(td_buf *b, const char *by) {
    td__buf_printf(b,
                   "</main>\n<footer>written by <code>%s</code></footer>\n<script>\n",
                   by);
    all_of(b, td__report_script);
    td__buf_add(b, "</script>\n</body></html>\n");
}

bool td__report_save(td_ctx *cx, const char *who, const td_buf *b, const char *path) {
    if (b->failed) return td__fail_memory(cx);
    FILE *f = fopen(path, "w");
    bool  ok = f && fwrite(b->s, 1, b->n, f) == b->n;
    if (f) ok &= fclose(f) == 0;
    return ok || td__fail(cx, TD_E_IO, "%s: cannot write %.200s: %s", who, path,
                          strerror(errno));
}

/* ---- a function --------------------------------------------------------- */

/* Graphs with more nodes are shown as text only. */
enum { DRAWN = 400 };

/* The figures at the top of the page. */
static void cards(td_buf *b, const td_fn *f, const td_spec *s) {
    const td_halves *h = td__spec_partition(s);
    char             one[64], two[160], most[32];
    int64_t          ns = 0;
    for (int i = 0; i < TD_PIPE_COUNT; i++) ns += s->ns[i];
    td__buf_add(b, "<div class=\"cards\">\n");
    snprintf(one, sizeof one, "%d", f->n_specs);
    td__report_card(b, one,
                    f->n_specs == 1 ? "specialization"
                                    : "specializations; the page shows the one "
                                      "that was called last");
    snprintf(one, sizeof one, "%.1f ms", (double)ns * 1e-6);
    td__report_card(b, one,
                    s->cache.found ? "to find it in the cache on disk"
                                   : "to compile it");
    if (h) {
        snprintf(two, sizeof two, "saved for backward, of %s that backward reads",
                 td__size_text(most, h->bytes_most));
        td__report_card(b, td__size_text(one, h->bytes_saved), two);
        td__report_card(b, td__size_text(one, h->peak),
                        "peak memory beside inputs, estimated");
    }
    td__buf_add(b, "</div>\n");
}

/* The joint graph, its texts and td_explain. False after td__fail. */
static bool joint_section(td_buf *b, const td_fn *f, const td_spec *s) {
    const td_graph *g = s->plan->j->g;
    bool            ok = true;
    td__report_open(
        b, "joint", s->plan->h ? "Joint graph" : "Graph",
        "The body ran once, on tensors without bytes. <span class=\"fwd\">Forward"
        "</span> goes down the left, <span class=\"bwd\">backward</span> up the "
        "right. <span class=\"kept\">Green</span> lines are values saved for "
        "backward, <span class=\"again\">dashed</span> ones are recomputed there.");
    if (g->nodes.n <= DRAWN) ok = td__report_joint(b, s->plan);
    else td__buf_printf(b, "<p>%d nodes: too many for a picture.</p>\n", g->nodes.n);
    td__report_graph_text(b, "the program as captured", td__spec_program(f, s));
    td__report_graph_text(b, "the graph as text", g);
    td__report_graph_text(b, "what a call does after the forward code",
                          s->plan->j->epilogue);
    td__report_explained(b, f);
    td__report_close(b);
    return ok;
}

static bool saved_sections(td_buf *b, const td_halves *h) {
    td__report_open(b, "kept", "Saved for backward or recomputed, and why",
                    "Every value of the forward graph that backward reads.");
    td__report_choices(b, h);
    td__report_close(b);
    td__report_open(b, "memory", "Memory over time",
                    "Bytes alive while each node runs, beside inputs, as the partition "
                    "counts them.");
    bool ok = td__report_memory(b, h, NULL);
    td__report_close(b);
    return ok;
}

static bool kernel_section(td_buf *b, td_ctx *cx, const char *id, const char *title,
                           const td_runner *code) {
    td__report_open(b, id, title,
                    "Kernels are loops written for this function; products of matrices "
                    "and the like are calls. Unfold a row to read its C.");
    bool ok = td__report_kernels(b, cx, code);
    td__report_close(b);
    return ok;
}

static bool write_sections(td_buf *b, const td_fn *f, const td_spec *s) {
    const td_plan   *p = s->plan;
    const td_halves *h = td__spec_partition(s);
    td__report_begin(b, f->name,
                     f->step
                         ? "A training step: forward, backward and update in one graph."
                     : p->h ? "A function with its backward."
                            : "A function without gradients.",
                     "<a href=\"#joint\">Graph</a><a href=\"#kept\">Saved</a>"
                     "<a href=\"#memory\">Memory</a><a href=\"#forward\">Kernels</a>");
    cards(b, f, s);
    bool ok = joint_section(b, f, s) && (!h || saved_sections(b, h)) &&
              kernel_section(b, f->cx, "forward",
                             p->h ? "Forward code" : "Compiled code", &p->fwd);
    if (ok && p->h && p->back.code.run)
        ok = kernel_section(b, f->cx, "backward", "Backward code", &p->back.code);
    td__report_end(b, "td_report");
    return ok;
}

bool td_report(const td_fn *f, const char *path) {
    td_buf b = {0};
    if (!TD_ENTER(f, FN) || !td__may_read(f->cx, "td_report", "what was compiled"))
        return false;
    if (!path) return td__fail(f->cx, TD_E_ARG, "td_report: path is NULL");
    if (!f->specs || !f->specs->plan)
        return td__fail(f->cx, TD_E_ARG,
                        "td_report: %s has not been compiled; call td_invoke first",
                        f->name);
    bool ok = write_sections(&b, f, f->specs) &&
              td__report_save(f->cx, "td_report", &b, path);
    td__buf_free(&b);
    return ok;
}
