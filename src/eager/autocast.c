/* autocast.c -- the autocast mode, which chooses dtypes. It is always first on
 * the mode stack and receives composite ops whole, so that the other modes see
 * the casts as ordinary ops. A row's .autocast says which dtype an op computes
 * in; a composite without it is decomposed, and its parts are cast one by one. */
#include "eager/eager_int.h"
#include "ops/call.h"

static td_autocast *of(const td_ctx *cx) {
    return (td_autocast *)(uintptr_t)&cx->autocast;
}

/* ---- the cache of cast weights ------------------------------------------ */

/* Empties it: at the end of the outermost region. */
static void clear_cache(td_autocast *a) {
    for (int i = 0; i < a->cache.n; i++) {
        td__unref(a->cache.v[i].leaf);
        td__unref(a->cache.v[i].cast);
    }
    td__vec_free(&a->cache);
}

/* Only casts of f32 leaves that require grad are cached, as in PyTorch: weights. */
static bool may_cache(td_autocast *a, td_tensor *t, td_dtype to) {
    return to == a->dtype && t->dtype == TD_F32 && !t->base &&
           t->flags & TD_TF_NEEDS_GRAD && td_is_leaf(t);
}

/* The cached cast of a weight. It is redone if the weight was written since, or
 * if it was made in the other grad mode. nil after td__fail. */
static td_tensor *cached_cast(td_ctx *cx, td_autocast *a, td_tensor *t, td_dtype to) {
    td_kept_cast *k = NULL;
    for (int i = 0; i < a->cache.n && !k; i++)
        if (a->cache.v[i].leaf == t && a->cache.v[i].cast->dtype == to)
            k = &a->cache.v[i];
    uint64_t version = td__version(t);
    bool     recorded = td__recording(cx);
    if (k && k->version == version && k->recorded == recorded) return k->cast;
    td_tensor *cast = td_op_to(t, to, false);
    if (td_is_nil(cast)) return cast;
    td_kept_cast fresh = {t, cast, version, recorded};
    if (!k && !td__vec_push(&a->cache, fresh)) return td__fail_memory(cx), &cx->nil;
    if (!k) td__ref(t);
    else {
        td__unref(k->cast);
        *k = fresh;
    }
    return td__ref(cast);
}

/* ---- casting ------------------------------------------------------------ */

/* f64 and integers are never cast. */
static bool takes_part(const td_tensor *t) {
    return t && td__is_float((td_dtype)t->dtype) && t->dtype != TD_F64;
}

/* Eager casts a weight once in a region, also for the bodies of branches, loops and
 * regions inside: in their captures the cast is a tensor from outside. */
td_tensor *td__autocast_weight(td_ctx *cx, td_tensor *t, td_dtype to) {
    td_autocast *a = of(cx);
    if (!may_cache(a, t, to)) return NULL;
    for (td_mode *m = cx->fake ? cx->top : NULL; m; m = m->below) {
        td_tensor *outer = m->cast ? m->cast(m, t, to) : NULL;
        if (outer) return outer;
    }
    return cached_cast(cx, a, t, to);
}

static td_tensor *cast(td_ctx *cx, td_tensor *t, td_dtype to) {
    if (!takes_part(t) || t->dtype == to) return t;
    td_tensor *weight = td__autocast_weight(cx, t, to);
    return weight ? weight : td_op_to(t, to, false);
}

/* Casts a list argument, into a new list in scratch memory. */
static bool cast_list(td_opcall *c, td_value *v, td_dtype to) {
    td_tensor **ts = td__arena_alloc(&c->cx->scratch, sizeof *ts * (v->n + 1));
    if (!ts) return td__fail_memory(c->cx);
    for (uint32_t k = 0; k < v->n; k++) {
        ts[k] = v->u.ts[k] ? cast(c->cx, v->u.ts[k], to) : NULL;
        if (ts[k] && td_is_nil(ts[k])) return false;
    }
    v->u.ts = ts;
    return true;
}

static bool cast_all(td_opcall *c, td_dtype to) {
    for (int i = 0; i < c->n_in; i++) {
        td_value *v = &c->in[i];
        if (v->kind == TD_K_TENSORS && !cast_list(c, v, to)) return false;
        if (v->kind != TD_K_TENSOR) continue;
        v->u.t = cast(c->cx, v->u.t, to);
        if (td_is_nil(v->u.t)) return false;
    }
    return true;
}

/* Sets *to to f32 if t is f32. False: t has a half dtype other than the
 * region's and no f32 argument came before it. */
static bool widen(const td_autocast *a, const td_tensor *t, td_dtype *to) {
    if (!takes_part(t)) return true;
    if (t->dtype == TD_F32) *to = TD_F32;
    return *to == TD_F32 || t->dtype == a->dtype;
}

/* Casts to the widest dtype among the arguments. */
static bool cast_widest(td_opcall *c) {
    td_autocast *a = of(c->cx);
    td_dtype     to = a->dtype;
    bool         ok = true;
    for (int i = 0; i < c->n_in; i++) {
        td_value v = c->in[i];
        if (v.kind == TD_K_TENSOR) ok &= widen(a, v.u.t, &to);
        for (uint32_t k = 0; v.kind == TD_K_TENSORS && k < v.n; k++)
            ok &= widen(a, v.u.ts[k], &to);
    }
    if (ok) return cast_all(c, to);
    return td__op_fail(c, TD_E_DTYPE,
                       "autocast is on for %s, but an argument has the other 16-bit "
                       "dtype; convert it with td_to first",
                       td_dtype_name(a->dtype));
}

/* td_mode.call: casts the arguments as the row says and passes the call on. */
static bool autocast_call(td_mode *m, td_opcall *c) {
    td_autocast *a = of(c->cx);
    if (a->on && !td__call_as_recorded(m, c)) return false;
    if (a->on) switch ((td_cast)c->def->autocast) {
        case TD_CAST_NONE:
            /* graphs among the arguments were captured with their casts inside */
            if (c->info->composite && !(c->def->flags & TD_OPF_NESTS))
                return td__call_simpler(m, c);
            break;
        case TD_CAST_LOW:
            if (!cast_all(c, a->dtype)) return false;
            break;
        case TD_CAST_F32:
            if (!cast_all(c, TD_F32)) return false;
            break;
        case TD_CAST_WIDEST:
            if (!cast_widest(c)) return false;
            break;
        }
    return td__call_below(m, c);
}

/* ---- regions ------------------------------------------------------------ */

/* Begins a region; the first one pushes the mode. Returns the state before. */
static td_autocast_mode change(td_ctx *cx, bool on, td_dtype dtype) {
    td_autocast     *a = of(cx);
    td_autocast_mode was = {a->on, a->on ? a->dtype : TD_DTYPE_NONE, a->depth};
    if (a->depth++ == 0) {
        a->mode = (td_mode){.name = "autocast",
                            .call = autocast_call,
                            .composites = true,
                            .first = true};
        td__mode_push(cx, &a->mode);
    }
    a->on = on;
    a->dtype = dtype;
    return was;
}

td_autocast_mode td_autocast_begin(td_ctx *cx, td_dtype dtype) {
    if (!TD_ENTER_CTX(cx)) return (td_autocast_mode){0};
    bool known = dtype == TD_BF16 || dtype == TD_F16;
    if (known) return change(cx, true, dtype);
    td__fail(cx, TD_E_DTYPE,
             "td_autocast_begin: dtype is %s, and must be TD_BF16 or TD_F16; td_to "
             "converts single tensors to others",
             td_dtype_name(dtype));
    return change(cx, of(cx)->on, of(cx)->dtype);
}

td_autocast_mode td_autocast_off_begin(td_ctx *cx) {
    if (!TD_ENTER_CTX(cx)) return (td_autocast_mode){0};
    return change(cx, false, of(cx)->dtype);
}

/* Also ends inner regions that were left open after an error. */
void td_autocast_end(td_ctx *cx, td_autocast_mode was) {
    if (!TD_ENTER_CTX(cx)) return;
    td_autocast *a = of(cx);
    if (was.depth < 0 || was.depth >= a->depth) return;
    a->on = was.on;
    a->dtype = was.dtype;
    a->depth = was.depth;
    if (a->depth > 0) return;
    td__mode_pop(cx, &a->mode);
    clear_cache(a);
}

bool td_autocast_enabled(const td_ctx *cx) {
    if (!TD_ENTER_CTX(cx)) return false;
    return of(cx)->on;
}
td_dtype td_autocast_dtype(const td_ctx *cx) {
    if (!TD_ENTER_CTX(cx)) return TD_DTYPE_NONE;
    return of(cx)->on ? of(cx)->dtype : TD_DTYPE_NONE;
}

/* ---- for captures and checkpoints --------------------------------------- */

int td__autocast_state(const td_ambient *a) {
    return a->autocast.on ? 1 + (int)a->autocast.dtype : 0;
}

td_autocast_mode td__autocast_resume(td_ctx *cx, int state) {
    return state ? td_autocast_begin(cx, (td_dtype)(state - 1))
                 : td_autocast_off_begin(cx);
}

void td__autocast_close(td_ctx *cx) { clear_cache(of(cx)); }

const td_mode *td__modes_below_autocast(const td_ctx *cx) {
    const td_autocast *a = of(cx);
    return a->depth > 0 && cx->top == &a->mode ? a->mode.below : cx->top;
}
