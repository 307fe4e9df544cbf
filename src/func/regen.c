/* regen.c -- functional values of views: recomputed from their base after a write to
 * another alias. A write to a view computes new values of its bases, up to the root. */
#include "core/typed.h"
#include "func/func_int.h"
#include "ops/call.h"

#include <string.h>

/* ---- calls below -------------------------------------------------------- */

/* Ops below this mode record no history: autograd, above it, has recorded the call. */
bool td__func_call(td_func *f, td_op op, const td_value *in, int n_in, td_tensor **out,
                   int n_out) {
    td_ctx       *cx = f->cx;
    td_mode_scope outer = td__modes_enter_plain(cx, f->mode.below);
    bool          ok = td__call(cx, op, in, n_in, out, n_out);
    for (int i = 0; i < n_out; i++) ok = ok && !td_is_nil(out[i]);
    td__modes_leave(cx, &outer);
    return ok;
}

td_tensor *td__func_call1(td_func *f, td_op op, const td_value *in, int n_in) {
    td_tensor *out;
    return td__func_call(f, op, in, n_in, &out, 1) ? out : NULL;
}

/* ---- layouts ------------------------------------------------------------ */

/* Strides of dims of size 1, and of empty tensors, do not matter. */
static bool has_strides(const td_tensor *t, const int64_t *stride) {
    if (t->numel == 0) return true;
    for (int d = 0; d < t->rank; d++)
        if (!td__dim_same(t->stride[d], stride[d]) && !td__dim_same(t->size[d], 1))
            return false;
    return true;
}

/* A copy with exactly these strides. */
static td_tensor *copy_of(const td_fval *v, td_tensor *value, const int64_t *stride) {
    td_func   *f = td__group_of(v)->f;
    td_value   shape[3] = {td__ints(v->geom.size, v->geom.rank),
                           td__ints(stride, v->geom.rank),
                           td__value_dtype(v->geom.dtype)};
    td_tensor *empty = td__func_call1(f, TD_OP_empty_strided, shape, 3);
    td_value   in[2] = {td_value_tensor(empty), td_value_tensor(value)};
    return empty ? td__func_call1(f, TD_OP_copy, in, 2) : NULL;
}

/* The value of a tensor with gaps may be dense if the order of dims is equal: view ops
 * do not depend on gaps, and views by geometry (as_strided) are not computed from it. A
 * copy of a typed tensor might have another type, because the type defines its copy. */
td_tensor *td__fval_lay_out(const td_fval *v, td_tensor *value) {
    int64_t like[TD_MAX_RANK];
    if (has_strides(value, v->geom.stride)) return value;
    if (TD_UNLIKELY(v->of) && td__typed_same_inside(v->of, value->typed))
        return td__fval_lay_out_typed(v, value);
    td__strides_like(v->geom.rank, v->geom.size, v->geom.stride, like);
    return has_strides(value, like) ? value : copy_of(v, value, like);
}

/* Can the value be viewed as another dtype wherever v can, given its offset? */
static bool has_usable_offset(const td_fval *v, const td_tensor *value) {
    return td__dim_same(value->offset, 0) ||
           td__dim_same(value->offset, v->geom.offset);
}

/* The value, a tensor of its own, as a view with these strides. */
static td_tensor *restride(td_func *f, td_tensor *value, const int64_t *stride) {
    td_value in[4] = {td_value_tensor(value), td__ints(value->size, value->rank),
                      td__ints(stride, value->rank), TD_NONE};
    return td__func_call1(f, TD_OP_as_strided, in, 4);
}

/* The value with exactly the strides of v, also of dims of size 1, and a usable offset:
 * a view as another dtype checks all of them. */
static td_tensor *lay_out_exactly(const td_fval *v, td_tensor *value) {
    const td_geom *g = &v->geom;
    const int64_t *want = g->stride;
    int64_t        like[TD_MAX_RANK];
    bool           same = true;
    if (!(value = td__fval_lay_out(v, value))) return NULL;
    if (!has_strides(value, want)) {
        td__strides_like(g->rank, g->size, g->stride, like);
        want = like;
    }
    if (!has_usable_offset(v, value)) return copy_of(v, value, want);
    for (int d = 0; d < g->rank; d++) same &= td__dim_same(value->stride[d], want[d]);
    return same ? value : restride(td__group_of(v)->f, value, want);
}

/* Is a stride of g, of a dim with at most one element, a symbol that t has not?
 * Strides that are numbers are set when the call has its results. */
static bool lacks_idle_stride(const td_tensor *t, const td_geom *g) {
    bool lacks = false;
    if (t->typed || !has_strides(t, g->stride)) return false;
    for (int d = 0; d < g->rank; d++)
        if (td__dim_is_sym(g->stride[d]))
            lacks |= !td__dim_same(t->stride[d], g->stride[d]);
    return lacks;
}

td_tensor *td__func_result(td_func *f, td_tensor *value, const td_geom *g) {
    return lacks_idle_stride(value, g) ? restride(f, value, g->stride) : value;
}

/* ---- computing values from the root ------------------------------------- */

static bool is_current(const td_fval *v) {
    return v->inner && v->gen == td__group_of(v)->gen;
}

/* Calls a view op; sets the values of all its results that have records. A current
 * value stays: a running call may be about to read it. */
static bool derive_view(td_fval *v) {
    const td_fstep *s = v->step;
    td_func        *f = td__group_of(v)->f;
    td_value        in[TD_MAX_ARGS];
    int             n_out = s->n_peers > 1 ? s->n_peers : 1;
    td_tensor     **out = td__arena_alloc(&f->cx->scratch, sizeof *out * (size_t)n_out);
    if (!out) return td__fail_memory(f->cx);
    memcpy(in, s->in, sizeof *in * (size_t)s->n_in);
    td_tensor *from = v->up->inner;
    bool       strict = s->op == TD_OP_view_dtype || s->op == TD_OP_view_as_complex;
    if (strict && !(from = lay_out_exactly(v->up, from))) return false;
    in[0] = td_value_tensor(from);
    if (!td__func_call(f, s->op, in, s->n_in, out, n_out)) return false;
    if (s->n_peers <= 1) return td__fval_hold(v, out[0]);
    for (int i = 0; i < s->n_peers; i++)
        if (s->peers[i] && !is_current(s->peers[i]) &&
            !td__fval_hold(s->peers[i], out[i]))
            return false;
    return true;
}

/* The value of a piece: as_strided of its base's value, whose offset may differ from
 * that of the outer base. */
static bool derive_piece(td_fval *v) {
    td_func       *f = td__group_of(v)->f;
    const td_geom *g = &v->geom;
    td_tensor     *from = v->up->inner;
    if (TD_UNLIKELY(v->of && v->up->of)) {
        td_tensor *t = td__fval_cut_inner(v);
        return t && td__fval_hold(v, t);
    }
    int64_t at = td__dim_add(td__dim_sub(g->offset, v->up->geom.offset), from->offset);
    if (td__dim_eq(td__numel(g->rank, g->size), 0)) at = 0; /* any offset is valid */
    td_value   in[4] = {td_value_tensor(from), td__ints(g->size, g->rank),
                        td__ints(g->stride, g->rank), td_value_int(at)};
    td_tensor *t = td__func_call1(f, TD_OP_as_strided, in, 4);
    return t && td__fval_hold(v, t);
}

static bool derive(td_fval *v) {
    td_ctx  *cx = td__group_of(v)->f->cx;
    td_where was = td_here;
    uint32_t tags = cx->tags;
    td_here = v->here;
    cx->tags = v->tags;
    td_callback calls;
    td__calls_begin(&calls, cx, v->stack);
    bool ok = v->kind == TD_F_VIEW    ? derive_view(v)
              : v->kind == TD_F_PIECE ? derive_piece(v)
                                      : td__fval_hold(v, v->up->inner);
    td__callback_end(&calls);
    cx->tags = tags;
    if (ok) td_here = was;
    return ok;
}

/* Is v current, or did the last write write exactly its elements? Then it gets that
 * value: read from the base, it would depend on elements of the storage that a copy of
 * an argument may lack. */
static bool has_value(td_fval *v) {
    const td_fval *w = td__group_of(v)->written;
    if (is_current(v)) return true;
    bool plain = w && !v->overlap && !v->of && !w->of;
    return plain && is_current(w) && td__geom_identical(&w->geom, &v->geom) &&
           td__fval_hold(v, w->inner);
}

/* Without recursion, because chains of views may be long. */
static bool derive_chain(td_func *f, td_fval *v) {
    int      n = 0;
    td_fval *u = v;
    for (; !has_value(u); u = u->up, n++)
        if (!td__fval_place(u)) return false;
    td_fval **chain = td__arena_alloc(&f->cx->scratch, sizeof *chain * (size_t)(n + 1));
    if (!chain) return td__fail_memory(f->cx);
    for (int i = n - 1; i >= 0; i--, v = v->up) chain[i] = v;
    for (int i = 0; i < n; i++)
        if (!is_current(chain[i]) && !derive(chain[i])) return false;
    return true;
}

/* The current value of a record. If its group was written since, the views up to the
 * nearest current record are recomputed. NULL after td__fail. */
td_tensor *td__fval_value(td_fval *v) {
    if (is_current(v)) return v->inner;
    td_func      *f = td__group_of(v)->f;
    td_arena_mark mark = td__arena_mark(&f->cx->scratch);
    bool          ok = derive_chain(f, v);
    td__arena_reset(&f->cx->scratch, mark);
    return ok ? v->inner : NULL;
}

/* ---- storing values up to the root -------------------------------------- */

/* The record that v is a piece of, such that v can be read from it by geometry. */
static td_fval *base_of(td_fval *v) {
    td_fval piece = *v;
    piece.kind = TD_F_PIECE;
    if (v->kind != TD_F_PIECE) piece.up = NULL;
    return td__fval_place(&piece) ? piece.up : NULL;
}

/* The value as a view of the whole storage, for ops that read or copy elements around
 * it. Borrowed until the next call. */
td_tensor *td__fval_in_storage(td_fval *v) {
    td_group *g = td__group_of(v);
    if (!td__group_flatten(g, (int64_t)g->st->bytes)) return NULL;
    td_fval piece = *v; /* of the list, whatever it is a piece of by itself */
    piece.kind = TD_F_PIECE;
    piece.up = piece.from = NULL;
    piece.inner = NULL;
    if (!td__fval_place(&piece) || !td__fval_value(piece.up) || !derive_piece(&piece))
        return NULL;
    td__unref(piece.inner);
    return piece.inner;
}

/* Writes `value` into the base's value by as_strided_scatter, for views whose inverse
 * op is not usable. */
static td_tensor *put_by_geometry(td_fval *v, td_fval *base, td_tensor *value) {
    const td_geom *g = &v->geom;
    td_tensor     *to = td__fval_value(base);
    if (!to) return NULL;
    int64_t at = td__dim_add(td__dim_sub(g->offset, base->geom.offset), to->offset);
    return td__func_put(td__group_of(v)->f, to, value, g, at);
}

/* Calls the inverse op: inverse(base, new view, result number if several,
 * arguments). */
static td_tensor *put_by_inverse(td_fval *v, td_tensor *value) {
    const td_fstep *s = v->step;
    td_func        *f = td__group_of(v)->f;
    td_op           op = td__op_find(td__row(s->op)->inverse);
    td_value        in[TD_MAX_ARGS + 2];
    int             n = 0;
    td_tensor      *base = td__fval_value(v->up);
    if (!base) return NULL;
    if (s->op == TD_OP_view_dtype && !(value = lay_out_exactly(v, value))) return NULL;
    in[n++] = td_value_tensor(base);
    in[n++] = td_value_tensor(value);
    if (td__row(s->op)->flags & TD_OPF_MULTI) in[n++] = td_value_int(v->nr);
    for (int i = 1; i < s->n_in; i++) in[n++] = s->in[i];
    return td__func_call1(f, op, in, n);
}

/* The value with inner tensors in the strides of those of `like`. */
static td_tensor *lay_out_inner(td_func *f, td_tensor *value, td_tensor *like) {
    if (TD_LIKELY(!value || !value->typed)) return value;
    return td__func_typed_as(f, value, like);
}

/* The new value of a base of a type, after its view v got the value `part`: written to
 * the inner tensors, as in eager, or, if these have another layout, computed by the
 * type. */
static td_tensor *put_typed(td_fval *v, td_fval *base, td_tensor *part) {
    bool put = true;
    if (v->kind != TD_F_PIECE && !td__fval_may_put_inner(v, base, part, &put))
        return NULL;
    if (put) return td__fval_put_inner(v, base, part);
    td_tensor *value = put_by_inverse(v, part);
    if (!value || td__typed_same_inside(base->inner->typed, value->typed))
        return lay_out_inner(td__group_of(base)->f, value, base->inner);
    return td__fval_put_inner(v, base, part); /* reports the error */
}

/* One step towards the root: the new value of *v's base. If elements of a view on the
 * way overlap, an inverse op would not know which of them was written, so the value is
 * written by geometry. */
static td_tensor *step_up(td_fval **v, td_tensor *value) {
    td_fval *u = *v;
    if (u->kind == TD_F_PIECE || (u->overlap && u->kind != TD_F_SAME)) {
        td_fval *base = base_of(u);
        if (!base) return NULL;
        *v = base;
        if (TD_UNLIKELY(base->of)) return td__fval_put_inner(u, base, value);
        return put_by_geometry(u, base, value);
    }
    *v = u->up;
    if (u->kind == TD_F_SAME) return value;
    return TD_UNLIKELY(u->up->of) ? put_typed(u, u->up, value)
                                  : put_by_inverse(u, value);
}

/* A record on the way up, and its new value. */
typedef struct stop {
    td_fval   *v;
    td_tensor *value;
} stop;

/* An upper bound of the number of records between v and its root. */
static int max_steps_up(const td_fval *v) {
    int n = 3; /* a list, and the list as another dtype, may be added */
    for (; v; v = v->up) n++;
    return n;
}

/* Stores the values of records whose strides they have; the others are recomputed when
 * they are read. */
static bool settle(const stop *way, int n, td_fval *root, td_tensor *all) {
    td__group_of(root)->gen++;
    for (int i = 0; i < n; i++) {
        td_fval *v = way[i].v;
        if (v->overlap || !has_strides(way[i].value, v->geom.stride)) continue;
        if (!td__fval_hold(v, way[i].value)) return false;
    }
    return td__fval_hold(root, all);
}

/* Propagates a written value upwards: each base gets a new value by the inverse of its
 * view, up to the root. Afterwards all records on the way are current. */
static bool store(td_func *f, td_fval *v, td_tensor *value) {
    int   n = 0;
    stop *way = td__arena_alloc(&f->cx->scratch, sizeof *way * (size_t)max_steps_up(v));
    if (!way) return td__fail_memory(f->cx);
    while (v->kind != TD_F_ROOT && value) {
        way[n++] = (stop){v, value};
        value = step_up(&v, value);
    }
    value = value ? td__fval_lay_out(v, value) : NULL;
    td__group_of(v)->written = n > 0 ? way[0].v : v;
    return value && settle(way, n, v, value);
}

/* Makes a root whose elements overlap a piece of its storage: the new value may have
 * several elements for one address, and the storage has exactly one. */
static bool flatten_overlap(td_fval *v) {
    const td_fval *root = td__group_of(v)->root;
    if (!root || !td__geom_overlaps_itself(&root->geom)) return true;
    return td__group_flatten(td__group_of(v), td__storage_span(root->group->st));
}

/* Records the write of `value` to v. A write of no elements changes nothing. */
bool td__fval_store(td_fval *v, td_tensor *value) {
    td_func      *f = td__group_of(v)->f;
    td_arena_mark mark = td__arena_mark(&f->cx->scratch);
    bool          ok = value->numel == 0 ||
              (flatten_overlap(v) && td__fval_place(v) && store(f, v, value));
    td__arena_reset(&f->cx->scratch, mark);
    return ok;
}
