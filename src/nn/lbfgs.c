/* lbfgs.c -- LBFGS: a quasi-Newton step from the last changes of parameters and
 * gradient. It reads values and calls a closure several times, so it is no part of a
 * captured function. Its state is that of the whole group: the parameters one after
 * the other as one vector. Decisions and numbers are PyTorch's. */
#include "nn/lbfgs.h"
#include "core/callback.h"

#include <math.h>

/* The numbers of the state, as f64. */
typedef struct numbers {
    double n_iter, func_evals, t, h_diag, prev_loss;
    double count, first; /* rows of the history in use, the oldest of them */
} numbers;

static td_group *group(const td_lbfgs_run *s) { return &s->o->groups.v[0]; }

/* ---- vectors ------------------------------------------------------------ */

double td__lbfgs_dot(td_tensor *a, td_tensor *b) { return td_item(td_dot(a, b)); }

double td__lbfgs_largest(td_tensor *a) { return td_item(td_amax(td_abs(a), TD_ALL)); }

/* Parameters, or their gradients, as one vector. */
static td_tensor *flat(const td_lbfgs_run *s, bool grads) {
    const td_group *g = group(s);
    td_tensor     **list = td__alloc(sizeof *list * (size_t)g->at.n);
    if (!list) return td__fail_memory(s->cx), td_nil(s->cx);
    for (int i = 0; i < g->at.n; i++) {
        td_tensor *p = g->at.v[i].p, *from = grads ? td_grad_of(p) : p;
        if (td_is_nil(from)) from = td_zeros_like(p);
        list[i] = td_reshape(td_detach(from), TD_DIMS(-1));
    }
    td_tensor *all = td_cat(td__nn_list(list, g->at.n), 0);
    td__free(list);
    return all;
}

/* Calls fn with each parameter and its part of a vector. */
static void each_part(const td_lbfgs_run *s, td_tensor *v, double t,
                      void (*fn)(td_tensor *p, td_tensor *part, double t)) {
    const td_group *g = group(s);
    int64_t         at = 0;
    for (int i = 0; i < g->at.n && td_ok(s->cx); i++) {
        td_tensor *p = g->at.v[i].p;
        fn(p, td_reshape(td_narrow(v, 0, at, td_numel(p)), td_sizes(p)), t);
        at += td_numel(p);
    }
}

static void add_part(td_tensor *p, td_tensor *part, double t) { td_add_(p, part, t); }
static void put_part(td_tensor *p, td_tensor *part, double t) {
    (void)t;
    td_copy_(p, part);
}

void td__lbfgs_move(td_lbfgs_run *s, td_tensor *d, double t) {
    each_part(s, d, t, add_part);
}
void td__lbfgs_put(td_lbfgs_run *s, td_tensor *x) { each_part(s, x, 0, put_part); }

/* ---- the closure -------------------------------------------------------- */

td_tensor *td__closure_call(td_optim *o, td_loss_fn *fn, void *env) {
    td_ctx      *cx = o->cx;
    td_tensor   *loss = NULL;
    td_grad_mode was = td_enable_grad_begin(cx);
    TD_CALLBACK(cx, loss = fn(env));
    td_enable_grad_end(cx, was);
    if (!td_ok(cx) || !td__enter(o, TD_H_OPTIM, "td_optim_step_closure"))
        return td_nil(cx);
    if (loss && td__enter_in(cx, loss, TD_H_TENSOR, "td_optim_step_closure"))
        return loss;
    return td_fail(cx, TD_E_ARG,
                   "td_optim_step_closure: the closure returned no loss; it must "
                   "return the tensor that td_backward was called with");
}

/* The optimizer as it was when the step began? False after td__fail. */
static bool unchanged(const td_lbfgs_run *s) {
    return s->o->revision->nr == s->revision ||
           td__fail(
               s->cx, TD_E_ARG,
               "td_optim_step_closure: the closure added a group to the optimizer");
}

td_on_line td__lbfgs_eval(td_lbfgs_run *s) {
    td_on_line e = {.loss = NAN, .grad = td_nil(s->cx)};
    if (!td_ok(s->cx)) return e;
    td_scope_begin(s->cx, "closure");
    td_tensor *loss = td__closure_call(s->o, s->fn, s->env);
    s->evals++;
    if (td_ok(s->cx) && unchanged(s)) {
        double sign = group(s)->rule.maximize ? -1 : 1;
        e.loss = sign * td_item(loss);
        e.grad = flat(s, true);
        if (sign < 0) e.grad = td_neg(e.grad);
        if (s->evals == 1) s->first = td_item(loss);
        s->dtype = td_dtype_of(loss);
    }
    e.grad = td_scope_end(s->cx, "closure", e.grad);
    return e;
}

/* ---- the direction ------------------------------------------------------ */

/* Row i of the history, from the oldest. */
static td_tensor *row(const td_lbfgs_run *s, td_lbfgs_slot k, const numbers *n, int i) {
    int at = ((int)n->first + i) % group(s)->rule.history_size;
    return td_select(group(s)->flat[k], 0, at);
}

/* Remembers the last step and the change of the gradient, in place of the oldest if
 * there are many. */
static void remember(const td_lbfgs_run *s, numbers *n, td_tensor *grad) {
    td_tensor *y = td_sub(grad, group(s)->flat[TD_L_PREV_GRAD]);
    td_tensor *step = td_mul(group(s)->flat[TD_L_D], n->t);
    double     ys = td__lbfgs_dot(y, step);
    if (!(ys > 1e-10)) return;
    if ((int)n->count == group(s)->rule.history_size)
        n->first = (int)(n->first + 1) % group(s)->rule.history_size;
    else n->count++;
    int last = (int)n->count - 1;
    td_copy_(row(s, TD_L_OLD_DIRS, n, last), y);
    td_copy_(row(s, TD_L_OLD_STPS, n, last), step);
    td_fill_(row(s, TD_L_RO, n, last), 1 / ys);
    n->h_diag = ys / td__lbfgs_dot(y, y);
}

/* The approximate inverse Hessian times -grad (two loops over the history). al:
 * scratch for history_size numbers. */
static td_tensor *newton(const td_lbfgs_run *s, const numbers *n, td_tensor *grad,
                         double *al) {
    td_tensor *q = td_neg(grad);
    int        count = (int)n->count;
    for (int i = count - 1; i >= 0 && td_ok(s->cx); i--) {
        al[i] = td__lbfgs_dot(row(s, TD_L_OLD_STPS, n, i), q) *
                td_item(row(s, TD_L_RO, n, i));
        td_add_(q, row(s, TD_L_OLD_DIRS, n, i), -al[i]);
    }
    td_mul_(q, n->h_diag);
    for (int i = 0; i < count && td_ok(s->cx); i++) {
        double be = td__lbfgs_dot(row(s, TD_L_OLD_DIRS, n, i), q) *
                    td_item(row(s, TD_L_RO, n, i));
        td_add_(q, row(s, TD_L_OLD_STPS, n, i), al[i] - be);
    }
    return q;
}

/* Writes the next direction to the state. */
static void find_direction(const td_lbfgs_run *s, numbers *n, td_tensor *grad,
                           double *al) {
    td_tensor *d = group(s)->flat[TD_L_D];
    td_scope_begin(s->cx, "direction");
    if (n->n_iter++ > 0) {
        remember(s, n, grad);
        td_copy_(d, newton(s, n, grad, al));
    } else {
        n->h_diag = 1;
        td_copy_(d, td_neg(grad));
    }
    td_copy_(group(s)->flat[TD_L_PREV_GRAD], grad);
    td_scope_end(s->cx, "direction", NULL);
}

/* ---- a step ------------------------------------------------------------- */

/* Moves the parameters along the direction. Returns where they are; without a search,
 * the loss and gradient there only if `measure`. */
static td_on_line advance(td_lbfgs_run *s, numbers *n, td_on_line at, int most,
                          bool measure) {
    const td_rule *r = &group(s)->rule;
    td_tensor     *d = group(s)->flat[TD_L_D];
    if (r->strong_wolfe) {
        at = td__strong_wolfe(s, d, at, n->t, flat(s, false), most - s->evals);
        n->t = at.at;
        return at;
    }
    td__lbfgs_move(s, d, n->t);
    return measure ? td__lbfgs_eval(s) : at;
}

/* Iterates until a bound or tolerance is reached. */
static void iterate(td_lbfgs_run *s, numbers *n, td_on_line at, double *al) {
    const td_rule r = group(s)->rule;
    int           most = r.max_eval ? r.max_eval : r.max_iter * 5 / 4;
    double        lr = td_item(group(s)->lr);
    for (int i = 1; i <= r.max_iter && td_ok(s->cx); i++) {
        find_direction(s, n, at.grad, al);
        td_tensor *d = group(s)->flat[TD_L_D];
        double     was = n->prev_loss = at.loss;
        n->t = lr;
        if (n->n_iter == 1) n->t *= fmin(1, 1 / td_item(td_sum(td_abs(at.grad))));
        at.slope = td__lbfgs_dot(at.grad, d);
        if (at.slope > -r.tolerance_change) return;
        at = advance(s, n, at, most, i < r.max_iter);
        if (!td_ok(s->cx) || i == r.max_iter || s->evals >= most) return;
        if (td__lbfgs_largest(at.grad) <= r.tolerance_grad) return;
        if (td__lbfgs_largest(d) * fabs(n->t) <= r.tolerance_change) return;
        if (fabs(at.loss - was) < r.tolerance_change) return;
    }
}

td_tensor *td__lbfgs_step(td_optim *o, td_loss_fn *fn, void *env) {
    td_lbfgs_run  s = {.o = o, .cx = o->cx, .fn = fn, .env = env};
    const td_rule r = o->groups.v[0].rule;
    numbers       n;
    td_tensor    *kept = o->groups.v[0].flat[TD_L_NUMBERS];
    s.revision = o->revision->nr;
    if (!td_read(kept, TD_F64, &n, sizeof n)) return td_nil(s.cx);
    double *al = td__alloc(sizeof *al * (size_t)r.history_size);
    if (!al) return td__fail_memory(s.cx), td_nil(s.cx);
    td_scope_begin(s.cx, "optim");
    td_grad_mode was = td_no_grad_begin(s.cx);
    td_on_line   at = td__lbfgs_eval(&s);
    if (td_ok(s.cx) && !(td__lbfgs_largest(at.grad) <= r.tolerance_grad))
        iterate(&s, &n, at, al);
    if (td_ok(s.cx)) {
        n.func_evals += s.evals;
        td_write(kept, TD_F64, &n, sizeof n);
    }
    td_no_grad_end(s.cx, was);
    td_scope_end(s.cx, "optim", NULL);
    td__free(al);
    return td_ok(s.cx) ? td_full(s.cx, TD_SHAPE(), s.first, s.dtype) : td_nil(s.cx);
}

/* ---- state -------------------------------------------------------------- */

static const char *const names[TD_L_COUNT] = {
    [TD_L_D] = "d",
    [TD_L_PREV_GRAD] = "prev_flat_grad",
    [TD_L_OLD_DIRS] = "old_dirs",
    [TD_L_OLD_STPS] = "old_stps",
    [TD_L_RO] = "ro",
    [TD_L_NUMBERS] = "numbers",
};

const char *td__lbfgs_name(td_lbfgs_slot k) { return names[k]; }

td_tensor *td__lbfgs_make(td_tensors params, const td_rule *r, td_lbfgs_slot k) {
    td_ctx  *cx = td_ctx_of(params.v[0]);
    td_dtype dtype = td_dtype_of(params.v[0]);
    int64_t  n = 0, rows = r->history_size;
    for (int i = 0; i < params.n; i++) n += td_numel(params.v[i]);
    switch (k) {
    case TD_L_D:
    case TD_L_PREV_GRAD: return td_zeros(cx, TD_SHAPE(n), dtype);
    case TD_L_OLD_DIRS:
    case TD_L_OLD_STPS: return td_zeros(cx, TD_SHAPE(rows, n), dtype);
    case TD_L_RO: return td_zeros(cx, TD_SHAPE(rows), TD_F64);
    default: return td_zeros(cx, TD_SHAPE(sizeof(numbers) / sizeof(double)), TD_F64);
    }
}
