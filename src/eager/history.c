/* history.c -- lifts the history below the roots of a backward: writes its key and
 * collects the values it reads. This is on the path of every compiled backward, so it
 * allocates nothing in the steady state. */
#include "eager/history.h"

#include "eager/engine.h"

#include "core/log.h"

#include <string.h>

/* ---- words and values --------------------------------------------------- */

void td__history_put(td_history *h, int64_t word) {
    if (TD_UNLIKELY(!td__vec_push(&h->key, word))) h->failed = true;
}

/* A text as words: its length, then eight bytes each. */
static void put_text(td_history *h, const char *s) {
    size_t n = strlen(s);
    td__history_put(h, (int64_t)n);
    for (size_t at = 0; at < n; at += 8) {
        int64_t word = 0;
        memcpy(&word, s + at, n - at < 8 ? n - at : 8);
        td__history_put(h, word);
    }
}

/* An argument of an op that is no tensor. Tensors are edges and saved values. */
void td__history_number(td_history *h, const td_value *v) {
    int64_t word = 0;
    bool    list = v->kind == TD_K_INTS || v->kind == TD_K_TENSORS;
    td__history_put(h, (int64_t)v->kind | (list ? (int64_t)v->n << 32 : 0));
    switch ((td_kind)v->kind) {
    case TD_K_INT: word = v->u.i; break;
    case TD_K_BOOL: word = v->u.b; break;
    case TD_K_DTYPE: word = v->u.dt; break;
    case TD_K_FLOAT: memcpy(&word, &v->u.f, sizeof word); break;
    case TD_K_INTS:
        for (uint32_t i = 0; i < v->n; i++) td__history_put(h, v->u.ints[i]);
        return;
    case TD_K_STR: put_text(h, v->u.s); return;
    default: return;
    }
    td__history_put(h, word);
}

void td__history_geom(td_history *h, const td_geom *g, bool offset) {
    td__history_put(h, g->dtype | g->rank << 8 | (g->stride != NULL) << 16);
    for (int i = 0; i < g->rank; i++) td__history_put(h, g->size[i]);
    for (int i = 0; g->stride && i < g->rank; i++) td__history_put(h, g->stride[i]);
    if (offset) td__history_put(h, g->offset);
}

void td__history_value(td_history *h, td_tensor *t) {
    if (TD_UNLIKELY(!td__vec_push(&h->values, t))) h->failed = true;
}

/* ---- nodes -------------------------------------------------------------- */

static void lift_saved(td_history *h, const td_saved *s) {
    h->stale |= !(s->flags & TD_SV_PLAIN) &&
                (s->version != td__version(s->t) || s->st != s->t->st);
    h->stale |= td__saved_is_detached(s);
    td__history_value(h, s->t);
}

static bool is_there(const td_saved *s) { return s->t && !(s->flags & TD_SV_FREED); }

/* A saved value. One that was freed is absent: if the trace reads it, it fails as eager
 * does. */
static void put_saved(td_history *h, const td_saved *s) {
    bool there = is_there(s);
    td__history_put(h, (int64_t)(uint16_t)s->arg | (int64_t)(uint16_t)s->item << 16 |
                           (int64_t)there << 32);
    h->packed |= s->pack != NULL;
    if (there) lift_saved(h, s);
}

/* After an empty list of td_retain_grad, the third word of a node. */
enum { AT_FLAGS = 2 };
static int64_t flags_of(const td_node *n) {
    return n->flags | (int64_t)n->n_edge << 16 | (int64_t)n->n_out << 40;
}

const char *td__history_node(td_history *h, const td_node *n) {
    if (!n->kind->describe) return "a node of a kind that no code is made for";
    td__history_put(h, (int64_t)(uintptr_t)n->kind);
    td__history_put(h, flags_of(n));
    bool offset = n->def && n->def->flags & TD_OPF_PLACES;
    for (int i = 0; i < n->n_edge; i++) td__history_geom(h, &n->in_type[i], offset);
    for (int i = 0; i < n->n_out; i++) td__history_geom(h, &n->out_type[i], offset);
    td__history_put(h, n->n_saved);
    for (int i = 0; i < n->n_saved; i++) put_saved(h, &n->saved[i]);
    return n->kind->describe(n, h);
}

static bool has_hooks(const td_node *n, td_hook_kind a, td_hook_kind b) {
    for (const td_hookrec *k = n->hooks; k; k = k->next)
        if (!k->gone && (k->kind == a || k->kind == b)) return true;
    return false;
}

bool td__history_hears(const td_node *n) {
    return has_hooks(n, TD_HOOK_GRAD, TD_HOOK_PRE);
}

/* The results whose gradients td_retain_grad stores. */
static void put_retained(td_history *h, const td_node *n) {
    for (const td_hookrec *k = n->hooks; k; k = k->next) {
        if (k->gone || k->kind != TD_HOOK_RETAIN) continue;
        td__history_put(h, k->nr);
        h->most++;
    }
    td__history_put(h, -1);
}

/* Where the gradients of a node go. */
static void put_edges(td_history *h, const td_node *n) {
    for (int i = 0; i < n->n_edge; i++) {
        td_node      *to = n->edge[i].node;
        const td_rec *into = to ? td__walk_find(h->w, to) : NULL;
        td__history_put(h, into ? (int64_t)into->index << 32 | n->edge[i].nr : -1);
    }
}

/* A node that the engine runs: code depends on the sizes of its results alone. Nothing
 * that describes its hooks or its derivative is part of the key. */
static void put_host(td_history *h, const td_node *n) {
    td__history_put(h, -2);
    td__history_put(h, (int64_t)n->n_edge << 32 | n->n_out);
    for (int i = 0; i < n->n_out; i++) td__history_geom(h, &n->out_type[i], false);
}

/* Describes a node that code runs. Returns why the engine must run it instead. */
static const char *put_code(td_history *h, const td_rec *r) {
    const td_node *n = r->node;
    if (has_hooks(n, TD_HOOK_POST, TD_HOOK_POST)) return "a hook runs after it";
    if (!r->wanted && td__history_hears(n))
        return "its gradient is asked for, and has hooks";
    put_retained(h, n);
    const char *why = td__history_node(h, n);
    return !why && h->packed ? "saved-tensor hooks have a value of it" : why;
}

const char *td__history_put_node(td_history *h, const td_rec *r) {
    const td_node *n = r->node;
    if (n->kind == &td__accumulate_kind) {
        td__history_geom(h, &n->out_type[0], false);
        return NULL;
    }
    int  words = h->key.n, values = h->values.n;
    bool stale = h->stale;
    h->packed = false;
    const char *why = put_code(h, r);
    if (why) {
        h->key.n = words;
        h->values.n = values;
        h->stale = stale;
        put_host(h, n);
    }
    put_edges(h, n);
    return why;
}

/* Of a recorded op without td_retain_grad only flags and saved values may have changed
 * since the key was written, and the flags tell whether these were freed. */
static bool lift_op(td_history *h, const td_rec *r) {
    const td_node *n = r->node;
    for (int i = 0; i < n->n_saved; i++)
        if (is_there(&n->saved[i])) lift_saved(h, &n->saved[i]);
    return h->key.v[r->key + AT_FLAGS] == flags_of(n);
}

bool td__history_lift_node(td_history *h, const td_rec *r) {
    const td_node *n = r->node;
    if (n->kind == &td__accumulate_kind) return true;
    if (!r->heard && td__history_hears(n)) return false;
    bool plain = n->kind == &td__op_kind &&
                 (!n->hooks || !has_hooks(n, TD_HOOK_RETAIN, TD_HOOK_POST));
    if (plain && h->key.v[r->key] == -1) return lift_op(h, r);
    int words = h->key.n, count = r->key_end - r->key;
    td__history_put_node(h, r);
    bool same =
        h->key.n - words == count &&
        !memcmp(h->key.v + words, h->key.v + r->key, sizeof *h->key.v * (size_t)count);
    h->key.n = words;
    return same;
}

/* One node of the walk: what is asked of it, what it is, and where its gradients go. */
static void put_rec(td_history *h, td_rec *r) {
    bool leaf = r->node->kind == &td__accumulate_kind;
    td__history_put(h, r->wanted | r->seen << 1 | (int64_t)r->deps << 8);
    for (const td_capture *c = r->capture; c; c = c->next) {
        td__history_put(h, c->nr);
        h->most++;
    }
    r->host = NULL;
    r->hears = r->heard = false;
    if (!td__rec_leads(r)) return;
    bool hears = !leaf && td__history_hears(r->node);
    td__history_put(h, hears ? -3 : -1);
    h->most += leaf;
    r->key = h->key.n;
    r->host = td__history_put_node(h, r);
    r->key_end = h->key.n;
    r->hears = hears && !r->host;
    h->n_code += !leaf && !r->host;
    if (!h->host) h->host = r->hears ? "a hook runs before it" : r->host;
}

/* ---- roots -------------------------------------------------------------- */

/* Is the gradient of root i a value? If not it is the number 1, part of the code. */
static bool has_tangent(const td_walk_roots *from, int i) {
    bool given = i < from->grads.n && from->grads.v && from->grads.v[i];
    return given || from->roots.v[i]->rank > 0;
}

bool td__root_has_tangent(const td_history *h, int i) {
    return has_tangent(h->from, i);
}

/* Roots, and their gradients as the last values, unless the engine's walk has them.
 * False after td__fail. */
static bool put_roots(td_history *h) {
    const td_walk_roots *from = h->from;
    h->n_saved = h->values.n;
    for (int i = 0; i < from->roots.n; i++) {
        const td_tensor *t = from->roots.v[i];
        bool             own = has_tangent(from, i);
        td__history_put(h, (int64_t)from->recs[i]->index << 32 |
                               (t->ag->fn ? t->ag->nr : 0));
        td__history_put(h, t->dtype | own << 8);
        if (!own || h->host) continue;
        td_tensor *g = td__root_grad(from->roots.v[i], from->grads, i, from->who);
        if (!g) return false;
        if (td__vec_push(&h->values, g)) continue;
        td__unref(g);
        return td__fail_memory(h->w->cx);
    }
    return true;
}

/* ---- gradients that are there already ----------------------------------- */

/* What a tensor's bytes are known by: two storages may have the same. */
static const void *memory_of(const td_tensor *t) {
    return t->st->data ? t->st->data : (const void *)t->st;
}

/* The slot of p in the set, or the free one where it belongs. */
static const void **slot_of(td_history *h, const void *p) {
    size_t mask = (size_t)h->storage.n - 1;
    size_t at = (size_t)((uintptr_t)p * 0x9e3779b97f4a7c15u >> 20) & mask;
    while (h->storage.v[at] && h->storage.v[at] != p) at = (at + 1) & mask;
    return &h->storage.v[at];
}

/* Makes the set of the values' memory. */
static bool find_storages(td_history *h) {
    int n = 16;
    while (n < 2 * h->values.n) n *= 2;
    while (h->storage.cap < n)
        if (!td__vec_grow((void **)&h->storage.v, &h->storage.cap, n,
                          sizeof *h->storage.v))
            return false;
    h->storage.n = n;
    memset(h->storage.v, 0, sizeof *h->storage.v * (size_t)n);
    for (int i = 0; i < h->values.n; i++) {
        const void *p = memory_of(h->values.v[i]);
        *slot_of(h, p) = p;
    }
    return true;
}

bool td__grad_is_read(td_history *h, const td_rec *r) {
    if (r->node->kind != &td__accumulate_kind || !r->wanted) return false;
    const td_tensor *leaf = r->node->data;
    if (!leaf->ag || !leaf->ag->grad) return false;
    if (!h->storage.n && !find_storages(h)) h->failed = true;
    return !h->failed && *slot_of(h, memory_of(leaf->ag->grad));
}

static bool grads_are_read(td_history *h) {
    for (int i = 0; i < h->w->lists.recs.n && !h->failed; i++)
        if (td__grad_is_read(h, h->w->lists.recs.v[i])) return true;
    return false;
}

/* ---- the whole ---------------------------------------------------------- */

/* Fills h; *why: the engine must run it. False after td__fail. */
static bool lift(td_history *h, const char **why) {
    td_walk *w = h->w;
    td__history_put(h, w->some | w->lists.recs.n << 1);
    for (int i = 0; i < w->lists.recs.n; i++) put_rec(h, w->lists.recs.v[i]);
    h->n_saved = h->values.n;
    if (h->host && !h->n_code) *why = h->host;
    if (!h->host && h->stale) *why = TD_WHY_STALE;
    if (*why) return true;
    if (!put_roots(h)) return false;
    if (!h->host && grads_are_read(h)) *why = TD_WHY_GRAD;
    return !h->failed || td__fail_memory(w->cx);
}

const char *td__history_refuses(const td_walk *w) {
    const td_ctx *cx = w->cx;
    if (cx->anomaly) return "anomaly mode checks each op";
    if (cx->fake) return "a body is being captured, and has the ops of the backward";
    if (td__modes_below_autocast(cx) != cx->tape) return "a mode is pushed";
    return NULL;
}

static const char *refuses(const td_walk *w) {
    if (w->create) return "create_graph";
    if (w->by->busy) return "it runs inside of another one";
    return td__history_refuses(w);
}

static void end(td_backward_fn *f) {
    td_history *h = &f->h;
    for (int i = h->n_saved; i < h->values.n; i++) td__unref(h->values.v[i]);
    h->key.n = h->values.n = h->n_saved = h->most = h->n_code = h->storage.n = 0;
    h->failed = h->stale = h->packed = false;
    h->host = NULL;
    f->busy = false;
    if (f->dropped) f->free(f);
}

/* Counts a backward that ended. why: the engine ran it, or a part of it. */
static void count(td_backward_fn *f, td_walk_end is, const char *why) {
    f->n_compiled += is == TD_WALK_DONE && !why;
    if (is != TD_WALK_LEFT && !why) return;
    f->n_engine++;
    snprintf(f->why, sizeof f->why, "%s", why ? why : "");
    td__log(f->cx, TD_LOG_compile, "backward: the engine runs it: %s", f->why);
}

td_walk_end td__history_run(td_walk *w, const td_walk_roots *from) {
    td_backward_fn *f = w->by;
    const char     *why = refuses(w);
    td_walk_end     is = TD_WALK_LEFT;
    if (!why) {
        f->busy = true;
        f->h.w = w;
        f->h.from = from;
        if (!lift(&f->h, &why)) is = TD_WALK_FAILED;
        else if (!why) is = f->run(f, &f->h, &why);
    }
    count(f, is, why);
    if (f->h.w == w && f->busy) end(f);
    return is;
}
