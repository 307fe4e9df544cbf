/* way_compiled.c -- executes functions of a case compiled ahead of time. A run has
 * one compiled function per function it calls, so that later calls reuse earlier
 * specializations. A function that closes over tensors of the case, or computes
 * gradients or calls a module inside, is compiled as a C body. */
#include "cli/case_run.h"

#include "backend/backend.h"
#include "core/store.h"
#include "tandem/aot.h"

/* The options in which the ways differ. */
typedef struct variant {
    bool all;      /* save everything: partition=default */
    bool keep;     /* keep_mutations */
    bool dynamic;  /* symbolic sizes; else as in the settings */
    bool traced;   /* interpreted, without optional passes */
    bool replayed; /* interpret the graphs of native code */
    bool packed;   /* saved values go through hooks that lose nothing */
    bool stored;   /* saved values are in a store until backward */
} variant;

/* ---- bodies ------------------------------------------------------------- */

/* A call's function as a body. in[] has the closed-over values; of arguments only the
 * kind. */
struct case_closure {
    case_run       *run;
    const td_gstep *s;
    td_value        in[];
};

static bool needs_closure(const td_gstep *s) {
    bool any = s->grads || s->module || s->control || s->body;
    for (int i = 0; i < s->fn->inputs.n; i++)
        any |= case_is_closed_over(s->fn, i) && !case_is_literal(s->fn, i);
    return any;
}

static case_closure *make_closure(case_run *run, const td_value *in) {
    const td_gstep *s = run->step;
    size_t          n = (size_t)s->fn->inputs.n;
    case_closure   *k = td__zalloc(sizeof *k + sizeof *in * (n + 1));
    if (!k) return td__fail_memory(run->file->cx), NULL;
    *k = (case_closure){.run = run, .s = s};
    for (size_t i = 0; i < n; i++) k->in[i] = in[i];
    return k;
}

/* A closure over another tensor, or one that reads its arguments as other kinds of
 * values (td_arg_int would truncate a float), needs another function. */
static bool is_same_closure(const case_closure *k, const td_gstep *s,
                            const td_value *in) {
    bool same = k->s->grads == s->grads && !k->s->module == !s->module &&
                k->s->control == s->control && k->s->body == s->body;
    for (int i = 0; same && i < s->fn->inputs.n; i++) {
        bool closed = case_is_closed_over(s->fn, i);
        same = (s->body && !closed) || k->in[i].kind == in[i].kind;
        if (same && closed) same = k->in[i].u.t == in[i].u.t;
    }
    return same;
}

/* Argument i of a body. With body=true a number may vary (td_arg_value); else it is a
 * constant of the code. */
static td_value argument(td_call *c, int i, uint32_t kind, bool varies) {
    if (td_arg_absent(c, i)) return TD_NONE;
    if (varies) return td_arg_value(c, i);
    switch (kind) {
    case TD_K_TENSOR: return td_value_tensor(td_arg(c, i));
    case TD_K_INT: return td_value_int(td_arg_int(c, i));
    case TD_K_BOOL: return td_value_bool(td_arg_int(c, i) != 0);
    default: return td_value_float(td_arg_number(c, i));
    }
}

static bool run_closure(td_call *c) {
    case_closure *k = td_call_env(c);
    int           n = k->s->fn->inputs.n, n_out = case_results(k->s);
    td_value     *v = td__zalloc(sizeof *v * (size_t)(n + n_out + 1));
    if (!v) return td__fail_memory(td_call_ctx(c));
    td_value *out = v + n;
    for (int i = 0, arg = 0; i < n; i++)
        v[i] = case_is_closed_over(k->s->fn, i)
                   ? k->in[i]
                   : argument(c, arg++, k->in[i].kind, k->s->body);
    bool ok =
        case_body(k->run, k->s, v, out) && td_return_values(c, (td_values){out, n_out});
    td__free(v);
    return ok;
}

/* ---- hooks on saved values ---------------------------------------------- */

/* Packs a transposed copy and a second value that only the forward graph reads. */
static int pack(void *env, const td_saved_at *at, td_tensor *t, td_tensor **to) {
    (void)env, (void)at;
    to[0] = td_rank(t) ? td_transpose(t, 0, -1) : td_clone(t);
    to[1] = td_sum(td_isnan(t));
    return 2;
}
static td_tensor *unpack(void *env, const td_saved_at *at, td_tensor *const *from,
                         int n) {
    (void)env, (void)at, (void)n;
    return td_rank(from[0]) ? td_transpose(from[0], 0, -1) : from[0];
}
static const td_packing transposing = {.pack = pack,
                                       .unpack = unpack,
                                       .filter = TD_SAVED_ALL,
                                       .lossless = true};

/* Offloads all saved values to a store, which the context has from then on. */
static td_offload storing(td_ctx *cx) {
    td_store *s = td__store_named(cx, "memory");
    return (td_offload){.store = s ? s : td_store_memory(cx, "memory"),
                        .min_bytes = 1,
                        .filter = TD_SAVED_ALL};
}

/* ---- functions ---------------------------------------------------------- */

/* Compiles fn with the variant's options; v NULL: with the settings. */
static td_fn *make(const td_graph *fn, case_closure *k, const variant *v) {
    td_config c = {TD_CONFIG};
    if (!td_config_get(fn->cx, &c)) return NULL;
    if (v) c.partition = v->all ? TD_PARTITION_DEFAULT : TD_PARTITION_MINCUT;
    if (v) c.keep_mutations = v->keep;
    if (v && v->dynamic) c.dynamic = TD_SHAPES_DYNAMIC;
    if (v && (v->all || v->dynamic)) c.functional_rng = true;
    if (v && v->traced) {
        c.merge_writes = c.merge_made = c.assign_writes = c.cse = false;
        c.backend = TD_BACKEND_INTERP;
    }
    const td_backend *b = v && v->replayed ? &td__replayed : NULL;
    td_aot_opts       opts = {TD_AOT_OPTS, .config = &c, .forward = b, .backward = b,
                              .inference = b};
    if (v && v->packed) opts.saved = transposing;
    if (v && v->stored) opts.offload = storing(fn->cx);
    return k ? td_aot_function(fn->cx, run_closure, k, &opts) : td_aot_graph(fn, &opts);
}

/* The compiled function for the current call, made if missing; NULL after td__fail. */
static const case_fn *compiled(case_run *run, const td_graph *fn, const td_value *in) {
    bool closes = needs_closure(run->step);
    for (int i = 0; i < run->fns.n; i++) {
        const case_fn *c = &run->fns.v[i];
        if (c->fn == fn && !c->closure == !closes &&
            (!closes || is_same_closure(c->closure, run->step, in)))
            return c;
    }
    case_fn c = {.fn = fn};
    if (closes && !(c.closure = make_closure(run, in))) return NULL;
    c.f = make(fn, c.closure, run->way->env);
    bool made = !td_is_nil(c.f);
    if (made && td__vec_push(&run->fns, c)) return &run->fns.v[run->fns.n - 1];
    if (made) td__fail_memory(fn->cx);
    td_fn_drop(c.f);
    td__free(c.closure);
    return NULL;
}

/* Calls it with the arguments, without closed-over values. False after td__fail. */
static bool invoke(const case_fn *c, const td_value *in, td_value *out, int n_out) {
    int       n = c->fn->inputs.n, n_args = 0;
    td_value *args = td__zalloc(sizeof *args * ((size_t)n + 1));
    if (!args) return td__fail_memory(c->fn->cx);
    for (int i = 0; i < n; i++)
        if (!c->closure || !case_is_closed_over(c->fn, i)) args[n_args++] = in[i];
    bool ok = td_invoke_values(c->f, (td_values){args, n_args}, out, n_out) >= 0;
    td__free(args);
    return ok;
}

/* Has one of them a dim that must be symbolic? Then TD_E_GUARD counts as
 * unsupported. */
static bool has_marks(const td_graph *fn, const td_value *in) {
    for (int i = 0; i < fn->inputs.n; i++)
        if (in[i].kind == TD_K_TENSOR && in[i].u.t->marks) return true;
    return false;
}

static bool call_compiled(case_run *run, const td_graph *fn, const td_value *in,
                          td_value *out) {
    const case_fn *c = compiled(run, fn, in);
    bool           ok = c && invoke(c, in, out, case_results(run->step));
    td_code        code = td_error(fn->cx);
    run->refused = !ok && (code == TD_E_UNSUPPORTED || code == TD_E_TRACE ||
                           (code == TD_E_GUARD && has_marks(fn, in)));
    return ok;
}

void case_fns_end(case_run *run) {
    for (int i = 0; i < run->fns.n; i++) {
        td_fn_drop(run->fns.v[i].f);
        td__free(run->fns.v[i].closure);
    }
    td__vec_free(&run->fns);
}

#define COMPILED(of, ...)                                                              \
    {                                                                                  \
        .name = of, .call = call_compiled, .env = &(variant){__VA_ARGS__}, .slack = 4, \
        .grad_slack = 256, .saves_copies = true                                        \
    }
#define VARIANTS(by)                                                                  \
    {                                                                                 \
        COMPILED("compiled", .replayed = by),                                         \
            COMPILED("compiled-all", .all = true, .replayed = by),                    \
            COMPILED("compiled-keep", .keep = true, .replayed = by),                  \
            COMPILED("compiled-all-keep", .all = true, .keep = true, .replayed = by), \
            COMPILED("compiled-dynamic", .dynamic = true, .replayed = by),            \
            COMPILED("compiled-dynamic-all-keep", .all = true, .keep = true,          \
                     .dynamic = true, .replayed = by),                                \
            COMPILED("functional", .all = true, .traced = true, .replayed = by),      \
            COMPILED("compiled-packed", .all = true, .packed = true, .replayed = by), \
            COMPILED("compiled-offloaded", .all = true, .stored = true,               \
                     .replayed = by)                                                  \
    }

const case_way case_as_set = {.name = "compiled", .call = call_compiled};
const case_way case_compiled[CASE_RANDOM] = VARIANTS(false);
const case_way case_replayed[CASE_RANDOM] = VARIANTS(true);
