/* case_run.c -- runs one case of a .td file: builds inputs, calls functions, runs
 * backward. The generator starts at seed 0; a statement with seed= uses its own seed
 * and leaves the generator as it was. */
#include "cli/case_run.h"
#include "core/typed.h"
#include "trace/trace.h"
#include "tandem/compiled_backward.h"

#include "tandem/grad.h"
#include "tandem/io.h"
#include "tandem/object.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- building inputs ---------------------------------------------------- */

/* A position of the random generator. */
typedef struct generator {
    uint64_t seed, offset;
} generator;

/* Sets the statement's own seed, if it has one; returns the previous position. */
static generator set_generator(td_ctx *cx, const td_gstep *s) {
    generator was = {td_rng_seed(cx), td_rng_offset(cx)};
    if (s->seeded) td_rng_set(cx, (uint64_t)s->seed, 0);
    return was;
}

static void restore_generator(td_ctx *cx, const td_gstep *s, generator was) {
    if (s->seeded) td_rng_set(cx, was.seed, was.offset);
}

/* Sets a new value of the case; requires_grad= makes it a leaf. False after td__fail.
 */
static bool set_value(case_run *run, const td_gstep *s, td_gval *v, td_tensor *t) {
    if (td_is_nil(t)) return false;
    if (s->requires_grad && td_is_nil(td_set_requires_grad(t, true))) return false;
    if (s->requires_grad && !td__vec_push(&run->leaves, v))
        return td__fail_memory(run->file->cx);
    return s->kind == TD_STEP_NODE || td__replay_set(&run->r, v, td_value_tensor(t));
}

/* An op of the case itself. One with seed= has a generator of its own, so that inputs
 * do not depend on what was drawn before. */
static bool run_node(case_run *run, const td_gstep *s) {
    td_ctx   *cx = run->file->cx;
    generator was = set_generator(cx, s);
    bool      own = !s->seeded && td__gnode_draws(s->node);
    bool      ok = case_draws_begin(run, own) && td__replay_node(&run->r, s->node);
    ok = case_draws_end(run) && ok;
    restore_generator(cx, s, was);
    for (int i = 0; ok && i < s->node->n_out; i++) {
        td_value v = run->r.val[s->node->out[i]->id];
        ok = v.kind != TD_K_TENSOR || set_value(run, s, s->node->out[i], v.u.t);
    }
    return ok;
}

/* Relative paths are relative to the .td file. */
static void full_path(const case_run *run, const char *path, char *out, size_t cap) {
    const char *slash = strrchr(run->file->name, '/');
    int         n = path[0] == '/' || !slash ? 0 : (int)(slash + 1 - run->file->name);
    snprintf(out, cap, "%.*s%s", n, run->file->name, path);
}

/* Tensors from files are cloned: a mapped tensor is read-only. */
static td_tensor *load(case_run *run, const td_gstep *s) {
    td_ctx *cx = run->file->cx;
    char    path[4096];
    full_path(run, s->path, path, sizeof path);
    size_t n = strlen(path);
    if (n > 4 && !strcmp(path + n - 4, ".npy"))
        return td_op_clone(td_load_npy(cx, path), true);
    if (!s->name)
        return td_fail(cx, TD_E_ARG,
                       "load: \"%s\" holds several tensors; give the name of one",
                       s->path);
    td_safetensors *f = td_safetensors_open(cx, path);
    td_tensor      *t = f ? td_safetensors_get(f, s->name) : td_nil(cx);
    if (!td_is_nil(t)) t = td_op_clone(t, true); /* a mapped tensor is read-only */
    td_safetensors_close(f);
    return t;
}

/* ---- calls -------------------------------------------------------------- */

/* Is argument i of the type (tandem/type.h) and metadata that its input states? */
static bool is_of_type(case_run *run, const td_gstep *s, int i, const td_tensor *t) {
    const td_gtyped *of = s->fn->inputs.v[i]->type->of;
    const td_typed  *d = t->typed;
    char             got[120];
    bool             same = of && d ? !strcmp(of->name, d->type->opts.name) &&
                              !strcmp(of->metadata, d->metadata)
                                    : !of && !d;
    return same ||
           td__fail(run->file->cx, TD_E_ARG, "@%s: argument %d must be %s%s, got %s",
                    s->fn->name, i, of ? "of type " : "a plain tensor",
                    of ? of->name : "", td__typed_str(d, got, sizeof got));
}

/* The types of a function's inputs are checked: another dtype or size fails. */
static bool fits(case_run *run, const td_gstep *s, int i, td_value v) {
    td_ctx         *cx = run->file->cx;
    const td_gtype *l = s->fn->inputs.v[i]->type;
    if (!l) return true;
    bool tensor = v.kind == TD_K_TENSOR;
    if (tensor != (l->kind == TD_K_TENSOR))
        return td__fail(cx, TD_E_ARG, "@%s: argument %d must be a %s", s->fn->name, i,
                        tensor ? "number" : "tensor");
    if (!tensor) return true;
    bool same = l->rank == v.u.t->rank && l->dtype == v.u.t->dtype;
    for (int d = 0; same && d < l->rank; d++)
        same = td__dim_is_sym(l->size[d]) || l->size[d] == v.u.t->size[d];
    if (same) return is_of_type(run, s, i, v.u.t);
    td_dtype dt = (td_dtype)l->dtype;
    return td__fail(cx, TD_E_SHAPE, "@%s: argument %d must be %s%s, got %s",
                    s->fn->name, i, td_dtype_name(dt), td__sizes_str(l->rank, l->size),
                    td__type_str(v.u.t));
}

/* Input i of fn may be described as an object: then v, u8[0], becomes one of that type,
 * unless it is one. Its data is an int64_t, 0 at first. False after td__fail. */
static bool as_object(td_ctx *cx, const td_graph *fn, int i, td_value v) {
    const td_desc *d = &fn->in_desc.v[i];
    if (d->kind != TD_D_OBJECT || v.kind != TD_K_TENSOR || v.u.t->st->object)
        return true;
    td_object_opts o = {TD_OBJECT_OPTS, .type = d->name, .drop = free};
    o.data = calloc(1, sizeof(int64_t));
    td_tensor *t = o.data ? td_object(cx, &o) : td_nil(cx);
    if (td_is_nil(t)) {
        if (!o.data) return td__fail_memory(cx);
        free(o.data);
        return false;
    }
    td__tensor_set_storage(v.u.t, t->st);
    return true;
}

/* The run's copy of a const of fn, since a run may write it; nil after td__fail. */
static td_tensor *own_const(case_run *run, const td_graph *fn, int i) {
    td_ctx     *cx = run->file->cx;
    case_consts c = {fn, NULL};
    for (int k = 0; k < run->consts.n; k++)
        if (run->consts.v[k].fn == fn) return run->consts.v[k].copy[i];
    c.copy = td__alloc(sizeof *c.copy * ((size_t)fn->consts.n + 1));
    if (!c.copy || !td__vec_push(&run->consts, c)) {
        td__free(c.copy);
        td__fail_memory(cx);
        return td_nil(cx);
    }
    for (int k = 0; k < fn->consts.n; k++)
        c.copy[k] = td_op_clone(fn->consts.v[k], false);
    return c.copy[i];
}

static bool read_const(case_run *run, const td_gstep *s, int nr, td_value *to) {
    td_tensor *t = own_const(run, s->fn, nr);
    *to = td_value_tensor(t);
    return !td_is_nil(t);
}

/* Fills in[] from arguments and consts. False after td__fail. */
static bool read_inputs(case_run *run, const td_gstep *s, td_value *in) {
    for (int i = 0, k = 0; i < s->fn->inputs.n; i++) {
        const td_desc *d = &s->fn->in_desc.v[i];
        in[i] = TD_NONE;
        if (d->kind == TD_D_CONST && d->index >= 0) {
            if (!read_const(run, s, d->index, &in[i])) return false;
            continue;
        }
        if (d->kind == TD_D_OWN_GRAD) continue;
        if (!td__replay_arg(&run->r, &s->args[k++], &in[i])) return false;
        if (in[i].kind == TD_K_INTS || in[i].kind == TD_K_TENSORS)
            return td__fail(run->file->cx, TD_E_UNSUPPORTED,
                            "@%s: argument %d is a list; functions of a case take "
                            "tensors and numbers",
                            s->fn->name, i);
        if (!fits(run, s, i, in[i]) || !as_object(run->file->cx, s->fn, i, in[i]))
            return false;
    }
    return td__own_grads_read(s->fn, in) ||
           td__fail(run->file->cx, TD_E_ARG,
                    "@%s: an argument has no .grad, which the function reads",
                    s->fn->name);
}

/* A call statement. False after td__fail. */
static bool run_call(case_run *run, const td_gstep *s) {
    td_ctx   *cx = run->file->cx;
    size_t    n_in = (size_t)s->fn->inputs.n, n_out = (size_t)case_results(s);
    td_value *in = td__zalloc(sizeof *in * (n_in + n_out + 1));
    if (!in) return td__fail_memory(cx);
    td_value *out = in + n_in;
    case_report_call(run, s);
    case_report_inputs(run, s, "inputs");
    bool ok = read_inputs(run, s, in) &&
              case_draws_begin(run, td__graph_draws(s->fn)) &&
              case_call(run, s, in, out);
    ok = case_draws_end(run) && ok;
    for (int i = 0; ok && i < s->n_out; i++)
        ok = td__replay_set(&run->r, s->out[i], out[i]);
    td__free(in);
    if (!ok) case_report_draws(run);
    if (ok) case_report_outputs(run, s);
    if (ok) case_report_inputs(run, s, "inputs_after");
    if (!s->rehearse) run->last = s;
    return ok;
}

/* ---- backward ----------------------------------------------------------- */

static bool add_root(case_run *run, const td_gval *v, td_tensor **roots, int *n) {
    td_value x = run->r.val[v->id];
    bool     is_root = x.kind == TD_K_TENSOR && td_requires_grad(x.u.t);
    if (is_root) roots[(*n)++] = x.u.t;
    return is_root;
}

/* The tensors to start backward from: those named, or all outputs of the last call
 * that require grad. grads[] gets the tangents that the statement names, or NULL. */
static int find_roots(case_run *run, const td_gstep *s, td_tensor **roots,
                      td_tensor **grads) {
    int n = 0;
    for (int i = 0; i < s->n_roots; i++) {
        bool     has = s->n_args > s->n_roots;
        td_value t = has ? run->r.val[s->args[s->n_roots + i].u.v->id] : TD_NONE;
        if (add_root(run, s->args[i].u.v, roots, &n))
            grads[n - 1] = t.kind == TD_K_TENSOR ? t.u.t : NULL;
    }
    for (int i = 0; !s->n_roots && run->last && i < run->last->n_out; i++)
        add_root(run, run->last->out[i], roots, &n);
    return n;
}

/* Normal numbers; of a complex tensor in both parts. */
static td_tensor *drawn_like(td_tensor *t) {
    if (!td__is_complex((td_dtype)t->dtype)) return td_op_randn_like(t, TD_DTYPE_NONE);
    td_tensor *parts = td_op_randn_like(td_op_view_as_real(t), TD_DTYPE_NONE);
    return td_op_view_as_complex(td_op_contiguous(parts));
}

/* Where no tangent is named: random ones if the statement has a seed, else ones. */
static bool make_tangents(case_run *run, const td_gstep *s, td_tensors roots,
                          td_tensor **grads) {
    td_ctx      *cx = run->file->cx;
    generator    was = set_generator(cx, s);
    td_grad_mode mode = td_no_grad_begin(cx);
    for (int i = 0; i < roots.n; i++)
        grads[i] = grads[i]    ? grads[i]
                   : s->seeded ? drawn_like(roots.v[i])
                               : td_op_ones_like(roots.v[i], TD_DTYPE_NONE);
    td_no_grad_end(cx, mode);
    restore_generator(cx, s, was);
    return td_ok(cx);
}

/* The compiled function for backwards, in a way that compiles them; NULL: the engine
 * runs them. nil after td__fail. */
static td_backward_fn *runner(case_run *run) {
    if (!run->way->backward) return NULL;
    if (!run->back) run->back = td_aot_backward(run->file->cx, NULL);
    return run->back;
}

/* Without arguments, from the outputs of the last call that require grad. Tangents are
 * drawn from the seed, or are ones. */
static bool run_backward(case_run *run, const td_gstep *s) {
    td_ctx          *cx = run->file->cx;
    td_backward_opts opts = {TD_BACKWARD_OPTS, .retain_graph = s->retain_graph,
                             .create_graph = s->create_graph, .with = runner(run)};
    int              most = s->n_roots ? s->n_roots : run->last ? run->last->n_out : 0;
    td_tensor      **tensors = td__zalloc(sizeof *tensors * 2 * ((size_t)most + 1));
    if (!tensors) return td__fail_memory(cx);
    td_tensor **with = tensors + most + 1;
    int         n = find_roots(run, s, tensors, with);
    td_tensors  roots = {tensors, n}, grads = {with, n};
    bool        ok = n > 0 || td__fail(cx, TD_E_GRAD,
                                       "backward: no output of the last "
                                              "call requires grad");
    ok = ok && make_tangents(run, s, roots, with) &&
         (!run->before_backward ||
          run->before_backward(run->before_env, roots, grads)) &&
         case_hooks_begin(run, s);
    if (ok) {
        case_mark at = case_report_backward(run, s, grads);
        ok = td_backward_with(roots, grads, &opts);
        case_hooks_end(run, s);
        case_report_gradients(run, ok ? NULL : &at);
    }
    td__free(tensors);
    return ok;
}

/* Makes a .grad a value of the case, for gradients of gradients. */
static bool run_grad(case_run *run, const td_gstep *s) {
    td_value x = run->r.val[s->args[0].u.v->id];
    run->higher++;
    td_tensor *g = x.kind == TD_K_TENSOR ? td_grad_of(x.u.t) : NULL;
    if (!g || td_is_nil(g))
        return td__fail(run->file->cx, TD_E_GRAD, "grad: the value has no .grad");
    return td__replay_set(&run->r, s->out[0], td_value_tensor(g));
}

/* ---- the whole ---------------------------------------------------------- */

/* Executes one step with its source line as the current one. */
bool case_step(case_run *run, int i) {
    const td_gstep *s = &run->c->steps.v[i];
    td_here = (td_where){run->file->name, s->line}; /* case_run_all restores td_here */
    switch ((td_gstep_kind)s->kind) {
    case TD_STEP_NODE: return run_node(run, s);
    case TD_STEP_TENSOR:
        return set_value(run, s, s->out[0],
                         td_op_clone(run->c->g->consts.v[s->konst], true));
    case TD_STEP_LOAD: return set_value(run, s, s->out[0], load(run, s));
    case TD_STEP_CALL: return run_call(run, s);
    case TD_STEP_BACKWARD: return run_backward(run, s);
    case TD_STEP_GRAD: return run_grad(run, s);
    }
    return false;
}

bool case_begin(case_run *run) {
    td_seed(run->file->cx, 0);
    return td__replay_begin(&run->r, run->c->g);
}

void case_end(case_run *run) {
    td__replay_end(&run->r);
    for (int i = 0; i < run->storages.n; i++) td__storage_drop(run->storages.v[i]);
    for (int i = 0; i < run->consts.n; i++) td__free(run->consts.v[i].copy);
    td__vec_free(&run->leaves);
    td__vec_free(&run->storages);
    case_fns_end(run);
    td_backward_fn_drop(run->back);
    case_call_end(run);
    td__vec_free(&run->consts);
    td__buf_free(&run->draws);
}

/* Runs the case in a scope of its own; whatever it made is freed with it. */
bool case_run_all(case_run *run) {
    td_ctx  *cx = run->file->cx;
    td_where here = td_here; /* the file that steps name may be dropped next */
    td_scope_begin(cx, run->c->name);
    bool ok = case_begin(run);
    case_report_begin(run);
    for (int i = 0; ok && i < run->c->steps.n; i++) ok = case_step(run, i);
    case_report_end(run, ok);
    case_end(run);
    td_scope_end(cx, run->c->name, NULL);
    td_here = here;
    return ok;
}

/* ---- clean-up passes (--clean) ------------------------------------------------- */

/* A function whose types do not fit is left unchanged; calling it reports the error. */
bool case_clean(const td_gfile *f) {
    for (int i = 0; i < f->graphs.n; i++) {
        td_graph *g = f->graphs.v[i];
        if (!td__graph_infer(g)) {
            td_clear(f->cx);
            continue;
        }
        if (!td__graph_views(g) || !td__graph_fold(g) || !td__graph_cse(g) ||
            !td__graph_dce(g) || !td__graph_order(g))
            return false;
    }
    return true;
}
