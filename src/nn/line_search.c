/* line_search.c -- the line search of LBFGS: it brackets a place that satisfies the
 * strong Wolfe conditions, then narrows the bracket by cubic interpolation. Decisions
 * and numbers are PyTorch's. */
#include "nn/lbfgs.h"

#include <math.h>

static const double c1 = 1e-4, c2 = 0.9;

/* A search in progress: the bracket's ends; only ends[0] if n is 1. */
typedef struct search {
    td_lbfgs_run *s;
    td_tensor    *d, *start; /* direction; the parameters at the start */
    td_on_line    from, ends[2];
    int           n, done, iter, most;
} search;

/* The loss and slope at t; the parameters are those of the start afterwards. */
static td_on_line look(search *w, double t) {
    td__lbfgs_move(w->s, w->d, t);
    td_on_line e = td__lbfgs_eval(w->s);
    td__lbfgs_put(w->s, w->start);
    e.at = t;
    e.slope = td_ok(w->s->cx) ? td__lbfgs_dot(e.grad, w->d) : NAN;
    return e;
}

static double between(double v, double low, double high) {
    return fmin(fmax(v, low), high);
}

/* The minimum of the cubic through a and b with their slopes; the middle if it has
 * none. */
static double cubic(const td_on_line *a, const td_on_line *b, double low, double high) {
    double d1 = a->slope + b->slope - 3 * (a->loss - b->loss) / (a->at - b->at);
    double square = d1 * d1 - a->slope * b->slope, wide = b->at - a->at, d2;
    if (!(square >= 0)) return (low + high) / 2;
    d2 = sqrt(square);
    if (a->at <= b->at)
        return between(b->at - wide * ((b->slope + d2 - d1) /
                                       (b->slope - a->slope + 2 * d2)),
                       low, high);
    return between(a->at +
                       wide * ((a->slope + d2 - d1) / (a->slope - b->slope + 2 * d2)),
                   low, high);
}

/* Is the loss at e not low enough? */
static bool too_high(const search *w, const td_on_line *e, double bound) {
    return e->loss > w->from.loss + c1 * e->at * w->from.slope || e->loss >= bound;
}

static bool is_flat(const search *w, const td_on_line *e) {
    return fabs(e->slope) <= -c2 * w->from.slope;
}

static void set_ends(search *w, td_on_line a, td_on_line b, int n) {
    w->ends[0] = a;
    w->ends[1] = b;
    w->n = n;
}

/* Goes along the line until a bracket contains a place. */
static void bracket(search *w, double t) {
    td_on_line was = w->from, now = look(w, t);
    for (; td_ok(w->s->cx) && w->iter < w->most; w->iter++) {
        bool rises = too_high(w, &now, w->iter > 1 ? was.loss : INFINITY);
        if (!rises && is_flat(w, &now)) {
            w->done = 1;
            set_ends(w, now, now, 1);
            return;
        }
        if (rises || now.slope >= 0) {
            set_ends(w, was, now, 2);
            return;
        }
        double next = cubic(&was, &now, now.at + 0.01 * (now.at - was.at), now.at * 10);
        was = now;
        now = look(w, next);
    }
    set_ends(w, w->from, now, 2);
}

/* The next place inside the bracket. *slow: the last ones made little progress, being
 * near an end; then a place well inside. */
static double inside(const search *w, bool *slow) {
    double low = fmin(w->ends[0].at, w->ends[1].at);
    double high = fmax(w->ends[0].at, w->ends[1].at), eps = 0.1 * (high - low);
    double t = cubic(&w->ends[0], &w->ends[1], low, high);
    bool   near_end = fmin(high - t, t - low) < eps, again = *slow;
    *slow = near_end && !(again || t >= high || t <= low);
    if (!near_end || *slow) return t;
    return fabs(t - high) < fabs(t - low) ? high - eps : low + eps;
}

/* Which end is lower. */
static int lower(const search *w) {
    return w->ends[0].loss <= w->ends[w->n - 1].loss ? 0 : 1;
}

/* Narrows the bracket; returns the number of its lower end. */
static int narrow(search *w, double tolerance) {
    int    low = lower(w);
    bool   slow = false;
    double reach = td__lbfgs_largest(w->d);
    while (!w->done && w->iter < w->most && td_ok(w->s->cx)) {
        if (fabs(w->ends[1].at - w->ends[0].at) * reach < tolerance) break;
        td_on_line e = look(w, inside(w, &slow));
        w->iter++;
        if (too_high(w, &e, w->ends[low].loss)) {
            w->ends[1 - low] = e;
            low = lower(w);
            continue;
        }
        if (is_flat(w, &e)) w->done = 1;
        else if (e.slope * (w->ends[1 - low].at - w->ends[low].at) >= 0)
            w->ends[1 - low] = w->ends[low];
        w->ends[low] = e;
    }
    return low;
}

td_on_line td__strong_wolfe(td_lbfgs_run *s, td_tensor *d, td_on_line from, double t,
                            td_tensor *start, int most) {
    search w = {.s = s, .d = d, .start = start, .from = from, .most = most};
    from.at = w.from.at = 0;
    bracket(&w, t);
    td_on_line found = w.ends[narrow(&w, s->o->groups.v[0].rule.tolerance_change)];
    if (td_ok(s->cx)) td__lbfgs_move(s, d, found.at);
    return found;
}
