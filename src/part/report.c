/* report.c -- what became of each value, and why, as notes and as a table. */
#include "part/part_int.h"

#include <stdio.h>
#include <string.h>

static const char *const reasons[TD_WHY_COUNT] = {
    [TD_WHY_FREE] = "the cheapest place to cut",
    [TD_WHY_EFFECT] = "writes, or reads what is written",
    [TD_WHY_MUST_SAVE] = "a checkpoint policy keeps it",
    [TD_WHY_SEAM] = "between two checkpoint regions",
    [TD_WHY_PREFER_SAVE] = "a checkpoint policy would keep it",
    [TD_WHY_RANDOM] = "random: drawing takes long",
    [TD_WHY_HEAVY] = "heavy: not repeated",
    [TD_WHY_NOT_CHEAP] = "not a cheap op: not repeated",
    [TD_WHY_MATERIALIZED] = "backward reads it from memory",
    [TD_WHY_REDUCTION] = "much smaller than what it is made of",
    [TD_WHY_FAR_APART] = "what it reads is long gone",
    [TD_WHY_LONG_CHAIN] = "end of a long chain",
};

static const char *why_kept(const td_part *p, int v) {
    int maker = p->maker[v];
    if (maker < 0) return "an input";
    if (p->all && !p->why[maker]) return "backward reads it";
    return reasons[p->why[maker]];
}

static const char *why_again(const td_part *p, int i, td_arena *a) {
    const td_gnode *n = p->g->nodes.v[i];
    if (p->again[i])
        return td__arena_printf(a, "checkpoint region %d", TD_TAG_REGION(n->tags));
    if (n->n_out && p->root[n->out[0]->id] != n->out[0]->id)
        return "a view, and what it shows is at hand";
    if (p->why[i])
        return td__arena_printf(a, "the budget is short (%s)", reasons[p->why[i]]);
    return td__ops[n->op].flags & TD_OPF_POINTWISE ? "cheap: pointwise"
                                                   : "cheap: one pass";
}

static bool add_note(const td_part *p, td_halves *h, const td_gval *v, bool saved) {
    const td_gnode *n = v->node;
    td_part_note   *note = &h->notes[h->n_notes];
    *note = (td_part_note){.bytes = p->bytes[v->id], .saved = saved};
    note->recomputed = !saved;
    note->value = v->name ? td__arena_strdup(&h->arena, v->name)
                          : td__arena_printf(&h->arena, "%d", (int)v->id);
    note->op = n ? td__ops[n->op].name : "input";
    note->why = saved ? why_kept(p, v->id) : why_again(p, n->id, &h->arena);
    h->n_notes++;
    return note->value && note->why;
}

/* A value that is kept, or that backward makes a second time. */
static bool is_noted(const td_part *p, const td_gval *v) {
    if (p->kept[v->id]) return true;
    return v->node && p->in_bwd[v->node->id] && p->fw[v->node->id];
}

bool td__part_notes(const td_part *p, td_halves *h) {
    const td_graph *g = p->g;
    h->notes = td__arena_alloc(&h->arena, sizeof *h->notes * ((size_t)p->n_values + 1));
    bool ok = h->notes != NULL;
    for (int i = 0; i < p->n_primals && ok; i++)
        if (is_noted(p, g->inputs.v[i])) ok = add_note(p, h, g->inputs.v[i], true);
    for (int i = 0; i < p->n_nodes && ok; i++)
        for (int k = 0; k < g->nodes.v[i]->n_out && ok; k++) {
            const td_gval *v = g->nodes.v[i]->out[k];
            if (is_noted(p, v)) ok = add_note(p, h, v, p->kept[v->id]);
        }
    return ok || td__fail_memory(p->cx);
}

/* ---- the table ---------------------------------------------------------- */

/* "12 B", "4.0 KiB", "1.5 MiB" */
static const char *size_text(char *out, size_t cap, int64_t bytes) {
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double                   n = (double)bytes;
    int                      u = 0;
    for (; n >= 1024 && u < TD_COUNT(unit) - 1; u++) n /= 1024;
    snprintf(out, cap, u ? "%.1f %s" : "%.0f %s", n, unit[u]);
    return out;
}

static int wider(int width, const char *s) {
    int n = (int)strlen(s);
    return n > 40 ? width : n > width ? n : width;
}

static void totals(td_buf *b, const td_halves *h) {
    char a[32], c[32];
    int  again = 0;
    for (int i = 0; i < h->n_notes; i++) again += h->notes[i].recomputed;
    td__buf_printf(b, "kept %s of %s", size_text(a, sizeof a, h->bytes_kept),
                   size_text(c, sizeof c, h->bytes_most));
    td__buf_printf(b, ", peak %s of %s", size_text(a, sizeof a, h->peak),
                   size_text(c, sizeof c, h->peak_most));
    td__buf_printf(b, "; computed again: %d\n", again);
    if (h->fell_back)
        td__buf_add(b, "computing more again would raise the peak: all is kept\n");
    if (h->n_kept_syms) td__buf_printf(b, "sizes handed over: %d\n", h->n_kept_syms);
    if (h->n_draws)
        td__buf_printf(b, "random ops drawn again, with the same numbers: %d\n",
                       h->n_draws);
}

bool td__halves_report(td_buf *b, const td_halves *h) {
    int value = 5, op = 2;
    for (int i = 0; i < h->n_notes; i++) {
        value = wider(value, h->notes[i].value);
        op = wider(op, h->notes[i].op);
    }
    td__buf_printf(b, "%-*s  %-*s  %10s  %-6s  %s\n", value + 1, "value", op, "op",
                   "bytes", "", "why");
    for (int i = 0; i < h->n_notes; i++) {
        const td_part_note *n = &h->notes[i];
        char                size[32];
        td__buf_printf(b, "%%%-*s  %-*s  %10s  %-6s  %s\n", value, n->value, op, n->op,
                       size_text(size, sizeof size, n->bytes),
                       n->saved ? "kept" : "again", n->why);
    }
    totals(b, h);
    return !b->failed || td__fail_memory(h->cx);
}
