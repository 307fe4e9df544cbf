/* native.c -- the backend that compiles: from a graph to a list of steps, each of which
 * launches a kernel or calls an op, and the walk that takes them. Values live in the
 * replay as they do for the interpreter; only what makes them differs. */
#include "backend/native.h"

#include "trace/trace.h"

#include <stdio.h>
#include <string.h>

/* Elements worth a thread, and a part of a sum over rows. */
enum { GRAIN = 16384, PART = 65536, MOST_PARTS = 32 };

typedef struct launch {
    td_built        b;
    td_kernel       kernel;
    int             n_wide, n_single; /* accumulators of a part */
    const td_gval **reads;            /* distinct values */
    int             n_reads;
    char          **ptr;       /* room for a run: by pointer */
    char            label[64]; /* the ops in it, for traces and comments */
    int64_t        *size;      /* by parameter */
    int64_t        *given;
} launch;

typedef struct step {
    int             launch; /* -1: `node` is called */
    const td_gnode *node;
} step;

typedef struct native {
    td_graph  *g; /* simplified, our own */
    td_lowered low;
    launch    *launches;
    int        n_launches;
    TD_VEC(step) steps;
} native;

/* ---- running ------------------------------------------------------------- */

static int64_t extent(const launch *k, td_extent e) {
    return e.p < 0 ? e.c : e.c * k->size[e.p];
}

/* Sizes of the run; unknown ones are a graph that does not say enough. */
static bool find_sizes(const native *c, const td_replay *r, launch *k) {
    for (int i = 0; i < k->b.params.n; i++) {
        const td_product *p = &c->low.products.v.v[k->b.params.v[i]];
        k->size[i] = td__product_value(p, c->g, r->bound);
        if (k->size[i] == INT64_MIN)
            return td__fail(c->g->cx, TD_E_SHAPE, "@%.60s: a size is not known",
                            c->g->name);
    }
    return true;
}

static bool make_value(const native *c, td_replay *r, const td_gval *v) {
    const td_look *look = v->look;
    td_meta        m = {.dtype = (td_dtype)look->dtype, .rank = look->rank};
    m.strided = !look->dense;
    for (int d = 0; d < look->rank; d++) {
        m.size[d] = td__gdim_value(c->g, look->size[d], r->bound);
        m.stride[d] = td__gdim_value(c->g, look->stride[d], r->bound);
    }
    td_tensor *t = td__tensor_make(c->g->cx, &m, false);
    return t && td__replay_set(r, v, td_value_tensor(t));
}

static void find_pointers(const td_replay *r, launch *k) {
    for (int i = 0; i < k->b.bytes.n; i++) {
        const td_bytes  *y = &k->b.bytes.v[i];
        const td_tensor *t = r->val[y->v->id].u.t;
        char            *p = td__ptr(t);
        k->ptr[i] = p ? p + extent(k, y->offset) * td__dtype_bytes[y->dtype] : NULL;
    }
}

/* Takes the next stretch of random numbers for each draw, in the graph's order. */
static void find_draws(const native *c, const td_replay *r, launch *k) {
    td_ctx *cx = c->g->cx;
    for (int i = 0; i < k->b.draws.n; i++) {
        const td_draw *d = &k->b.draws.v[i];
        const td_look *look = d->v->look;
        int64_t        n = 1;
        for (int j = 0; j < look->rank; j++)
            n *= td__gdim_value(c->g, look->size[j], r->bound);
        k->given[2 * i] = (int64_t)cx->rng_seed;
        k->given[2 * i + 1] = (int64_t)cx->rng_offset;
        cx->rng_offset += (uint64_t)((n + d->per - 1) / d->per);
    }
}

typedef struct job {
    const launch *k;
    td_nest_run   run;
    int64_t       rows, parts;
} job;

static void do_rows(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    j->k->kernel.run(&j->run, 0, begin, end);
}

static void do_parts(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    for (int64_t p = begin; p < end; p++)
        j->k->kernel.run(&j->run, p, j->rows * p / j->parts,
                         j->rows * (p + 1) / j->parts);
}

static void do_end(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    j->k->kernel.end(&j->run, j->parts, begin, end);
}

/* How many parts depends on sizes only, so that sums do not depend on threads. */
static bool run_parts(td_ctx *cx, job *j, int64_t inside) {
    const launch *k = j->k;
    int64_t       work = j->rows * (inside > 0 ? inside : 1), n = work / PART;
    n = n > MOST_PARTS ? MOST_PARTS : n > j->rows ? j->rows : n;
    j->parts = n < 1 ? 1 : n;
    j->run.part_bytes = 8 * (k->n_wide * inside + k->n_single);
    j->run.part_bytes = (j->run.part_bytes + 63) & ~(int64_t)63;
    size_t bytes = (size_t)(j->parts * j->run.part_bytes);
    if (!(j->run.parts = td__block_alloc(bytes))) return td__fail_memory(cx);
    td__pool_run(j->parts, 1, do_parts, j);
    td__pool_run(k->n_wide ? inside : 1, GRAIN, do_end, j);
    td__block_free(j->run.parts, bytes);
    return true;
}

static bool run_kernel(const native *c, launch *k) {
    const td_nest *n = &k->b.nest;
    int64_t        rows = extent(k, n->rows), inside = extent(k, n->inside);
    job            j = {.k = k, .rows = rows, .parts = 1};
    j.run.ptr = k->ptr;
    j.run.size = k->size;
    j.run.given = k->given;
    if (n->n_outer == 0 && n->n_dims == 1) {
        j.rows = inside; /* elements are shared out */
        inside = 1;
    }
    if (k->kernel.has_end) return run_parts(c->g->cx, &j, inside);
    if (inside > 0 && j.rows > 0) td__pool_run(j.rows, GRAIN / inside + 1, do_rows, &j);
    return true;
}

/* What exec.c does around an op that writes. */
static bool may_write(const native *c, const td_replay *r, const launch *k) {
    for (int i = 0; i < k->b.writes.n; i++)
        if (r->val[k->b.writes.v[i]->id].u.t->st->readonly)
            return td__fail(c->g->cx, TD_E_ALIAS,
                            "copy_: self lies in a read-only file; clone it first");
    return true;
}

static void note_writes(const td_replay *r, const launch *k) {
    for (int i = 0; i < k->b.writes.n; i++) {
        td_storage *st = r->val[k->b.writes.v[i]->id].u.t->st;
        atomic_fetch_add_explicit(&st->version, 1, memory_order_relaxed);
        st->writer = td__ops[TD_OP_copy_].name;
    }
}

static bool take_launch(const native *c, td_replay *r, launch *k) {
    td_ctx *cx = c->g->cx;
    bool    ok = find_sizes(c, r, k) && may_write(c, r, k) && td__scope_push(cx);
    if (!ok) return false;
    for (int i = 0; ok && i < k->b.makes.n; i++) ok = make_value(c, r, k->b.makes.v[i]);
    td__scope_pop(cx, NULL, 0);
    if (!ok) return false;
    find_pointers(r, k);
    find_draws(c, r, k);
    if (!run_kernel(c, k)) return false;
    note_writes(r, k);
    for (int i = 0; i < k->n_reads; i++) td__replay_read(r, k->reads[i]);
    return true;
}

/* Is a tensor laid out as the graph was compiled for? */
static bool is_as(const td_graph *g, const td_look *l, const td_tensor *t,
                  const int64_t *bound) {
    if (l->rank != t->rank || l->dtype != t->dtype) return false;
    for (int d = 0; d < l->rank; d++) {
        if (td__gdim_value(g, l->size[d], bound) != t->size[d]) return false;
        if (t->size[d] > 1 && td__gdim_value(g, l->stride[d], bound) != t->stride[d])
            return false;
    }
    return true;
}

static bool inputs_fit(const native *c, const td_replay *r) {
    for (int i = 0; i < c->g->inputs.n; i++) {
        const td_gval  *v = c->g->inputs.v[i];
        const td_value *x = &r->val[v->id];
        if (x->kind == TD_K_TENSOR && v->look &&
            !is_as(c->g, v->look, x->u.t, r->bound))
            return false;
    }
    return true;
}

/* Inputs of another layout than expected: the graph's meaning, node by node. */
static bool walk_nodes(td_replay *r) {
    int32_t *reads = r->reads;
    bool     ok = true;
    r->reads = NULL;
    for (int i = 0; ok && i < r->g->nodes.n; i++)
        ok = td__replay_node(r, r->g->nodes.v[i]);
    r->reads = reads;
    return ok;
}

static bool walk(void *env, td_replay *r) {
    native *c = env;
    td_ctx *cx = c->g->cx;
    if (!inputs_fit(c, r)) return walk_nodes(r);
    for (int i = 0; i < c->steps.n; i++) {
        const step *s = &c->steps.v[i];
        launch     *k = s->node ? NULL : &c->launches[s->launch];
        const char *name = s->node ? td__ops[s->node->op].name : k->label;
        td__span_begin(cx, name);
        if (!(k ? take_launch(c, r, k) : td__replay_node(r, s->node))) return false;
        td__span_end(cx, name);
    }
    return true;
}

/* ---- compiling ----------------------------------------------------------- */

static void drop_launch(launch *k) {
    td__built_free(&k->b);
    td__free(k->reads);
    td__free(k->ptr);
    td__free(k->size);
    td__free(k->given);
    td__free((void *)(uintptr_t)k->kernel.text);
    td__free((void *)(uintptr_t)k->kernel.helpers);
}

static void drop_native(void *env) {
    native *c = env;
    for (int i = 0; i < c->n_launches; i++) drop_launch(&c->launches[i]);
    td__free(c->launches);
    td__vec_free(&c->steps);
    td__lowered_free(&c->low);
    td__graph_drop(c->g);
    td__free(c);
}

/* Ops whose parts fuse. One that computes halves in single precision inside does not
 * fall apart: its parts would round. */
static bool name_parts(const td_graph *g, td_buf *names) {
    bool whole[TD_OP_COUNT] = {0}, some = false;
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *n = g->nodes.v[i];
        const td_look  *look = n->n_out ? n->out[0]->look : NULL;
        if (n->kind != TD_N_OP || !(td__ops[n->op].flags & TD_OPF_FUSES)) continue;
        bool keep = !look || td__is_half((td_dtype)look->dtype);
        whole[n->op] |= keep;
        some |= !keep;
    }
    for (int op = 0; some && op < TD_OP_COUNT; op++)
        if (td__ops[op].flags & TD_OPF_FUSES && !whole[op])
            td__buf_printf(names, "%s%s", names->n ? "," : "", td__ops[op].name);
    return some;
}

/* May the graph be traced again from its types alone? */
static bool is_plain(const td_graph *g) {
    bool plain = g->dims.n == 0;
    for (int i = 0; plain && i < g->inputs.n; i++)
        plain = g->inputs.v[i]->look && g->inputs.v[i]->look->kind == TD_K_TENSOR;
    return plain;
}

static td_graph *simplify(const td_graph *g) {
    td_buf    names = {0};
    bool      some = is_plain(g) && name_parts(g, &names);
    td_graph *s = NULL;
    bool      grad = g->cx->grad_enabled;
    g->cx->grad_enabled = false; /* histories are the wrapper's business */
    if (names.failed) td__fail_memory(g->cx);
    else s = some ? td__graph_decompose(g, td__buf_str(&names)) : td__graph_clone(g);
    g->cx->grad_enabled = grad;
    td__buf_free(&names);
    if (s && td__graph_dce(s) && td__graph_cse(s) && td__graph_dce(s)) return s;
    td__graph_drop(s);
    return NULL;
}

static bool find_reads(launch *k) {
    k->reads = td__alloc(sizeof *k->reads * (size_t)(k->b.bytes.n + 1));
    k->ptr = td__alloc(sizeof *k->ptr * (size_t)(k->b.bytes.n + 1));
    k->size = td__alloc(sizeof *k->size * (size_t)(k->b.params.n + 1));
    k->given = td__alloc(sizeof *k->given * (size_t)(k->b.nest.n_given + 1));
    if (!k->reads || !k->ptr || !k->size || !k->given) return false;
    for (int i = 0; i < k->b.bytes.n; i++) {
        const td_gval *v = k->b.bytes.v[i].v;
        bool           known = false;
        for (int j = 0; j < k->b.makes.n; j++) known |= k->b.makes.v[j] == v;
        for (int j = 0; j < k->n_reads; j++) known |= k->reads[j] == v;
        if (!known) k->reads[k->n_reads++] = v;
    }
    return true;
}

static char *copy_text(const td_buf *b) {
    const char *s = td__buf_str(b);
    size_t      n = strlen(s) + 1;
    char       *t = td__alloc(n);
    if (t) memcpy(t, s, n);
    return t;
}

/* The nest and its C, for those who listen. */
static void log_launch(const native *c, const launch *k) {
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

/* "mul+tanh+sum..." */
static void label_launch(const native *c, const td_group *g, launch *k) {
    size_t n = 0, room = sizeof k->label;
    for (int i = 0; i < g->member.n && n < room; i++) {
        const td_gnode *node = c->low.point.v[g->member.v[i]].v->node;
        bool            more = n + 24 > room;
        int             got = snprintf(k->label + n, room - n, "%s%s", i ? "+" : "",
                           more ? "..." : td__ops[node->op].name);
        n += (size_t)got;
        if (more) break;
    }
}

static bool make_launch(native *c, int group, launch *k) {
    td_nest_code code = {0};
    if (!td__nest_build(&c->low, &c->low.group.v[group], &k->b)) return false;
    label_launch(c, &c->low.group.v[group], k);
    bool ok = td__nest_emit(&k->b.nest, &code) && find_reads(k);
    if (ok) {
        k->kernel.text = copy_text(&code.text);
        k->kernel.helpers = copy_text(&code.helpers);
        k->kernel.has_end = code.has_end;
        k->kernel.note = k->label;
        k->n_wide = code.n_wide;
        k->n_single = code.n_single;
        ok = k->kernel.text && k->kernel.helpers;
    }
    td__nest_code_free(&code);
    if (ok) log_launch(c, k);
    return ok || td__fail_memory(c->g->cx);
}

static bool make_steps(native *c) {
    td_units units = {0};
    bool     ok = td__unit_order(&c->low, &units);
    if (!ok) td__fail_memory(c->g->cx);
    c->launches = td__zalloc(sizeof *c->launches * (size_t)(units.n + 1));
    if (ok && !c->launches) ok = td__fail_memory(c->g->cx);
    for (int i = 0; ok && i < units.n; i++) {
        step s = {.launch = -1};
        if (units.v[i] < 0) s.node = c->g->nodes.v[~units.v[i]];
        else {
            s.launch = c->n_launches++;
            ok = make_launch(c, units.v[i], &c->launches[s.launch]);
        }
        if (ok && !td__vec_push(&c->steps, s)) ok = td__fail_memory(c->g->cx);
    }
    td__vec_free(&units);
    return ok;
}

static bool load_kernels(native *c) {
    td_kernel *all = td__alloc(sizeof *all * (size_t)(c->n_launches + 1));
    if (!all) return td__fail_memory(c->g->cx);
    for (int i = 0; i < c->n_launches; i++) all[i] = c->launches[i].kernel;
    bool ok = td__kernels_load(c->g->cx, all, c->n_launches);
    for (int i = 0; ok && i < c->n_launches; i++) c->launches[i].kernel = all[i];
    td__free(all);
    return ok;
}

static void count_read(void *env, td_gval *v) { ((int32_t *)env)[v->id]++; }

/* How often each value is read by steps and outputs. */
static void count_reads(const native *c, int32_t *total) {
    memset(total, 0, sizeof *total * (size_t)c->g->n_values);
    for (int i = 0; i < c->steps.n; i++) {
        const step *s = &c->steps.v[i];
        for (int k = 0; s->node && k < s->node->n_in; k++)
            td__garg_each(&s->node->in[k], count_read, total);
        const launch *l = s->node ? NULL : &c->launches[s->launch];
        for (int k = 0; l && k < l->n_reads; k++) total[l->reads[k]->id]++;
    }
    for (int i = 0; i < c->g->outputs.n; i++)
        td__garg_each(&c->g->outputs.v[i], count_read, total);
}

static bool build(native *c) {
    log_graph(c->g);
    return td__lower(&c->low, c->g) &&
           (td__unit_follows(&c->low) || td__fail_memory(c->g->cx)) &&
           td__fuse(&c->low) && make_steps(c) && load_kernels(c);
}

static bool compile(void *env, const td_graph *g, const td_compile_info *info,
                    td_runner *to) {
    native *c = td__zalloc(sizeof *c);
    (void)env, (void)info;
    if (!c) return td__fail_memory(g->cx);
    c->g = simplify(g);
    if (!c->g || !build(c) || !td__runner_make(c->g, walk, c, drop_native, to)) {
        drop_native(c);
        return false;
    }
    count_reads(c, td__runner_replay(to)->total);
    td__log(g->cx, TD_LOG_compile, "@%.60s: %d kernels, %d calls", g->name,
            c->n_launches, c->steps.n - c->n_launches);
    return true;
}

const td_backend td__native = {.name = "native", .compile = compile};

/* ---- with a fallback ----------------------------------------------------- */

static bool compile_or_replay(void *env, const td_graph *g, const td_compile_info *info,
                              td_runner *to) {
    static atomic_bool warned;
    td_ctx            *cx = g->cx;
    if (compile(env, g, info, to)) return true;
    td_code why = td_error(cx);
    if (why != TD_E_UNSUPPORTED && why != TD_E_IO) return false;
    if (!atomic_exchange(&warned, true))
        td__log(cx, TD_LOG_warning,
                "%.400s; graphs are interpreted (backend=interp asks for it, "
                "backend=native makes this an error)",
                td_message(cx));
    td_clear(cx);
    return td__interp.compile(td__interp.env, g, info, to);
}

const td_backend td__auto = {.name = "auto", .compile = compile_or_replay};
