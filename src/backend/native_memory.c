/* native_memory.c -- the memory of a compiled graph's values: their live ranges,
 * which of them are visible outside the run, and their offsets in the run's arena
 * (memory_layout.c). Outputs and saved values are allocated separately, so that their
 * owners can free them one by one. */
#include "backend/native.h"

#include <stdlib.h>
#include <string.h>

/* ---- live ranges --------------------------------------------------------- */

/* The state of the analysis. Arrays are by value id. */
typedef struct finding {
    td_native *c;
    int       *last; /* [n_values] by root: the last step that reads it; -1: none */
    bool      *own;  /* [n_values] by root: must be allocated separately */
    int       *made; /* [n_values]: the step that makes it; -1: an input, or none */
    int        at;   /* the current step */
    bool       odd;  /* it may retain its operands, or return views of them */
} finding;

static const td_gval *root(const finding *f, const td_gval *v) {
    return f->c->low.root_of[v->id];
}

/* The current step reads v. */
static void note_read(void *env, td_gval *v) {
    finding       *f = env;
    const td_gval *r = root(f, v);
    if (f->at > f->last[r->id]) f->last[r->id] = f->at;
    if (f->odd) f->own[r->id] = true;
}

/* Does the call run one kernel that only reads its arguments and fills its results? */
static bool is_plain(const td_gnode *n) {
    const td_opinfo *info = td__opinfo(n->op);
    uint32_t         odd = TD_OPF_NESTS | TD_OPF_DYNAMIC | TD_OPF_SHARE | TD_OPF_META;
    return td__row(n->op)->cpu && !info->composite && !info->writes &&
           !(td__row(n->op)->flags & (odd | TD_OPF_WHOLE | TD_OPF_HOLDS));
}

static bool is_view(const td_gnode *n) { return td__view_operand(n) >= 0; }

/* If two roots share a storage, neither goes into the arena. False: out of memory. */
static bool find_aliases(finding *f) {
    const td_graph *g = f->c->g;
    int            *first = td__alloc(sizeof *first * (size_t)(g->n_storages + 1));
    if (!first) return false;
    for (int i = 0; i < g->n_storages; i++) first[i] = -1;
    for (int i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.v[i]->n_out; k++) {
            const td_gval *v = g->nodes.v[i]->out[k], *r = root(f, v);
            int32_t        st = v->type ? v->type->storage : -1;
            if (st < 0 || st >= g->n_storages) continue;
            if (first[st] < 0) first[st] = r->id;
            if (first[st] != r->id) f->own[r->id] = f->own[first[st]] = true;
        }
    td__free(first);
    return true;
}

/* The current step makes v. Only contiguous values at offset 0 go into the arena. */
static void note_made(finding *f, const td_gval *v, bool own) {
    const td_gtype *l = v->type;
    bool            numbers = true;
    f->made[v->id] = f->at;
    if (f->last[v->id] < f->at) f->last[v->id] = f->at;
    for (int d = 0; l && d < l->rank; d++)
        numbers &= !td__dim_is_sym(l->size[d]) && !td__dim_is_sym(l->stride[d]);
    bool packed = l && l->kind == TD_K_TENSOR && l->offset == 0 &&
                  (l->dense || (numbers && td__is_packed(l->rank, l->size, l->stride)));
    f->own[v->id] |= own || !packed;
}

/* Visits all steps in order, then the outputs. */
static void scan_steps(finding *f) {
    const td_native *c = f->c;
    for (f->at = 0; f->at < c->steps.n; f->at++) {
        const td_native_step *s = &c->steps.v[f->at];
        const td_launch      *k = s->node ? NULL : &c->launches[s->launch];
        f->odd = s->node && !is_plain(s->node) && !is_view(s->node);
        for (int i = 0; s->node && i < s->node->n_in; i++)
            td__garg_each(&s->node->in[i], note_read, f);
        for (int i = 0; k && i < k->n_reads; i++)
            note_read(f, (td_gval *)(uintptr_t)k->reads[i]);
        f->odd |= k && k->b.writes.n > 0;
        for (int i = 0; k && i < k->b.writes.n; i++)
            note_read(f, (td_gval *)(uintptr_t)k->b.writes.v[i]);
        for (int i = 0; s->node && i < s->node->n_out; i++)
            if (root(f, s->node->out[i]) == s->node->out[i])
                note_made(f, s->node->out[i], !is_plain(s->node));
        for (int i = 0; k && i < k->b.makes.n; i++)
            note_made(f, k->b.makes.v[i], false);
    }
    f->odd = true;
    for (int i = 0; i < c->g->outputs.n; i++)
        td__garg_each(&c->g->outputs.v[i], note_read, f);
}

/* The value whose memory result i of a launch reuses; NULL: none. */
static const td_gval *reused_value(const finding *f, const td_launch *k, int i,
                                   int step) {
    const td_gval *v = k->over[i];
    return v && f->made[v->id] >= 0 && f->last[v->id] == step ? v : NULL;
}

/* Memory that ends as a separate allocation is one from its first value on. */
static void propagate_own(finding *f) {
    const td_native *c = f->c;
    for (int i = c->steps.n - 1; i >= 0; i--) {
        const td_launch *k =
            c->steps.v[i].node ? NULL : &c->launches[c->steps.v[i].launch];
        for (int m = 0; k && m < k->b.makes.n; m++) {
            const td_gval *v = reused_value(f, k, m, i);
            if (v) f->own[v->id] |= f->own[k->b.makes.v[m]->id];
        }
    }
}

/* ---- making ranges ------------------------------------------------------- */

/* A live range from step `first` (-1: an input, whose memory is the caller's) to the
 * last reader. `own` values are allocated separately. */
static bool add_range(finding *f, const td_gval *v, int first) {
    td_memory    *m = &f->c->mem;
    td_live_range s = {.v = v,
                       .first = first,
                       .last = f->last[v->id],
                       .own = f->own[v->id] || first < 0,
                       .at = -1};
    m->range_of[v->id] = m->ranges.n;
    return td__vec_push(&m->ranges, s);
}

/* A result that reuses memory extends the range of the value before it. */
static bool add_results(finding *f, const td_launch *k, int step) {
    td_memory *m = &f->c->mem;
    for (int i = 0; i < k->b.makes.n; i++) {
        const td_gval *v = k->b.makes.v[i], *over = reused_value(f, k, i, step);
        if (!over) {
            if (!add_range(f, v, step)) return false;
            continue;
        }
        td_live_range *s = &m->ranges.v[m->range_of[over->id]];
        m->range_of[v->id] = m->range_of[over->id];
        s->last = f->last[v->id];
        s->own |= f->own[v->id];
    }
    return true;
}

/* Saved values count too, because backward frees them after their last read. */
static bool add_inputs(finding *f) {
    const td_graph *g = f->c->g;
    for (int i = 0; i < g->inputs.n; i++) {
        const td_gval *v = g->inputs.v[i];
        if (g->in_desc.v[i].kind != TD_D_SAVED || !v->type ||
            v->type->kind != TD_K_TENSOR)
            continue;
        if (f->last[v->id] < 0) f->last[v->id] = 0;
        if (!add_range(f, v, -1)) return false;
    }
    return true;
}

/* The value in whose memory v is made: that of a cat, or v. */
static const td_gval *whole_of(const finding *f, const td_gval *v) {
    const td_part *p = td__parts_of(f->c, v);
    return p ? p->whole : v;
}

/* A part needs the memory of the whole from the first of them on. Parts of what is
 * allocated separately, or not on a device, have memory of their own. */
static bool find_parts(finding *f) {
    td_memory *m = &f->c->mem;
    int        n = 0;
    if (!td__parts_find(f->c)) return false;
    for (int i = 0; i < m->parts.n; i++)
        if (!f->own[m->parts.v[i].of->id] && !f->own[m->parts.v[i].whole->id])
            m->parts.v[n++] = m->parts.v[i];
    m->parts.n = n;
    return true;
}

/* One live range per storage that a step makes, from that step to the last reader of
 * any view of it. */
static bool add_ranges(finding *f) {
    const td_native *c = f->c;
    bool             ok = add_inputs(f);
    for (int i = 0; ok && i < c->steps.n; i++) {
        const td_native_step *s = &c->steps.v[i];
        if (!s->node) ok = add_results(f, &c->launches[s->launch], i);
        for (int k = 0; ok && s->node && k < s->node->n_out; k++) {
            const td_gval *v = whole_of(f, s->node->out[k]);
            if (root(f, v) == v && v->type && v->type->kind == TD_K_TENSOR &&
                c->mem.range_of[v->id] < 0)
                ok = add_range(f, v, i);
        }
    }
    return ok;
}

/* ---- offsets ------------------------------------------------------------- */

/* The bytes of a value; INT64_MIN: a size is not known yet. */
static int64_t bytes_of(const td_graph *g, const td_gtype *l, const int64_t *bound) {
    int64_t n = td__dtype_bytes[l->dtype];
    for (int d = 0; d < l->rank; d++) {
        int64_t size = td__gdim_value(g, l->size[d], bound);
        if (size < 0) return INT64_MIN;
        n = td__dim_mul(n, size);
    }
    return n;
}

/* The storages do not free their bytes: the arena is freed as a whole. */
static void keep_bytes(void *env) { (void)env; }

/* Makes storages over arena memory, for values that ops read as tensors. */
static bool make_storages(td_native *c) {
    td_memory *m = &c->mem;
    for (int i = 0; i < m->ranges.n; i++) {
        td_live_range *s = &m->ranges.v[i];
        if (s->at < 0) continue;
        if (!s->st && !(s->st = td__storage_wrap(NULL, 0, keep_bytes, NULL)))
            return false;
        s->st->bytes = (size_t)s->bytes;
        s->st->device = s->v->type->device;
    }
    return true;
}

/* A size of a nest for these bindings; 0: not known. */
static int64_t extent(const td_native *c, const td_launch *k, td_extent e,
                      const int64_t *bound) {
    if (e.p < 0) return e.c;
    const td_product *p = &c->low.products.v.v[k->b.params.v[e.p]];
    int64_t           n = td__product_value(p, c->g, bound);
    return n > 0 ? td__dim_mul(n, e.c) : 0;
}

/* The most bytes that the accumulators of a launch need. Launches on a device run one
 * after the other, and share them. */
static int64_t bytes_of_parts(const td_native *c, const int64_t *bound) {
    int64_t most = 0;
    for (int i = 0; i < c->n_launches; i++) {
        const td_launch *k = &c->launches[i];
        if (!k->on) continue;
        int64_t inside = extent(c, k, k->b.nest.inside, bound);
        int64_t parts =
            td__device_parts(k->on, extent(c, k, k->b.nest.rows, bound), inside);
        int64_t bytes = parts * td__device_part_bytes(k->on, inside);
        if (bytes > most) most = bytes;
    }
    return most;
}

enum { DEVICE_LINE = 256 }; /* alignment on a device */

/* Places the ranges of one place in an arena of its own: the CPU, or the device, where
 * all of them are placed. False: out of memory. */
static bool place_on(td_native *c, uint8_t device) {
    td_memory     *m = &c->mem;
    td_live_range *some = td__alloc(sizeof *some * (size_t)(m->ranges.n + 1));
    int            n = 0;
    if (!some) return false;
    for (int i = 0; i < m->ranges.n; i++) {
        if (m->ranges.v[i].v->type->device != device) continue;
        some[n] = m->ranges.v[i];
        if (device)
            some[n].bytes = (some[n].bytes + DEVICE_LINE - 1) & -(int64_t)DEVICE_LINE;
        n++;
    }
    bool ok = true;
    if (!device) ok = td__arena_place(some, n, c->steps.n, &m->sizes);
    else ok = (m->parts_at = td__arena_place_all(some, n)) >= 0;
    n = 0;
    for (int i = 0; ok && i < m->ranges.n; i++)
        if (m->ranges.v[i].v->type->device == device) m->ranges.v[i].at = some[n++].at;
    td__free(some);
    return ok;
}

/* ---- workspaces ----------------------------------------------------------- */

static int by_offset(const void *a, const void *b) {
    const td_live_range *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

/* The largest part of the arena between the ranges that are live at a step, of n that
 * are sorted by their offsets. */
static td_hole hole_at(const td_live_range *some, int n, int step, int64_t end) {
    td_hole best = {0, 0};
    int64_t at = 0;
    for (int i = 0; i <= n; i++) {
        if (i < n && (some[i].first > step || some[i].last < step)) continue;
        int64_t to = i < n ? some[i].at : end;
        if (to - at > best.bytes) best = (td_hole){at, to - at};
        if (i < n && to + some[i].bytes > at) at = to + some[i].bytes;
    }
    at = (best.at + DEVICE_LINE - 1) & -(int64_t)DEVICE_LINE;
    best.bytes -= at - best.at;
    best.at = at;
    return best;
}

/* What libraries that steps call may use as workspaces. False: out of memory. */
static bool find_holes(td_native *c) {
    td_memory     *m = &c->mem;
    td_live_range *some = td__alloc(sizeof *some * (size_t)(m->ranges.n + 1));
    int            n = 0;
    td__free(m->hole);
    m->hole = td__zalloc(sizeof *m->hole * (size_t)(c->steps.n + 1));
    for (int i = 0; some && i < m->ranges.n; i++)
        if (m->ranges.v[i].v->type->device == m->device && m->ranges.v[i].at >= 0)
            some[n++] = m->ranges.v[i];
    if (some) qsort(some, (size_t)n, sizeof *some, by_offset);
    for (int i = 0; some && m->hole && i < c->steps.n; i++)
        if (c->steps.v[i].node && td__view_operand(c->steps.v[i].node) < 0)
            m->hole[i] = hole_at(some, n, i, m->parts_at);
    td__free(some);
    return some && m->hole;
}

/* Computes sizes and offsets. False after td__fail. */
static bool place(td_native *c, const int64_t *bound) {
    td_memory *m = &c->mem;
    for (int i = 0; i < m->ranges.n; i++) {
        td_live_range *s = &m->ranges.v[i];
        s->bytes = bytes_of(c->g, s->v->type, bound);
        if (s->bytes < 0 || s->bytes > TD_DIM_HUGE / 4096) s->bytes = 0;
        s->at = -1;
    }
    bool ok = place_on(c, 0) && (!m->device || place_on(c, m->device));
    if (ok && m->device) m->there = m->parts_at + bytes_of_parts(c, bound);
    if (ok && m->device) ok = find_holes(c);
    return (ok && make_storages(c)) || td__fail_memory(c->g->cx);
}

/* ---- interface ----------------------------------------------------------- */

/* Plans the arena: live ranges of all values that are neither inputs nor outputs. With
 * fixed sizes offsets are computed once; with symbolic sizes for each new set of sizes
 * (place_for). */
bool td__memory_plan(td_native *c) {
    td_memory *m = &c->mem;
    size_t     n = (size_t)c->g->n_values + 1;
    finding    f = {.c = c};
    m->device = c->low.device;
    f.last = td__alloc(sizeof *f.last * n);
    f.made = td__alloc(sizeof *f.made * n);
    f.own = td__zalloc(sizeof *f.own * n);
    m->range_of = td__alloc(sizeof *m->range_of * n);
    bool ok = f.last && f.made && f.own && m->range_of;
    for (size_t i = 0; ok && i < n; i++) f.last[i] = f.made[i] = m->range_of[i] = -1;
    if (ok) scan_steps(&f);
    ok = ok && find_aliases(&f);
    if (ok) propagate_own(&f);
    ok = ok && find_parts(&f);
    ok = ok && add_ranges(&f);
    td__free(f.last);
    td__free(f.made);
    td__free(f.own);
    if (!ok) return td__fail_memory(c->g->cx);
    for (int i = 0; i < m->ranges.n; i++) m->any |= !m->ranges.v[i].own;
    for (int i = 0; i < c->n_launches; i++)
        m->any |= c->launches[i].on && c->launches[i].on->has_end;
    if (c->g->dims.n == 0) return place(c, NULL);
    m->bound = td__zalloc(sizeof *m->bound * (size_t)c->g->dims.n);
    return m->bound || td__fail_memory(c->g->cx);
}

void td__memory_free(td_memory *m) {
    for (int i = 0; i < m->ranges.n; i++) td__storage_drop(m->ranges.v[i].st);
    td__vec_free(&m->ranges);
    td__vec_free(&m->parts);
    td__free(m->range_of);
    td__free(m->hole);
    td__free(m->bound);
    td__storage_drop(m->on);
}

/* Places again if the symbolic sizes differ from the last run's. */
static bool place_for(td_native *c, const int64_t *bound) {
    td_memory *m = &c->mem;
    size_t     bytes = sizeof *bound * (size_t)c->g->dims.n;
    if (m->placed && !memcmp(m->bound, bound, bytes)) return true;
    m->placed = false;
    if (!place(c, bound)) return false;
    memcpy(m->bound, bound, bytes);
    return m->placed = true;
}

/* The arena of the device, larger if this run needs more. */
static bool take_on_device(td_native *c) {
    td_memory *m = &c->mem;
    if (m->there == 0 || (m->on && (int64_t)m->on->bytes >= m->there)) return true;
    td__storage_drop(m->on);
    m->on = td__device_open(c->g->cx, m->device)
                ? td__storage_on((size_t)m->there, m->device)
                : NULL;
    return m->on || td__fail_memory(c->g->cx);
}

/* Allocates the arena of a run and points the storages of its values into it. Released
 * when the run ends; that of a device stays for the next run. */
bool td__memory_take(td_native *c, const int64_t *bound) {
    td_memory *m = &c->mem;
    if (!m->any) return true;
    if (m->bound && !place_for(c, bound)) return false;
    if (m->sizes.arena && !(m->arena = td__block_alloc((size_t)m->sizes.arena)))
        return td__fail_memory(c->g->cx);
    if (!take_on_device(c)) return false;
    for (int i = 0; i < m->ranges.n; i++) {
        td_live_range *s = &m->ranges.v[i];
        char          *base = s->v->type->device && m->on ? m->on->data : m->arena;
        if (s->st && s->at >= 0) s->st->data = base + s->at;
    }
    return true;
}

void td__memory_lend(const td_native *c, int step) {
    const td_memory *m = &c->mem;
    td_device_state *d = m->on && m->hole ? td__device_state(m->device) : NULL;
    td_hole          none = {0, 0}, h = step >= 0 && d ? m->hole[step] : none;
    if (!d || !d->plugin->lend || (step >= 0 && h.bytes <= 0)) return;
    pthread_mutex_lock(&d->lock);
    d->plugin->lend(d->dev, h.bytes > 0 ? (char *)m->on->data + h.at : NULL,
                    h.bytes > 0 ? (size_t)h.bytes : 0);
    pthread_mutex_unlock(&d->lock);
}

char *td__memory_parts(const td_native *c) {
    return c->mem.on ? (char *)c->mem.on->data + c->mem.parts_at : NULL;
}

/* Frees the arena of a run; the storages keep no pointer that is read again. */
void td__memory_give(td_native *c) {
    td_memory *m = &c->mem;
    if (!m->arena) return;
    td__block_free(m->arena, (size_t)m->sizes.arena);
    m->arena = NULL;
}

const td_live_range *td__memory_range(const td_native *c, const td_gval *v) {
    int i = c->mem.range_of[v->id];
    return i >= 0 && c->mem.ranges.v[i].at >= 0 ? &c->mem.ranges.v[i] : NULL;
}
