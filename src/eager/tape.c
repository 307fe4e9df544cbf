/* tape.c -- the autograd mode. It receives each op that is not composite, runs
 * it through the modes below and, if an argument requires grad, gives the
 * results a node: edges to the arguments' nodes, the arguments' geometry, and
 * the values the derivative reads. apply.c evaluates the derivative. A call
 * without gradients costs a scan of its arguments' flags. */
#include "eager/eager_int.h"
#include "ops/call.h"

#include <string.h>

/* ---- what to record ----------------------------------------------------- */

/* Does any tensor argument require grad? */
static bool any_needs(const td_opcall *c) {
    for (int i = 0; i < c->n_in; i++) {
        td_value v = c->in[i];
        if (v.kind == TD_K_TENSOR) {
            if (td__needs_grad(v.u.t)) return true;
        } else if (v.kind == TD_K_TENSORS) {
            for (uint32_t k = 0; k < v.n; k++)
                if (v.u.ts[k] && td__needs_grad(v.u.ts[k])) return true;
        }
    }
    return false;
}

/* Does the row have a derivative with respect to argument i? */
static bool has_term(const td_opcall *c, const td_opdef *rule, int i) {
    return rule->vjp_fn || c->info->term[i].f != NULL;
}

/* The row whose derivative applies: an in-place op may use its functional
 * twin's. */
static const td_opdef *rule_of(const td_opcall *c) {
    bool twin = c->def->vjp && c->def->vjp[0] == TD_VIA_PURE[0];
    return twin ? td__row(c->info->pure) : c->def;
}

/* What is decided about a call before its node is made. Bit i of a mask is
 * argument or result i. */
typedef struct plan {
    const td_opdef *rule;
    bool            zero;     /* the derivative is zero: nothing is saved */
    bool            none;     /* no derivative exists: backward through it fails */
    uint32_t        needs;    /* arguments that get a gradient */
    uint32_t        keep_in;  /* arguments to save for backward */
    uint32_t        keep_out; /* results to save for backward */
    td_node_plan    size;     /* sizes of the node's arrays */
} plan;

static bool value_needs(td_value v) {
    if (v.kind == TD_K_TENSOR) return td__needs_grad(v.u.t);
    if (v.kind != TD_K_TENSORS) return false;
    for (uint32_t k = 0; k < v.n; k++)
        if (v.u.ts[k] && td__needs_grad(v.u.ts[k])) return true;
    return false;
}

/* Arguments that are saved whichever gradient is needed: all, if only one
 * argument has a derivative or one C rule computes all of them; otherwise those
 * that several formulas read. PyTorch's generated code saves by the same
 * condition, and an error about a modified saved value depends on it. */
static uint32_t read_by_several(const td_opcall *c, const td_opdef *rule) {
    uint32_t once = 0, twice = 0;
    int      n = 0;
    for (int i = 0; i < c->n_in; i++) {
        if (!c->info->term[i].f) continue;
        n++;
        twice |= once & c->info->term[i].reads_in;
        once |= c->info->term[i].reads_in;
    }
    return rule->vjp_fn || n == 1 ? UINT32_MAX : twice;
}

/* Does a gradient of t lead anywhere? A view made under no_grad requires grad
 * as its base does but has no grad_fn; as in eager PyTorch no argument is saved
 * for it alone. */
static bool connected(const td_tensor *t) {
    if (t->ag && (t->ag->fn || t->ag->wants)) return true;
    return td__needs_grad(t) && t->seen != td__version(t); /* will be regenerated */
}

static bool value_connected(td_value v) {
    if (v.kind == TD_K_TENSOR) return connected(v.u.t);
    for (uint32_t k = 0; k < v.n; k++)
        if (v.u.ts[k] && connected(v.u.ts[k])) return true;
    return false;
}

/* Decides which arguments get a gradient and which values are saved for it. */
static void plan_terms(const td_opcall *c, plan *p) {
    p->rule = rule_of(c);
    p->zero = !c->info->differentiable;
    p->none = p->zero && c->def->flags & TD_OPF_META;
    uint32_t always = read_by_several(c, p->rule);
    /* An in-place op without a derivative (logical_or_) takes no history from the
     * arguments it reads; the written argument's own history ends there. */
    bool     reads = !p->zero || p->none || p->rule->vjp[0] != '!';
    /* set_ with sizes takes its source's storage only, not its history. */
    if (c->info->op == TD_OP_set_ && !td__in_none(c, 3)) reads = false;
    for (int i = 0; i < c->n_in; i++) {
        if (!value_needs(c->in[i]) || !(p->zero || has_term(c, p->rule, i))) continue;
        if (!reads && !c->info->s.in[i].write) continue;
        p->needs |= 1u << i;
        bool leads = value_connected(c->in[i]);
        p->keep_in |= c->info->term[i].reads_in & (leads ? UINT32_MAX : always);
        p->keep_out |= c->info->term[i].reads_out;
    }
    if (p->zero) p->keep_in = p->keep_out = 0;
}

/* Is this entry of a list that the derivative reads saved? */
static bool keeps(const td_opcall *c, int arg, int item) {
    return !(c->def->flags & TD_OPF_NESTS) || td__nested_saves(c, arg, item);
}

/* Is result i saved? Bit 31 stands for all results from 31, and of an op with nested
 * graphs the op decides about each. */
static bool keeps_result(const td_opcall *c, const plan *p, int i) {
    if (c->def->flags & TD_OPF_NESTS) return td__nested_saves(c, -1, i);
    return p->keep_out >> (i < 31 ? i : 31) & 1;
}

/* Counts what the node's arrays must hold. */
static void plan_size(const td_opcall *c, plan *p) {
    td_node_plan *s = &p->size;
    s->n_in = c->n_in;
    for (int i = 0; i < c->n_in; i++) {
        td_value v = c->in[i];
        bool     keep = p->keep_in >> i & 1;
        if (v.kind == TD_K_TENSOR) {
            s->n_edge++;
            s->n_ints += 2 * v.u.t->rank;
            s->n_saved += keep;
        } else if (v.kind == TD_K_TENSORS) {
            s->n_edge += (int)v.n;
            for (uint32_t k = 0; keep && k < v.n; k++)
                s->n_saved += keeps(c, i, (int)k);
            for (uint32_t k = 0; k < v.n; k++)
                if (v.u.ts[k]) s->n_ints += 2 * v.u.ts[k]->rank;
        } else if (v.kind == TD_K_INTS) s->n_ints += (int)v.n;
        else if (v.kind == TD_K_STR) s->n_chars += (int)strlen(v.u.s) + 1;
    }
    for (int i = 0; i < c->n_out && p->keep_out; i++)
        s->n_saved += keeps_result(c, p, i);
}

/* ---- filling a node ----------------------------------------------------- */

/* A node while its arrays are filled. */
typedef struct filling {
    td_node *n;
    int      edge;  /* the next edge */
    int64_t *ints;  /* free memory for dims and lists */
    char    *chars; /* free memory for strings */
} filling;

/* Records one tensor argument. `read`: what to save for backward (t, or a clone
 * of it), NULL: nothing. */
static bool fill_tensor(filling *f, td_tensor *t, td_tensor *read, bool needs, int arg,
                        int item) {
    td_node *n = f->n;
    int      e = f->edge++;
    if (!t) return n->in_type[e] = (td_geom){0}, true;
    td__node_type(&n->in_type[e], t, true, &f->ints);
    if (needs && td__needs_grad(t) && !td__edge_of(t, &n->edge[e])) return false;
    if (!read) return true;
    td_saved *s = &n->saved[n->n_saved++];
    *s = (td_saved){.arg = (int16_t)arg, .item = (int16_t)item};
    return td__save(s, read, false, 0);
}

static bool fill_list(filling *f, const td_opcall *c, const plan *p, int i) {
    td_value v = c->in[i];
    f->n->in[i] = (td_value){TD_K_TENSORS, v.n, {0}};
    for (uint32_t k = 0; k < v.n; k++) {
        td_tensor *t = v.u.ts[k];
        bool       keep = p->keep_in >> i & 1 && keeps(c, i, (int)k);
        bool       leads = p->needs >> i & 1 &&
                     (!(c->def->flags & TD_OPF_NESTS) || td__nested_leads(c, (int)k));
        if (!fill_tensor(f, t, keep ? t : NULL, leads, i, (int)k)) return false;
        if (keep && t && c->def->flags & TD_OPF_NESTS &&
            !td__nested_checks(c, i, (int)k))
            f->n->saved[f->n->n_saved - 1].flags |= TD_SV_SPARE;
    }
    return true;
}

/* Records all arguments. clones[i], if set, is saved instead of an argument
 * that the op overwrites. */
static bool fill_args(filling *f, const td_opcall *c, const plan *p,
                      td_tensor **clones) {
    for (int i = 0; i < c->n_in; i++) {
        td_value v = c->in[i], *to = &f->n->in[i];
        *to = v;
        if (v.kind == TD_K_TENSOR) {
            td_tensor *read = clones && clones[i] ? clones[i] : v.u.t;
            to->u.t = NULL;
            if (!fill_tensor(f, v.u.t, p->keep_in >> i & 1 ? read : NULL,
                             p->needs >> i & 1, i, 0))
                return false;
        } else if (v.kind == TD_K_TENSORS) {
            if (!fill_list(f, c, p, i)) return false;
        } else if (v.kind == TD_K_INTS) {
            if (v.n) memcpy(f->ints, v.u.ints, sizeof(int64_t) * v.n);
            to->u.ints = f->ints;
            f->ints += v.n;
        } else if (v.kind == TD_K_STR) {
            to->u.s = strcpy(f->chars, v.u.s);
            f->chars += strlen(v.u.s) + 1;
        } else if (v.kind == TD_K_GRAPH) td__graph_keep(v.u.g);
    }
    return true;
}

/* A node with its arguments recorded; results follow. NULL after td__fail. */
static td_node *make_node(const td_opcall *c, const plan *p, td_tensor **clones,
                          filling *f) {
    td_ctx *cx = c->cx;
    *f = (filling){0};
    f->n = td__node_make(cx, &td__op_kind, &p->size, &f->ints, &f->chars);
    if (!f->n) return NULL;
    f->n->def = c->def;
    f->n->info = c->info;
    f->n->name = c->def->name;
    f->n->n_saved = 0; /* counted up as values are saved */
    for (int i = 0; i < c->n_in && c->def->flags & TD_OPF_NESTS; i++)
        f->n->in[i] = td_value_none(); /* graphs are referenced when filled in */
    if (p->zero) f->n->flags |= TD_NF_ZERO;
    if (p->none) f->n->flags |= TD_NF_NONE;
    if (fill_args(f, c, p, clones)) return f->n;
    td__node_drop(f->n);
    return NULL;
}

/* ---- results ------------------------------------------------------------ */

static bool float_result(const td_tensor *t) {
    return td__is_differentiable((td_dtype)t->dtype);
}

/* Does result i of a loop get a grad_fn because its initial state has one? A loop that
 * runs no iteration returns it. */
static bool from_initial_state(const td_opcall *c, int i) {
    return c->def == td__row(TD_OP_while_loop) && i < (int)c->in[2].n &&
           td__needs_grad(c->in[2].u.ts[i]);
}

/* Does result i get a grad_fn? Floating-point results do; of a branch, those
 * that require grad in one of its graphs. */
static bool takes_history(const td_opcall *c, int i) {
    if (!float_result(c->out[i])) return false;
    return !(c->def->flags & TD_OPF_NESTS) || td__nested_grad(c, i) ||
           from_initial_state(c, i);
}

/* Saves results that the derivative reads. One without history, such as a value that a
 * region saves, cannot refer back to the node. */
static bool save_results(filling *f, const td_opcall *c, const plan *p) {
    for (int i = 0; i < c->n_out && p->keep_out; i++) {
        if (!keeps_result(c, p, i)) continue;
        td_saved *s = &f->n->saved[f->n->n_saved++];
        *s = (td_saved){.arg = (int16_t)(-1 - i)};
        bool nests = c->def->flags & TD_OPF_NESTS;
        if (!td__save(s, c->out[i], !nests || takes_history(c, i), i)) return false;
    }
    return true;
}

/* Views remember the mode they were made in, which decides whether they may be
 * written with gradients on later. */
static void mark_views(const td_opcall *c) {
    const td_ctx    *cx = c->cx;
    const td_tensor *src = c->in[c->info->view_of].u.t;
    td_creation      made = cx->inference                  ? TD_MADE_INFERENCE
                            : !cx->grad_enabled            ? TD_MADE_NO_GRAD
                            : c->def->flags & TD_OPF_MULTI ? TD_MADE_MULTI_OUTPUT
                                                           : TD_MADE_PLAIN;
    if (made == TD_MADE_PLAIN) made = (td_creation)src->creation;
    for (int i = 0; i < c->n_out; i++) {
        td_tensor *v = c->out[i];
        v->seen = td__version(v);
        if (!v->base) continue;
        v->creation = (uint8_t)made;
    }
}

/* An op that writes no argument. */
static bool call_plain(td_mode *m, td_opcall *c) {
    if (!td__call_below(m, c)) return false;
    if (c->def->flags & TD_OPF_VIEW) {
        mark_views(c);
        if (!c->info->differentiable) return true;
        /* a view of an inference tensor is one, too, and has no history */
        if (c->in[c->info->view_of].u.t->flags & TD_TF_INFERENCE) return true;
    }
    if (!td__recording(c->cx) || !any_needs(c)) return true;
    if (!c->info->differentiable && !(c->def->vjp && c->def->vjp[0] == '0'))
        return true;
    plan p = {0};
    bool any = c->n_out == 0; /* of a size of 0: brings its argument up to date */
    int  ranks = 0;
    for (int i = 0; i < c->n_out; i++) {
        any |= takes_history(c, i);
        ranks += c->out[i]->rank;
    }
    plan_terms(c, &p);
    if (!any || !p.needs) return true;
    plan_size(c, &p);
    p.size.n_out = c->n_out;
    p.size.n_ints += ranks;
    filling  f;
    td_node *n = make_node(c, &p, NULL, &f);
    if (!n) return false;
    bool ok = td__node_outputs(n, c->out, c->n_out, f.ints, ranks);
    for (int i = 0; i < c->n_out && ok; i++)
        if (takes_history(c, i)) ok = td__set_history(c->out[i], n, i);
    if (ok) ok = save_results(&f, c, &p);
    td__node_drop(n);
    return ok;
}

/* ---- in-place ops ------------------------------------------------------- */

/* The result that is argument i; -1: none, so the write is not part of the history
 * (running statistics of batch_norm). */
static int result_of(const td_opcall *c, int i) {
    const td_schema *s = &c->info->s;
    for (int k = 0; k < s->n_out; k++)
        if (s->out[k].alias && s->out[k].alias == s->in[i].alias) return k;
    return -1;
}

/* May the op write its arguments? `history`: the write will be recorded. */
static bool check_written(td_opcall *c, bool history) {
    for (int i = 0; i < c->n_in; i++) {
        td_tensor *t = c->info->s.in[i].write ? td__in(c, i) : NULL;
        if (!t) continue;
        if (!td__may_write_inference(c, t)) return false;
        if (c->def == td__eager(c->cx)->resize && td__needs_grad(t))
            return td__op_fail(c, TD_E_GRAD,
                               "cannot resize a tensor that requires grad; resize "
                               "td_detach of it, or make a new tensor");
        if (history && float_result(t) && result_of(c, i) >= 0 &&
            !td__check_write(c, t))
            return false;
    }
    return true;
}

/* If the derivative reads an argument that the op overwrites, a clone of it,
 * with history, is saved instead. */
static bool clone_written(td_mode *m, td_opcall *c, const plan *p, td_tensor **clones) {
    for (int i = 0; i < c->n_in; i++) {
        td_tensor *t = c->info->s.in[i].write ? td__in(c, i) : NULL;
        if (!t || !(p->keep_in >> i & 1)) continue;
        td_mode *top = td__modes_from(c->cx, m); /* the clone is on the tape */
        clones[i] = td__op1(c->cx, TD_OP_clone, t);
        td__modes_from(c->cx, top);
        if (td_is_nil(clones[i])) return false;
    }
    return true;
}

/* The first edge of an argument: one edge per tensor. */
static int edge_of_arg(const td_opcall *c, int arg) {
    int e = 0;
    for (int i = 0; i < arg; i++)
        e += c->in[i].kind == TD_K_TENSOR    ? 1
             : c->in[i].kind == TD_K_TENSORS ? (int)c->in[i].n
                                             : 0;
    return e;
}

/* Gives the results their grad_fn: a written argument's history is rebased,
 * other results (and metadata writes) just get the node. */
static bool give_histories(td_opcall *c, td_node *n) {
    const td_schema *s = &c->info->s;
    for (int i = 0; i < c->n_out; i++) {
        td_tensor *t = c->out[i];
        if (!float_result(t)) continue;
        int arg = -1;
        for (int k = 0; k < c->n_in && s->out[i].alias; k++)
            if (s->in[k].write && s->in[k].alias == s->out[i].alias) arg = k;
        bool meta = c->def->flags & TD_OPF_META;
        bool ok = arg >= 0 && !meta ? td__rebase(t, n, i, edge_of_arg(c, arg))
                                    : td__set_history(t, n, i);
        if (!ok) return false;
    }
    return true;
}

/* An in-place op that is recorded. The node is made before the op runs, because it
 * saves what the op overwrites. */
static bool run_write(td_mode *m, td_opcall *c, plan *p) {
    td_tensor *clones[TD_MAX_ARGS] = {0};
    int        n_dims = 0;
    filling    f;
    if (!clone_written(m, c, p, clones)) return false;
    plan_size(c, p);
    for (int i = 0; i < c->n_in; i++)
        if (c->info->s.in[i].write && td__in(c, i)) n_dims += td__in(c, i)->rank;
    p->size.n_out = c->n_out;
    p->size.n_ints += n_dims;
    td_node *n = make_node(c, p, clones, &f);
    if (!n) return false;
    bool ok = td__call_below(m, c) &&
              td__node_outputs(n, c->out, c->n_out, f.ints, n_dims) &&
              save_results(&f, c, p) && give_histories(c, n);
    td__node_drop(n);
    return ok;
}

/* Ops of the tape itself: they change flags, versions or history. Modes below
 * and kernels do not see them. */
static bool change_flags(td_opcall *c) {
    td_tensor  *t = td__in(c, 0);
    td_step_fn *step = td__step_of(c->info->op);
    c->out[0] = t;
    if (step) return step(c->in);
    if (c->info->op == TD_OP_detach_) c->out[0] = td__detach_in_place(t);
    if (c->info->op == TD_OP_requires_grad_)
        c->out[0] = td__set_requires_grad(t, td__in_bool(c, 1));
    return !td_is_nil(c->out[0]);
}

/* set_ without history, which may change the sizes of a leaf. */
static bool set_untracked(td_mode *m, td_opcall *c) {
    bool ok = td__call_below(m, c);
    if (ok) td__accumulator_renew(td__in(c, 0));
    return ok;
}

/* An op that writes arguments. */
static bool call_write(td_mode *m, td_opcall *c) {
    plan p = {0};
    if (c->def->flags & TD_OPF_TAPE) return change_flags(c);
    bool track = td__recording(c->cx) && any_needs(c);
    if (track) plan_terms(c, &p);
    track = p.needs != 0;
    if (!check_written(c, track)) return false;
    bool result = false; /* does it have a floating-point result? */
    for (int i = 0; i < c->n_in && track; i++) {
        td_tensor *t = c->info->s.in[i].write ? td__in(c, i) : NULL;
        result |= t && result_of(c, i) >= 0 ? float_result(t) : false;
    }
    for (int k = 0; k < c->info->s.n_out; k++) result |= !c->info->s.out[k].alias;
    if (!track || !result)
        return c->info->op == TD_OP_set_ ? set_untracked(m, c) : td__call_below(m, c);
    if (!td__scope_push(c->cx)) return false;
    bool ok = run_write(m, c, &p);
    td__scope_pop(c->cx, c->out, ok ? c->n_out : 0);
    return ok;
}

bool td__tape_call(td_mode *m, td_opcall *c) {
    return c->info->writes ? call_write(m, c) : call_plain(m, c);
}
