/* native_image.c -- native code on disk: the simplified graph and its steps, under a
 * hash of the original graph, the build of the library and the compiler. Kernels are
 * separate entries, found by name, so that equal kernels exist once. Nests and texts,
 * which only reports need, are not stored. */
#include "build/disk.h"
#include "backend/native.h"
#include "build/unit.h"
#include "core/sources.h"
#include "graph/graph_image.h"
#include "kernels/pointwise.h"

#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(td_native) - sizeof(td_lowered) - sizeof(td_memory) == 80 &&
                   sizeof(td_launch) - sizeof(td_built) == 224 &&
                   sizeof(td_built) - sizeof(td_nest) == 96 &&
                   sizeof(td_native_step) == 16 && sizeof(td_bytes) == 32 &&
                   sizeof(td_draw) == 16 && sizeof(td_run_number) == 24 &&
                   sizeof(td_product) == 56,
               "a new field: does a run need it, and is it written here? Launches on "
               "devices are not written.");

/* ---- names -------------------------------------------------------------- */

/* Everything that the code of any graph depends on. False: no compiler, or out of
 * memory. */
static bool make_key(td_ctx *cx, td_buf *key) {
    td_cc cc;
    bool  ok = td__cc_open(&cc, cx) && td__unit_key(key, &cc);
    td__cc_close(&cc);
    td__buf_printf(key, "sources %s\npack_products %d\nplace_pieces %d\n", td__sources,
                   td__config(cx)->pack_products, td__config(cx)->place_pieces);
    return ok && !key->failed;
}

/* "n_" and a 128-bit hash. False: out of memory. */
static bool make_name(const td_graph *g, const td_buf *key, char *name, size_t cap) {
    td_buf   b = {0};
    td_image m;
    td__buf_addn(&b, key->s, key->n);
    td__put_int(&b, g->cx->default_dtype);
    bool ok = td__image_begin(&m, &b, NULL, true) && td__image_graph(&m, g);
    td__image_end(&m);
    if (ok && !b.failed) {
        td_hash128 h = td__hash128(b.s, b.n);
        snprintf(name, cap, "n_%016llx%016llx", (unsigned long long)h.hi,
                 (unsigned long long)h.lo);
    }
    ok = ok && !b.failed;
    td__buf_free(&b);
    return ok;
}

/* ---- writing ------------------------------------------------------------ */

/* The state of writing; values are numbered in graph order. */
typedef struct writing {
    td_buf  *b;
    int32_t *nr; /* by value id: its number in the image */
} writing;

static void put_value(const writing *w, const td_gval *v) {
    td__put_int(w->b, v ? w->nr[v->id] : -1);
}

static void put_extent(const writing *w, td_extent e) {
    td__put_int(w->b, e.c);
    td__put_int(w->b, e.p);
}

static void put_lists(const writing *w, const td_launch *k) {
    const td_built *t = &k->b;
    td__put_uint(w->b, (uint64_t)t->bytes.n);
    for (int i = 0; i < t->bytes.n; i++) {
        put_value(w, t->bytes.v[i].v);
        put_extent(w, t->bytes.v[i].offset);
        td__put_uint(w->b, t->bytes.v[i].dtype);
    }
    td__put_uint(w->b, (uint64_t)t->makes.n);
    for (int i = 0; i < t->makes.n; i++) {
        put_value(w, t->makes.v[i]);
        put_value(w, k->over[i]);
    }
    td__put_uint(w->b, (uint64_t)t->writes.n);
    for (int i = 0; i < t->writes.n; i++) put_value(w, t->writes.v[i]);
    td__put_uint(w->b, (uint64_t)k->n_reads);
    for (int i = 0; i < k->n_reads; i++) put_value(w, k->reads[i]);
}

/* Stored as node and argument index. */
static void put_run_number(const writing *w, const td_native *c,
                           const td_run_number *l) {
    for (int i = 0; i < c->g->nodes.n; i++) {
        const td_gnode *n = c->g->nodes.v[i];
        if (l->arg < n->in || l->arg >= n->in + n->n_in) continue;
        td__put_int(w->b, i);
        td__put_int(w->b, l->arg - n->in);
    }
    td__put_int(w->b, (int)l->pw->op);
    td__put_int(w->b, (int)l->pw->common);
    td__put_int(w->b, l->at);
}

/* Everything a kernel launch needs except its text: name, dims, pointers, sizes, random
 * draws and numbers. get_launch reads it in the same order. */
static void put_launch(const writing *w, const td_native *c, const td_launch *k) {
    const td_built *t = &k->b;
    td__put_text(w->b, k->kernel.name);
    td__put_text(w->b, k->label);
    td__put_uint(w->b, k->kernel.has_end);
    td__put_uint(w->b, k->inner);
    td__put_int(w->b, k->n_wide);
    td__put_int(w->b, k->n_single);
    td__put_uint(w->b, (uint64_t)t->params.n);
    for (int i = 0; i < t->params.n; i++) td__put_int(w->b, t->params.v[i]);
    td__put_int(w->b, t->nest.n_dims);
    td__put_int(w->b, t->nest.n_outer);
    td__put_int(w->b, t->nest.n_given);
    put_extent(w, t->nest.rows);
    put_extent(w, t->nest.inside);
    put_lists(w, k);
    td__put_uint(w->b, (uint64_t)t->draws.n);
    for (int i = 0; i < t->draws.n; i++) {
        put_value(w, t->draws.v[i].v);
        td__put_int(w->b, t->draws.v[i].per);
        td__put_int(w->b, t->draws.v[i].at);
    }
    td__put_uint(w->b, (uint64_t)t->run_numbers.n);
    for (int i = 0; i < t->run_numbers.n; i++)
        put_run_number(w, c, &t->run_numbers.v[i]);
}

/* A value's root, and whether it is needed as a tensor. */
static void put_roots(const writing *w, const td_native *c, const td_gval *v) {
    put_value(w, c->low.root_of[v->id]);
    td__put_uint(w->b, c->low.needed[v->id]);
}

/* Aliases of values, products of sizes, launches, then the order of launches and op
 * calls. */
static void put_steps(const writing *w, const td_native *c) {
    const td_products *p = &c->low.products;
    const td_graph    *g = c->g;
    for (int i = 0; i < g->inputs.n; i++) put_roots(w, c, g->inputs.v[i]);
    for (int i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.v[i]->n_out; k++)
            put_roots(w, c, g->nodes.v[i]->out[k]);
    td__put_uint(w->b, (uint64_t)p->v.n);
    for (int i = 0; i < p->v.n; i++) {
        td__put_int(w->b, p->v.v[i].n);
        for (int k = 0; k < p->v.v[i].n; k++) td__put_int(w->b, p->v.v[i].term[k]);
    }
    td__put_uint(w->b, (uint64_t)c->n_launches);
    for (int i = 0; i < c->n_launches; i++) put_launch(w, c, &c->launches[i]);
    td__put_uint(w->b, (uint64_t)c->steps.n);
    for (int i = 0; i < c->steps.n; i++) {
        const td_native_step *s = &c->steps.v[i];
        td__put_int(w->b, s->node ? -1 : s->launch);
        if (s->node) td__put_int(w->b, s->node->id);
    }
}

/* Numbers values as td__image_graph does. False: out of memory. */
static bool number_values(writing *w, const td_graph *g) {
    int32_t next = 0;
    w->nr = td__alloc(sizeof *w->nr * ((size_t)g->n_values + 1));
    if (!w->nr) return false;
    for (int i = 0; i < g->inputs.n; i++) w->nr[g->inputs.v[i]->id] = next++;
    for (int i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.v[i]->n_out; k++)
            w->nr[g->nodes.v[i]->out[k]->id] = next++;
    return true;
}

/* Failing to store is not an error: the next process compiles again. */
void td__native_store(td_disk *d, const td_cache_key *k, const td_native *c,
                      const td_graph *g) {
    td_buf   b = {0};
    writing  w = {.b = &b};
    td_image m;
    char     note[120];
    if (c->interpreted || d->fd < 0 || !*k->name) return;
    bool ok = td__image_begin(&m, &b, g, false) && td__image_graph(&m, c->g) &&
              number_values(&w, c->g);
    td__image_end(&m);
    if (ok) put_steps(&w, c);
    snprintf(note, sizeof note, "graph %.60s, %d kernels, %d calls", g->name,
             c->n_launches, c->steps.n - c->n_launches);
    if (ok && !b.failed) td__disk_store_entry(d, k->name, k->key.s, note, &b);
    td__free(w.nr);
    td__buf_free(&b);
}

/* ---- reading ------------------------------------------------------------ */

/* The state of reading. get_ functions set r->bad for anything out of range. */
typedef struct reading {
    td_reader *r;
    td_native *c;
    td_gval  **value; /* by number */
} reading;

/* A tensor value; NULL if may_lack and absent. */
static const td_gval *get_value(reading *x, bool may_lack) {
    int at = td__get_within(x->r, may_lack ? -1 : 0, x->c->g->n_values);
    if (x->r->bad || at < 0) return NULL;
    const td_gval *v = x->value[at];
    if (!v->type || v->type->kind != TD_K_TENSOR) x->r->bad = true;
    return v;
}

static td_extent get_extent(reading *x, const td_launch *k) {
    td_extent e = {.c = td__get_int(x->r)};
    e.p = td__get_within(x->r, -1, k->b.params.n);
    return e;
}

/* Marks the reader bad if a push failed: out of memory. */
static void require(reading *x, bool ok) {
    if (!ok) x->r->bad = true;
}

static void get_bytes(reading *x, td_launch *k) {
    int n = td__get_count(x->r);
    for (int i = 0; !x->r->bad && i < n; i++) {
        td_bytes y = {.v = get_value(x, false)};
        y.offset = get_extent(x, k);
        y.dtype = (uint8_t)td__get_below(x->r, TD_DTYPE_COUNT);
        require(x, td__vec_push(&k->b.bytes, y));
    }
}

/* n zeroed items; NULL and a bad reader if out of memory. */
static void *items(reading *x, int n, size_t item) {
    void *p = x->r->bad ? NULL : td__zalloc(item * ((size_t)n + 1));
    require(x, p != NULL);
    return p;
}

static bool is_among(const td_gval *v, const td_gval *const *of, int n) {
    int i = 0;
    while (i < n && of[i] != v) i++;
    return i < n;
}

/* Memory is reused only of values that the kernel reads and does not make. */
static void check_over(reading *x, const td_launch *k) {
    for (int i = 0; !x->r->bad && i < k->b.makes.n; i++)
        if (k->over[i] && (!is_among(k->over[i], k->reads, k->n_reads) ||
                           is_among(k->over[i], k->b.makes.v, k->b.makes.n)))
            x->r->bad = true;
}

/* Values are read by number and checked against the graph; check_over verifies that
 * results which reuse memory fit. */
static void get_lists(reading *x, td_launch *k) {
    get_bytes(x, k);
    int n = td__get_count(x->r);
    k->over = items(x, n, sizeof *k->over);
    for (int i = 0; !x->r->bad && i < n; i++) {
        require(x, td__vec_push(&k->b.makes, get_value(x, false)));
        k->over[i] = get_value(x, true);
    }
    n = td__get_count(x->r);
    for (int i = 0; !x->r->bad && i < n; i++)
        require(x, td__vec_push(&k->b.writes, get_value(x, false)));
    k->n_reads = td__get_count(x->r);
    k->reads = items(x, k->n_reads, sizeof *k->reads);
    for (int i = 0; !x->r->bad && i < k->n_reads; i++)
        k->reads[i] = get_value(x, false);
    check_over(x, k);
}

static void get_draw(reading *x, td_launch *k) {
    td_draw d = {.v = get_value(x, false)};
    d.per = td__get_within(x->r, 1, 5);
    d.at = td__get_within(x->r, 0, k->b.nest.n_given - 1);
    require(x, td__vec_push(&k->b.draws, d));
}

static void get_run_number(reading *x, td_launch *k) {
    const td_graph *g = x->c->g;
    td_pw          *pw = td__get_room(x->r, &x->c->low.arena, 1, sizeof *pw);
    int             node = td__get_within(x->r, 0, g->nodes.n);
    int             n = x->r->bad ? 0 : g->nodes.v[node]->n_in;
    int             arg = td__get_within(x->r, 0, n);
    int             op = td__get_within(x->r, 0, TD_OP_COUNT);
    int             common = td__get_within(x->r, 0, TD_DTYPE_COUNT);
    int             at = td__get_within(x->r, 0, k->b.nest.n_given);
    if (x->r->bad) return;
    const td_garg *a = &g->nodes.v[node]->in[arg];
    if (a->kind != TD_G_VALUE && a->kind != TD_G_SYM) x->r->bad = true;
    pw->op = (td_op)op;
    pw->common = (td_dtype)common;
    require(x, td__vec_push(&k->b.run_numbers, ((td_run_number){a, pw, at})));
}

/* Scratch of a run, and types that follow from the graph. */
static void make_scratch(reading *x, td_launch *k) {
    k->ptr = items(x, k->b.bytes.n, sizeof *k->ptr);
    k->size = items(x, k->b.params.n, sizeof *k->size);
    k->given = items(x, k->b.nest.n_given, sizeof *k->given);
    if (!x->r->bad && x->c->g->dims.n == 0)
        require(x, (k->metas = td__launch_metas(x->c->g, k)) != NULL);
}

/* Only the numbers that a launch needs; the statements of the nest are not stored. */
static void get_nest(reading *x, td_launch *k) {
    td_nest *t = &k->b.nest;
    int      n = td__get_count(x->r);
    for (int i = 0; !x->r->bad && i < n; i++) {
        int at = td__get_within(x->r, 0, x->c->low.products.v.n);
        require(x, td__vec_push(&k->b.params, at));
    }
    t->n_dims = td__get_within(x->r, 0, TD_NEST_DIMS + 1);
    t->n_outer = td__get_within(x->r, 0, TD_NEST_DIMS + 1);
    t->n_given = td__get_within(x->r, 0, UINT16_MAX);
    t->rows = get_extent(x, k);
    t->inside = get_extent(x, k);
}

static void get_launch(reading *x, td_launch *k) {
    td_reader  *r = x->r;
    td_arena   *a = &x->c->low.arena;
    const char *label;
    k->kernel.name = td__get_text(r, a);
    label = td__get_text(r, a);
    k->kernel.has_end = td__get_bool(r);
    k->inner = td__get_bool(r);
    k->n_wide = td__get_within(r, 0, INT32_MAX);
    k->n_single = td__get_within(r, 0, INT32_MAX);
    if (!k->kernel.name || !label) r->bad = true;
    else snprintf(k->label, sizeof k->label, "%s", label);
    get_nest(x, k);
    get_lists(x, k);
    int n = td__get_count(r);
    for (int i = 0; !r->bad && i < n; i++) get_draw(x, k);
    n = td__get_count(r);
    for (int i = 0; !r->bad && i < n; i++) get_run_number(x, k);
    make_scratch(x, k);
}

static void get_products(reading *x) {
    int n = td__get_count(x->r);
    for (int i = 0; !x->r->bad && i < n; i++) {
        td_product p = {.n = td__get_within(x->r, 0, TD_PRODUCT_TERMS + 1)};
        for (int k = 0; k < p.n; k++) p.term[k] = td__get_dim(x->r, x->c->g);
        require(x, td__vec_push(&x->c->low.products.v, p));
    }
}

/* The storage root of each value, and whether its bytes are needed at all. */
static void get_roots(reading *x) {
    td_lowered *l = &x->c->low;
    int         n = x->c->g->n_values;
    l->root_of = td__get_room(x->r, &l->arena, n, sizeof *l->root_of);
    l->needed = td__get_room(x->r, &l->arena, n, sizeof *l->needed);
    for (int i = 0; !x->r->bad && i < n; i++) {
        l->root_of[i] = x->value[td__get_within(x->r, 0, n)];
        l->needed[i] = td__get_bool(x->r);
    }
}

/* Steps refer to launches and nodes that exist; bytes left over at the end mean a
 * damaged entry. */
static void get_steps(reading *x) {
    td_native *c = x->c;
    get_roots(x);
    get_products(x);
    int n = td__get_count(x->r);
    c->launches = items(x, n, sizeof *c->launches);
    for (int i = 0; !x->r->bad && i < n; i++) {
        c->n_launches++;
        get_launch(x, &c->launches[i]);
    }
    n = td__get_count(x->r);
    for (int i = 0; !x->r->bad && i < n; i++) {
        td_native_step s = {.launch = td__get_within(x->r, -1, c->n_launches)};
        if (s.launch < 0) {
            int at = td__get_within(x->r, 0, c->g->nodes.n);
            if (!x->r->bad) s.node = c->g->nodes.v[at];
        }
        require(x, td__vec_push(&c->steps, s));
    }
    if (x->r->p != x->r->end) x->r->bad = true;
}

/* ---- order of steps ------------------------------------------------------ */

/* Which roots have been computed after some steps. */
typedef struct progress {
    const td_native *c;
    bool            *there;
} progress;

static bool is_there(const progress *p, const td_gval *v) {
    return p->there[p->c->low.root_of[v->id]->id];
}

static void note_made(progress *p, const td_gval *v) {
    p->there[p->c->low.root_of[v->id]->id] = true;
}

/* A kernel may read only what earlier steps made, and all its pointers need memory. */
static bool launch_fits(progress *p, const td_launch *k) {
    for (int i = 0; i < k->n_reads; i++)
        if (!is_there(p, k->reads[i])) return false;
    for (int i = 0; i < k->b.makes.n; i++) note_made(p, k->b.makes.v[i]);
    for (int i = 0; i < k->b.bytes.n; i++)
        if (!is_there(p, k->b.bytes.v[i].v)) return false;
    return true;
}

/* Is everything made before it is read? False also if out of memory. */
static bool order_fits(const td_native *c) {
    progress p = {c, td__zalloc((size_t)c->g->n_values + 1)};
    bool     ok = p.there != NULL;
    for (int i = 0; ok && i < c->g->inputs.n; i++) note_made(&p, c->g->inputs.v[i]);
    for (int i = 0; ok && i < c->steps.n; i++) {
        const td_gnode *n = c->steps.v[i].node;
        if (!n) ok = launch_fits(&p, &c->launches[c->steps.v[i].launch]);
        for (int k = 0; n && k < n->n_out; k++) note_made(&p, n->out[k]);
    }
    td__free(p.there);
    return ok;
}

/* Fills x->value. False: out of memory, or a node is no op. */
static bool list_values(reading *x) {
    const td_graph *g = x->c->g;
    x->value = td__alloc(sizeof *x->value * ((size_t)g->n_values + 1));
    if (!x->value) return false;
    for (int i = 0; i < g->inputs.n; i++) x->value[g->inputs.v[i]->id] = g->inputs.v[i];
    for (int i = 0; i < g->nodes.n; i++) {
        if (g->nodes.v[i]->kind != TD_N_OP)
            return false; /* simplified graphs have no regions */
        for (int k = 0; k < g->nodes.v[i]->n_out; k++)
            x->value[g->nodes.v[i]->out[k]->id] = g->nodes.v[i]->out[k];
    }
    return true;
}

/* Loads the kernels from the cache. False: one is missing. */
static bool find_kernels(td_native *c) {
    td_kernel *all = td__alloc(sizeof *all * (size_t)(c->n_launches + 1));
    if (!all) return false;
    for (int i = 0; i < c->n_launches; i++) all[i] = c->launches[i].kernel;
    bool ok = td__kernels_find(c->g->cx, all, c->n_launches);
    for (int i = 0; ok && i < c->n_launches; i++) {
        c->launches[i].kernel = all[i];
        c->launches[i].kernel.note = c->launches[i].label;
    }
    td__free(all);
    return ok;
}

static bool same_kind(const td_gtype *a, const td_gtype *b) {
    if (!a || !b) return a == b;
    return a->kind == b->kind && a->dtype == b->dtype && a->rank == b->rank;
}

/* Does the code take and return the same types as the graph? */
static bool fits(const td_graph *code, const td_graph *g) {
    if (code->inputs.n != g->inputs.n || code->outputs.n != g->outputs.n) return false;
    for (int i = 0; i < g->inputs.n; i++)
        if (!same_kind(code->inputs.v[i]->type, g->inputs.v[i]->type)) return false;
    for (int i = 0; i < g->outputs.n; i++) {
        const td_garg *a = &code->outputs.v[i], *b = &g->outputs.v[i];
        if (a->kind != b->kind) return false;
        if (a->kind == TD_G_VALUE && !same_kind(a->u.v->type, b->u.v->type))
            return false;
    }
    return true;
}

/* Reads an entry into c, checks it against g, plans memory anew and finds the kernels.
 * NULL: success, otherwise the reason for a miss. */
const char *td__native_read(td_native *c, const void *bytes, size_t n,
                            const td_graph *g) {
    td_reader r = td__reader(bytes, n);
    reading   x = {.r = &r, .c = c};
    c->found = true;
    c->g = td__image_read(&r, g->cx, g);
    if (c->g && !(c->g->name = td__graph_str(c->g, g->name))) r.bad = true;
    if (!r.bad && (!td__graph_verify(c->g, TD_STAGE_CODE) || !list_values(&x)))
        r.bad = true;
    if (!r.bad) get_steps(&x);
    if (!r.bad && (!order_fits(c) || !td__memory_plan(c))) r.bad = true;
    td__free(x.value);
    if (r.bad || !fits(c->g, g)) return "is damaged, or memory ran out";
    return find_kernels(c) ? NULL : "refers to kernels that are not in the cache";
}

/* A miss is never an error. *k is the key under which the compiled function is stored
 * afterwards; its name is empty if there is none. */
bool td__native_lookup(td_disk *d, td_cache_key *k, td_native *c, const td_graph *g) {
    td_ctx       *cx = g->cx;
    td_disk_entry m;
    if (d->fd < 0) return false;
    td__span_begin(cx, "find");
    bool ok = make_key(cx, &k->key) && make_name(g, &k->key, k->name, sizeof k->name);
    td_clear(cx); /* without a compiler there is nothing to read */
    const char *bad = "has no name";
    if (ok) {
        bad = td__disk_read(d, k->name, k->key.s, &m);
        if (!bad) bad = td__native_read(c, m.bytes, m.payload, g);
        td__disk_entry_free(&m);
        td__log(cx, TD_LOG_cache, "%s: %s %s %.200s", bad ? "miss" : "hit", k->name,
                bad ? bad : g->name, td__message(cx));
    } else *k->name = 0;
    td_clear(cx);
    td__span_arg(cx, "found", !bad);
    td__span_end(cx, "find");
    return !bad;
}
