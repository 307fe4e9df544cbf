/* alias.c -- records of outer tensors, and their alias groups: which tensors may share
 * elements, and which record a piece of a storage is read from. */
#include "core/typed.h"
#include "func/func_int.h"

#include <string.h>

/* ---- groups ------------------------------------------------------------- */

static td_group *current(td_group *g) {
    while (g->into) g = g->into;
    return g;
}

td_group *td__group_of(const td_fval *v) { return current(v->group); }

/* A new alias group for the storage. The first group of a storage is found by the map
 * `groups`; others of the same storage (after set_) are chained behind it. The storage
 * is referenced until the run ends, so that its address identifies it. */
td_group *td__group_make(td_func *f, td_storage *st) {
    td_group *g = td__arena_zalloc(&f->arena, sizeof *g);
    td_group *first = td__ptrmap_get(&f->groups, st);
    if (!g) return td__fail_memory(f->cx), NULL;
    *g = (td_group){.f = f, .st = st};
    if (first) {
        g->next = first->next;
        first->next = g;
        return g;
    }
    if (!td__vec_push(&f->storages, st)) return td__fail_memory(f->cx), NULL;
    td__storage_keep(st);
    if (!td__ptrmap_put(&f->groups, st, g)) return td__fail_memory(f->cx), NULL;
    return g;
}

/* ---- records ------------------------------------------------------------ */

/* A record in the run's list of all records, with the source line and the checkpoint
 * policy of the current op. */
static td_fval *make_record(td_func *f, td_fkind kind, td_group *g) {
    td_fval *v = td__arena_zalloc(&f->arena, sizeof *v);
    if (!v) return td__fail_memory(f->cx), NULL;
    v->owner = &f->mode;
    v->kind = (uint8_t)kind;
    v->group = g;
    v->here = td_here;
    v->tags = f->cx->tags;
    v->stack = td__stack_now(f->cx);
    v->next = f->all;
    f->all = v;
    return v;
}

/* A record with the geometry of t; whether its elements overlap is computed once,
 * here. */
td_fval *td__fval_make(td_func *f, td_fkind kind, td_group *g, const td_tensor *t) {
    td_fval *v = make_record(f, kind, g);
    if (!v || !td__geom_copy(f->cx, &f->arena, &v->geom, t)) return NULL;
    v->overlap = td__geom_overlaps_itself(&v->geom);
    if (TD_UNLIKELY(t->typed)) {
        v->of = t->typed;
        v->of->refs++;
    }
    return v;
}

/* Sets the functional value of v, current as of the group's last write. */
bool td__fval_hold(td_fval *v, td_tensor *inner) {
    td__ref(inner);
    if (v->inner) td__unref(v->inner);
    v->inner = inner;
    v->gen = td__group_of(v)->gen;
    return true;
}

/* t has a new storage: it becomes the root of a new group, with the value `inner` in
 * t's layout. */
bool td__fval_fresh(td_func *f, td_tensor *t, td_tensor *inner) {
    td_group *g = td__group_make(f, t->st);
    td_fval  *v = g ? td__fval_make(f, TD_F_ROOT, g, t) : NULL;
    if (!v) return false;
    g->root = v;
    t->payload = v;
    inner = td__fval_lay_out(v, inner);
    return inner && td__fval_hold(v, inner);
}

/* Adds a record for a tensor of a known storage that no op of the run made: the base of
 * an argument. */
static td_fval *adopt_piece(td_func *f, td_group *first, td_tensor *t) {
    td_fval *v = td__fval_make(f, TD_F_PIECE, first, t);
    if (!v) return NULL;
    for (td_group *g = first; g; g = g->next)
        if (!g->into && g->root && td__geom_covers(&g->root->geom, &v->geom))
            v->group = g;
    t->payload = v;
    return v;
}

/* A record for a tensor without one: a view into a known storage, or a tensor that the
 * body closes over. A fake tensor can be neither. */
static td_fval *adopt(td_func *f, td_tensor *t) {
    td_group *first = td__ptrmap_get(&f->groups, t->st);
    if (first) return adopt_piece(f, first, t);
    if (td__is_fake(t)) {
        td__fail(f->cx, TD_E_TRACE,
                 "internal error: an op of the program reads a fake tensor that is "
                 "neither an argument nor a result. Please report the program");
        return NULL;
    }
    return td__fval_fresh(f, t, t) ? t->payload : NULL;
}

td_fval *td__fval_of(td_func *f, td_tensor *t) {
    td_fval *v = t->payload;
    return v && v->owner == &f->mode ? v : adopt(f, t);
}

/* ---- arguments ---------------------------------------------------------- */

/* Makes group h part of g: set_ gave them the same storage. Records of h find g through
 * `into`. */
static void merge(td_group *g, td_group *h) {
    h->into = g;
    g->writes += h->writes;
    g->quiet_writes += h->quiet_writes;
    if (g->gen < h->gen) g->gen = h->gen;
}

/* The group of an argument: the union of the groups of all arguments that it overlaps.
 * Arguments of a type have separate groups; they share inner tensors
 * (td__func_share_write). */
static td_group *find_group(td_func *f, const td_tensor *outer) {
    td_group *found = NULL;
    td_geom   geom = td__geom_of(outer);
    if (outer->typed) return NULL;
    for (int i = 0; td__ptrmap_get(&f->groups, outer->st) && i < f->in.n; i++) {
        td_fval *v = f->in.v[i].given;
        if (f->in.v[i].st != outer->st || !td__geom_overlap(&v->geom, &geom)) continue;
        td_group *g = td__group_of(v);
        if (found && found != g) {
            merge(found, g);
            if (found->root) found->root->kind = TD_F_PIECE;
            if (g->root) g->root->kind = TD_F_PIECE;
            found->root = NULL;
        } else found = g;
    }
    return found;
}

/* Makes the root of the group cover v too, if the root or v covers the other. */
static void choose_root(td_group *g, td_fval *v) {
    td_fval *root = g->root;
    if (!root) return;
    if (td__geom_same(&root->geom, &v->geom)) {
        v->kind = TD_F_SAME;
        v->up = root;
    } else if (!td__geom_covers(&root->geom, &v->geom)) {
        bool whole = td__geom_covers(&v->geom, &root->geom);
        root->kind = TD_F_PIECE;
        root->up = NULL;
        v->kind = whole ? TD_F_ROOT : TD_F_PIECE;
        g->root = whole ? v : NULL;
    }
}

/* Adds the record of an argument. The first tensor of a storage is the root of its
 * group; others are pieces of it. `given` is the value at the call. */
static td_fval *give_value(td_func *f, td_tensor *outer, td_tensor *inner) {
    td_group *g = find_group(f, outer);
    bool      alone = !g;
    if (alone && !(g = td__group_make(f, outer->st))) return NULL;
    td_fval *v = td__fval_make(f, alone ? TD_F_ROOT : TD_F_PIECE, g, outer);
    if (!v) return NULL;
    if (alone) g->root = v;
    else choose_root(g, v);
    if (!g->given) g->given = inner;
    outer->payload = v;
    return td__fval_hold(v, inner) ? v : NULL;
}

/* Registers an argument with its inner tensor. References an alias, the inner tensor
 * and the storage until the run ends, because the body may transpose, resize or set_
 * the argument. */
bool td__func_give(td_func *f, td_tensor *outer, td_tensor *inner) {
    td_fval *v = outer->payload;
    if (!v || v->owner != &f->mode) v = give_value(f, outer, inner);
    td_tensor *passed = v ? td__tensor_alias(f->cx, outer) : NULL;
    if (!passed) return false;
    td_func_in in = {.t = passed,
                     .given = v,
                     .inner = inner,
                     .st = outer->st,
                     .bytes = outer->st->bytes};
    if (!td__vec_push(&f->in, in)) return td__fail_memory(f->cx);
    td__ref(passed);
    td__ref(inner);
    td__storage_keep(outer->st);
    return true;
}

/* ---- pieces of storages ------------------------------------------------- */

static td_tensor *as_dtype(td_func *f, td_tensor *t, td_dtype dt) {
    td_value in[2] = {td_value_tensor(t), td__value_dtype(dt)};
    return t->dtype == dt ? t : td__func_call1(f, TD_OP_view_dtype, in, 2);
}

/* How many of n elements of dtype dt can be read as elements of `as`? */
static int64_t whole_elements(int64_t n, td_dtype dt, td_dtype as) {
    int64_t item = td__dtype_bytes[dt], to = td__dtype_bytes[as];
    return td__dim_is_sym(n) || to <= item ? n : n - n % (to / item);
}

/* The n elements of the storage from `offset` on, as a 1-d view. */
static td_tensor *list_of(td_func *f, td_tensor *t, int64_t offset, int64_t n) {
    const int64_t one = 1;
    td_value      in[4] = {td_value_tensor(t), td__ints(&n, 1), td__ints(&one, 1),
                           td_value_int(offset)};
    return td__func_call1(f, TD_OP_as_strided, in, 4);
}

/* A copy of `to` with `value` written at the geometry g and the offset `at`. Where
 * elements overlap (stride 0) the last one is written, as in eager. */
td_tensor *td__func_put(td_func *f, td_tensor *to, td_tensor *value, const td_geom *g,
                        int64_t at) {
    int64_t size[TD_MAX_RANK], stride[TD_MAX_RANK];
    bool    again[TD_MAX_RANK];
    int     rank = td__dims_apart(g->rank, g->size, g->stride, size, stride, again);
    for (int d = g->rank - 1; value && d >= 0; d--) {
        td_value in[3] = {td_value_tensor(value), td_value_int(d), td_value_int(-1)};
        if (again[d]) value = td__func_call1(f, TD_OP_select, in, 3);
    }
    if (!value) return NULL;
    td_value in[5] = {td_value_tensor(to), td_value_tensor(value), td__ints(size, rank),
                      td__ints(stride, rank), td_value_int(at)};
    return td__func_call1(f, TD_OP_as_strided_scatter, in, 5);
}

/* A copy of `list`, the whole storage as a flat list, with the piece v written into it.
 * Both are viewed in the dtype of v for the write, without bytes at the end that are no
 * whole element. */
static td_tensor *put_piece(td_func *f, td_tensor *list, const td_fval *v) {
    const int64_t one = 1;
    td_dtype      dt = (td_dtype)list->dtype;
    int64_t       n = whole_elements(list->size[0], dt, v->geom.dtype);
    bool          all = td__dim_same(n, list->size[0]);
    td_geom       place = {.dtype = (uint8_t)dt, .rank = 1, .size = &n, .stride = &one};
    td_tensor    *part = all ? list : list_of(f, list, list->offset, n);
    if (!part || !(part = as_dtype(f, part, v->geom.dtype))) return NULL;
    part = td__func_put(f, part, v->inner, &v->geom, v->geom.offset);
    if (!part || !(part = as_dtype(f, part, dt))) return NULL;
    return all ? part : td__func_put(f, list, part, &place, list->offset);
}

/* Does the storage end before n elements from `at` on? */
static bool is_beyond(const td_tensor *t, int64_t at, int64_t n) {
    if (td__dim_is_sym(at) || td__dim_is_sym(n) || t->st->bytes == 0) return false;
    return (at + n) * td__dtype_bytes[t->dtype] > (int64_t)t->st->bytes;
}

/* The storage of t as n elements of dtype dt, read as dt through its first element. */
static td_tensor *list_in(td_func *f, td_tensor *t, td_dtype dt, int64_t n) {
    if (t->dtype == dt) return list_of(f, t, 0, n);
    td_tensor *from = list_of(f, t, 0, n >= td__dtype_bytes[t->dtype]);
    if (from) from = as_dtype(f, from, dt);
    return from ? list_of(f, from, 0, n) : NULL;
}

/* The current elements of the storage, n of dtype dt: its value at the call, with the
 * writes since. */
static td_tensor *storage_now(td_group *g, td_dtype dt, int64_t n) {
    td_func   *f = g->f;
    td_group  *first = td__ptrmap_get(&f->groups, g->st);
    td_tensor *list;
    if (!g->given) {
        td_tensor *root = g->root->inner;
        int64_t    at = td__dim_sub(root->offset, g->root->geom.offset);
        if (td__dim_lt(at, 0) || is_beyond(root, at, n))
            return td__fail(f->cx, TD_E_UNSUPPORTED,
                            "unsupported: an op reads elements of a storage outside of "
                            "the tensor that the program wrote; write or return the "
                            "tensor that has all of them"),
                   NULL;
        return list_of(f, root, at, n);
    }
    list = list_in(f, g->given, dt, n);
    for (td_group *h = first; h && list; h = h->next)
        if (!h->into && h->root && h->gen > 0) list = put_piece(f, list, h->root);
    return list;
}

/* A root record that covers a whole storage as n contiguous elements. */
static td_fval *make_list(td_group *g, td_dtype dt, int64_t n) {
    td_fval *v = make_record(g->f, TD_F_ROOT, g);
    int64_t *dims = td__arena_alloc(&g->f->arena, sizeof *dims * 2);
    if (!v || !dims) return td__fail_memory(g->f->cx), NULL;
    dims[0] = n;
    dims[1] = 1;
    v->geom = (td_geom){(uint8_t)dt, 1, g->st->device, 0, dims, dims + 1};
    return v;
}

/* Merges all groups of the storage; their roots become pieces of the list. */
static void join(td_group *g, td_fval *list) {
    bool several = false;
    for (td_group *h = td__ptrmap_get(&g->f->groups, g->st); h; h = h->next) {
        if (h->into) continue;
        if (h->root) {
            h->root->kind = TD_F_PIECE; /* of another dtype: td__fval_place sets `up` */
            h->root->up = h->root->geom.dtype == list->geom.dtype ? list : NULL;
        }
        if (h == g) continue;
        merge(g, h);
        several = true;
    }
    g->gen += several;
    g->root = list;
}

/* Is the record a list of a storage of so many bytes? A list that has grown ends in a
 * whole element, even if the storage does not. */
static bool is_list_of(const td_fval *v, int64_t bytes) {
    int64_t item = td__dtype_bytes[v->geom.dtype];
    if (!td__geom_is_list(&v->geom)) return false;
    int64_t size = v->geom.size[0];
    if (td__dim_is_sym(size) || td__dim_is_sym(bytes))
        return td__dim_eq(size, td__dim_div(bytes, item));
    return size == (bytes + item - 1) / item;
}

/* The dtype in which a storage of so many bytes is a list: that of the tensor it was
 * passed with, or bytes, if it has no whole number of such elements. */
static td_dtype dtype_of_list(const td_group *g, int64_t bytes) {
    if (!g->given) return (td_dtype)g->root->geom.dtype;
    td_dtype dt = (td_dtype)g->given->dtype;
    bool     rest = !td__dim_is_sym(bytes) && bytes % td__dtype_bytes[dt];
    return rest ? TD_U8 : dt;
}

/* Has the group no elements for certain? Then its storage really has 0 bytes. */
static bool is_empty(const td_group *g) {
    int64_t n = g->root ? td__numel(g->root->geom.rank, g->root->geom.size) : 1;
    return !td__dim_is_sym(n) && n == 0;
}

/* Replaces the root of the group by a flat list of `bytes` bytes, unless it covers the
 * whole storage already. Needed when a program reads elements that no known view
 * covers. */
bool td__group_flatten(td_group *g, int64_t bytes) {
    td_func       *f = g->f;
    const td_fval *root = g->root;
    if (!g->given && !root)
        return td__fail(
            f->cx, TD_E_UNSUPPORTED,
            "unsupported: an op reads a whole storage of which the program has "
            "no tensor; pass a tensor that covers it");
    if (root && is_list_of(root, bytes)) return true;
    td_dtype dt = dtype_of_list(g, bytes);
    int64_t  n = td__dim_div(bytes, td__dtype_bytes[dt]);
    if (bytes == 0 && !is_empty(g))
        return td__fail(
            f->cx, TD_E_UNSUPPORTED,
            "unsupported: an op addresses the storage of a tensor whose size "
            "depends on values; call it on a clone of the tensor");
    td_fval   *list = make_list(g, dt, n);
    td_tensor *now = list ? storage_now(g, dt, n) : NULL;
    if (!now) return false;
    join(g, list);
    return td__fval_hold(list, now);
}

/* Extends the flat list by zeros after resize_ or as_strided grew the storage from
 * `was` bytes. `gen` increases, so that values of its views are recomputed. */
bool td__group_grow(td_group *g, size_t was) {
    td_func *f = g->f;
    if (g->st->bytes <= was) return true;
    if (was && !td__group_flatten(g, (int64_t)was)) return false;
    if (!g->root)
        return td__fail(
            f->cx, TD_E_UNSUPPORTED,
            "unsupported: a storage grows of which the program has no tensor; "
            "resize it before the call");
    td_dtype dt = g->root->geom.dtype;
    int64_t  item = td__dtype_bytes[dt], had = was ? g->root->geom.size[0] : 0;
    if (td__dim_is_sym(had))
        return td__fail(
            f->cx, TD_E_UNSUPPORTED,
            "unsupported: a storage of symbolic size grows; resize it before "
            "the call, or compile for fixed sizes (dynamic=off)");
    int64_t n = ((int64_t)g->st->bytes + item - 1) / item, more = n - had;
    if (more <= 0) return true;
    td_value   shape[2] = {td__ints(&more, 1), td__value_dtype(dt)};
    td_tensor *parts[2] = {g->root->inner, td__func_call1(f, TD_OP_zeros, shape, 2)};
    td_value   in = td__value_tensors((td_tensors){parts, 2});
    if (!parts[1]) return false;
    td_tensor *all = was ? td__func_call1(f, TD_OP_cat, &in, 1) : parts[1];
    td_fval   *list = all ? make_list(g, dt, n) : NULL;
    if (!list) return false;
    join(g, list);
    g->gen++;
    return td__fval_hold(list, all);
}

/* A list of n elements that a view op makes of `up`; the op's argument 0 is left
 * out. */
static td_fval *list_by(td_fval *up, td_dtype dt, int64_t n, td_op op,
                        const td_value *in, int n_in) {
    td_group *g = td__group_of(up);
    td_fval  *v = make_list(g, dt, n);
    td_fstep *s = v ? td__fstep_make(g->f, op, in, n_in) : NULL;
    if (!s) return NULL;
    v->kind = TD_F_VIEW;
    v->up = up;
    v->step = s;
    return v;
}

/* The list viewed as another dtype, from which pieces are taken. Bytes at the end that
 * are no whole element are left out. */
static td_fval *list_as(td_group *g, td_dtype dt) {
    td_fval *list = g->root;
    int64_t  item = td__dtype_bytes[list->geom.dtype];
    int64_t  n = whole_elements(list->geom.size[0], list->geom.dtype, dt);
    td_value to[2] = {TD_NONE, td__value_dtype(dt)};
    if (!td__dim_same(n, list->geom.size[0])) {
        td_value part[5] = {TD_NONE, td_value_int(0), td_value_int(0), td_value_int(n),
                            td_value_int(1)};
        list = list_by(list, list->geom.dtype, n, TD_OP_slice, part, 5);
        if (!list) return NULL;
    }
    n = td__dim_div(td__dim_mul(n, item), td__dtype_bytes[dt]);
    return list_by(list, dt, n, TD_OP_view_dtype, to, 2);
}

/* Finds the record that v is a view of: preferably the one it was derived from, else
 * the root of its group, which is flattened if it does not cover v. */
bool td__fval_place(td_fval *v) {
    td_group *g = td__group_of(v);
    if (v->kind != TD_F_PIECE || v->up) return true;
    if (v->from && td__geom_covers(&v->from->geom, &v->geom)) {
        v->up = v->from; /* not another argument that covers it: its history differs */
        return true;
    }
    if (!g->root || !td__geom_covers(&g->root->geom, &v->geom)) {
        if (!td__group_flatten(g, td__storage_span(g->st))) return false;
        g = td__group_of(v);
    }
    v->up = g->root->geom.dtype == v->geom.dtype ? g->root : list_as(g, v->geom.dtype);
    return v->up != NULL;
}
