/* autocast.c -- the mode that chooses dtypes. It hears composites whole and before all
 * other modes, so that these hear the casts as ordinary ops. A row's .autocast says
 * what an op takes; the parts of composites without one are heard in turn. */
#include "eager/eager_int.h"
#include "ops/call.h"

static td_autocast *of(const td_ctx *cx) {
    return (td_autocast *)(uintptr_t)&cx->autocast;
}

/* ---- the cache ---------------------------------------------------------- */

static void forget(td_autocast *a) {
    for (int i = 0; i < a->cache.n; i++) {
        td__unref(a->cache.v[i].leaf);
        td__unref(a->cache.v[i].cast);
    }
    td__vec_free(&a->cache);
}

static bool may_keep(td_autocast *a, td_tensor *t, td_dtype to) {
    return to == a->dtype && t->dtype == TD_F32 && !t->base &&
           t->flags & TD_TF_NEEDS_GRAD && td_is_leaf(t);
}

/* A weight that was written since, or cast with gradients off, is cast again. */
static td_tensor *kept(td_ctx *cx, td_autocast *a, td_tensor *t, td_dtype to) {
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

static bool takes_part(const td_tensor *t) {
    return t && td__is_float((td_dtype)t->dtype) && t->dtype != TD_F64;
}

static td_tensor *cast(td_ctx *cx, td_tensor *t, td_dtype to) {
    td_autocast *a = of(cx);
    if (!takes_part(t) || t->dtype == to) return t;
    return may_keep(a, t, to) ? kept(cx, a, t, to) : td_op_to(t, to, false);
}

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

/* f32 from the first one on; before that, false for a half other than the region's. */
static bool widen(const td_autocast *a, const td_tensor *t, td_dtype *to) {
    if (!takes_part(t)) return true;
    if (t->dtype == TD_F32) *to = TD_F32;
    return *to == TD_F32 || t->dtype == a->dtype;
}

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
                       "autocast to %s meets a tensor of the other half type; cast it "
                       "first",
                       td_dtype_name(a->dtype));
}

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

/* Ends of inner regions may be missing, after an error. */
void td_autocast_end(td_ctx *cx, td_autocast_mode was) {
    if (!TD_ENTER_CTX(cx)) return;
    td_autocast *a = of(cx);
    if (was.depth < 0 || was.depth >= a->depth) return;
    a->on = was.on;
    a->dtype = was.dtype;
    a->depth = was.depth;
    if (a->depth > 0) return;
    td__mode_pop(cx, &a->mode);
    forget(a);
}

bool td_autocast_enabled(const td_ctx *cx) {
    if (!TD_ENTER_CTX(cx)) return false;
    return of(cx)->on;
}
td_dtype td_autocast_dtype(const td_ctx *cx) {
    if (!TD_ENTER_CTX(cx)) return TD_DTYPE_NONE;
    return of(cx)->on ? of(cx)->dtype : TD_DTYPE_NONE;
}

/* ---- for other rooms ---------------------------------------------------- */

int td__autocast_state(const td_ambient *a) {
    return a->autocast.on ? 1 + (int)a->autocast.dtype : 0;
}

td_autocast_mode td__autocast_resume(td_ctx *cx, int state) {
    return state ? td_autocast_begin(cx, (td_dtype)(state - 1))
                 : td_autocast_off_begin(cx);
}

void td__autocast_close(td_ctx *cx) { forget(of(cx)); }

const td_mode *td__modes_below_autocast(const td_ctx *cx) {
    const td_autocast *a = of(cx);
    return a->depth > 0 && cx->top == &a->mode ? a->mode.below : cx->top;
}
