/* value_sizes.c -- measures sizes that depend on values. A trace represents such a size
 * by a symbol and assumes that it is neither 0 nor 1. If that fails, the program runs
 * once on copies of the arguments to measure these sizes, and is traced for exactly
 * them (td_graph.sizes). Such code checks the sizes in every call. */
#include "core/device.h"
#include "trace/trace_int.h"

#include <string.h>

/* A copy of input i in a storage of its own, or of the inputs that share it. */
static td_tensor *copy_input(td_ctx *cx, const td_value *in, td_value *to, int i) {
    const td_tensor *t = in[i].u.t;
    td_storage      *st = NULL;
    td_meta          m;
    for (int k = 0; k < i; k++) {
        if (in[k].kind != TD_K_TENSOR || !in[k].u.t) continue;
        if (in[k].u.t == t) return to[k].u.t;
        if (in[k].u.t->st == t->st) st = to[k].u.t->st;
    }
    td__tensor_meta(t, &m);
    if (st) return td__tensor_over(cx, st, &m);
    st = t->st->device ? td__storage_on(t->st->bytes, t->st->device)
                       : td__storage_make(t->st->bytes, false);
    if (!st) return td__fail_memory(cx), NULL;
    bool       ok = td__storage_copy(cx, st, t->st);
    td_tensor *copy = ok ? td__tensor_over(cx, st, &m) : NULL;
    td__storage_drop(st);
    return copy;
}

/* Runs the program on copies of in[]; values has space for those and for the
 * results. */
static bool run_copies(const td_graph *program, const td_value *in, td_value *values) {
    int n = program->inputs.n;
    for (int i = 0; i < n; i++) {
        values[i] = in[i];
        if (in[i].kind != TD_K_TENSOR || !in[i].u.t) continue;
        td_tensor *copy = copy_input(program->cx, in, values, i);
        if (!copy) return false;
        values[i] = td_value_tensor(copy);
    }
    return td__graph_replay(program, values, values + n);
}

static bool has_elements(const td_value *in, int n) {
    for (int i = 0; i < n; i++)
        if (in[i].kind == TD_K_TENSOR && in[i].u.t &&
            (td__is_fake(in[i].u.t) || in[i].u.t->typed))
            return false;
    return true;
}

/* Runs the program with its sizes noted in `to`. */
static bool measure(const td_graph *program, const td_value *in, td_dim_list *to) {
    td_ctx    *cx = program->cx;
    size_t     n = (size_t)program->inputs.n + (size_t)program->outputs.n + 1;
    td_value  *values = td__zalloc(sizeof *values * n);
    uint64_t   seed = cx->rng_seed, offset = cx->rng_offset;
    td_outside o;
    bool       ok = (values || td__fail_memory(cx)) && td__ambient_clear(cx, &o);
    if (ok) {
        td_dim_list *was = cx->sizes_seen;
        td_dim_hook  hook = td__dim_set_hook((td_dim_hook){0});
        cx->rng_seed = seed;
        cx->rng_offset = offset;
        cx->default_dtype = o.was.default_dtype;
        cx->device = o.was.device;
        cx->sizes_seen = to;
        ok = run_copies(program, in, values);
        cx->sizes_seen = was;
        td__dim_set_hook(hook);
        td__ambient_restore(cx, &o, ok);
    }
    td__free(values);
    return ok;
}

bool td__sizes_measure(const td_graph *program, const td_value *in, td_dim_list *to) {
    td_ctx *cx = program->cx;
    td_code code = td__error(cx);
    td_buf  why = {0};
    if (code != TD_E_UNSUPPORTED && code != TD_E_TRACE) return false;
    bool effects =
        td__graph_flags(program, TD_OPF_EFFECT); /* a run would repeat them */
    td__buf_add(&why, td__message(cx));
    if (effects)
        td__buf_add(&why, "; and the program calls an op with an effect, so that it "
                          "cannot be run once more to measure the size");
    td_clear(cx);
    bool ok = !why.failed || td__fail_memory(cx);
    ok = ok && !effects && has_elements(in, program->inputs.n) &&
         measure(program, in, to) && to->n > 0;
    if (!ok && td__error(cx) != TD_E_MEMORY) { /* keep the error of the failed trace */
        td_clear(cx);
        td__fail(cx, code, "%s", td__buf_str(&why));
    }
    td__buf_free(&why);
    return ok;
}

bool td__sizes_keep(td_graph *program, const td_dim_list *sizes) {
    for (int i = 0; i < sizes->n; i++)
        if (!td__vec_push(&program->sizes, sizes->v[i]))
            return td__fail_memory(program->cx);
    return true;
}
