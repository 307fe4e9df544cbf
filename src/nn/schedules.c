/* schedules.c -- learning rates as functions of the step, with the numbers of
 * torch.optim.lr_scheduler. */
#include "nn/nn.h"
#include "tandem/optim.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

/* Progress from 0 to 1, clamped. */
static double progress(int64_t step, int64_t steps) {
    if (step >= steps) return 1;
    return step <= 0 ? 0 : (double)step / (double)steps;
}

/* Half a cosine from one value to another. */
static double cosine(double along, double from, double to) {
    return to + (from - to) * (1 + cos(pi * along)) / 2;
}

static double straight(double along, double from, double to) {
    return from + (to - from) * along;
}

double td_lr_linear(int64_t step, int64_t steps, double from, double to) {
    return straight(progress(step, steps), from, to);
}

double td_lr_cosine(int64_t step, int64_t steps, double from, double to) {
    return cosine(progress(step, steps), from, to);
}

double td_lr_warmup(int64_t step, int64_t warm, double lr) {
    return lr * progress(step + 1, warm);
}

double td_lr_warmup_cosine(int64_t step, int64_t warm, int64_t steps, double lr,
                           double to) {
    if (step < warm) return td_lr_warmup(step, warm, lr);
    return td_lr_cosine(step - warm, steps - warm, lr, to);
}

double td_lr_steps(int64_t step, int64_t every, double gamma, double lr) {
    if (step <= 0 || every <= 0) return lr;
    return lr * pow(gamma, (double)(step / every));
}

double td_lr_multi_step(int64_t step, td_ints milestones, double gamma, double lr) {
    int passed = 0;
    for (int i = 0; milestones.v && i < milestones.n; i++)
        passed += milestones.v[i] <= step;
    return lr * pow(gamma, passed);
}

double td_lr_exponential(int64_t step, double gamma, double lr) {
    return lr * pow(gamma, step < 0 ? 0 : (double)step);
}

double td_lr_constant(int64_t step, int64_t steps, double factor, double lr) {
    return step < steps ? lr * factor : lr;
}

double td_lr_polynomial(int64_t step, int64_t steps, double power, double lr) {
    return lr * pow(1 - progress(step, steps), power);
}

double td_lr_cosine_annealing(int64_t step, int64_t half, double lr, double to) {
    if (half <= 0) return lr;
    return cosine((double)(step < 0 ? 0 : step) / (double)half, lr, to);
}

double td_lr_cosine_restarts(int64_t step, int64_t first, int64_t mult, double lr,
                             double to) {
    int64_t at = step < 0 ? 0 : step, length = first;
    if (first <= 0 || mult <= 0) return lr;
    if (mult == 1) at %= length;
    while (at >= length) {
        at -= length;
        if (length > INT64_MAX / mult) break;
        length *= mult;
    }
    return cosine((double)at / (double)length, lr, to);
}

/* ---- one cycle ---------------------------------------------------------- */

double td_lr_one_cycle(int64_t step, int64_t steps, double lr) {
    return td_lr_one_cycle_with(step, steps, lr, NULL);
}

/* In steps: up from the first rate, down to the last; three_phase: down to the first
 * rate as fast as up, then to the last. */
double td_lr_one_cycle_with(int64_t step, int64_t steps, double lr,
                            const td_lr_one_cycle_opts *opts) {
    td_lr_one_cycle_opts o = {TD_LR_ONE_CYCLE_OPTS};
    if (opts && opts->td_lr_one_cycle_opts_size != sizeof o) return NAN;
    if (opts) o = *opts;
    double first = lr / (o.div_factor > 0 ? o.div_factor : 25);
    double last = first / (o.final_div_factor > 0 ? o.final_div_factor : 1e4);
    double up = (o.pct_start > 0 ? o.pct_start : 0.3) * (double)steps - 1;
    double end = (double)steps - 1, down = o.three_phase ? 2 * up : end;
    double at = (double)(step < 0 ? 0 : step >= steps ? steps - 1 : step);
    double (*curve)(double, double, double) = o.linear ? straight : cosine;
    double low = o.three_phase ? first : last;
    if (at <= up) return curve(up > 0 ? at / up : 1, first, lr);
    if (at <= down) return curve((at - up) / (down - up), lr, low);
    return curve((at - down) / (end - down), first, last);
}

/* ---- cycles ------------------------------------------------------------- */

/* The height of a cycle. */
static double height(const td_lr_cyclic_opts *o, int64_t step, double cycle) {
    switch (o->mode) {
    case TD_CYCLIC_TRIANGULAR2: return pow(0.5, cycle);
    case TD_CYCLIC_EXP_RANGE: return pow(o->gamma > 0 ? o->gamma : 1, (double)step);
    default: return 1;
    }
}

double td_lr_cyclic(int64_t step, double base, double most,
                    const td_lr_cyclic_opts *opts) {
    td_lr_cyclic_opts o = {TD_LR_CYCLIC_OPTS};
    if (opts && opts->td_lr_cyclic_opts_size != sizeof o) return NAN;
    if (opts) o = *opts;
    double up = o.up > 0 ? (double)o.up : 2000, down = o.down > 0 ? (double)o.down : up;
    double at = (double)(step < 0 ? 0 : step), cycle = floor(at / (up + down));
    double in = at - cycle * (up + down);
    double along = in <= up ? in / up : 1 - (in - up) / down;
    return base + (most - base) * along * height(&o, step < 0 ? 0 : step, cycle);
}

/* ---- plateaus ----------------------------------------------------------- */

td_plateau td_lr_plateau(void) {
    return (td_plateau){
        .factor = 0.1, .threshold = 1e-4, .eps = 1e-8, .patience = 10, .best = NAN};
}

/* Is the metric better than the best one? Any is better than none. */
static bool improves(const td_plateau *p, double metric) {
    double sign = p->maximize ? -1 : 1;
    if (isnan(p->best)) return sign * metric < INFINITY;
    double room = p->absolute ? p->threshold : p->best * p->threshold;
    return sign * metric < sign * p->best - room;
}

double td_lr_plateau_step(td_plateau *p, double metric, double lr) {
    if (!p) return NAN;
    if (improves(p, metric)) {
        p->best = metric;
        p->bad = 0;
    } else {
        p->bad++;
    }
    if (p->cooling > 0) {
        p->cooling--;
        p->bad = 0;
    }
    if (p->bad <= p->patience) return lr;
    p->cooling = p->cooldown;
    p->bad = 0;
    double next = fmax(lr * p->factor, p->min_lr);
    return lr - next > p->eps ? next : lr;
}
