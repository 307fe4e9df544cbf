/* optim.c -- optimizers: groups of parameters, steps, accumulated gradients. rules.c
 * has the update rules, optim_state.c saves and loads. */
#include "nn/optim.h"
#include "core/callback.h"
#include "core/readonly.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- making and freeing ------------------------------------------------- */

static void drop(td_tensor *t) {
    if (t) td__drop_as(t, TD_RELEASED_OWNER);
}

static void free_group(td_group *g) {
    for (int i = 0; i < g->at.n; i++) {
        for (int k = 0; k < TD_S_COUNT; k++) drop(g->at.v[i].state[k]);
        drop(g->at.v[i].p);
        td__free(g->at.v[i].name);
    }
    for (int k = 0; k < TD_L_COUNT; k++) drop(g->flat[k]);
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
static bool fill_param(td_optim *o, td_group *g, td_tensor *p, const char *name) {
    td_trained t = {.p = td_keep(p), .name = name ? td__strdup(name) : NULL};
    unsigned slots = td__rule_slots(&g->rule, p) | (o->sums ? 1u << TD_S_GRAD_SUM : 0);
    bool     made = true;
    for (int k = 0; k < TD_S_COUNT; k++) {
        if (!(slots >> k & 1)) continue;
        t.state[k] = owned(td__slot_make(p, &g->rule, k));
        made &= t.state[k] != NULL;
    }
    bool ok = made && (t.name || !name) && td__vec_push(&g->at, t);
    if (ok) return true;
    for (int k = 0; k < TD_S_COUNT; k++) drop(t.state[k]);
    drop(t.p);
    td__free(t.name);
    return made ? td__fail_memory(o->cx) : false;
}

/* Parameters of a group; their names may be NULL. */
typedef struct members {
    td_tensors         of;
    const char *const *names;
} members;

/* Adds the parameters, the rate and the step counts. False after td__fail. */
static bool fill_group(td_optim *o, td_group *g, members m) {
    g->lr = owned(td_full(o->cx, TD_SHAPE(), g->rule.lr, TD_F64));
    g->steps = owned(td_zeros(o->cx, TD_SHAPE(m.of.n), TD_F64));
    bool ok = g->lr && g->steps;
    for (int k = 0; ok && g->rule.kind == TD_RULE_LBFGS && k < TD_L_COUNT; k++)
        ok = (g->flat[k] = owned(td__lbfgs_make(m.of, &g->rule, k))) != NULL;
    for (int i = 0; ok && i < m.of.n; i++)
        ok = fill_param(o, g, m.of.v[i], m.names ? m.names[i] : NULL) &&
             (td__vec_push(&o->grads, NULL) || td__fail_memory(o->cx));
    return ok;
}

static bool has_lbfgs(const td_optim *o) {
    return o->groups.n && o->groups.v[0].rule.kind == TD_RULE_LBFGS;
}

/* May these parameters be a group of LBFGS, which is the only one of its optimizer, or
 * another group? False after td__fail. */
static bool check_lbfgs(td_optim *o, td_tensors ps, const td_rule *r) {
    if (has_lbfgs(o) || (r->kind == TD_RULE_LBFGS && o->groups.n))
        return td__fail(o->cx, TD_E_ARG,
                        "td_optim_add: a group with LBFGS is the only one of its "
                        "optimizer; make another optimizer for the other parameters");
    if (r->kind != TD_RULE_LBFGS) return true;
    if (!ps.n)
        return td__fail(o->cx, TD_E_ARG, "td_optim_add: LBFGS requires a parameter");
    for (int i = 1; i < ps.n; i++)
        if (td_dtype_of(ps.v[i]) != td_dtype_of(ps.v[0]))
            return td__fail(o->cx, TD_E_DTYPE,
                            "td_optim_add: parameter %d is %s; with LBFGS all "
                            "parameters must have the dtype of the first one, %s",
                            i, td__type_str(ps.v[i]),
                            td_dtype_name(td_dtype_of(ps.v[0])));
    return true;
}

/* td_optim_add, with names. */
static int add_group(td_optim *o, members m, td_rule rule) {
    td_group g = {.rule = rule};
    int      n_grads = o->grads.n;
    for (int i = 0; i < m.of.n; i++)
        if (!check_param(o, m.of, i, &rule)) return -1;
    if (!check_lbfgs(o, m.of, &rule)) return -1;
    td_grad_mode was = td_no_grad_begin(o->cx);
    td_scope_begin(o->cx, "td_optim_add");
    bool ok = fill_group(o, &g, m);
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

int td_optim_add(td_optim *o, td_tensors params, td_rule rule) {
    if (!TD_ENTER(o, OPTIM)) return -1;
    if (!td_ok(o->cx) || !td__rule_check(o->cx, &rule) ||
        !td__has_list(o->cx, "td_optim_add", params.v, params.n) ||
        !td__may_change(o->cx, "td_optim_add", "an optimizer"))
        return -1;
    return add_group(o, (members){params, NULL}, rule);
}

/* ---- parameters of modules ------------------------------------------------ */

/* The parameters that a filter accepts. */
typedef struct chosen {
    td_optim        *o;
    td_param_filter *filter;
    void            *env;
    td_arena         arena;
    TD_VEC(td_tensor *) params;
    TD_VEC(const char *) names;
} chosen;

enum { MOST_NAME = 400 }; /* optim_state.c adds to it */

static bool choose(void *env, const td_member *m) {
    chosen *c = env;
    bool    wanted = true;
    if (has_param(c->o, m->t)) return true;
    if (c->filter) TD_CALLBACK(c->o->cx, wanted = c->filter(c->env, m->name, m->t));
    if (!td_ok(c->o->cx) || !TD_ENTER(c->o, OPTIM)) return false;
    if (!wanted) return true;
    if (strlen(m->name) > MOST_NAME)
        return td__fail(c->o->cx, TD_E_ARG,
                        "td_optim_add_module: the name %.60s... has %zu characters; at "
                        "most %d are supported",
                        m->name, strlen(m->name), MOST_NAME);
    const char *name = td__arena_strdup(&c->arena, m->name);
    bool ok = name && td__vec_push(&c->params, m->t) && td__vec_push(&c->names, name);
    return ok || td__fail_memory(c->o->cx);
}

int td_optim_add_module(td_optim *o, td_module *m, td_rule rule,
                        td_param_filter *filter, void *env) {
    if (!TD_ENTER(o, OPTIM)) return -1;
    td_ctx *cx = o->cx;
    if (!td__enter_in(cx, m, TD_H_MODULE, "td_optim_add_module") || !td_ok(cx) ||
        !td__rule_check(cx, &rule) ||
        !td__may_change(cx, "td_optim_add_module", "an optimizer"))
        return -1;
    chosen c = {.o = o, .filter = filter, .env = env};
    int    nr = -1;
    if (td_module_visit(m, TD_VISIT_PARAMS, choose, &c)) {
        members chosen_ones = {{c.params.v, c.params.n}, c.names.v};
        nr = add_group(o, chosen_ones, rule);
    }
    td__vec_free(&c.params);
    td__vec_free(&c.names);
    td__arena_free(&c.arena);
    return nr;
}

bool td_param_is_matrix(void *env, const char *name, td_tensor *p) {
    (void)env, (void)name;
    return TD_ENTER(p, TENSOR) && td_rank(p) >= 2;
}

td_optim *td_optim_module(td_module *m, td_rule rule) {
    if (!TD_ENTER(m, MODULE)) return TD_NIL_BY(m, OPTIM);
    td_ctx *cx = td_module_ctx(m);
    if (!td__may_read(cx, "td_optim_module", "the parameters of a module"))
        return TD_NIL(cx, OPTIM);
    td_optim *o = td_optim_make(cx);
    if (td_is_nil(o) || td_optim_add_module(o, m, rule, NULL, NULL) >= 0) return o;
    td_optim_free(o);
    return TD_NIL(cx, OPTIM);
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

/* Comparing symbolic sizes here would specialize the capture. */
bool td__same_type(const td_tensor *a, const td_tensor *b) {
    bool same = a->rank == b->rank && a->dtype == b->dtype;
    for (int d = 0; same && d < a->rank; d++)
        same = a->size[d] == b->size[d] || td__dim_is_sym(a->size[d]) ||
               td__dim_is_sym(b->size[d]);
    return same;
}

/* Has the gradient its parameter's type? False after td__fail. */
static bool check_grad(td_optim *o, const char *who, int nr, td_tensor *p,
                       td_tensor *g) {
    if (td__same_type(g, p)) return true;
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
    const char      *what = g && !td__same_type(t->p, g) ? "gradient" : NULL;
    const td_tensor *other = g;
    char             p[128] = "", is[128] = "";
    if (t->p->st->readonly)
        return td__fail(o->cx, TD_E_ARG,
                        "%s: parameter %d " TD_READONLY "; give the optimizer a clone "
                        "of it (td_clone)",
                        who, nr);
    for (int k = 0; !what && k < TD_S_COUNT; k++)
        if (t->state[k] && !td__slot_fits(t->p, t->state[k], k)) {
            what = td__slot_name(k);
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
    if (has_lbfgs(o))
        return td__fail(o->cx, TD_E_ARG,
                        "%s: LBFGS computes the loss several times; call "
                        "td_optim_step_closure with a function that does",
                        who);
    for (int i = 0, at = 0; i < o->groups.n; i++)
        for (int k = 0; k < o->groups.v[i].at.n; k++, at++)
            if (o->grads.v[at] &&
                (!check_state(o, who, at, &o->groups.v[i].at.v[k], o->grads.v[at]) ||
                 !td__rule_takes(&o->groups.v[i].rule, who, at, o->grads.v[at])))
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

td_tensor *td_optim_step_closure(td_optim *o, td_loss_fn *fn, void *env) {
    static const char who[] = "td_optim_step_closure";
    if (!TD_ENTER(o, OPTIM)) return TD_NIL_BY(o, TENSOR);
    td_ctx *cx = o->cx;
    if (!td_ok(cx)) return td_nil(cx);
    if (!fn)
        return td_fail(cx, TD_E_ARG,
                       "%s: fn is NULL; it must compute the loss and its gradients",
                       who);
    if (has_lbfgs(o))
        return td__may_change(cx, who, "values with LBFGS") ? td__lbfgs_step(o, fn, env)
                                                            : td_nil(cx);
    td_tensor *loss = td__closure_call(o, fn, env);
    return td__optim_grads(o) && step(o, who) ? loss : td_nil(cx);
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
