/* writes.c -- puts what a program wrote into its inputs: elements, geometry, history,
 * other bytes, and the version counters eager would have left. */
#include "ops/cast.h"
#include "runtime/plan.h"

#include <string.h>

static td_tensor *input(const td_pcall *c, const td_update *u) {
    return c->in[u->input].u.t;
}

/* Do their elements lie in one order, in bytes of their own? */
static bool lie_alike(const td_tensor *t, const td_tensor *value) {
    if (t->st == value->st || t->dtype != value->dtype || t->rank != value->rank ||
        t->st->readonly || !td__is_dense(t->rank, t->size, t->stride))
        return false;
    for (int d = 0; d < t->rank; d++)
        if (t->size[d] != value->size[d] || t->stride[d] != value->stride[d])
            return false;
    return true;
}

/* Elements without history: a leaf that requires grad may be written so. Copies of an
 * expanded dim are equal: one is written. */
bool td__plan_put(td_tensor *t, td_tensor *value) {
    td_ctx *cx = t->cx;
    bool    grad = cx->grad_enabled, inference = cx->inference, over = false;
    td_meta m;
    if (lie_alike(t, value))
        return td__copy_into(t, value); /* versions are set later */
    td__tensor_meta(t, &m);
    cx->grad_enabled = false;
    cx->inference = td_is_inference(t);
    for (int d = 0; d < m.rank; d++) {
        if (m.stride[d] != 0 || m.size[d] <= 1) continue;
        m.size[d] = 1;
        value = td_op_slice(value, d, td_value_int(0), td_value_int(1), 1);
        over = true;
    }
    td_tensor *to = over ? td__tensor_over(cx, t->st, &m) : t;
    bool       ok = to && !td_is_nil(td_op_copy_(to, value, false));
    cx->grad_enabled = grad;
    cx->inference = inference;
    return ok;
}

bool td__plan_want(td_tensor *t) {
    bool inference = t->cx->inference;
    t->cx->inference = td_is_inference(t);
    bool ok = !td_is_nil(td_set_requires_grad(t, true));
    t->cx->inference = inference;
    return ok;
}

/* The compiled function's node becomes the history of what it wrote. */
static bool put_with_history(td_pcall *c, td_tensor *t, td_tensor *value, int nr) {
    td_ctx *cx = t->cx;
    bool    grad = cx->grad_enabled;
    if (!t->base) {
        if (!td__plan_put(t, value)) return false;
        if (td_is_leaf(t)) td__clear_history(t); /* the program has detached it */
        return td__set_history(t, c->node, nr);
    }
    cx->grad_enabled = true;
    bool ok = td__set_history(value, c->node, nr);
    for (int d = 0; d < t->rank && ok; d++) /* copies of an expanded dim are equal */
        if (t->stride[d] == 0 && t->size[d] > 1) {
            t = td_op_slice(t, d, td_value_int(0), td_value_int(1), 1);
            value = td_op_slice(value, d, td_value_int(0), td_value_int(1), 1);
        }
    ok = ok && !td_is_nil(td_op_copy_(t, value, false));
    cx->grad_enabled = grad;
    return ok;
}

static bool put_elements(td_pcall *c, int i, int out) {
    const td_update *u = &c->j->updates[i];
    td_tensor       *t = input(c, u), *value = c->vals[out].u.t;
    int              nr = td__plan_nr(c->p, TD_TANGENT_INPUT, i);
    if (!u->history) return td__plan_put(t, value);
    if (u->moved == TD_HOME_SAME && !u->late) return put_with_history(c, t, value, nr);
    return td__plan_put(t, value) && (out != u->now || td__set_history(t, c->node, nr));
}

/* An input that moved into bytes another one writes, or stays where set_ found it, has
 * only its history to get. */
static bool put_history(td_pcall *c, int i) {
    const td_update *u = &c->j->updates[i];
    if (!u->history || (u->moved == TD_HOME_SAME && u->out >= 0)) return true;
    return td__set_history(input(c, u), c->node,
                           td__plan_nr(c->p, TD_TANGENT_INPUT, i));
}

/* ---- geometry and bytes ------------------------------------------------- */

static td_storage *came_in(const td_pcall *c, int in) {
    for (int i = 0; i < c->j->n_updates; i++)
        if (c->j->updates[i].input == in) return c->came[i].st;
    return c->in[in].u.t->st;
}

/* The storage the input ends in, with a reference; NULL: no memory. */
static td_storage *home_of(const td_pcall *c, const td_update *u) {
    if (u->moved == TD_HOME_FRESH && u->home < 0)
        return td__storage_make(u->bytes, false);
    td_storage *st = u->moved == TD_HOME_SAME ? input(c, u)->st
                     : u->moved == TD_HOME_INPUT
                         ? came_in(c, u->home)
                         : input(c, &c->j->updates[u->home])->st;
    td__storage_keep(st);
    return st;
}

static bool put_geometry(const td_update *u, td_tensor *t) {
    const td_geom *g = &u->end;
    td_ints        size = {g->size, g->rank}, stride = {g->stride, g->rank};
    bool lost = td__is_behind(t) && t->creation != TD_MADE_PLAIN; /* no op takes it */
    if (u->moved == TD_HOME_SAME && !lost) {
        td_ctx *cx = t->cx;
        bool    grad = cx->grad_enabled, inference = cx->inference;
        cx->grad_enabled = (u->turned || (u->history && !u->late)) && !td_is_leaf(t);
        cx->inference = td_is_inference(t);
        t = td_op_as_strided_(t, size, stride, td_value_int(g->offset));
        cx->grad_enabled = grad;
        cx->inference = inference;
        return !td_is_nil(t);
    }
    td_meta m = td__geom_meta(g);
    return td__tensor_set_geometry(t, &m);
}

static bool grow(const td_pcall *c, int i) {
    td_storage *st = c->came[i].st;
    size_t      bytes = c->j->updates[i].grown;
    return st->bytes >= bytes || td__storage_resize(st, bytes) ||
           td__fail_memory(c->p->cx);
}

static bool move(td_pcall *c, const td_update *u) {
    td_tensor *t = input(c, u);
    if (!u->meta) return true;
    td_storage *st = home_of(c, u);
    if (!st) return td__fail_memory(c->p->cx);
    bool ok = u->moved == TD_HOME_SAME || st->bytes >= u->bytes ||
              td__storage_resize(st, u->bytes) || td__fail_memory(c->p->cx);
    if (ok && u->moved != TD_HOME_SAME) td__tensor_set_storage(t, st);
    td__storage_drop(st);
    if (!ok || !put_geometry(u, t)) return false;
    if (u->set) td__accumulator_renew(t);
    return true;
}

/* ---- versions ----------------------------------------------------------- */

/* A view that set_ has parted from its base was no view for the trace. Without history
 * of its own it is behind with every write. */
static bool falls_behind(const td_pcall *c, int input, const td_tensor *t) {
    if (!t->base || t->base->st == t->st)
        return c->j->stale[input] || (c->j->behind[input] && !td__needs_grad(t));
    for (int i = 0; i < c->j->n_updates; i++)
        if (c->j->updates[i].input == input && c->j->updates[i].history) return false;
    return true;
}

/* The counter gets eager's count; inputs that eager would find up to date are so, with
 * the history they were behind of. */
static bool set_version(td_pcall *c, td_storage *st, uint64_t to) {
    td_node *fn;
    for (int i = 0; i < c->j->n_primals; i++) {
        td_tensor *t = c->in[i].kind == TD_K_TENSOR ? c->in[i].u.t : NULL;
        if (!t || t->st != st) continue;
        bool behind = falls_behind(c, i, t);
        if (!behind && t->creation == TD_MADE_PLAIN && !td__fn_of(t, &fn)) return false;
        t->seen = behind ? to - 1 : to;
    }
    atomic_store_explicit(&st->version, to, memory_order_relaxed);
    return true;
}

/* Is update i of a storage as the one before it, which was seen to? */
static bool is_done(const td_pcall *c, int i) {
    const td_update *u = &c->j->updates[i];
    return i > 0 && c->came[i].st == c->came[i - 1].st && u->versions == u[-1].versions;
}

static bool set_versions(td_pcall *c) {
    const td_joint *j = c->j;
    for (int i = 0; i < j->n_updates; i++) {
        const td_update *u = &j->updates[i];
        if (u->versions && !is_done(c, i) &&
            !set_version(c, c->came[i].st, c->came[i].version + (uint64_t)u->versions))
            return false;
        if (u->moved == TD_HOME_FRESH && u->home < 0 &&
            !set_version(c, input(c, u)->st, u->version))
            return false;
    }
    return true;
}

/* ---- all ---------------------------------------------------------------- */

void td__plan_came(td_pcall *c) {
    for (int i = 0; i < c->j->n_updates; i++) {
        td_storage *st = input(c, &c->j->updates[i])->st;
        td__storage_keep(st);
        c->came[i] =
            (td_came){st, atomic_load_explicit(&st->version, memory_order_relaxed)};
    }
}

void td__plan_left(td_pcall *c) {
    for (int i = 0; i < c->j->n_updates; i++) td__storage_drop(c->came[i].st);
}

bool td__plan_flags(td_pcall *c) {
    const td_joint *j = c->j;
    for (int i = 0; i < j->n_updates; i++) /* writes of the graph itself come later */
        atomic_store_explicit(&c->came[i].st->version, c->came[i].version,
                              memory_order_relaxed);
    for (int i = 0; i < j->n_updates; i++)
        if (j->updates[i].wants && !j->updates[i].detached &&
            !td__plan_want(input(c, &j->updates[i])))
            return false;
    return true;
}

/* What has no history is put first: writes that have one follow each other as the
 * tape wants them, those of bases before those of their views. */
enum { PUT_PLAIN, PUT_BASES, PUT_VIEWS, PUT_END };

static int turn_of(const td_pcall *c, const td_update *u) {
    if (!u->history) return PUT_PLAIN;
    return input(c, u)->base ? PUT_VIEWS : PUT_BASES;
}

static bool put_all(td_pcall *c, int turn) {
    const td_joint *j = c->j;
    for (int i = 0; i < j->n_updates; i++) {
        const td_update *u = &j->updates[i];
        if (u->out >= 0 && turn_of(c, u) == turn && !put_elements(c, i, u->out))
            return false;
    }
    return true;
}

bool td__plan_miss(td_tensor *t) {
    td_node *fn = NULL;
    if (!td__fn_of(t, &fn)) return false;
    if (fn) fn->flags |= TD_NF_MISSED;
    return true;
}

static bool feeds(const td_joint *j, int nr) {
    return td__set_any(j->tangents[nr].feeds, td__set_words(j->n_tangents));
}

/* The history of a view that was written is its base's, which goes on to the compiled
 * node. */
static bool miss_views(const td_pcall *c) {
    const td_joint *j = c->j;
    for (int i = 0; i < j->n_updates; i++) {
        td_tensor *t = input(c, &j->updates[i]);
        int        nr = j->updates[i].history && t->base
                            ? td__plan_nr(c->p, TD_TANGENT_INPUT, i)
                            : -1;
        if (nr < 0 || !feeds(j, nr) || !td__has_node(t)) continue;
        td_node *fn = NULL;
        if (!td__fn_of(t, &fn)) return false;
        if (fn == c->node) continue;
        if (!td__plan_miss(t) || !td__plan_miss(t->base)) return false;
    }
    return td_ok(c->p->cx);
}

bool td__plan_updates(td_pcall *c) {
    const td_joint *j = c->j;
    if (j->n_updates == 0) return true;
    for (int turn = PUT_PLAIN; turn < PUT_END; turn++)
        if (!put_all(c, turn)) return false;
    for (int i = 0; i < j->n_updates; i++)
        if (!grow(c, i) || !move(c, &j->updates[i])) return false;
    for (int i = 0; i < j->n_updates; i++)
        if (j->updates[i].now >= 0 ? !put_elements(c, i, j->updates[i].now)
                                   : !put_history(c, i))
            return false;
    return set_versions(c) && miss_views(c);
}

bool td__plan_detach(td_pcall *c) {
    const td_joint *j = c->j;
    for (int i = 0; i < j->n_updates; i++) {
        const td_update *u = &j->updates[i];
        if (!u->detached) continue;
        td__clear_history(input(c, u));
        if (u->wants && !td__plan_want(input(c, u))) return false;
    }
    return true;
}
