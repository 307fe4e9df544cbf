/* demo_net.c -- two spirals, a network of tanh layers, Adam, and a gradient check. */
#include "cli/demo.h"

#include <math.h>
#include <string.h>

static const double TURNS = 2.25, NOISE = 0.012, PI = 3.14159265358979323846;

/* ---- data --------------------------------------------------------------- */

/* Arm 1 is arm 0 turned by half a circle. The square root spreads the points evenly
 * along the arm. */
static td_tensor *spirals(td_ctx *cx, int64_t per_arm) {
    td_tensor *along = td_sqrt(td_rand(cx, TD_SHAPE(per_arm)));
    td_tensor *radius = td_add(td_mul(along, 0.86), 0.08);
    td_tensor *angle = td_mul(along, 2 * PI * TURNS);
    td_tensor *arm =
        td_stack(TD_LIST(td_mul(radius, td_cos(angle)), td_mul(radius, td_sin(angle))),
                 1);
    td_tensor *both = td_cat(TD_LIST(arm, td_neg(arm)));
    return td_add(both, td_mul(td_randn(cx, TD_SHAPE(2 * per_arm, 2)), NOISE));
}

static td_tensor *arms(td_ctx *cx, int64_t per_arm) {
    return td_cat(
        TD_LIST(td_zeros(cx, TD_SHAPE(per_arm)), td_ones(cx, TD_SHAPE(per_arm))));
}

/* ---- the network -------------------------------------------------------- */

static void make_layer(demo *d, int layer, int64_t in, int64_t out) {
    /* the first layer draws wide: the arms are close together, it must tell small
     * differences apart */
    double bound = layer == 0 ? 3 : 1 / sqrt((double)in);
    for (int k = 2 * layer; k < 2 * layer + 2; k++) {
        td_ints    shape = k % 2 ? TD_SHAPE(out) : TD_SHAPE(out, in);
        td_tensor *p = td_uniform_(td_empty(d->cx, shape), -bound, bound);
        d->param[k] = td_requires_grad_(p);
        d->mean[k] = td_zeros_like(p);
        d->square[k] = td_zeros_like(p);
    }
}

static td_tensor *forward(td_tensor *x, td_tensor *const *param) {
    for (int i = 0; i < DEMO_LAYERS; i++) {
        x = td_linear(x, param[2 * i], param[2 * i + 1]);
        if (i < DEMO_LAYERS - 1) x = td_tanh(x);
    }
    return td_flatten(x);
}

bool demo_open(demo *d, int64_t points, int64_t hidden, int64_t steps, int64_t seed) {
    memset(d, 0, sizeof *d);
    d->cx = td_open();
    if (!d->cx) return false;
    d->steps = steps;
    td_seed(d->cx, (uint64_t)seed);
    d->x = spirals(d->cx, points / 2);
    d->y = arms(d->cx, points / 2);
    d->fresh = spirals(d->cx, 1000);
    d->fresh_y = arms(d->cx, 1000);
    make_layer(d, 0, 2, hidden);
    make_layer(d, 1, hidden, hidden);
    make_layer(d, 2, hidden, 1);
    return td_ok(d->cx);
}

void demo_close(demo *d) {
    if (d->cx) td_close(d->cx);
    d->cx = NULL;
}

int64_t demo_numel(const demo *d) {
    int64_t n = 0;
    for (int i = 0; i < DEMO_PARAMS; i++) n += td_numel(d->param[i]);
    return n;
}

/* ---- training ----------------------------------------------------------- */

/* Adam, its rate falling to zero along half a cosine. */
static void update(demo *d, int i) {
    double     t = (double)d->step, decay = 1 + cos(PI * t / (double)d->steps);
    double     rate = 0.0015 * decay * sqrt(1 - pow(0.999, t)) / (1 - pow(0.9, t));
    td_tensor *p = d->param[i], *g = td_grad_of(p);
    td_add_(td_mul_(d->mean[i], 0.9), g, 0.1);
    td_addcmul_(td_mul_(d->square[i], 0.999), g, g, 0.001);
    td_addcdiv_(p, d->mean[i], td_add(td_sqrt(d->square[i]), 1e-8), -rate);
    td_zero_grad(p);
}

double demo_step(demo *d) {
    td_scope_begin(d->cx, "step"); /* what a step makes, dies with it */
    td_tensor *loss = td_bce_with_logits(forward(d->x, d->param), d->y);
    td_backward(loss);
    td_grad_mode was = td_no_grad_begin(d->cx);
    d->step++;
    for (int i = 0; i < DEMO_PARAMS; i++) update(d, i);
    double value = td_item(loss);
    td_no_grad_end(d->cx, was);
    td_scope_end(d->cx, "step", NULL);
    return td_ok(d->cx) ? value : (double)NAN;
}

double demo_accuracy(demo *d, bool fresh) {
    td_grad_mode was = td_no_grad_begin(d->cx);
    td_scope_begin(d->cx, "accuracy");
    td_tensor *score = forward(fresh ? d->fresh : d->x, d->param);
    td_tensor *right = td_eq(td_gt(score, 0), td_gt(fresh ? d->fresh_y : d->y, 0.5));
    double     part = td_item(td_mean(td_to(right, TD_F64)));
    td_scope_end(d->cx, "accuracy", NULL);
    td_no_grad_end(d->cx, was);
    return td_ok(d->cx) ? part : (double)NAN;
}

bool demo_map(demo *d, float *p, int size) {
    td_grad_mode was = td_no_grad_begin(d->cx);
    td_scope_begin(d->cx, "map");
    double     edge = 1 - 1.0 / size; /* pixels are looked at in their middle */
    td_tensor *line = td_linspace(d->cx, -edge, edge, size);
    td_ints    grid = TD_SHAPE(size, size);
    td_tensor *x = td_expand(line, grid);
    td_tensor *y = td_expand(td_unsqueeze(td_neg(line), 1), grid);
    td_tensor *at = td_stack(TD_LIST(td_flatten(x), td_flatten(y)), 1);
    td_read(td_sigmoid(forward(at, d->param)), TD_F32, p,
            sizeof *p * (size_t)size * (size_t)size);
    td_scope_end(d->cx, "map", NULL);
    td_no_grad_end(d->cx, was);
    return td_ok(d->cx);
}

/* ---- gradients against differences -------------------------------------- */

/* The loss on a few points, in f64. */
typedef struct probe {
    td_ctx    *cx;
    td_tensor *x, *y, *param[DEMO_PARAMS];
} probe;

static double loss_at(probe *q) {
    td_scope_begin(q->cx, "probe");
    double loss = td_item(td_bce_with_logits(forward(q->x, q->param), q->y));
    td_scope_end(q->cx, "probe", NULL);
    return loss;
}

/* Writes behind Tandem's back, which td_bump makes known. */
static double slope_at(probe *q, td_tensor *p, int64_t i) {
    const double h = 1e-4;
    double      *at = (double *)td_data(p) + i, was = *at;
    double       f[4];
    for (int k = 0; k < 4; k++) {
        static const double step[] = {-2, -1, 1, 2};
        *at = was + step[k] * h;
        td_bump(p);
        f[k] = loss_at(q);
    }
    *at = was;
    td_bump(p);
    return (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h);
}

static bool make_probe(demo *d, probe *q, td_tensor **grad) {
    /* a trained network is right about most points and their gradients vanish:
     * every other point counts for the wrong arm here */
    td_tensor *x = td_slice(d->fresh, 0, 0, 2000, 40), *all = td_arange(d->cx, 0, 50);
    q->cx = d->cx;
    q->x = td_to(x, TD_F64);
    q->y = td_to(td_remainder(all, 2), TD_F64);
    for (int i = 0; i < DEMO_PARAMS; i++)
        q->param[i] = td_requires_grad_(td_to(td_detach(d->param[i]), TD_F64));
    td_tensor *loss = td_bce_with_logits(forward(q->x, q->param), q->y);
    return td_grad(TD_LIST(loss), (td_tensors){q->param, DEMO_PARAMS}, grad, NULL);
}

static double largest(td_tensor *const *grad) {
    double most = 0;
    for (int i = 0; i < DEMO_PARAMS; i++)
        most = fmax(most, td_item(td_amax(td_abs(grad[i]))));
    return most;
}

double demo_check(demo *d, void (*each)(void *env, int64_t done), void *env) {
    probe      q;
    td_tensor *grad[DEMO_PARAMS];
    double     worst = 0;
    int64_t    done = 0;
    td_scope_begin(d->cx, "check");
    bool         ok = make_probe(d, &q, grad);
    td_grad_mode was = td_no_grad_begin(d->cx);
    double       floor = ok ? largest(grad) * 1e-3 : 0;
    for (int i = 0; i < DEMO_PARAMS && td_ok(d->cx); i++) {
        const double *g = td_data(td_contiguous(grad[i]));
        for (int64_t k = 0; k < td_numel(q.param[i]) && td_ok(d->cx); k++) {
            double slope = slope_at(&q, q.param[i], k);
            double size = fmax(fmax(fabs(slope), fabs(g[k])), floor);
            double error = fabs(slope - g[k]) / size;
            worst = error > worst || isnan(error) ? error : worst;
            if (each) each(env, ++done);
        }
    }
    td_no_grad_end(d->cx, was);
    td_scope_end(d->cx, "check", NULL);
    return td_ok(d->cx) ? worst : (double)NAN;
}
