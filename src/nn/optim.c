/* optim.c -- optimizers: groups of parameters, steps, accumulated gradients. rules.c
 * has the update rules, optim_state.c saves and loads. */
#include "nn/optim.h"
#include "core/readonly.h"

#include <math.h>
#include <stdio.h>

/* ---- making and freeing ------------------------------------------------- */

static void drop(td_tensor *t) {
    if (t) td__drop_as(t, TD_RELEASED_OWNER);
}

static void free_group(td_group *g) {
    for (int i = 0; i < g->at.n; i++) {
        for (int k = 0; k < TD_S_COUNT; k++) drop(g->at.v[i].state[k]);
        drop(g->at.v[i].p);
    }
    drop(g->lr);
    drop(g->steps);
    td__vec_free(&g->at);
}

static void end(void *object) {
    td_optim *o = object;
    for (int i = 0; i < o->groups.n; i++) free_group(&o->groups.v[i]);
    td__vec_free(&o->groups);
    td__vec_free(&o->grads);
    td__revision_end(o->revision);
    td__handle_free(o, TD_H_OPTIM);
}

td_optim *td_optim_make(td_ctx *cx) {
    if (!TD_ENTER_CTX(cx) || !td_ok(cx)) return TD_NIL(cx, OPTIM);
    td_optim *o = td__handle_make(cx, TD_H_OPTIM, sizeof *o);
    if (!o) return TD_NIL(cx, OPTIM);
    td__handle_own(o, end);
    if ((o->revision = td__revision_make())) return o;
    td__fail_memory(cx);
    td_optim_free(o);
    return TD_NIL(cx, OPTIM);
}

void td_optim_free(td_optim *o) {
    if (!TD_MAY_FREE(o, OPTIM)) return;
    td__handle_disown(o);
    end(o);
}

/* ---- groups ------------------------------------------------------------- */

static bool has_param(const td_optim *o, const td_tensor *p) {
    for (int i = 0; i < o->groups.n; i++)
        for (int k = 0; k < o->groups.v[i].at.n; k++)
            if (o->groups.v[i].at.v[k].p == p) return true;
    return false;
}

/* May parameter nr join a group with this rule? False after td__fail. */
static bool check_param(td_optim *o, td_tensors ps, int nr, const td_rule *r) {
    static const char who[] = "td_optim_add";
    td_tensor        *p = ps.v[nr];
    bool              repeated = false;
    if (!td__enter_in(o->cx, p, TD_H_TENSOR, who)) return false;
    if (td_ctx_of(p) != o->cx)
        return td__fail(o->cx, TD_E_ARG, "%s: parameter %d belongs to another context",
                        who, nr);
    if (TD_IS_KEPT(p)) return td__fail_kept(o->cx, who, p);
    if (!td_dtype_is_float(td_dtype_of(p)))
        return td__fail(o->cx, TD_E_DTYPE,
                        "%s: parameter %d is %s; it must have a float dtype", who, nr,
                        td__type_str(p));
    if (!td_is_leaf(p))
        return td__fail(o->cx, TD_E_GRAD,
                        "%s: parameter %d is a result of %s; only leaves can be "
                        "optimized",
                        who, nr, td__made_by(p));
    if (r->kind == TD_RULE_MUON && td_rank(p) != 2)
        return td__fail(o->cx, TD_E_SHAPE,
                        "%s: parameter %d is %s, but Muon takes matrices only; put it "
                        "into a group with another rule",
                        who, nr, td__type_str(p));
    for (int i = 0; i < nr; i++) repeated |= ps.v[i] == p;
    if (!repeated && !has_param(o, p)) return true;
    return td__fail(o->cx, TD_E_ARG,
                    "%s: parameter %d is in a group of this optimizer already", who,
                    nr);
}

/* t with a reference of its own; NULL for nil. */
static td_tensor *owned(td_tensor *t) { return td_is_nil(t) ? NULL : td_keep(t); }

/* Adds a parameter with its initial state. False after td__fail. */
static bool fill_param(td_optim *o, td_group *g, td_tensor *p) {
    td_trained t = {.p = td_keep(p)};
    unsigned   slots = td__rule_slots(&g->rule) | (o->sums ? 1u << TD_S_GRAD_SUM : 0);
    bool       ok = true;
    for (int k = 0; k < TD_S_COUNT; k++) {
        if (!(slots >> k & 1)) continue;
        double first = k == TD_S_SUM ? g->rule.initial : 0;
        t.state[k] = owned(td_full_like(p, first));
        ok &= t.state[k] != NULL;
    }
    if (ok && td__vec_push(&g->at, t)) return true;
    for (int k = 0; k < TD_S_COUNT; k++) drop(t.state[k]);
    drop(t.p);
    return ok ? td__fail_memory(o->cx) : false;
}

/* Adds the parameters, the rate and the step counts. False after td__fail. */
static bool fill_group(td_optim *o, td_group *g, td_tensors params) {
    g->lr = owned(td_full(o->cx, TD_SHAPE(), g->rule.lr, TD_F64));
    g->steps = owned(td_zeros(o->cx, TD_SHAPE(params.n), TD_F64));
    bool ok = g->lr && g->steps;
    for (int i = 0; ok && i < params.n; i++)
        ok = fill_param(o, g, params.v[i]) &&
             (td__vec_push(&o->grads, NULL) || td__fail_memory(o->cx));
    return ok;
}

int td_optim_add(td_optim *o, td_tensors params, td_rule rule) {
    if (!TD_ENTER(o, OPTIM)) return -1;
    td_group g = {.rule = rule};
    int      n_grads = o->grads.n;
    if (!td_ok(o->cx) || !td__rule_check(o->cx, &rule) ||
        !td__has_list(o->cx, "td_optim_add", params.v, params.n))
        return -1;
    if (!td__may_change(o->cx, "td_optim_add", "an optimizer")) return -1;
    for (int i = 0; i < params.n; i++)
        if (!check_param(o, params, i, &rule)) return -1;
    td_grad_mode was = td_no_grad_begin(o->cx);
    td_scope_begin(o->cx, "td_optim_add");
    bool ok = fill_group(o, &g, params);
    td_scope_end(o->cx, "td_optim_add", NULL);
    td_no_grad_end(o->cx, was);
    if (ok && !td__vec_push(&o->groups, g)) ok = td__fail_memory(o->cx);
    if (ok) {
        o->revision->nr++;
        return o->groups.n - 1;
    }
    o->grads.n = n_grads;
    free_group(&g);
    return -1;
}

td_optim *td_optim_module(td_module *m, td_rule rule) {
    if (!TD_ENTER(m, MODULE)) return TD_NIL_BY(m, OPTIM);
    td_ctx *cx = td_module_ctx(m);
    if (!td__may_read(cx, "td_optim_module", "the parameters of a module"))
        return TD_NIL(cx, OPTIM);
    int         n = td_module_parameters(m, NULL, 0);
    td_tensor **params = n < 0 ? NULL : td__alloc(sizeof *params * ((size_t)n + 1));
    if (!params) {
        if (n >= 0) td__fail_memory(cx);
        return TD_NIL(cx, OPTIM);
    }
    n = td_module_parameters(m, params, n);
    td_optim *o = n < 0 ? TD_NIL(cx, OPTIM) : td_optim_make(cx);
    if (!td_is_nil(o) && td_optim_add(o, (td_tensors){params, n}, rule) < 0) {
        td_optim_free(o);
        o = TD_NIL(cx, OPTIM);
    }
    td__free(params);
    return o;
}

int td_optim_groups(const td_optim *o) {
    if (!TD_ENTER(o, OPTIM)) return 0;
    (void)td__optim_used(o);
    return o->groups.n;
}

/* Does the group exist? False after td__fail. */
static bool check_group(const td_optim *o, const char *who, int group) {
    return (group >= 0 && group < o->groups.n) ||
           td__fail(o->cx, TD_E_ARG, "%s: there is no group %d; the optimizer has %d",
                    who, group, o->groups.n);
}

td_rule td_optim_rule(const td_optim *o, int group) {
    if (!TD_ENTER(o, OPTIM)) return (td_rule){0};
    if (!td__optim_used(o) || !check_group(o, "td_optim_rule", group))
        return (td_rule){0};
    return o->groups.v[group].rule;
}

int td_optim_params(const td_optim *o, td_tensor **out, int cap) {
    if (!TD_ENTER(o, OPTIM)) return 0;
    if (cap < 0 && !td__no_room(o->cx, "td_optim_params", cap)) return 0;
    int n = 0;
    (void)td__optim_used(o);
    for (int i = 0; i < o->groups.n; i++)
        for (int k = 0; k < o->groups.v[i].at.n; k++, n++)
            if (out && n < cap) out[n] = o->groups.v[i].at.v[k].p;
    return n;
}

bool td_optim_set_lr(td_optim *o, int group, double lr) {
    if (!TD_ENTER(o, OPTIM)) return false;
    static const char who[] = "td_optim_set_lr";
    if (!td_ok(o->cx) || (group != -1 && !check_group(o, who, group))) return false;
    if (!(lr >= 0 && lr < INFINITY))
        return td__fail(o->cx, TD_E_ARG,
                        "%s: lr is %g; it must be finite and at least 0", who, lr);
    td_grad_mode was = td_no_grad_begin(o->cx);
    for (int i = 0; i < o->groups.n; i++)
        if (group == -1 || group == i) td_fill_(o->groups.v[i].lr, lr);
    td_no_grad_end(o->cx, was);
    return td_ok(o->cx);
}

double td_optim_lr(const td_optim *o, int group) {
    if (!TD_ENTER(o, OPTIM)) return NAN;
    static const char who[] = "td_optim_lr";
    return td__may_read(o->cx, who, "a learning rate") && check_group(o, who, group)
               ? td_item(o->groups.v[group].lr)
               : NAN;
}

/* ---- gradients ---------------------------------------------------------- */

bool td__optim_grads(td_optim *o) {
    if (!td_ok(o->cx) || !td__optim_used(o)) return false;
    int n = td_optim_params(o, o->grads.v, o->grads.n);
    for (int i = 0; i < n; i++) {
        td_tensor *g = td_grad_of(o->grads.v[i]);
        o->grads.v[i] = td_is_nil(g) ? NULL : g;
    }
    return td_ok(o->cx);
}

/* Equal dtype and sizes? Symbolic sizes are left to the ops of the step: comparing
 * them here would specialize the capture. */
static bool same_type(const td_tensor *a, const td_tensor *b) {
    bool same = a->rank == b->rank && a->dtype == b->dtype;
    for (int d = 0; same && d < a->rank; d++)
        same = a->size[d] == b->size[d] || td__dim_is_sym(a->size[d]) ||
               td__dim_is_sym(b->size[d]);
    return same;
}

/* Has the gradient its parameter's type? False after td__fail. */
static bool check_grad(td_optim *o, const char *who, int nr, td_tensor *p,
                       td_tensor *g) {
    if (same_type(g, p)) return true;
    char is[128];
    snprintf(is, sizeof is, "%s", td__type_str(g));
    return td__fail(o->cx, TD_E_SHAPE,
                    "%s: the gradient of parameter %d is %s, the parameter %s", who, nr,
                    is, td__type_str(p));
}

/* Checks the caller's gradients and copies them to o->grads. False after td__fail. */
static bool take_grads(td_optim *o, const char *who, td_tensors grads) {
    int n = td_optim_params(o, o->grads.v, o->grads.n);
    if (!td_ok(o->cx)) return false;
    if (grads.n != n)
        return td__fail(o->cx, TD_E_ARG,
                        "%s: %d gradients were passed for %d parameters", who, grads.n,
                        n);
    if (!td__has_list(o->cx, who, grads.v, grads.n)) return false;
    for (int i = 0; i < n; i++) {
        td_tensor *g = td_is_nil(grads.v[i]) ? NULL : grads.v[i];
        if (g && !check_grad(o, who, i, o->grads.v[i], g)) return false;
        o->grads.v[i] = g;
    }
    return true;
}

/* ---- stepping ----------------------------------------------------------- */

/* Can parameter nr be updated with gradient g? Its state and gradient must have its
 * type, which td_module_to may have changed since. False after td__fail. */
static bool check_state(td_optim *o, const char *who, int nr, const td_trained *t,
                        const td_tensor *g) {
    const char      *what = g && !same_type(t->p, g) ? "gradient" : NULL;
    const td_tensor *other = g;
    char             p[128] = "", is[128] = "";
    if (t->p->st->readonly)
        return td__fail(o->cx, TD_E_ARG,
                        "%s: parameter %d " TD_READONLY "; give the optimizer a clone "
                        "of it (td_clone)",
                        who, nr);
    for (int k = 0; !what && k < TD_S_COUNT; k++)
        if (t->state[k] && !same_type(t->p, t->state[k])) {
            what = td__slot_names[k];
            other = t->state[k];
        }
    if (what) {
        snprintf(p, sizeof p, "%s", td__type_str(t->p));
        snprintf(is, sizeof is, "%s", td__type_str(other));
    }
    return !what ||
           td__fail(o->cx, TD_E_DTYPE,
                    "%s: %s of parameter %d is %s, but the parameter is %s; create the "
                    "optimizer and compute gradients after td_module_to",
                    who, what, nr, is, p);
}

/* Everything that can fail in a step, except memory, is checked before anything is
 * written. */
static bool check_step(td_optim *o, const char *who) {
    for (int i = 0, at = 0; i < o->groups.n; i++)
        for (int k = 0; k < o->groups.v[i].at.n; k++, at++)
            if (o->grads.v[at] &&
                !check_state(o, who, at, &o->groups.v[i].at.v[k], o->grads.v[at]))
                return false;
    return true;
}

/* Updates all parameters with the gradients in o->grads. False after td__fail. */
static bool step(td_optim *o, const char *who) {
    if (!check_step(o, who) || !td__optim_used(o)) return false;
    int          at = 0;
    td_grad_mode was = td_no_grad_begin(o->cx);
    td_scope_begin(o->cx, "optim");
    for (int i = 0; i < o->groups.n && td_ok(o->cx); i++) {
        td__rule_step(&o->groups.v[i], o->grads.v + at);
        at += o->groups.v[i].at.n;
    }
    td_scope_end(o->cx, "optim", NULL);
    td_no_grad_end(o->cx, was);
    return td_ok(o->cx);
}

bool td_optim_step(td_optim *o) {
    if (!TD_ENTER(o, OPTIM)) return false;
    return td__optim_grads(o) && step(o, "td_optim_step");
}

bool td_optim_step_with(td_optim *o, td_tensors grads) {
    if (!TD_ENTER(o, OPTIM)) return false;
    return take_grads(o, "td_optim_step_with", grads) && step(o, "td_optim_step_with");
}

void td_optim_zero_grad(td_optim *o) {
    if (!TD_ENTER(o, OPTIM) || !td__optim_used(o)) return;
    for (int i = 0; i < o->groups.n; i++)
        for (int k = 0; k < o->groups.v[i].at.n; k++)
            td_zero_grad(o->groups.v[i].at.v[k].p);
}

/* ---- accumulated gradients ---------------------------------------------------- */

/* Makes the accumulator of a parameter, if missing. */
static void add_sum(td_trained *t) {
    if (!t->state[TD_S_GRAD_SUM]) t->state[TD_S_GRAD_SUM] = owned(td_zeros_like(t->p));
}

bool td_optim_make_sums(td_optim *o) {
    if (!TD_ENTER(o, OPTIM)) return false;
    if (!td_ok(o->cx)) return false;
    if (!td__may_change(o->cx, "td_optim_make_sums", "an optimizer")) return false;
    td_grad_mode was = td_no_grad_begin(o->cx);
    td_scope_begin(o->cx, "td_optim_make_sums");
    for (int i = 0; i < o->groups.n; i++)
        for (int k = 0; k < o->groups.v[i].at.n; k++) add_sum(&o->groups.v[i].at.v[k]);
    td_scope_end(o->cx, "td_optim_make_sums", NULL);
    td_no_grad_end(o->cx, was);
    return o->sums = td_ok(o->cx);
}

/* Copies pointers to the accumulators to out. False after td__fail. */
static bool list_sums(td_optim *o, const char *who, td_tensor **out) {
    int n = 0;
    if (!td_ok(o->cx)) return false;
    if (!o->sums)
        return td__fail(o->cx, TD_E_ARG,
                        "%s: there are no gradient sums; call td_optim_make_sums first",
                        who);
    for (int i = 0; i < o->groups.n; i++)
        for (int k = 0; k < o->groups.v[i].at.n; k++)
            out[n++] = o->groups.v[i].at.v[k].state[TD_S_GRAD_SUM];
    return true;
}

bool td_optim_add_to_sums(td_optim *o, td_tensors grads, double scale) {
    if (!TD_ENTER(o, OPTIM)) return false;
    static const char who[] = "td_optim_add_to_sums";
    int               at = 0;
    if (!td_ok(o->cx) || !list_sums(o, who, o->grads.v) || !take_grads(o, who, grads))
        return false;
    td_grad_mode was = td_no_grad_begin(o->cx);
    for (int i = 0; i < o->groups.n; i++)
        for (int k = 0; k < o->groups.v[i].at.n; k++, at++)
            if (o->grads.v[at])
                td_add_(o->groups.v[i].at.v[k].state[TD_S_GRAD_SUM], o->grads.v[at],
                        scale);
    td_no_grad_end(o->cx, was);
    return td_ok(o->cx);
}

bool td_optim_step_sums(td_optim *o) {
    if (!TD_ENTER(o, OPTIM)) return false;
    static const char who[] = "td_optim_step_sums";
    if (!list_sums(o, who, o->grads.v) || !step(o, who)) return false;
    td_grad_mode was = td_no_grad_begin(o->cx);
    for (int i = 0; i < o->grads.n; i++) td_zero_(o->grads.v[i]);
    td_no_grad_end(o->cx, was);
    return td_ok(o->cx);
}
