/* joint_graph.c -- draws a joint graph as SVG, and the table of its partition.
 * Forward goes down the left side, backward up the right; edges between them are
 * saved or recomputed values. */
#include "report/report.h"

#include <math.h>
#include <string.h>

enum { W = 1060, BOX = 360, TALL = 22, PITCH = 31, LEFT = 56, CHARS = 48 };

/* A node with its position and its line of the graph's text. */
typedef struct box {
    const char *text; /* "%8, %9 = op(...)" */
    int         n;    /* length of it */
    bool        bwd;
    double      x, y; /* of the upper left corner */
} box;

/* The state of drawing. */
typedef struct drawing {
    td_buf          *b;
    const td_graph  *g;
    const td_halves *h;
    box             *box;   /* by node */
    int             *maker; /* by value: its node; -1: an input */
    int              n;
    double           tall;
    int              to; /* the node whose edges are being drawn */
} drawing;

/* ---- decisions of the partition -------------------------------------------------- */

static const td_part_note *note_of(const td_halves *h, const char *name, size_t n) {
    for (int i = 0; h && i < h->n_notes; i++)
        if (strlen(h->notes[i].value) == n && !strncmp(h->notes[i].value, name, n))
            return &h->notes[i];
    return NULL;
}

/* The note of result k of a node; its name is the k-th in the node's line. */
static const td_part_note *note_at(const drawing *d, int node, int k) {
    const char *p = d->box[node].text, *end = p + d->box[node].n;
    for (; p < end && *p == '%'; k--) {
        size_t n = strcspn(++p, ", =");
        if (k == 0) return note_of(d->h, p, n);
        p += n;
        if (*p == ',') p += 2;
    }
    return NULL;
}

/* Is one of the node's results recomputed in backward? */
static bool is_recomputed(const drawing *d, int node) {
    for (int k = 0; k < d->g->nodes.v[node]->n_out; k++) {
        const td_part_note *n = note_at(d, node, k);
        if (n && n->recomputed) return true;
    }
    return false;
}

/* ---- boxes -------------------------------------------------------------- */

static void draw_box(const drawing *d, int i) {
    const box *x = &d->box[i];
    bool       cut = x->n > CHARS;
    td__buf_printf(d->b, "<g class=\"box%s%s\" data-i=\"%d\"><title>",
                   x->bwd ? " b" : "", is_recomputed(d, i) ? " r" : "", i);
    td__report_textn(d->b, x->text, (size_t)x->n);
    td__buf_printf(d->b,
                   "</title><rect x=\"%.0f\" y=\"%.1f\" width=\"%d\" height=\"%d\" "
                   "rx=\"5\"/><text class=\"m\" x=\"%.0f\" y=\"%.1f\">",
                   x->x, x->y, BOX, TALL, x->x + 8, x->y + 15);
    td__report_textn(d->b, x->text, (size_t)(cut ? CHARS - 1 : x->n));
    td__buf_add(d->b, cut ? "\u2026</text></g>\n" : "</text></g>\n");
}

/* Spreads the shorter side over the height of the longer one. */
static void place_boxes(drawing *d) {
    int count[2] = {0}, at[2] = {0};
    for (int i = 0; i < d->n; i++) count[d->box[i].bwd]++;
    int most = count[0] > count[1] ? count[0] : count[1];
    d->tall = most * PITCH + 8;
    for (int i = 0; i < d->n; i++) {
        box   *x = &d->box[i];
        double pitch = count[x->bwd] > 1 ? (double)(most - 1) / (count[x->bwd] - 1) : 1;
        double y = pitch * at[x->bwd]++ * PITCH;
        x->x = x->bwd ? W - LEFT - BOX : LEFT;
        x->y = 6 + (x->bwd ? (most - 1) * PITCH - y : y);
    }
}

/* ---- edges -------------------------------------------------------------- */

static int result_nr(const td_gnode *n, const td_gval *v) {
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k] == v) return k;
    return 0;
}

/* An edge within a half: an arc on its outer side, wider for longer distances. */
static void draw_arc(const drawing *d, int from, int to) {
    const box *a = &d->box[from], *z = &d->box[to];
    double     out = a->bwd ? 1 : -1, x = a->bwd ? a->x + BOX : a->x;
    double     far = fmin(46, 6 + 0.10 * fabs(z->y - a->y));
    td__buf_printf(
        d->b,
        "<path class=\"edge\" data-a=\"%d\" data-b=\"%d\" d=\"M%.0f %.1fC%.1f "
        "%.1f %.1f %.1f %.0f %.1f\"/>\n",
        from, to, x, a->y + TALL / 2.0, x + 1.3 * far * out, a->y + TALL / 2.0,
        x + 1.3 * far * out, z->y + TALL / 2.0, x, z->y + TALL / 2.0);
}

/* An edge from forward to backward: a saved value, or one that is recomputed. */
static void draw_crossing(const drawing *d, int from, int to, const td_part_note *n) {
    const box *a = &d->box[from], *z = &d->box[to];
    double     x = a->x + BOX, middle = (x + z->x) / 2;
    td__buf_printf(d->b,
                   "<path class=\"edge %s\" data-a=\"%d\" data-b=\"%d\" d=\"M%.0f "
                   "%.1fC%.0f %.1f %.0f %.1f %.0f %.1f\"/>\n",
                   n && n->saved ? "k" : "r", from, to, x, a->y + TALL / 2.0, middle,
                   a->y + TALL / 2.0, middle, z->y + TALL / 2.0, z->x,
                   z->y + TALL / 2.0);
}

static void draw_edge(void *env, td_gval *v) {
    drawing *d = env;
    int      from = d->maker[v->id];
    if (from < 0) return;
    if (d->box[from].bwd == d->box[d->to].bwd) draw_arc(d, from, d->to);
    else
        draw_crossing(d, from, d->to,
                      note_at(d, from, result_nr(d->g->nodes.v[from], v)));
}

static void draw(drawing *d) {
    td__buf_printf(
        d->b,
        "<div class=\"wide\"><svg class=\"graph\" viewBox=\"0 0 %d %.0f\" role=\"img\" "
        "aria-label=\"joint graph\">\n",
        W, d->tall);
    for (d->to = 0; d->to < d->n; d->to++) {
        const td_gnode *n = d->g->nodes.v[d->to];
        for (int k = 0; k < n->n_in; k++) td__garg_each(&n->in[k], draw_edge, d);
    }
    for (int i = 0; i < d->n; i++) draw_box(d, i);
    td__buf_add(d->b, "</svg></div>\n");
}

/* ---- lines of the graph's text ------------------------------------------ */

/* Finds each node's line in the graph's text: between "{" and "return", one per line,
 * without what follows the last bracket. False: their number differs from the nodes'.
 */
static bool find_lines(drawing *d, const char *text) {
    const char *p = strstr(text, "{\n");
    int         i = 0;
    for (p = p ? strchr(p, '\n') + 1 : ""; *p && i < d->n;) {
        size_t n = strcspn(p, "\n"), skip = strspn(p, " ");
        if (!strncmp(p + skip, "return", 6)) break;
        box *x = &d->box[i++];
        x->text = p + skip;
        x->n = (int)(n - skip);
        while (x->n > 1 && x->text[x->n - 1] != ')') x->n--;
        p += n + (p[n] == '\n');
    }
    return i == d->n;
}

/* Allocates the arrays. False after td__fail. */
static bool prepare(drawing *d, td_arena *a) {
    size_t values = (size_t)d->g->n_values + 1;
    d->n = d->g->nodes.n;
    d->box = td__arena_zalloc(a, sizeof *d->box * ((size_t)d->n + 1));
    d->maker = td__arena_alloc(a, sizeof *d->maker * values);
    if (!d->box || !d->maker) return td__fail_memory(d->g->cx);
    memset(d->maker, -1, sizeof *d->maker * values);
    for (int i = 0; i < d->n; i++) {
        const td_gnode *n = d->g->nodes.v[i];
        d->box[i].bwd = n->origin == TD_FROM_BACKWARD;
        for (int k = 0; k < n->n_out; k++) d->maker[n->out[k]->id] = i;
    }
    return true;
}

/* Draws the joint graph as SVG: forward down the left, backward up the right. */
bool td__report_joint(td_buf *b, const td_plan *p) {
    drawing  d = {.b = b, .g = p->j->g, .h = p->h};
    td_arena arena = {0};
    td_buf   text = {0};
    bool     ok = prepare(&d, &arena);
    ok = ok && (td__graph_print(&text, d.g, TD_PRINT_BRIEF) || td__fail_memory(p->cx));
    if (ok && find_lines(&d, td__buf_str(&text))) {
        place_boxes(&d);
        draw(&d);
    }
    td__buf_free(&text);
    td__arena_free(&arena);
    return ok;
}

/* ---- the table of the partition --------------------------------------------- */

void td__report_choices(td_buf *b, const td_halves *h) {
    char size[32];
    td__buf_add(b, "<div class=\"wide\"><table><tr><th>value</th><th>made by</th><th "
                   "class=\"n\">size</th>"
                   "<th>choice</th><th>why</th></tr>\n");
    for (int i = 0; i < h->n_notes; i++) {
        const td_part_note *n = &h->notes[i];
        td__buf_add(b, "<tr><td><code>%");
        td__report_text(b, n->value);
        td__buf_add(b, "</code></td><td><code>");
        td__report_text(b, n->op);
        td__buf_printf(
            b, "</code></td><td class=\"n\">%s</td><td class=\"%s\">%s</td><td>",
            td__size_text(size, n->bytes), n->saved ? "kept" : "again",
            n->saved ? "saved" : "recomputed");
        td__report_text(b, n->why);
        td__buf_add(b, "</td></tr>\n");
    }
    td__buf_add(b, "</table></div>\n");
}
