/* native_memory.c -- the bytes of a compiled graph's values: how long they are needed,
 * which of them nobody outside sees, and where these lie in the block that a run takes
 * for all of them (arena.c). Results, and what backward gets, have blocks of their own,
 * so that whoever has them frees them one by one. */
#include "backend/native.h"

#include <string.h>

/* ---- who needs what, how long -------------------------------------------- */

typedef struct finding {
    td_native *c;
    int       *last; /* [n_values] by root: the step that reads it last; -1: none */
    bool      *own;  /* [n_values] by root: it needs a block of its own */
    int       *made; /* [n_values]: by which step; -1: an input, or none */
    int        at;   /* the step that is looked at */
    bool       odd;  /* ...may keep what it reads, or show it */
} finding;

static const td_gval *root(const finding *f, const td_gval *v) {
    return f->c->low.root_of[v->id];
}

static void note_read(void *env, td_gval *v) {
    finding       *f = env;
    const td_gval *r = root(f, v);
    if (f->at > f->last[r->id]) f->last[r->id] = f->at;
    if (f->odd) f->own[r->id] = true;
}

/* Does the call run one kernel that reads its arguments and fills its results? */
static bool is_plain(const td_gnode *n) {
    const td_opinfo *info = td__opinfo(n->op);
    uint32_t         odd = TD_OPF_NESTS | TD_OPF_DYNAMIC | TD_OPF_SHARE | TD_OPF_META;
    return td__ops[n->op].cpu && !info->composite && !info->writes &&
           !(td__ops[n->op].flags & (odd | TD_OPF_WHOLE));
}

static bool is_view(const td_gnode *n) { return td__shown(n) >= 0; }

/* Values of two roots with one storage: neither is what it seems. */
static bool find_aliases(finding *f) {
    const td_graph *g = f->c->g;
    int            *first = td__alloc(sizeof *first * (size_t)(g->n_storages + 1));
    if (!first) return false;
    for (int i = 0; i < g->n_storages; i++) first[i] = -1;
    for (int i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.v[i]->n_out; k++) {
            const td_gval *v = g->nodes.v[i]->out[k], *r = root(f, v);
            int32_t        st = v->look ? v->look->storage : -1;
            if (st < 0 || st >= g->n_storages) continue;
            if (first[st] < 0) first[st] = r->id;
            if (first[st] != r->id) f->own[r->id] = f->own[first[st]] = true;
        }
    td__free(first);
    return true;
}

static void note_made(finding *f, const td_gval *v, bool own) {
    const td_look *l = v->look;
    bool           numbers = true;
    f->made[v->id] = f->at;
    if (f->last[v->id] < f->at) f->last[v->id] = f->at;
    for (int d = 0; l && d < l->rank; d++)
        numbers &= !td__dim_is_sym(l->size[d]) && !td__dim_is_sym(l->stride[d]);
    bool packed = l && l->kind == TD_K_TENSOR && l->offset == 0 &&
                  (l->dense || (numbers && td__is_packed(l->rank, l->size, l->stride)));
    f->own[v->id] |= own || !packed;
}

static void look_at_steps(finding *f) {
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

/* The value whose bytes result i of a launch goes on with; NULL: none. */
static const td_gval *goes_on(const finding *f, const td_launch *k, int i, int step) {
    const td_gval *v = k->over[i];
    return v && f->made[v->id] >= 0 && f->last[v->id] == step ? v : NULL;
}

/* Bytes that go on as a block of its own are one from the start. */
static void follow_bytes(finding *f) {
    const td_native *c = f->c;
    for (int i = c->steps.n - 1; i >= 0; i--) {
        const td_launch *k =
            c->steps.v[i].node ? NULL : &c->launches[c->steps.v[i].launch];
        for (int m = 0; k && m < k->b.makes.n; m++) {
            const td_gval *v = goes_on(f, k, m, i);
            if (v) f->own[v->id] |= f->own[k->b.makes.v[m]->id];
        }
    }
}

/* ---- stays --------------------------------------------------------------- */

static bool add_stay(finding *f, const td_gval *v, int first) {
    td_memory *m = &f->c->mem;
    td_stay    s = {.v = v,
                    .first = first,
                    .last = f->last[v->id],
                    .own = f->own[v->id] || first < 0,
                    .at = -1};
    m->stay_of[v->id] = m->stays.n;
    return td__vec_push(&m->stays, s);
}

static bool add_results(finding *f, const td_launch *k, int step) {
    td_memory *m = &f->c->mem;
    for (int i = 0; i < k->b.makes.n; i++) {
        const td_gval *v = k->b.makes.v[i], *over = goes_on(f, k, i, step);
        if (!over) {
            if (!add_stay(f, v, step)) return false;
            continue;
        }
        td_stay *s = &m->stays.v[m->stay_of[over->id]];
        m->stay_of[v->id] = m->stay_of[over->id];
        s->last = f->last[v->id];
        s->own |= f->own[v->id];
    }
    return true;
}

/* Inputs count where they may be given up: what forward kept for backward. */
static bool add_inputs(finding *f) {
    const td_graph *g = f->c->g;
    for (int i = 0; i < g->inputs.n; i++) {
        const td_gval *v = g->inputs.v[i];
        if (g->in_desc.v[i].kind != TD_D_SAVED || !v->look ||
            v->look->kind != TD_K_TENSOR)
            continue;
        if (f->last[v->id] < 0) f->last[v->id] = 0;
        if (!add_stay(f, v, -1)) return false;
    }
    return true;
}

static bool add_stays(finding *f) {
    const td_native *c = f->c;
    bool             ok = add_inputs(f);
    for (int i = 0; ok && i < c->steps.n; i++) {
        const td_native_step *s = &c->steps.v[i];
        if (!s->node) ok = add_results(f, &c->launches[s->launch], i);
        for (int k = 0; ok && s->node && k < s->node->n_out; k++) {
            const td_gval *v = s->node->out[k];
            if (root(f, v) == v && v->look && v->look->kind == TD_K_TENSOR)
                ok = add_stay(f, v, i);
        }
    }
    return ok;
}

/* ---- places -------------------------------------------------------------- */

/* INT64_MIN: not known by now. */
static int64_t bytes_of(const td_graph *g, const td_look *l, const int64_t *bound) {
    int64_t n = td__dtype_bytes[l->dtype];
    for (int d = 0; d < l->rank; d++) {
        int64_t size = td__gdim_value(g, l->size[d], bound);
        if (size < 0) return INT64_MIN;
        n = td__dim_mul(n, size);
    }
    return n;
}

/* The arena is freed whole. */
static void leave_bytes(void *env) { (void)env; }

/* Storages over the arena, for values that are read as tensors. */
static bool make_storages(td_native *c) {
    td_memory *m = &c->mem;
    for (int i = 0; i < m->stays.n; i++) {
        td_stay *s = &m->stays.v[i];
        if (s->at < 0) continue;
        if (!s->st && !(s->st = td__storage_wrap(NULL, 0, leave_bytes, NULL)))
            return false;
        s->st->bytes = (size_t)s->bytes;
    }
    return true;
}

static bool place(td_native *c, const int64_t *bound) {
    td_memory *m = &c->mem;
    for (int i = 0; i < m->stays.n; i++) {
        td_stay *s = &m->stays.v[i];
        s->bytes = bytes_of(c->g, s->v->look, bound);
        if (s->bytes < 0 || s->bytes > TD_DIM_HUGE / 4096) s->bytes = 0;
    }
    return (td__arena_place(m->stays.v, m->stays.n, c->steps.n, &m->sizes) &&
            make_storages(c)) ||
           td__fail_memory(c->g->cx);
}

/* ---- the door ------------------------------------------------------------ */

bool td__memory_plan(td_native *c) {
    td_memory *m = &c->mem;
    size_t     n = (size_t)c->g->n_values + 1;
    finding    f = {.c = c};
    f.last = td__alloc(sizeof *f.last * n);
    f.made = td__alloc(sizeof *f.made * n);
    f.own = td__zalloc(sizeof *f.own * n);
    m->stay_of = td__alloc(sizeof *m->stay_of * n);
    bool ok = f.last && f.made && f.own && m->stay_of;
    for (size_t i = 0; ok && i < n; i++) f.last[i] = f.made[i] = m->stay_of[i] = -1;
    if (ok) look_at_steps(&f);
    ok = ok && find_aliases(&f);
    if (ok) follow_bytes(&f);
    ok = ok && add_stays(&f);
    td__free(f.last);
    td__free(f.made);
    td__free(f.own);
    if (!ok) return td__fail_memory(c->g->cx);
    for (int i = 0; i < m->stays.n; i++) m->any |= !m->stays.v[i].own;
    if (c->g->dims.n == 0) return place(c, NULL);
    m->bound = td__zalloc(sizeof *m->bound * (size_t)c->g->dims.n);
    return m->bound || td__fail_memory(c->g->cx);
}

void td__memory_free(td_memory *m) {
    for (int i = 0; i < m->stays.n; i++) td__storage_drop(m->stays.v[i].st);
    td__vec_free(&m->stays);
    td__free(m->stay_of);
    td__free(m->bound);
}

/* Sizes that were not there in the last call: places anew. */
static bool place_for(td_native *c, const int64_t *bound) {
    td_memory *m = &c->mem;
    size_t     bytes = sizeof *bound * (size_t)c->g->dims.n;
    if (m->placed && !memcmp(m->bound, bound, bytes)) return true;
    m->placed = false;
    if (!place(c, bound)) return false;
    memcpy(m->bound, bound, bytes);
    return m->placed = true;
}

bool td__memory_take(td_native *c, const int64_t *bound) {
    td_memory *m = &c->mem;
    if (!m->any) return true;
    if (m->bound && !place_for(c, bound)) return false;
    if (m->sizes.arena == 0) return true;
    if (!(m->arena = td__block_alloc((size_t)m->sizes.arena)))
        return td__fail_memory(c->g->cx);
    for (int i = 0; i < m->stays.n; i++)
        if (m->stays.v[i].st) m->stays.v[i].st->data = m->arena + m->stays.v[i].at;
    return true;
}

void td__memory_give(td_native *c) {
    td_memory *m = &c->mem;
    if (!m->arena) return;
    td__block_free(m->arena, (size_t)m->sizes.arena);
    m->arena = NULL;
}

const td_stay *td__memory_stay(const td_native *c, const td_gval *v) {
    int i = c->mem.stay_of[v->id];
    return i >= 0 && c->mem.stays.v[i].at >= 0 ? &c->mem.stays.v[i] : NULL;
}
