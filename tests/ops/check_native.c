/* check_native.c -- a sample as a compiled function of the native backend, against the
 * same call made eagerly: failure, dtype, geometry, sharing, flags, what was written,
 * values and gradients. `rounds` says where bits may differ, and is the one place that
 * does; docs/numerics.md tells it to people. */
#include "sample.h"

#include "graph/graph.h"
#include "tandem/aot.h"
#include "tandem/grad.h"

#include <stdio.h>
#include <string.h>

/* ---- the call as a function ---------------------------------------------- */

/* Calls fn on every tensor among the arguments, in order. */
static void each_tensor(inputs *in, void (*fn)(void *env, td_tensor **t), void *env) {
    for (int i = 0; i < in->n_in; i++) {
        td_value *v = &in->in[i];
        if (v->kind == TD_K_TENSOR) fn(env, &v->u.t);
        for (uint32_t k = 0; v->kind == TD_K_TENSORS && k < v->n; k++)
            if (v->u.ts[k]) fn(env, (td_tensor **)(uintptr_t)&v->u.ts[k]);
    }
}

typedef struct arg_list {
    td_value v[64];
    int      n;
} arg_list;

static void add_arg(void *env, td_tensor **t) {
    arg_list *a = env;
    if (a->n < 64) a->v[a->n++] = td_value_tensor(*t);
}

typedef struct taker {
    td_call *c;
    int      n;
} taker;

static void take_arg(void *env, td_tensor **t) {
    taker *k = env;
    *t = td_arg(k->c, k->n++);
}

/* The op on arguments in the places of the sample's own. */
static bool body(td_call *c) {
    static inputs own;
    const inputs *in = td_call_env(c);
    taker         k = {.c = c};
    td_value      res[64];
    own = *in;
    for (int i = 0; i < own.n_in; i++) /* lists are copied, too */
        if (own.in[i].kind == TD_K_TENSORS)
            own.in[i].u.ts = own.lists + (in->in[i].u.ts - in->lists);
    each_tensor(&own, take_arg, &k);
    int n = td__call_list(td_call_ctx(c), own.op, own.in, own.n_in, own.out, 64);
    for (int i = 0; i < n; i++) res[i] = td_value_tensor(own.out[i]);
    return n >= 0 && td_return_values(c, (td_values){res, n});
}

/* ---- what may differ ------------------------------------------------------ */

/* Which of a sample's numbers may round otherwise than eager's. */
typedef struct rounding {
    bool results, grads;
} rounding;

/* The rule. Native code gives eager's bits but for two things: loops add up and
 * multiply floats in an order of their own, and ops whose rows say TD_OPF_FUSES are
 * computed by their simpler forms. */
static bool rounds(const td_gnode *n) {
    if (n->kind != TD_N_OP) return false;
    bool folds = n->op == TD_OP_sum || n->op == TD_OP_prod;
    bool whole = n->n_out && n->out[0]->type &&
                 !td__is_differentiable((td_dtype)n->out[0]->type->dtype);
    return (folds && !whole) || td__ops[n->op].flags & TD_OPF_FUSES;
}

/* What the graph of the call, with that of its gradients, is made of. */
static rounding find_rounding(td_ctx *cx, inputs *in, td_values args) {
    rounding   is = {false, false};
    td_staged *s = td_stage_capture(cx, body, in, args, NULL);
    bool       ok = !td_is_nil(s);
    for (int i = 0; ok && i < td_stage_joint(s)->nodes.n; i++) {
        const td_gnode *n = td_stage_joint(s)->nodes.v[i];
        is.grads |= rounds(n);
        is.results |= rounds(n) && n->origin != TD_FROM_BACKWARD;
    }
    td_stage_drop(s);
    td_clear(cx);
    return is;
}

/* Exact tolerances: bit for bit; zeros of either sign are one in gradients, where one
 * side adds to zeros what the other takes as it is. */
static const tolerance same_bits, same_grad_bits = {.rel = 1e-300};

/* Builds the sample's inputs and calls it; with f, as the compiled function that is
 * left there. */
static bool compute(td_ctx *cx, const report *r, td_op op, inputs *to, td_fn **f,
                    rounding *may) {
    arg_list args = {.n = 0};
    td_value out[64];
    memset(to, 0, sizeof *to);
    td_rng_set(cx, 5, 0);
    if (!f) return inputs_call(cx, r->s, op, NULL, to);
    if (!inputs_build(cx, r->s, op, NULL, to)) return false;
    each_tensor(to, add_arg, &args);
    *may = find_rounding(cx, to, (td_values){args.v, args.n});
    *f = td_aot_function(cx, body, to, NULL);
    to->n_out = *f ? td_invoke_values(*f, (td_values){args.v, args.n}, out, 64) : -1;
    for (int i = 0; i < to->n_out; i++)
        to->out[i] = out[i].kind == TD_K_TENSOR ? out[i].u.t : td_nil(cx);
    return to->n_out >= 0;
}

/* ---- comparing ------------------------------------------------------------ */

/* Which argument, or else which earlier result, shares its storage; -1: none. */
static int sharer(const sample *s, const inputs *in, const td_tensor *t, int nr) {
    for (int i = 0; i < s->n_leaves; i++)
        if (in->base[i] && td_same_storage(in->base[i], t)) return i;
    for (int i = 0; i < nr; i++)
        if (td_same_storage(in->out[i], t)) return MAX_LEAVES + i;
    return -1;
}

/* Values that nobody has set. */
static bool is_unset(const report *r) {
    return r->s->src->tags & TAG_RANDOM && !td__op_draws(td__op_find(r->s->op_name));
}

static bool same_types(report *r, const char *what, const td_tensor *a,
                       const td_tensor *b) {
    bool same = a->dtype == b->dtype && a->rank == b->rank;
    for (int d = 0; same && d < a->rank; d++) same = a->size[d] == b->size[d];
    for (int d = 0; same && d < a->rank; d++)
        same = a->stride[d] == b->stride[d] || a->size[d] < 2 || a->numel == 0;
    if (!same)
        fail_sample(r, "%s is %s with strides %s, not %s %s", what, td__type_str(b),
                    td__sizes_str(b->rank, b->stride), td__type_str(a),
                    td__sizes_str(a->rank, a->stride));
    return same;
}

static bool same_tensor(report *r, const char *what, td_tensor *a, td_tensor *b,
                        tolerance tol) {
    if (!same_types(r, what, a, b)) return false;
    if (td_requires_grad(a) != td_requires_grad(b)) {
        fail_sample(r, "%s: requires_grad differs", what);
        return false;
    }
    return is_unset(r) || compare_tensors(r, what, b, a, tol);
}

static bool same_results(report *r, const inputs *a, const inputs *b, rounding may) {
    char what[48];
    for (int i = 0; i < a->n_out; i++) {
        int x = sharer(r->s, a, a->out[i], i), y = sharer(r->s, b, b->out[i], i);
        snprintf(what, sizeof what, "native, result %d", i);
        td_dtype  dt = td_dtype_of(a->out[i]);
        tolerance tol = may.results ? result_tolerance(r, i, dt) : same_bits;
        bool      free = r->s->src->tags & TAG_VALUES;
        if (x != y && !free)
            fail_sample(r, "%s shares bytes with %d, not %d", what, y, x);
        if (x >= 0 && !free && a->out[i]->offset != b->out[i]->offset)
            fail_sample(r, "%s: another offset", what);
        if (!same_tensor(r, what, a->out[i], b->out[i], tol)) return false;
    }
    return r->failures == 0;
}

/* What the call left in its arguments. */
static bool same_inputs(report *r, const inputs *a, const inputs *b, rounding may) {
    for (int i = 0; i < r->s->n_leaves; i++) {
        char      what[48];
        td_dtype  dt = td_dtype_of(a->base[i]);
        tolerance tol = may.results ? base_tolerance(r, i, dt) : same_bits;
        snprintf(what, sizeof what, "native, argument %d afterwards", i);
        if (!same_tensor(r, what, a->base[i], b->base[i], tol) ||
            !same_types(r, what, a->used[i], b->used[i]))
            return false;
    }
    return true;
}

static void same_grads(td_ctx *cx, report *r, const inputs *a, const inputs *b,
                       rounding may) {
    td_tensor *x[MAX_LEAVES], *y[MAX_LEAVES];
    if (!grad_leaves(cx, r->s, a, x, false)) {
        td_code code = td_error(cx);
        td_clear(cx);
        if (grad_leaves(cx, r->s, b, y, false) || td_error(cx) != code)
            fail_sample(r, "native: backward fails otherwise: %s", td_message(cx));
        return;
    }
    if (!grad_leaves(cx, r->s, b, y, false)) {
        fail_sample(r, "native, backward: %s", td_message(cx));
        return;
    }
    for (int i = 0; i < r->s->n_leaves; i++) {
        char what[48];
        snprintf(what, sizeof what, "native, gradient %d", i);
        if (!x[i] != !y[i]) fail_sample(r, "%s: only one has it", what);
        if (!x[i] || !y[i]) continue;
        td_dtype  dt = td_dtype_of(x[i]);
        tolerance tol = may.grads ? grad_tolerance(r, i, dt) : same_grad_bits;
        /* How a gradient is laid out is its maker's affair. */
        if (!compare_tensors(r, what, y[i], x[i], tol)) return;
    }
}

/* The compiled call failed, or eager's did. */
static void judge_failure(report *r, td_code eager, td_code native, const char *why,
                          native_stats *st) {
    if (native == TD_E_UNSUPPORTED || native == TD_E_TRACE) {
        st->refused += !eager;
        if (!r->quiet) printf("refused %s: %s\n", r->s->src->text, why);
    } else if (eager != native)
        fail_sample(r, "native: %s with code %d, eager code %d", why, native, eager);
}

void check_native(td_ctx *cx, report *r, native_stats *st) {
    static inputs plain, other;
    td_fn        *f = NULL;
    rounding      may = {false, false};
    td_op         op = td__op_find(r->s->op_name);
    bool          a = compute(cx, r, op, &plain, NULL, NULL);
    td_code       code = td_error(cx);
    if (!a && plain.why[0]) return; /* its inputs cannot be built */
    td_clear(cx);
    uint64_t drawn = cx->rng_offset;
    bool     b = compute(cx, r, op, &other, &f, &may);
    st->compared++;
    st->exact += !may.results;
    st->exact_grads += !may.grads;
    if (!a || !b) judge_failure(r, a ? TD_OK : code, td_error(cx), td_message(cx), st);
    else if (plain.n_out != other.n_out)
        fail_sample(r, "native: %d results, not %d", other.n_out, plain.n_out);
    else if (drawn != cx->rng_offset) fail_sample(r, "native draws otherwise");
    else if (same_results(r, &plain, &other, may) &&
             same_inputs(r, &plain, &other, may))
        same_grads(cx, r, &plain, &other, may);
    td_clear(cx);
    td_fn_drop(f);
}
