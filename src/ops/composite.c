/* composite.c -- ops that are replaced by other ops: the parts of a composite, the
 * functional twin and the copy of a writer, and the simpler form of an op that has a
 * kernel of its own. The parts are op calls of their own, passed to the modes from
 * cx->top on; temporaries of theirs are dropped with an inner scope. */
#include "ops/call.h"

#include <string.h>

/* ---- composites --------------------------------------------------------- */

/* Evaluates a decomposition or a simpler form on the arguments of the call. */
static bool run_formula(td_opcall *c, const td_formula *f) {
    td_meta        metas[TD_MAX_ARGS];
    const td_meta *in_meta[TD_MAX_ARGS] = {0};
    for (int i = 0; i < c->n_in; i++)
        if (td__in(c, i)) {
            td__tensor_meta(td__in(c, i), &metas[i]);
            in_meta[i] = &metas[i];
        }
    td_vjp v = {
        .cx = c->cx, .def = c->def, .info = c->info, .in = c->in, .in_meta = in_meta};
    c->out[0] = td__formula_eval(f, &v);
    return c->out[0] != NULL;
}

/* Does a tensor argument require grad? */
static bool any_needs_grad(const td_opcall *c) {
    for (int i = 0; i < c->n_in; i++)
        if (td__in(c, i) && td__in(c, i)->flags & TD_TF_NEEDS_GRAD) return true;
    return false;
}

bool td__call_twin(td_opcall *c) {
    td_tensor *self = td__in(c, 0), *r = NULL;
    /* what the parts save of self must outlive the write */
    if (c->cx->grad_enabled && any_needs_grad(c))
        c->in[0] = td_value_tensor(td_op_clone(self, false));
    if (!td__call(c->cx, c->info->pure, c->in, c->n_in, &r, 1) || td_is_nil(r))
        return false;
    bool same = r->rank == self->rank;
    for (int d = 0; same && d < r->rank; d++)
        same = td__dim_eq(r->size[d], self->size[d]);
    if (!same)
        return td__op_fail(c, TD_E_SHAPE,
                           "result %s does not fit the written tensor %s",
                           td__type_str(r), td__type_str(self));
    if (!td__can_cast((td_dtype)r->dtype, (td_dtype)self->dtype))
        return td__op_fail(c, TD_E_DTYPE,
                           "a result %s cannot be stored in the written tensor %s; "
                           "convert an operand with to",
                           td__type_str(r), td__type_str(self));
    c->out[0] = td_op_copy_(self, r, false);
    return !td_is_nil(c->out[0]);
}

/* Hands the results on, all of them there. */
static bool finish(td_opcall *c, bool ok) {
    for (int i = 0; i < c->n_out && ok; i++) ok = c->out[i] && !td_is_nil(c->out[i]);
    td__scope_pop(c->cx, c->out, ok ? c->n_out : 0);
    return ok;
}

/* By the formula of the row, or of its twin, for complex tensors. Its parts are real
 * tensors, so a dtype that is asked for has no meaning. */
static bool run_complex(td_opcall *c) {
    for (int i = 0; i < c->n_in; i++)
        if (c->in[i].kind == TD_K_DTYPE)
            return td__op_fail(c, TD_E_DTYPE,
                               "argument %s is not supported for complex tensors; "
                               "convert with to first",
                               c->info->s.in[i].name);
    return c->info->of_complex ? run_formula(c, c->info->of_complex) : td__call_twin(c);
}

/* Calls the parts; errors inside name the composite, unless the op takes graphs: there
 * the user's own ops run. */
static bool run_parts(td_opcall *c, bool complex) {
    if (!td__scope_push(c->cx)) return false;
    bool nests = c->def->flags & TD_OPF_NESTS; /* the user's own ops run inside */
    const td_opinfo *outer = nests ? NULL : c->cx->composite;
    if (!nests && !outer) c->cx->composite = c->info;
    uint8_t device = td__make_on(c->cx, c->device);
    bool    ok = complex             ? run_complex(c)
                 : c->def->decomp_fn ? c->def->decomp_fn(c)
                 : c->info->decomp   ? run_formula(c, c->info->decomp)
                                     : td__call_twin(c);
    td__make_on(c->cx, device);
    if (!nests) c->cx->composite = outer;
    if (TD_UNLIKELY(c->cx->fake) && !outer) ok = td__copy_noted(c, ok);
    return finish(c, ok);
}

bool td__call_parts(td_opcall *c) { return run_parts(c, false); }
bool td__call_complex_parts(td_opcall *c) { return run_parts(c, true); }

/* ---- simpler forms ------------------------------------------------------ */

/* Kernels compute halves in f32 and round once; so do simpler forms. */
static bool widen(td_opcall *c) {
    for (int i = 0; i < c->n_in; i++) {
        td_tensor *t = td__in(c, i);
        if (!t || c->info->s.in[i].write || !td__is_half((td_dtype)t->dtype)) continue;
        t = td_op_to(t, TD_F32, false);
        if (td_is_nil(t)) return false;
        c->in[i] = td_value_tensor(t);
    }
    return true;
}

/* Nobody else's bytes, as a kernel gives. */
static bool is_fresh(const td_opcall *c, const td_tensor *t) {
    bool fresh = !t->base;
    for (int i = 0; i < c->n_in; i++)
        if (td__in(c, i) && td__in(c, i)->st == t->st) fresh = false;
    return fresh;
}

/* t, or a copy of it, laid out as the meta says. */
static td_tensor *lay_out(td_opcall *c, td_tensor *t, const td_meta *m) {
    int64_t dense[TD_MAX_RANK];
    td__strides_dense(m->rank, m->size, dense);
    const int64_t *want = m->strided ? m->stride : dense;
    if (t->rank == m->rank && td__dims_seem_eq(t->stride, want, m->rank))
        return is_fresh(c, t) ? t : td_op_clone(t, false);
    if (!m->strided) return td_op_clone(t, true);
    td_ints size = {m->size, m->rank}, stride = {m->stride, m->rank};
    return td_op_copy(td_op_empty_strided(c->cx, size, stride, m->dtype), t, false);
}

/* Result i as the kernel gives it. */
static td_tensor *settle(td_opcall *c, int i, td_tensor *t) {
    const td_meta *m = &c->meta[i];
    if (t && t->dtype != m->dtype) t = td_op_to(t, m->dtype, false);
    if (!t || td_is_nil(t)) return t;
    return lay_out(c, t, m);
}

/* The op's own rule checks the arguments and says what results look like. */
static bool run_simpler(td_opcall *c) {
    bool ok =
        c->def->shape(c) && widen(c) &&
        (c->def->simpler_fn ? c->def->simpler_fn(c) : run_formula(c, c->info->simpler));
    for (int i = 0; i < c->n_out && ok; i++) c->out[i] = settle(c, i, c->out[i]);
    return ok;
}

/* Replaces the tensors of a list argument by the recorder's copies. */
static bool list_as_recorded(td_mode *by, td_opcall *c, td_value *v) {
    td_tensor **ts = td__arena_alloc(&c->cx->scratch, sizeof *ts * (v->n + 1));
    if (!ts) return td__fail_memory(c->cx);
    for (uint32_t k = 0; k < v->n; k++) {
        ts[k] = v->u.ts[k] ? by->stand_in(by, v->u.ts[k]) : NULL;
        if (ts[k] && td_is_nil(ts[k])) return false;
    }
    v->u.ts = ts;
    return true;
}

bool td__call_as_recorded(td_mode *m, td_opcall *c) {
    td_mode *by = c->cx->fake ? m->below : NULL;
    while (by && !by->stand_in) by = by->below;
    for (int i = 0; by && i < c->n_in; i++) {
        td_value *v = &c->in[i];
        if (v->kind == TD_K_TENSORS && !list_as_recorded(by, c, v)) return false;
        if (v->kind != TD_K_TENSOR) continue;
        v->u.t = by->stand_in(by, v->u.t);
        if (td_is_nil(v->u.t)) return false;
    }
    return true;
}

/* The modes from m on see the parts instead of the op; the mode's own op, if it has
 * none, runs its functional twin and a copy. */
bool td__call_simpler(td_mode *m, td_opcall *c) {
    td_ctx *cx = c->cx;
    bool    own = c->def->simpler_fn || c->info->simpler, ok = false;
    if (!td__call_as_recorded(m, c)) return false;
    td_mode *top = td__modes_from(cx, m);
    uint8_t  device = td__make_on(cx, c->device);
    if (c->info->composite) ok = td__call_parts(c);
    else if (td__scope_push(cx))
        ok = finish(c, own ? run_simpler(c) : td__call_twin(c));
    td__make_on(cx, device);
    td__modes_from(cx, top);
    return ok;
}
