/* case_call.c -- the options of a call in a .td case. Inside the function: a module
 * applied to its results, gradients of its results (case_body). Around the call:
 * autocast, saved-tensor hooks, checkpoint, rehearsal (case_call). */
#include "cli/case_check.h"
#include "trace/trace.h"

#include "tandem/autocast.h"
#include "tandem/grad.h"
#include "tandem/nn.h"

#include <string.h>

/* ---- inside the function ------------------------------------------------ */

bool case_is_closed_over(const td_graph *fn, int input) {
    return fn->in_desc.v[input].kind == TD_D_CONST;
}

bool case_is_literal(const td_graph *fn, int input) {
    return case_is_closed_over(fn, input) && fn->in_desc.v[input].index >= 0;
}

/* Is input i passed as an argument? Literals and .grad inputs are not. */
static bool is_argument(const td_graph *fn, int i) {
    return !case_is_literal(fn, i) && fn->in_desc.v[i].kind != TD_D_OWN_GRAD;
}

int case_results(const td_gstep *s) {
    return s->grads ? td__graph_results(s->fn) + s->n_args : s->fn->outputs.n;
}

/* Replaces each float result by the module's output for it. False after td__fail. */
static bool apply_module(case_run *run, const td_gstep *s, td_value *out) {
    for (int i = 0; i < td__graph_results(s->fn); i++) {
        if (out[i].kind != TD_K_TENSOR || !td__is_float((td_dtype)out[i].u.t->dtype))
            continue;
        out[i].u.t = td_module_call(run->module, (td_values){&out[i], 1});
        if (td_is_nil(out[i].u.t)) return false;
    }
    return true;
}

static bool wants_grad(td_value v) {
    return v.kind == TD_K_TENSOR && td_requires_grad(v.u.t);
}

/* Appends td_grad of all results that require grad with respect to all arguments that
 * do. False after td__fail. */
static bool take_grads(const td_gstep *s, const td_value *in, td_value *out) {
    td_ctx     *cx = s->fn->cx;
    int         n_out = td__graph_results(s->fn), n = 0, m = 0;
    size_t      most = (size_t)(n_out > s->n_args ? n_out : s->n_args) + 1;
    td_tensor **tensors = td__zalloc(sizeof *tensors * 4 * most);
    if (!tensors) return td__fail_memory(cx);
    td_tensor **root = tensors, **ones = tensors + most, **by = ones + most,
              **g = by + most;
    for (int i = 0; i < s->n_args; i++) out[n_out + i] = TD_NONE;
    for (int i = 0; i < n_out; i++)
        if (wants_grad(out[i])) root[n++] = out[i].u.t;
    for (int i = 0; i < n; i++) ones[i] = td_op_ones_like(root[i], TD_DTYPE_NONE);
    for (int i = 0; i < s->fn->inputs.n; i++)
        if (is_argument(s->fn, i) && wants_grad(in[i])) by[m++] = in[i].u.t;
    td_grad_opts opts = {TD_GRAD_OPTS, .create_graph = true, .allow_unused = true,
                         .grads = {ones, n}};
    bool ok = !n || !m || td_grad((td_tensors){root, n}, (td_tensors){by, m}, g, &opts);
    for (int i = 0, arg = 0, k = 0; ok && n && i < s->fn->inputs.n; i++) {
        if (!is_argument(s->fn, i)) continue;
        td_tensor *t = wants_grad(in[i]) ? g[k++] : NULL;
        if (t && !td_is_nil(t)) out[n_out + arg] = td_value_tensor(t);
        arg++;
    }
    td__free(tensors);
    return ok && td_ok(cx);
}

bool case_body(case_run *run, const td_gstep *s, const td_value *in, td_value *out) {
    bool ok = s->control ? case_replay_control(s->fn, in, out)
                         : td__graph_replay(s->fn, in, out);
    ok = ok && td__own_grads_leave(s->fn, in, out);
    ok = ok && (!s->module || apply_module(run, s, out));
    return ok && (!s->grads || take_grads(s, in, out));
}

bool case_needs_body(const td_gcase *c) {
    for (int i = 0; i < c->steps.n; i++)
        if (c->steps.v[i].grads || c->steps.v[i].module || c->steps.v[i].control)
            return true;
    return false;
}

/* ---- saved-tensor hooks ------------------------------------------------- */

/* The object that the pack hook stores for a saved tensor. */
typedef struct packed {
    td_tensor *t;
    td_dtype   dtype; /* the dtype that unpack converts to */
} packed;

/* The pack hook; env is the word after hooks=. Only floats are converted. */
static void *pack(void *env, td_tensor *t) {
    packed *p = td__alloc(sizeof *p);
    bool    real = td__is_float((td_dtype)t->dtype);
    if (!p) return td__fail_memory(t->cx), NULL;
    td_grad_mode was = td_no_grad_begin(t->cx);
    *p = (packed){t, (td_dtype)t->dtype};
    if (!strcmp(env, "clone")) p->t = td_op_clone(t, false);
    else if (real && !strcmp(env, "bf16")) p->t = td_op_to(t, TD_BF16, false);
    else if (real) p->t = td_op_mul(t, td_value_int(2));
    td_no_grad_end(t->cx, was);
    td_keep(p->t);
    return p;
}

static td_tensor *unpack(void *env, void *of, td_ctx *cx) {
    const packed *p = of;
    (void)env, (void)cx;
    return td_op_to(p->t, p->dtype, false);
}

static void drop(void *env, void *of) {
    packed *p = of;
    (void)env;
    td_drop(p->t);
    td__free(p);
}

bool case_hooks_begin(case_run *run, const td_gstep *s) {
    static const char *const words[] = {"clone", "bf16", "twice"};
    td_saved_hooks           hooks = {pack, unpack, drop, NULL};
    for (size_t i = 0; s->hooks && i < sizeof words / sizeof *words; i++)
        if (!strcmp(words[i], s->hooks)) hooks.env = (void *)(uintptr_t)words[i];
    return !s->hooks || td_saved_hooks_push(run->file->cx, &hooks);
}

void case_hooks_end(case_run *run, const td_gstep *s) {
    if (s->hooks) td_saved_hooks_pop(run->file->cx);
}

/* ---- autocast ----------------------------------------------------------- */

/* Calls the function with autocast's casts made explicit and autocast off, for ways
 * that take graphs. */
static bool call_cast(case_run *run, const td_gstep *s, const td_value *in,
                      td_value *out) {
    td_ctx    *cx = run->file->cx;
    td_closure close = {0};
    td_graph  *g = td__capture_cast(s->fn, in, &close);
    td_value  *to = g ? td__zalloc(sizeof *to * ((size_t)g->inputs.n + 1)) : NULL;
    run->refused = !g;
    if (g && !to) td__fail_memory(cx);
    if (!to) return td__graph_drop(g), false;
    for (int i = 0, k = 0; i < s->fn->inputs.n; i++)
        if (in[i].kind == TD_K_TENSOR) to[k++] = in[i];
    td_autocast_mode was = td_autocast_off_begin(cx);
    bool             ok = run->way->call(run, g, to, out);
    td_autocast_end(cx, was);
    td__graph_drop(g);
    td__free(to);
    return ok;
}

static bool call_way(case_run *run, const td_gstep *s, const td_value *in,
                     td_value *out) {
    bool cast = run->way->of_graphs && td_autocast_enabled(run->file->cx);
    return cast ? call_cast(run, s, in, out) : run->way->call(run, s->fn, in, out);
}

/* ---- checkpoints -------------------------------------------------------- */

/* A call as a checkpoint region, which backward may run again. */
typedef struct case_region {
    case_run       *run;
    const td_gstep *s;
    td_value       *out;  /* the call's results, in the first run; then NULL */
    td_value        in[]; /* inputs of the first run */
} region;

static bool is_region_input(const region *r, int i) {
    return r->in[i].kind == TD_K_TENSOR && !case_is_closed_over(r->s->fn, i);
}

/* The region's body. Results that are not tensors go to r->out. False after
 * td__fail. */
static bool run_region(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                       int n_out) {
    const region *r = env;
    td_ctx       *cx = r->run->file->cx;
    size_t        n = (size_t)r->s->fn->inputs.n;
    td_value     *v = td__zalloc(sizeof *v * (n + (size_t)n_out + 1));
    if (!v) return td__fail_memory(cx);
    td_value *o = v + n;
    for (int i = 0, k = 0; i < (int)n; i++)
        v[i] = is_region_input(r, i) && k < n_in ? td_value_tensor(in[k++]) : r->in[i];
    const td_gstep *was = r->run->step;
    r->run->step = r->s;
    bool ok = call_way(r->run, r->s, v, o);
    r->run->step = was;
    for (int i = 0; ok && i < n_out; i++) {
        out[i] = o[i].kind == TD_K_TENSOR ? o[i].u.t : NULL;
        if (r->out) r->out[i] = o[i];
    }
    td__free(v);
    return ok;
}

/* Calls the function through td_checkpoint. run->regions owns the region, because
 * backward may need it until the case ends. */
static bool checkpointed(case_run *run, const td_gstep *s, const td_value *in,
                         td_value *out) {
    td_ctx     *cx = run->file->cx;
    int         n_in = s->fn->inputs.n, n_out = case_results(s), n = 0;
    region     *r = td__zalloc(sizeof *r + sizeof *in * ((size_t)n_in + 1));
    td_tensor **t = td__zalloc(sizeof *t * (size_t)(n_in + n_out + 1));
    bool        ok = r && t && td__vec_push(&run->regions, r);
    if (!ok) td__free(r), td__fail_memory(cx);
    else {
        *r = (region){.run = run, .s = s, .out = out};
        memcpy(r->in, in, sizeof *in * (size_t)n_in);
        for (int i = 0; i < n_in; i++)
            if (is_region_input(r, i)) t[n++] = in[i].u.t;
        ok = td_checkpoint(cx, run_region, r, (td_tensors){t, n}, t + n_in, n_out);
        r->out = NULL;
        for (int i = 0; ok && i < n_out; i++)
            if (t[n_in + i]) out[i] = td_value_tensor(t[n_in + i]);
    }
    td__free(t);
    return ok;
}

/* ---- the call ----------------------------------------------------------- */

/* Puts the run's dropout module into the mode that the call names. */
static bool set_mode(case_run *run, const td_gstep *s) {
    if (!s->module) return true;
    if (!run->module) run->module = td_nn_dropout(run->file->cx, 0.5);
    if (!run->module) return false;
    td_module_train(run->module, !strcmp(s->module, "train"));
    return true;
}

/* Marks dims of the call's tensors, for dynamic=. False after td__fail. */
static bool mark_dims(const td_gstep *s, const td_value *in) {
    bool maybe = s->dynamic && !strcmp(s->dynamic, "maybe");
    bool first = s->dynamic && !strcmp(s->dynamic, "first"), ok = true;
    for (int i = 0; s->dynamic && i < s->fn->inputs.n; i++) {
        if (in[i].kind != TD_K_TENSOR || case_is_closed_over(s->fn, i)) continue;
        for (int d = 0; ok && d < in[i].u.t->rank && (d == 0 || !first); d++)
            ok = maybe ? td_mark_maybe_dynamic(in[i].u.t, d)
                       : td_mark_dynamic(in[i].u.t, d);
    }
    return ok;
}

static bool call_or_checkpoint(case_run *run, const td_gstep *s, const td_value *in,
                               td_value *out) {
    return s->checkpoint ? checkpointed(run, s, in, out) : call_way(run, s, in, out);
}

/* ---- rehearsal: compile a call and its gradients beforehand ----------------- */

/* A leaf with the elements and layout of v. */
static td_value copy_of(td_value v) {
    if (v.kind != TD_K_TENSOR) return v;
    bool         grad = td_requires_grad(v.u.t);
    td_grad_mode was = td_no_grad_begin(v.u.t->cx);
    td_tensor   *t = td_op_clone(v.u.t, false);
    td_no_grad_end(v.u.t->cx, was);
    return td_value_tensor(grad ? td_set_requires_grad(t, true) : t);
}

/* Backward, with create_graph, from those of v that require grad. tensors: scratch for
 * 2n tensors. */
static bool run_backward_from(const td_value *v, int n, td_tensor **tensors) {
    int              m = 0;
    td_tensor      **ones = tensors + n;
    td_backward_opts opts = {TD_BACKWARD_OPTS, .create_graph = true};
    for (int i = 0; i < n; i++)
        if (wants_grad(v[i])) {
            tensors[m] = v[i].u.t;
            ones[m] = td_op_ones_like(tensors[m], TD_DTYPE_NONE);
            m++;
        }
    return m &&
           td_backward_with((td_tensors){tensors, m}, (td_tensors){ones, m}, &opts);
}

/* Runs the call on copies, its backward and double backward, so that everything is
 * compiled before the real call. Errors are ignored. False: out of memory. */
static bool rehearse(case_run *run, const td_gstep *s, const td_value *in) {
    td_ctx     *cx = run->file->cx;
    int         n_in = s->fn->inputs.n, n_out = case_results(s), n = n_in + n_out;
    td_value   *v = td__zalloc(sizeof *v * ((size_t)n + 1));
    td_tensor **tensors = td__zalloc(sizeof *tensors * 2 * ((size_t)n + 1));
    uint64_t    seed = td_rng_seed(cx), offset = td_rng_offset(cx);
    if (!v || !tensors) return td__free(v), td__free(tensors), td__fail_memory(cx);
    case_effects none = {0}, was = case_effects_now ? *case_effects_now : none;
    td_value    *out = v + n_in;
    for (int i = 0; i < n_in; i++) v[i] = copy_of(in[i]);
    if (call_or_checkpoint(run, s, v, out) && run_backward_from(out, n_out, tensors)) {
        for (int i = 0; i < n_in; i++)
            if (wants_grad(v[i]) && td_is_leaf(v[i].u.t) && td_grad_of(v[i].u.t))
                v[i] = td_value_tensor(td_grad_of(v[i].u.t));
        run_backward_from(v, n_in, tensors);
    }
    run->refused = false;
    td_clear(cx);
    td_rng_set(cx, seed, offset);
    if (case_effects_now) *case_effects_now = was;
    td__free(v);
    td__free(tensors);
    return true;
}

/* ---- the call with all its options ------------------------------------------- */

bool case_call(case_run *run, const td_gstep *s, const td_value *in, td_value *out) {
    td_ctx          *cx = run->file->cx;
    td_autocast_mode was = {0};
    run->step = s;
    if (!set_mode(run, s) || !mark_dims(s, in) || !case_hooks_begin(run, s))
        return false;
    if (s->autocast)
        was = td_autocast_begin(cx, strcmp(s->autocast, "f16") ? TD_BF16 : TD_F16);
    bool ok = s->rehearse ? rehearse(run, s, in) : call_or_checkpoint(run, s, in, out);
    if (s->autocast) td_autocast_end(cx, was);
    case_hooks_end(run, s);
    return ok;
}

void case_call_end(case_run *run) {
    for (int i = 0; i < run->regions.n; i++) td__free(run->regions.v[i]);
    td__vec_free(&run->regions);
    td_module_free(run->module);
    run->module = NULL;
}
