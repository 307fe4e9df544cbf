/* native.c -- the backend that generates native code: compiles a graph to a list of
 * steps, each of which launches a kernel or calls an op (native_run.c runs them). */
#include "backend/native.h"

#include "build/disk.h"
#include "trace/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Texts of kernels that were found on disk are borrowed from the image. */
static void drop_launch(td_launch *k) {
    td__built_free(&k->b);
    td__free(k->reads);
    td__free(k->ptr);
    td__free(k->size);
    td__free(k->given);
    td__free(k->over);
    td__free(k->metas);
    td__on_device_drop(k->on);
    if (k->borrowed) return;
    td__free((void *)(uintptr_t)k->kernel.text);
    td__free((void *)(uintptr_t)k->kernel.helpers);
}

void td__native_drop(void *env) {
    td_native *c = env;
    for (int i = 0; i < c->n_launches; i++) drop_launch(&c->launches[i]);
    td__free(c->launches);
    td__vec_free(&c->steps);
    td__direct_free(c->direct);
    td__recording_drop(c->recording);
    td__memory_free(&c->mem);
    td__lowered_free(&c->low);
    td__graph_drop(c->g);
    if (c->rebuilt) td__native_drop(c->rebuilt);
    td__free(c);
}

/* May its argument have no elements? Some kernels define special results then (mean).
 */
static bool is_empty(const td_graph *g, const td_gnode *n) {
    const td_gtype *l =
        n->n_in && n->in[0].kind == TD_G_VALUE ? n->in[0].u.v->type : NULL;
    for (int d = 0; l && l->kind == TD_K_TENSOR && d < l->rank; d++)
        if (td__gdim_least(g, l->size[d]) < 1) return true;
    return false;
}

/* Lists the ops to decompose because their parts fuse. An op on halves that computes
 * in f32 internally stays whole: its parts would round in between. False: none. */
static bool name_parts(const td_graph *g, td_buf *names) {
    bool whole[TD_OP_LIMIT] = {0}, some = false;
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *n = g->nodes.v[i];
        const td_gtype *type = n->n_out ? n->out[0]->type : NULL;
        if (n->kind != TD_N_OP || !(td__row(n->op)->flags & TD_OPF_FUSES)) continue;
        bool whole_op = !type || td__is_half((td_dtype)type->dtype) ||
                        td__is_complex((td_dtype)type->dtype) || is_empty(g, n);
        whole[n->op] |= whole_op;
        some |= !whole_op;
    }
    for (int op = 0; some && op < TD_OP_COUNT; op++)
        if (td__row(op)->flags & TD_OPF_FUSES && !whole[op])
            td__buf_printf(names, "%s%s", names->n ? "," : "", td__row(op)->name);
    return some;
}

static bool runs_on_device(const td_graph *g) {
    for (int i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.v[i]->n_out; k++) {
            const td_gtype *l = g->nodes.v[i]->out[k]->type;
            if (l && l->kind == TD_K_TENSOR && l->device) return true;
        }
    return false;
}

/* A copy of the graph with decomposed ops, without dead code and common
 * subexpressions. NULL after td__fail. */
static td_graph *simplify(const td_graph *g) {
    td_buf    names = {0};
    bool      some = name_parts(g, &names);
    td_graph *s = NULL;
    bool      grad = g->cx->grad_enabled;
    g->cx->grad_enabled = false; /* autograd is outside of compiled code */
    if (names.failed) td__fail_memory(g->cx);
    else if (runs_on_device(g))
        s = td__device_forms(g, some ? td__buf_str(&names) : NULL);
    else if (some) s = td__graph_decompose(g, td__buf_str(&names));
    /* A decomposition can need more than types, the size of a storage for example. Then
     * ops stay whole. */
    if (!s && td__error(g->cx) != TD_E_MEMORY) {
        if (!td_ok(g->cx))
            td__log(g->cx, TD_LOG_backend, "ops are not decomposed: %s",
                    td__message(g->cx));
        td_clear(g->cx);
        s = td__graph_clone(g);
    }
    g->cx->grad_enabled = grad;
    td__buf_free(&names);
    if (s && td__graph_dce(s) && td__graph_cse(s) && td__combine_products(s) &&
        td__graph_cse(s) && td__compute_again(s) && td__pack_products(s) &&
        td__graph_dce(s) && td__place_pieces(s))
        return s;
    td__graph_drop(s);
    return NULL;
}

static bool is_output(const td_graph *g, const td_gval *v) {
    for (int i = 0; i < g->outputs.n; i++)
        if (g->outputs.v[i].kind == TD_G_VALUE && g->outputs.v[i].u.v == v) return true;
    return false;
}

/* Fills k->reads with the distinct values that the kernel reads but does not make,
 * and allocates the arrays of a run. False: out of memory. */
static bool find_reads(const td_graph *g, td_launch *k) {
    k->reads = td__alloc(sizeof *k->reads * (size_t)(k->b.bytes.n + 1));
    k->ptr = td__alloc(sizeof *k->ptr * (size_t)(k->b.bytes.n + 1));
    k->size = td__alloc(sizeof *k->size * (size_t)(k->b.params.n + 1));
    k->given = td__alloc(sizeof *k->given * (size_t)(k->b.nest.n_given + 1));
    k->over = td__zalloc(sizeof *k->over * (size_t)(k->b.makes.n + 1));
    if (!k->reads || !k->ptr || !k->size || !k->given || !k->over) return false;
    if (g->dims.n == 0 && !(k->metas = td__launch_metas(g, k))) return false;
    for (int i = 0; i < k->b.makes.n; i++) k->inner |= !is_output(g, k->b.makes.v[i]);
    for (int i = 0; i < k->b.bytes.n; i++) {
        const td_gval *v = k->b.bytes.v[i].v;
        bool           known = false;
        for (int j = 0; j < k->b.makes.n; j++) known |= k->b.makes.v[j] == v;
        for (int j = 0; j < k->n_reads; j++) known |= k->reads[j] == v;
        if (!known) k->reads[k->n_reads++] = v;
    }
    return true;
}

/* May a result reuse the memory of an operand? Element i of both must be at the same
 * offset. */
static bool same_layout(const td_gtype *a, const td_gtype *b) {
    if (a->dtype != b->dtype || a->rank != b->rank) return false;
    for (int d = 0; d < a->rank; d++)
        if (a->size[d] != b->size[d] || a->stride[d] != b->stride[d]) return false;
    return true;
}

/* Does the kernel read v at every point exactly where `store` writes? Then the result
 * may overwrite v element by element. */
static bool reads_in_place(const td_launch *k, const td_gval *v, const td_stmt *store) {
    const td_nest *n = &k->b.nest;
    for (int i = 0; i < n->stmt.n; i++) {
        const td_stmt *s = &n->stmt.v[i];
        if (s->kind != TD_S_LOAD || k->b.bytes.v[s->ptr].v != v) continue;
        if (!td__extent_is(k->b.bytes.v[s->ptr].offset, 0) ||
            k->b.bytes.v[s->ptr].dtype != v->type->dtype)
            return false;
        for (int d = 0; d < n->n_dims; d++)
            if (!td__extent_eq(s->stride[d], store->stride[d])) return false;
    }
    return true;
}

/* The STORE of value v. */
static const td_stmt *store_of(const td_launch *k, const td_gval *v) {
    for (int i = 0; i < k->b.nest.stmt.n; i++) {
        const td_stmt *s = &k->b.nest.stmt.v[i];
        if (s->kind == TD_S_STORE && k->b.bytes.v[s->ptr].v == v) return s;
    }
    return NULL;
}

static bool has_folds(const td_launch *k) {
    for (int i = 0; i < k->b.nest.stmt.n; i++) {
        uint8_t kind = k->b.nest.stmt.v[i].kind;
        if (kind == TD_S_REDUCE || kind == TD_S_COLUMN) return true;
    }
    return false;
}

/* The least bytes of a result that may take the memory of an operand on a device: loads
 * do not move ahead of stores then, which costs more than a small result's memory. */
enum { IN_PLACE = 1 << 28 };

/* On a device every point belongs to one thread, in all loops over a row. */
static bool may_be_in_place(const td_nest *n, const td_gval *v, const td_stmt *store) {
    int64_t bytes = td__dtype_bytes[v->type->dtype];
    for (int d = 0; d < v->type->rank; d++)
        if (__builtin_mul_overflow(bytes, v->type->size[d], &bytes)) return false;
    for (int d = 0; d < n->n_dims; d++)
        if (store->stride[d].c == 0 && !td__extent_is(n->size[d], 1)) return false;
    return bytes >= IN_PLACE;
}

static void share_pointers(td_launch *k, const td_gval *a, const td_gval *b) {
    for (int i = 0; i < k->b.bytes.n; i++)
        if (k->b.bytes.v[i].v == a || k->b.bytes.v[i].v == b)
            k->b.nest.ptr.v[i].shared = true;
}

/* Finds for each result a dying operand whose memory it may take. Kernels of the CPU
 * with folds read their operands more than once, so they are excluded. */
static void find_over(td_graph *g, td_launch *k, bool device) {
    if (device ? g->dims.n > 0 : has_folds(k)) return;
    for (int m = 0; m < k->b.makes.n; m++) {
        const td_gval *made = k->b.makes.v[m];
        const td_stmt *store = store_of(k, made);
        if (store && device && !may_be_in_place(&k->b.nest, made, store)) continue;
        for (int j = 0; store && j < k->n_reads && !k->over[m]; j++) {
            const td_gval *v = k->reads[j];
            bool           used = !v->node || !same_layout(v->type, made->type);
            for (int i = 0; i < m; i++) used |= k->over[i] == v;
            if (!used && reads_in_place(k, v, store)) k->over[m] = v;
        }
        if (k->over[m] && device) share_pointers(k, k->over[m], made);
    }
}

char *td__text_copy(const td_buf *b) {
    const char *s = td__buf_str(b);
    size_t      n = strlen(s) + 1;
    char       *t = td__alloc(n);
    if (t) memcpy(t, s, n);
    return t;
}

/* Logs the nest and its C (topic backend). */
static void log_launch(const td_native *c, const td_launch *k) {
    td_buf b = {0};
    if (!td__log_on(c->g->cx, TD_LOG_backend)) return;
    if (td__nest_print(&b, &k->b)) {
        td__buf_add(&b, k->kernel.text);
        td__log_text(c->g->cx, TD_LOG_backend, c->g->name, td__buf_str(&b));
    }
    td__buf_free(&b);
}

static void log_graph(const td_graph *g) {
    td_buf b = {0};
    if (!td__log_on(g->cx, TD_LOG_backend)) return;
    if (td__graph_print(&b, g, TD_PRINT_TYPES))
        td__log_text(g->cx, TD_LOG_backend, "simplified", td__buf_str(&b));
    td__buf_free(&b);
}

/* "mul+tanh+sum...": the ops of a kernel, for traces and comments. */
static void label_launch(const td_native *c, const td_group *g, td_launch *k) {
    size_t n = 0, cap = sizeof k->label;
    for (int i = 0; i < g->member.n && n < cap; i++) {
        const td_gnode *node = c->low.point.v[g->member.v[i]].v->node;
        bool            more = n + 24 > cap;
        int             got = snprintf(k->label + n, cap - n, "%s%s", i ? "+" : "",
                           more ? "..." : td__row(node->op)->name);
        n += (size_t)got;
        if (more) break;
    }
}

/* Writes the C of a kernel. False: out of memory. */
static bool write_launch(td_launch *k) {
    td_nest_code code = {0};
    bool         ok = td__nest_emit(&k->b.nest, &code);
    if (ok) {
        k->kernel.text = td__text_copy(&code.text);
        k->kernel.helpers = td__text_copy(&code.helpers);
        k->kernel.has_end = code.has_end;
        k->n_wide = code.n_wide;
        k->n_single = code.n_single;
        ok = k->kernel.text && k->kernel.helpers;
    }
    td__nest_code_free(&code);
    return ok;
}

/* Uses the text of an equal kernel. */
static void borrow(td_launch *k, const td_launch *from) {
    k->borrowed = true;
    k->kernel = from->kernel;
    k->n_wide = from->n_wide;
    k->n_single = from->n_single;
}

/* Builds the nest of a group and its kernel text, or finds an equal one. False after
 * td__fail. */
static bool make_launch(td_native *c, td_same *same, int group) {
    int        nr = c->n_launches++;
    td_launch *k = &c->launches[nr];
    if (!td__nest_build(&c->low, &c->low.group.v[group], &k->b)) return false;
    uint8_t device = k->b.bytes.n ? k->b.bytes.v[0].v->type->device : 0;
    int     twin = device ? nr : td__same_find(same, &k->b.nest, nr);
    label_launch(c, &c->low.group.v[group], k);
    if (!find_reads(c->g, k)) return td__fail_memory(c->g->cx);
    find_over(c->g, k, device != 0);
    if (device) {
        if (!td__launch_write_device(k, device)) return td__fail_memory(c->g->cx);
        k->kernel.text = td__text_copy(&(td_buf){.s = k->on->text});
    } else if (twin != nr) borrow(k, &c->launches[twin]);
    else if (!write_launch(k)) return td__fail_memory(c->g->cx);
    k->kernel.note = k->label;
    log_launch(c, k);
    return true;
}

/* One step per group or called node, in an order that respects dependences. False
 * after td__fail. */
static bool make_steps(td_native *c) {
    td_units units = {0};
    td_same  same = {0};
    bool     ok = td__unit_order(&c->low, &units);
    if (!ok) td__fail_memory(c->g->cx);
    c->launches = td__zalloc(sizeof *c->launches * (size_t)(units.n + 1));
    if (ok && !c->launches) ok = td__fail_memory(c->g->cx);
    for (int i = 0; ok && i < units.n; i++) {
        td_native_step s = {.launch = -1};
        if (units.v[i] < 0) s.node = c->g->nodes.v[~units.v[i]];
        else {
            s.launch = c->n_launches;
            ok = make_launch(c, &same, units.v[i]);
        }
        if (ok && !td__vec_push(&c->steps, s)) ok = td__fail_memory(c->g->cx);
    }
    td__vec_free(&units);
    td__same_free(&same);
    return ok;
}

/* Compiles and loads the kernels. False after td__fail. */
static bool load_kernels(td_native *c) {
    td_kernel *all = td__alloc(sizeof *all * (size_t)(c->n_launches + 1));
    int        n = 0;
    bool       ok = all != NULL || td__fail_memory(c->g->cx);
    ok = ok && td__device_kernels(c);
    for (int i = 0; ok && i < c->n_launches; i++)
        if (!c->launches[i].on) all[n++] = c->launches[i].kernel;
        else ok = td__launch_load_device(c->g->cx, c->launches[i].on);
    ok = ok && (n == 0 || td__kernels_load(c->g->cx, all, n));
    n = 0;
    for (int i = 0; ok && i < c->n_launches; i++) {
        if (c->launches[i].on) continue;
        c->launches[i].kernel = all[n++];
        c->interpreted |= !c->launches[i].kernel.run;
    }
    td__free(all);
    return ok;
}

static void count_read(void *env, td_gval *v) { ((int32_t *)env)[v->id]++; }

/* Counts the reads of each value by steps and outputs, for freeing after the last
 * one. An input that nothing reads counts as read once: walk_nodes may read it
 * (native_run.c). */
static void count_reads(const td_native *c, int32_t *total) {
    memset(total, 0, sizeof *total * (size_t)c->g->n_values);
    for (int i = 0; i < c->steps.n; i++) {
        const td_native_step *s = &c->steps.v[i];
        for (int k = 0; s->node && k < s->node->n_in; k++)
            td__garg_each(&s->node->in[k], count_read, total);
        const td_launch *l = s->node ? NULL : &c->launches[s->launch];
        for (int k = 0; l && k < l->n_reads; k++) total[l->reads[k]->id]++;
        /* Numbers: counting them frees nothing. */
        for (int k = 0; l && k < l->b.run_numbers.n; k++)
            td__garg_each(l->b.run_numbers.v[k].arg, count_read, total);
    }
    for (int i = 0; i < c->g->outputs.n; i++)
        td__garg_each(&c->g->outputs.v[i], count_read, total);
    for (int i = 0; i < c->g->inputs.n; i++)
        if (total[c->g->inputs.v[i]->id] == 0) total[c->g->inputs.v[i]->id] = 1;
}

static bool lower(td_native *c) {
    td__span_begin(c->g->cx, "lower");
    bool ok = td__lower(&c->low, c->g) &&
              (td__unit_follows(&c->low) || td__fail_memory(c->g->cx));
    td__span_end(c->g->cx, "lower");
    return ok;
}

/* Everything but compiling the kernels. False after td__fail. */
static bool build(td_native *c) {
    td_ctx *cx = c->g->cx;
    log_graph(c->g);
    if (!lower(c)) return false;
    td__span_begin(cx, "fuse");
    if (!td__fuse(&c->low)) return false;
    td__span_end(cx, "fuse");
    td__span_begin(cx, "emit");
    if (!make_steps(c) || !td__memory_plan(c)) return false;
    td__span_end(cx, "emit");
    return true;
}

/* From the graph to loaded kernels; interpreted: without them. False after td__fail. */
static bool make(td_native *c, const td_graph *g, bool interpreted) {
    td__span_begin(g->cx, "simplify");
    c->g = simplify(g);
    td__span_end(g->cx, "simplify");
    c->interpreted = interpreted;
    return c->g && build(c) && (interpreted || load_kernels(c));
}

td_native *td__native_texts(const td_graph *g) {
    td_native *c = td__zalloc(sizeof *c);
    if (!c) return td__fail_memory(g->cx), NULL;
    if (make(c, g, true)) return c;
    td__native_drop(c);
    return NULL;
}

/* Reads the code from disk, or makes it and stores it there. NULL after td__fail. */
static td_native *find_or_make(const td_graph *g, bool interpreted) {
    td_disk      d;
    td_cache_key k = {0};
    td_native   *c = td__zalloc(sizeof *c);
    td__disk_open(&d, g->cx, true);
    bool here = !runs_on_device(g); /* kernels of devices are kept one by one */
    bool ok = c && !interpreted && here && td__native_lookup(&d, &k, c, g);
    if (c && !ok) {
        td__native_drop(c);
        c = td__zalloc(sizeof *c);
    }
    if (c && !ok && (ok = make(c, g, interpreted)) && here)
        td__native_store(&d, &k, c, g);
    td__disk_close(&d);
    td__buf_free(&k.key);
    if (ok) return c;
    if (c) td__native_drop(c);
    else td__fail_memory(g->cx);
    return NULL;
}

/* ---- graphs that the code calls ------------------------------------------ */

static bool compile(void *env, const td_graph *g, const td_compile_info *info,
                    td_runner *to);

static void drop_code(void *env) {
    td__runner_drop(env);
    td__free(env);
}

static bool run_code(void *env, td_ctx *cx, const td_value *in, td_value *out) {
    const td_runner *code = env;
    return code->run(code->env, cx, in, out);
}

/* Compiles every graph that op call calls, unless it has code already: all calls of a
 * graph, in whatever function, run the same. False after td__fail. */
static bool compile_called(void *env, const td_graph *g, const td_compile_info *info) {
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *n = g->nodes.v[i];
        if (n->kind != TD_N_OP || n->op != TD_OP_call || n->in[0].u.g->code.env)
            continue;
        td_graph  *called = n->in[0].u.g;
        td_runner *code = td__zalloc(sizeof *code);
        if (!code) return td__fail_memory(g->cx);
        if (!compile(env, called, info, code)) return td__free(code), false;
        called->code = (td_gmade){.env = code, .drop = drop_code, .run = run_code};
    }
    return true;
}

/* The entry point of the backend. A function from the cache has no nests; they are
 * rebuilt only for a log. */
static bool compile(void *env, const td_graph *g, const td_compile_info *info,
                    td_runner *to) {
    td_native *c = find_or_make(g, env == &td__replayed);
    if (!c) return false;
    if (!compile_called(env, c->g, info)) return td__native_drop(c), false;
    if (!td__runner_make(c->g, td__native_walk, c, td__native_drop, to)) {
        td__native_drop(c);
        return false;
    }
    count_reads(c, td__runner_replay(to)->total);
    if ((c->direct = td__direct_make(c))) td__runner_direct(to, td__native_direct);
    if (c->found && td__log_on(g->cx, TD_LOG_backend)) (void)td__native_full(to);
    td__log(g->cx, TD_LOG_compile, "@%.60s: %d kernels, %d calls", g->name,
            c->n_launches, c->steps.n - c->n_launches);
    return true;
}

const td_native *td__native_of(const td_runner *r) {
    td_replay *p = td__runner_replay(r);
    return p && p->walk == td__native_walk ? p->walk_env : NULL;
}

/* The same code with nests and texts, which the disk cache does not have, but without
 * kernels. NULL: out of memory; reports then show less, which is no error. */
static td_native *rebuild(const td_native *c) {
    bool       good = td_ok(c->g->cx);
    td_native *a = td__zalloc(sizeof *a);
    if (!a) return NULL;
    if ((a->g = td__graph_clone(c->g)) && build(a)) return a;
    td__native_drop(a);
    if (good) td_clear(c->g->cx);
    return NULL;
}

/* The function with its nests: itself or, if it came from the cache, a second one that
 * was lowered for the report. */
const td_native *td__native_full(const td_runner *r) {
    td_native *c = (td_native *)(uintptr_t)td__native_of(r);
    if (!c || !c->found) return c;
    if (!c->rebuilt) c->rebuilt = rebuild(c);
    return c->rebuilt ? c->rebuilt : c;
}

const td_backend td__native = {.name = "native", .compile = compile};
const td_backend td__replayed = {.name = "replayed",
                                 .compile = compile,
                                 .env = (void *)(uintptr_t)&td__replayed};

/* ---- auto: native code or the interpreter --------------------------------- */

/* Falls back to the interpreter if there is no usable compiler or disk; warns once
 * per process. */
static bool compile_or_replay(void *env, const td_graph *g, const td_compile_info *info,
                              td_runner *to) {
    static atomic_bool warned;
    td_ctx            *cx = g->cx;
    if (compile(env, g, info, to)) return true;
    td_code why = td__error(cx);
    if (why != TD_E_UNSUPPORTED && why != TD_E_IO) return false;
    if (!atomic_exchange(&warned, true))
        td__log(cx, TD_LOG_warning,
                "%.400s; graphs run in the interpreter (backend=interp silences this "
                "warning, backend=native makes it an error)",
                td__message(cx));
    td_clear(cx);
    return td__interp.compile(td__interp.env, g, info, to);
}

const td_backend td__auto = {.name = "auto", .compile = compile_or_replay};
