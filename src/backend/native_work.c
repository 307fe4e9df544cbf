/* native_work.c -- how much a step of native code moves and computes, for reports and
 * traces. In loops an element counts once per pointer it is read or written through,
 * and an operation once per element. A call counts its arguments, its results and the
 * flops in the op's row. */
#include "backend/native.h"

#include "part/flops.h"

/* A size in the last run; -1: unknown. */
static int64_t extent(const td_launch *k, td_extent e, bool sized) {
    return e.p < 0 ? e.c : sized ? e.c * k->size[e.p] : -1;
}

/* The number of points of a set of dims; -1: unknown. */
static int64_t points(const td_launch *k, uint32_t dims, bool sized) {
    int64_t n = 1;
    for (int d = 0; d < k->b.nest.n_dims; d++) {
        if (!(dims >> d & 1)) continue;
        int64_t size = extent(k, k->b.nest.size[d], sized);
        if (size < 0) return -1;
        n *= size;
    }
    return n;
}

/* The dims in which an access moves: bytes read count once for the others. */
static uint32_t strides_mask(const td_nest *n, const td_stmt *s) {
    uint32_t m = 0;
    for (int d = 0; d < n->n_dims; d++)
        if (s->stride[d].c || s->stride[d].p >= 0) m |= 1u << d;
    return m;
}

static void add(int64_t *to, int64_t n, int64_t times) {
    *to = *to < 0 || n < 0 ? -1 : *to + n * times;
}

/* Adds the work of a statement; returns the set of dims that its value depends on. */
static uint32_t take_stmt(const td_launch *k, int i, const uint32_t *vary, bool sized,
                          td_work *w) {
    const td_nest *n = &k->b.nest;
    const td_stmt *s = &n->stmt.v[i];
    uint32_t outer = (1u << n->n_outer) - 1, inner = ((1u << n->n_dims) - 1) & ~outer;
    uint32_t m = 0;
    for (int a = 0; a < s->n; a++) m |= vary[s->a[a]];
    switch ((td_stmt_kind)s->kind) {
    case TD_S_NUM:
    case TD_S_GIVEN:
    case TD_S_CAST: return m;
    case TD_S_PLACE: return strides_mask(n, s);
    case TD_S_LOAD:
        m = strides_mask(n, s);
        add(&w->read, points(k, m, sized), td__dtype_bytes[n->ptr.v[s->ptr].dtype]);
        return m;
    case TD_S_STORE:
        add(&w->written, points(k, strides_mask(n, s), sized),
            td__dtype_bytes[n->ptr.v[s->ptr].dtype]);
        return 0;
    case TD_S_EXPR:
    case TD_S_DRAW: add(&w->flops, points(k, m, sized), 1); return m;
    case TD_S_REDUCE: add(&w->flops, points(k, m | inner, sized), 1); return m & outer;
    case TD_S_COLUMN: add(&w->flops, points(k, m | outer, sized), 1); return m & inner;
    }
    return m;
}

/* Bytes and flops of a kernel, for reports; -1 where sizes are not known. */
td_work td__launch_work(const td_launch *k, bool sized) {
    const td_nest *n = &k->b.nest;
    td_work        w = {0};
    uint32_t      *vary = td__alloc(sizeof *vary * (size_t)(n->stmt.n + 1));
    if (!vary) return (td_work){-1, -1, -1};
    for (int i = 0; i < n->stmt.n; i++) vary[i] = take_stmt(k, i, vary, sized, &w);
    td__free(vary);
    return w;
}

/* ---- calls --------------------------------------------------------------- */

/* Sums bytes of values. */
typedef struct counting {
    const td_graph *g;
    const int64_t  *bound; /* NULL: sizes that are numbers only */
    int64_t         bytes;
} counting;

/* Bytes of a value; -1 if its sizes are not known yet. */
static void add_value(void *env, td_gval *v) {
    counting *c = env;
    int64_t   n = v->type ? td__dtype_bytes[v->type->dtype] : -1;
    if (v->type && v->type->kind != TD_K_TENSOR) return;
    for (int d = 0; n >= 0 && d < v->type->rank; d++) {
        int64_t size = v->type->size[d];
        if (td__dim_is_sym(size))
            size = c->bound ? td__gdim_value(c->g, size, c->bound) : -1;
        n = size < 0 ? -1 : n * size;
    }
    add(&c->bytes, n, 1);
}

td_work td__call_work(const td_graph *g, const td_gnode *n, const int64_t *bound) {
    counting in = {g, bound, 0}, out = {g, bound, 0};
    for (int i = 0; i < n->n_in; i++) td__garg_each(&n->in[i], add_value, &in);
    for (int i = 0; i < n->n_out; i++) add_value(&out, n->out[i]);
    bool known = in.bytes >= 0 && out.bytes >= 0 && (bound || g->dims.n == 0);
    return (td_work){in.bytes, out.bytes,
                     known ? (int64_t)td__node_flops(g, n, bound) : -1};
}
