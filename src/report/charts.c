/* charts.c -- charts of the report as SVG: loss over steps, and memory over time. */
#include "report/report.h"

#include <math.h>
#include <stdio.h>

enum { W = 1040, H = 250, LEFT = 78, RIGHT = 12, TOP = 12, BOTTOM = 28 };

/* Positions in the chart; `part` is from 0 to 1. */
static double place(double part, double from, double to) {
    return from + part * (to - from);
}
static double across(double part) { return place(part, LEFT, W - RIGHT); }
static double up(double part) { return place(part, H - BOTTOM, TOP); }

static void begin(td_buf *b, const char *label) {
    td__buf_printf(b,
                   "<div class=\"wide\"><svg viewBox=\"0 0 %d %d\" role=\"img\" "
                   "aria-label=\"%s\">\n",
                   W, H, label);
}

/* A horizontal line with its label. */
static void rule(td_buf *b, double part, const char *label) {
    td__buf_printf(b,
                   "<line class=\"axis\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>"
                   "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                   LEFT, W - RIGHT, up(part), up(part), LEFT - 8, up(part) + 4, label);
}

/* A label below the chart. */
static void below(td_buf *b, double part, const char *anchor, const char *label) {
    td__buf_printf(b, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"%s\">%s</text>\n",
                   across(part), H - 8, anchor, label);
}

/* ---- the loss ----------------------------------------------------------- */

/* A curve of at most `points` points, each the mean of its values. */
static void path_of(td_buf *b, const char *class, const float *v, int n, int points,
                    double most) {
    if (points > n) points = n;
    td__buf_printf(b, "<path class=\"%s\" d=\"", class);
    for (int i = 0; i < points; i++) {
        int    from = (int)((int64_t)i * n / points);
        int    to = (int)((int64_t)(i + 1) * n / points);
        double sum = 0;
        for (int k = from; k < to; k++) sum += (double)v[k];
        td__buf_printf(b, "%s%.1f %.1f", i ? " " : "M", across((i + 0.5) / points),
                       up(sum / (to - from) / most));
    }
    td__buf_add(b, "\"/>\n");
}

/* The raw curve in many points and a smoothed one in few, both averaged, so that the
 * size of the page does not depend on the number of steps. */
void td__report_loss(td_buf *b, const float *loss, int n) {
    char   label[32];
    double most = 1;
    for (int i = 0; i < n; i++) most = fmax(most, ceil((double)loss[i]));
    begin(b, "loss over steps");
    for (int i = 0; i <= (int)most; i++) {
        snprintf(label, sizeof label, "%d", i);
        rule(b, i / most, label);
    }
    path_of(b, "raw", loss, n, 500, most);
    path_of(b, "curve", loss, n, 100, most);
    snprintf(label, sizeof label, "%d steps", n);
    below(b, 0, "start", "1");
    below(b, 1, "end", label);
    td__buf_add(b, "</svg></div>\n");
}

/* ---- memory ------------------------------------------------------------- */

/* The bytes that are live while a node runs. */
typedef struct moment {
    const char *op;
    int64_t     bytes;
    bool        bwd;
} moment;

/* The moments of forward and backward. */
typedef struct timeline {
    TD_VEC(moment) at;
    int     fwd; /* number of forward moments */
    int64_t most;
    bool    failed;
} timeline;

/* The callback of td__peak_walk. */
static void on_node(void *env, const td_gnode *n, bool bwd, int64_t alive) {
    timeline *t = env;
    moment    m = {td__row(n->op)->name, alive, bwd};
    t->failed |= !td__vec_push(&t->at, m);
    t->fwd += !bwd;
    if (alive > t->most) t->most = alive;
}

/* Fills the timeline of a partition. False after td__fail. */
static bool simulate(timeline *t, const td_halves *h) {
    td_part_opts o = td__part_defaults();
    td_peak      peak;
    return td__peak_walk(h, &o, &peak, on_node, t) &&
           (!t->failed || td__fail_memory(h->cx));
}

/* The start of moment i, from 0 to 1; forward takes the first `split` of the width. */
static double begins(const timeline *t, int i, double split) {
    int bwd = t->at.n - t->fwd;
    if (i < t->fwd) return split * i / t->fwd;
    return bwd ? split + (1 - split) * (i - t->fwd) / bwd : 1;
}

/* A step curve; closed: as an area. */
static void steps_of(td_buf *b, const timeline *t, double split, double most,
                     bool closed) {
    if (closed) td__buf_printf(b, "M%.1f %.1f", across(0), up(0));
    for (int i = 0; i < t->at.n; i++)
        td__buf_printf(b, "%s%.1f %.1fH%.1f", i || closed ? "L" : "M",
                       across(begins(t, i, split)), up((double)t->at.v[i].bytes / most),
                       across(begins(t, i + 1, split)));
    if (closed) td__buf_printf(b, "V%.1fZ", up(0));
}

/* Invisible rectangles with tooltips: which op runs. */
static void hits(td_buf *b, const timeline *t, double split) {
    char size[32];
    for (int i = 0; i < t->at.n; i++) {
        double x = across(begins(t, i, split)), end = across(begins(t, i + 1, split));
        td__buf_printf(b,
                       "<rect class=\"hit\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" "
                       "height=\"%d\"><title>%s %s: %s</title></rect>\n",
                       x, TOP, end - x, H - BOTTOM - TOP,
                       t->at.v[i].bwd ? "backward" : "forward", t->at.v[i].op,
                       td__size_text(size, t->at.v[i].bytes));
    }
}

/* `all` without moments: no second curve. */
static void draw(td_buf *b, const timeline *one, const timeline *all) {
    char   label[32];
    double most = fmax(1, (double)(all->most > one->most ? all->most : one->most));
    double split = (double)one->fwd / one->at.n;
    most *= 1.06;
    begin(b, "bytes alive over the nodes of forward and backward");
    double apart = exp2(ceil(log2(most / 4))); /* powers of two, three to five lines */
    for (double at = 0; at <= most; at += apart)
        rule(b, at / most, td__size_text(label, (int64_t)at));
    td__buf_add(b, "<path class=\"area\" d=\"");
    steps_of(b, one, split, most, true);
    if (all->at.n) {
        td__buf_add(b, "\"/>\n<path class=\"all\" d=\"");
        steps_of(b, all, split, most, false);
    }
    td__buf_add(b, "\"/>\n<path class=\"curve\" d=\"");
    steps_of(b, one, split, most, false);
    td__buf_printf(b,
                   "\"/>\n<line class=\"axis\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" "
                   "y2=\"%d\"/>\n",
                   across(split), across(split), TOP, H - BOTTOM);
    below(b, split / 2, "middle", "forward");
    below(b, (1 + split) / 2, "middle", "backward");
    hits(b, one, split);
    td__buf_add(b, "</svg></div>\n");
}

bool td__report_memory(td_buf *b, const td_halves *chosen, const td_halves *all) {
    timeline one = {0}, most = {0};
    bool     ok = simulate(&one, chosen) && (!all || simulate(&most, all));
    if (ok && one.at.n) draw(b, &one, &most);
    td__vec_free(&one.at);
    td__vec_free(&most.at);
    return ok;
}
