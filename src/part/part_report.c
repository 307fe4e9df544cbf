/* part_report.c -- what was decided about each value, and why, as notes and as a
 * table. */
#include "part/part_int.h"

#include <stdio.h>
#include <string.h>

static const char *const reasons[TD_REASON_COUNT] = {
    [TD_REASON_FREE] = "chosen by the min-cut",
    [TD_REASON_EFFECT] = "writes, or reads a written input",
    [TD_REASON_MUST_SAVE] = "checkpoint policy: must save",
    [TD_REASON_SEAM] = "between two checkpoint regions",
    [TD_REASON_PREFER_SAVE] = "checkpoint policy: prefer save",
    [TD_REASON_RANDOM] = "random numbers are expensive",
    [TD_REASON_HEAVY] = "heavy op",
    [TD_REASON_NOT_CHEAP] = "not a cheap op",
    [TD_REASON_MATERIALIZED] = "backward reads it from memory",
    [TD_REASON_REDUCTION] = "much smaller than its operands",
    [TD_REASON_FAR_APART] = "its operands are no longer live there",
    [TD_REASON_LONG_CHAIN] = "end of a long chain",
};

/* Why value v is saved. */
static const char *saved_reason(const td_part *p, int v) {
    int maker = p->maker[v];
    if (maker < 0) return "an input";
    if (p->all && !p->reason[maker]) return "backward reads it";
    return reasons[p->reason[maker]];
}

/* Why node i is recomputed. NULL: out of memory. */
static const char *recompute_reason(const td_part *p, int i, td_arena *a) {
    const td_gnode *n = p->g->nodes.v[i];
    if (p->must_recompute[i])
        return td__arena_printf(a, "checkpoint region %d", TD_TAG_REGION(n->tags));
    if (n->n_out && p->root[n->out[0]->id] != n->out[0]->id)
        return "a view of an available value";
    if (p->reason[i])
        return td__arena_printf(a, "memory budget (%s)", reasons[p->reason[i]]);
    return td__row(n->op)->flags & TD_OPF_POINTWISE ? "cheap: pointwise"
                                                    : "cheap: one pass";
}

/* Adds the note of a value. False: out of memory. */
static bool add_note(const td_part *p, td_halves *h, const td_gval *v, bool saved) {
    const td_gnode *n = v->node;
    td_part_note   *note = &h->notes[h->n_notes];
    *note = (td_part_note){.bytes = p->bytes[v->id], .saved = saved};
    note->recomputed = !saved;
    note->value = v->name ? td__arena_strdup(&h->arena, v->name)
                          : td__arena_printf(&h->arena, "%d", (int)v->id);
    note->op = n ? td__row(n->op)->name : "input";
    note->why = saved ? saved_reason(p, v->id) : recompute_reason(p, n->id, &h->arena);
    h->n_notes++;
    return note->value && note->why;
}

/* Is it saved, or recomputed in backward? */
static bool is_noted(const td_part *p, const td_gval *v) {
    if (p->passed[v->id]) return true;
    return v->node && p->in_bwd[v->node->id] && p->fw[v->node->id];
}

/* One note for each primal and forward value that backward reads or recomputes. */
bool td__part_notes(const td_part *p, td_halves *h) {
    const td_graph *g = p->g;
    h->notes = td__arena_alloc(&h->arena, sizeof *h->notes * ((size_t)p->n_values + 1));
    bool ok = h->notes != NULL;
    for (int i = 0; i < p->n_primals && ok; i++)
        if (is_noted(p, g->inputs.v[i])) ok = add_note(p, h, g->inputs.v[i], true);
    for (int i = 0; i < p->n_nodes && ok; i++)
        for (int k = 0; k < g->nodes.v[i]->n_out && ok; k++) {
            const td_gval *v = g->nodes.v[i]->out[k];
            if (is_noted(p, v)) ok = add_note(p, h, v, p->passed[v->id]);
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

/* The larger width; texts over 40 columns do not count. */
static int wider(int width, const char *s) {
    int n = (int)strlen(s);
    return n > 40 ? width : n > width ? n : width;
}

/* The lines below the table. */
static void totals(td_buf *b, const td_halves *h) {
    char a[32], c[32];
    int  recomputed = 0;
    for (int i = 0; i < h->n_notes; i++) recomputed += h->notes[i].recomputed;
    td__buf_printf(b, "saved %s of %s", size_text(a, sizeof a, h->bytes_saved),
                   size_text(c, sizeof c, h->bytes_most));
    td__buf_printf(b, ", peak %s of %s", size_text(a, sizeof a, h->peak),
                   size_text(c, sizeof c, h->peak_most));
    td__buf_printf(b, "; recomputed: %d\n", recomputed);
    if (h->fell_back)
        td__buf_add(b,
                    "more recomputation would raise the peak: everything is saved\n");
    if (h->n_saved_syms)
        td__buf_printf(b, "sizes passed to backward: %d\n", h->n_saved_syms);
    if (h->n_draws)
        td__buf_printf(b, "random ops recomputed with the same numbers: %d\n",
                       h->n_draws);
}

bool td__halves_report(td_buf *b, const td_halves *h) {
    int value = 5, op = 2;
    for (int i = 0; i < h->n_notes; i++) {
        value = wider(value, h->notes[i].value);
        op = wider(op, h->notes[i].op);
    }
    td__buf_printf(b, "%-*s  %-*s  %10s  %-10s  %s\n", value + 1, "value", op, "op",
                   "bytes", "", "why");
    for (int i = 0; i < h->n_notes; i++) {
        const td_part_note *n = &h->notes[i];
        char                size[32];
        td__buf_printf(b, "%%%-*s  %-*s  %10s  %-10s  %s\n", value, n->value, op, n->op,
                       size_text(size, sizeof size, n->bytes),
                       n->saved ? "saved" : "recomputed", n->why);
    }
    totals(b, h);
    return !b->failed || td__fail_memory(h->cx);
}
