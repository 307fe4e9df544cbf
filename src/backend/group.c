/* group.c -- merges groups of points that can share loops. Two groups fit if a value
 * that one reads from the other, or that both read, has the same index at the same
 * point of a common space; a dim is split if it corresponds to several dims of the
 * other group. Groups merge as a whole or not at all; splits stay even if the merge
 * fails, as they are neutral. */
#include "backend/native.h"

/* Beyond these a kernel outgrows registers and compile time. */
enum { MOST_STMTS = 120, MOST_ROOTS = 24, MOST_FOLDS = 16 };

/* At which level the points of group b are computed in group a: at every point, once
 * per row, at the end per inner element, or at the end once. */
typedef enum role { AS_IS, AS_ROWS, AS_END, AS_ONCE } role;

/* An attempt to merge b into a. */
typedef struct fit {
    td_lowered *l;
    int         a, b;              /* groups; b joins a */
    int         to[TD_SPACE_DIMS]; /* dim of a for each dim of b; -1: none yet */
} fit;

static td_group *group_at(const fit *f, int i) { return &f->l->group.v[i]; }

/* ---- splitting dims ------------------------------------------------------ */

/* Duplicates bit d of the mask: dim d becomes d and d + 1. */
static uint32_t spread(uint32_t mask, int d) {
    uint32_t low = mask & ((2u << d) - 1), high = mask & ~((2u << d) - 1);
    return low | high << 1 | (mask >> d & 1) << (d + 1);
}

/* Splits dim d of an access of n dims; the inner dim keeps the stride. */
static void split_access(td_lowered *l, td_access *a, int n, int d, td_extent inner) {
    for (int i = n; i > d; i--) a->stride[i] = a->stride[i - 1];
    a->stride[d] = td__extent_mul(&l->products, a->stride[d + 1], inner);
}

/* Splits dim d of a group in two, the inner of size `inner`. False: too many dims, or
 * the size is not divisible. */
static bool split_dim(td_lowered *l, int g, int d, td_extent inner) {
    td_group *grp = &l->group.v[g];
    td_extent outer = td__extent_div(&l->products, grp->size[d], inner);
    int       n = grp->n_dims;
    if (n == TD_SPACE_DIMS || outer.p == TD_EXTENT_BAD) return false;
    for (int i = n; i > d; i--) grp->size[i] = grp->size[i - 1];
    grp->size[d] = outer;
    grp->size[d + 1] = inner;
    grp->outer = spread(grp->outer, d);
    grp->n_dims++;
    for (int i = 0; i < grp->member.n; i++) {
        td_point *p = &l->point.v[grp->member.v[i]];
        p->folded = spread(p->folded, d);
        split_access(l, &p->own, n, d, inner);
        for (int k = 0; k < p->n_in; k++) split_access(l, &p->in[k], n, d, inner);
    }
    return true;
}

/* Splits a dim of a or b and renumbers f->to. */
static bool split_a(fit *f, int d, td_extent inner) {
    if (!split_dim(f->l, f->a, d, inner)) return false;
    for (int b = 0; b < group_at(f, f->b)->n_dims; b++)
        if (f->to[b] > d) f->to[b]++;
    return true;
}

/* Splits dim d of group b in two, so that the inner part matches a dim of a; the
 * pairing found so far is shifted. */
static bool split_b(fit *f, int d, td_extent inner) {
    if (!split_dim(f->l, f->b, d, inner)) return false;
    for (int b = group_at(f, f->b)->n_dims - 1; b > d + 1; b--) f->to[b] = f->to[b - 1];
    f->to[d + 1] = -1;
    return true;
}

/* ---- matching dims ------------------------------------------------------- */

/* Has dim a a partner? */
static bool is_taken(const fit *f, int a) {
    for (int b = 0; b < f->l->group.v[f->b].n_dims; b++)
        if (f->to[b] == a) return true;
    return false;
}

/* Pairs dim a with dim b; the longer one is split first. False: neither divides the
 * other. */
static bool pair(fit *f, int a, int b) {
    td_extent n = group_at(f, f->a)->size[a], m = group_at(f, f->b)->size[b];
    if (td__extent_eq(n, m)) {
        f->to[b] = a;
        return true;
    }
    if (td__extent_div(&f->l->products, n, m).p != TD_EXTENT_BAD) {
        if (!split_a(f, a, m)) return false;
        f->to[b] = a + 1;
        return true;
    }
    if (td__extent_div(&f->l->products, m, n).p == TD_EXTENT_BAD) return false;
    if (!split_b(f, b, n)) return false;
    f->to[b + 1] = a;
    return true;
}

/* Pairs dims of equal strides, x of group a and y of group b, until every dim with a
 * nonzero stride has a partner. False: impossible. */
static bool pair_strides(fit *f, const td_access *x, const td_access *y) {
    for (bool news = true; news;) {
        news = false;
        for (int b = 0; b < group_at(f, f->b)->n_dims; b++) {
            if (f->to[b] >= 0 || td__extent_is(y->stride[b], 0)) continue;
            int a = 0, n = group_at(f, f->a)->n_dims;
            while (a < n &&
                   (is_taken(f, a) || !td__extent_eq(x->stride[a], y->stride[b])))
                a++;
            if (a == n) continue;
            if (!pair(f, a, b)) return false;
            news = true;
        }
    }
    for (int b = 0; b < group_at(f, f->b)->n_dims; b++)
        if (f->to[b] < 0 && !td__extent_is(y->stride[b], 0)) return false;
    for (int a = 0; a < group_at(f, f->a)->n_dims; a++)
        if (!is_taken(f, a) && !td__extent_is(x->stride[a], 0)) return false;
    return true;
}

/* The innermost dim without a partner; -1: all have one. */
static int left_of_a(const fit *f) {
    for (int a = group_at(f, f->a)->n_dims - 1; a >= 0; a--)
        if (!is_taken(f, a)) return a;
    return -1;
}
static int left_of_b(const fit *f) {
    for (int b = group_at(f, f->b)->n_dims - 1; b >= 0; b--)
        if (f->to[b] < 0) return b;
    return -1;
}

/* Pairs the remaining dims, which no stride decides, from the inside out. */
static bool pair_rest(fit *f) {
    int a, b;
    while ((a = left_of_a(f)) >= 0 && (b = left_of_b(f)) >= 0)
        if (!pair(f, a, b)) return false;
    return true;
}

/* ---- roles --------------------------------------------------------------- */

static uint32_t all_dims(const td_group *g) { return (1u << g->n_dims) - 1; }

/* The set of dims of a that have partners. */
static uint32_t taken_dims(const fit *f) {
    uint32_t mask = 0;
    for (int b = 0; b < group_at(f, f->b)->n_dims; b++)
        if (f->to[b] >= 0) mask |= 1u << f->to[b];
    return mask;
}

/* A set of dims of b as dims of a. */
static uint32_t map_mask(const fit *f, uint32_t of_b) {
    uint32_t mask = 0;
    for (int b = 0; b < group_at(f, f->b)->n_dims; b++)
        if (of_b >> b & 1 && f->to[b] >= 0) mask |= 1u << f->to[b];
    return mask;
}

/* The innermost inner dim. */
static int innermost(const td_group *g) {
    uint32_t inner = g->split ? all_dims(g) & ~g->outer : all_dims(g);
    int      d = g->n_dims - 1;
    while (d > 0 && !(inner >> d & 1)) d--;
    return d;
}

/* All dims are paired: the innermost dims must match, and if both groups have rows,
 * these must be the same. */
static bool fits_as_is(const fit *f) {
    const td_group *a = group_at(f, f->a), *b = group_at(f, f->b);
    if (a->n_dims == 0) return true;
    if (f->to[innermost(b)] != innermost(a)) return false;
    return !a->split || !b->split || a->outer == map_mask(f, b->outer);
}

bool td__group_folds(const td_lowered *l, const td_group *g) {
    for (int i = 0; i < g->member.n; i++)
        if (l->point.v[g->member.v[i]].reach) return true;
    return false;
}

static bool folds(const fit *f, int g) { return td__group_folds(f->l, group_at(f, g)); }

/* The role of b in a, if the value between them is available at level `of`. False:
 * none. */
static bool find_role(const fit *f, td_level of, role *to) {
    const td_group *a = group_at(f, f->a), *b = group_at(f, f->b);
    uint32_t        taken = taken_dims(f);
    if (left_of_b(f) >= 0) return false;
    if (of == TD_AT_END || of == TD_AT_ONCE) {
        *to = of == TD_AT_END ? AS_END : AS_ONCE;
        return !b->split && !folds(f, f->b) &&
               taken == (of == TD_AT_END ? all_dims(a) & ~a->outer : 0);
    }
    if (taken == all_dims(a)) {
        *to = AS_IS;
        return fits_as_is(f);
    }
    *to = AS_ROWS;
    return a->split && taken == a->outer && !b->split;
}

/* ---- reads between the groups -------------------------------------------- */

/* The level of a point of b in the merged group. */
static td_level level_as(const td_point *p, td_level at, role r) {
    if (at != TD_AT_POINT || r == AS_IS) return at;
    (void)p;
    return r == AS_ROWS ? TD_AT_ROW : r == AS_END ? TD_AT_END : TD_AT_ONCE;
}

/* Is a value computed at level `maker` available at level `reader`? */
static bool may_read(td_level reader, td_level maker) {
    return reader == maker || (reader == TD_AT_POINT && maker == TD_AT_ROW);
}

/* Does the read `in` of one group access the element that `own` of the other has
 * there? */
static bool same_places(const fit *f, const td_access *in, const td_access *own,
                        bool reader_is_b) {
    const td_group  *a = group_at(f, f->a), *b = group_at(f, f->b);
    const td_access *of_a = reader_is_b ? own : in, *of_b = reader_is_b ? in : own;
    if (!td__extent_is(in->offset, 0) || in->dtype != own->dtype) return false;
    for (int d = 0; d < a->n_dims; d++) {
        td_extent y = td__extent(0);
        for (int k = 0; k < b->n_dims; k++)
            if (f->to[k] == d) y = of_b->stride[k];
        if (!td__extent_eq(of_a->stride[d], y)) return false;
    }
    return true;
}

/* Every read between the groups must be available and access the same element. */
static bool reads_fit(const fit *f, int reader, int maker, role of_b) {
    const td_group *grp = group_at(f, reader);
    bool            is_b = reader == f->b;
    for (int i = 0; i < grp->member.n; i++) {
        const td_point *r = &f->l->point.v[grp->member.v[i]];
        for (int k = 0; k < r->n_in; k++) {
            int             n = r->in[k].root ? f->l->point_of[r->in[k].root->id] : -1;
            const td_point *p = n >= 0 ? &f->l->point.v[n] : NULL;
            if (!p || p->leaf || p->group != maker) continue;
            td_level at = level_as(r, (td_level)r->walks, is_b ? of_b : AS_IS);
            td_level from = level_as(p, (td_level)p->level, is_b ? AS_IS : of_b);
            if (!may_read(at, from) || !same_places(f, &r->in[k], &p->own, is_b))
                return false;
        }
    }
    return true;
}

/* ---- writes -------------------------------------------------------------- */

/* The stride of an access along dim d of a. */
static td_extent along(const fit *f, const td_access *x, bool of_b, int d) {
    if (!of_b) return x->stride[d];
    for (int k = 0; k < group_at(f, f->b)->n_dims; k++)
        if (f->to[k] == d) return x->stride[k];
    return td__extent(0);
}

/* Do two accesses address the same elements, point by point? */
static bool same_elements(const fit *f, const td_access *x, bool x_of_b,
                          const td_access *y, bool y_of_b) {
    if (x->root != y->root || x->dtype != y->dtype ||
        !td__extent_eq(x->offset, y->offset))
        return false;
    for (int d = 0; d < group_at(f, f->a)->n_dims; d++)
        if (!td__extent_eq(along(f, x, x_of_b, d), along(f, y, y_of_b, d)))
            return false;
    return true;
}

static bool same_bytes(const td_lowered *l, const td_access *x, const td_access *y) {
    return x->root && y->root && l->bytes_of[x->root->id] == l->bytes_of[y->root->id];
}

/* Have two accesses with the same strides no element in common, such as the columns of
 * two slices? The inside of each ends before the other's begins, and both before the
 * next row. */
static bool are_apart(const fit *f, const td_access *x, bool x_of_b, const td_access *y,
                      bool y_of_b) {
    int64_t by = x->offset.c - y->offset.c, inside = 0, row = 0;
    if (x->root != y->root || x->dtype != y->dtype || x->offset.p != -1 ||
        y->offset.p != -1)
        return false;
    by = by < 0 ? -by : by;
    for (int d = 0; d < group_at(f, f->a)->n_dims; d++) {
        td_extent s = along(f, x, x_of_b, d), n = group_at(f, f->a)->size[d];
        if (s.p != -1 || n.p != -1 || !td__extent_eq(s, along(f, y, y_of_b, d)))
            return false;
        if (s.c <= by) inside += (n.c - 1) * s.c;
        else if (!row || s.c < row) row = s.c;
    }
    for (int d = 0; row && d < group_at(f, f->a)->n_dims; d++) {
        int64_t s = along(f, x, x_of_b, d).c;
        if (s > by && s % row) return false;
    }
    return by > inside && (!row || by + inside < row);
}

/* Does every access of group g to bytes that w writes go to the element that w
 * writes, before it does? */
static bool reads_in_place(const fit *f, const td_point *w, bool w_of_b, int g) {
    const td_group *grp = group_at(f, g);
    for (int i = 0; i < grp->member.n; i++) {
        const td_point *p = &f->l->point.v[grp->member.v[i]];
        if (p != w && p->writes && same_bytes(f->l, &p->own, &w->own) &&
            !are_apart(f, &w->own, w_of_b, &p->own, g == f->b))
            return false;
        for (int k = 0; k < p->n_in; k++)
            if (same_bytes(f->l, &p->in[k], &w->own) &&
                (p->pos > w->pos ||
                 !same_elements(f, &w->own, w_of_b, &p->in[k], g == f->b)))
                return false;
    }
    return true;
}

/* Groups that write a caller's tensor keep their order and are merged with more
 * care. */
static bool has_writes(const fit *f, int g) {
    const td_group *grp = group_at(f, g);
    for (int i = 0; i < grp->member.n; i++)
        if (f->l->point.v[grp->member.v[i]].writes) return true;
    return false;
}

static bool is_on_device(const fit *f, int g) {
    return f->l->point.v[group_at(f, g)->member.v[0]].v->type->device != 0;
}

/* Are all writes of the merged group after all rows? On a device that is a kernel of
 * its own, which begins when the rows are done. */
static bool writes_after(const fit *f, role r) {
    for (int side = 0; side < 2; side++) {
        const td_group *grp = group_at(f, side ? f->b : f->a);
        for (int i = 0; i < grp->member.n; i++) {
            const td_point *w = &f->l->point.v[grp->member.v[i]];
            td_level        at = level_as(w, (td_level)w->level, side ? r : AS_IS);
            if (w->writes && at != TD_AT_END && at != TD_AT_ONCE) return false;
        }
    }
    return is_on_device(f, f->a);
}

/* A loop that writes bytes it also reads must read each element before writing it: at
 * the same point, and in a nest with one loop only, so without folds, or after them. On
 * a device every point is a thread: all dims must be those of the write. */
static bool writes_fit(const fit *f, role r) {
    bool any = has_writes(f, f->a) || has_writes(f, f->b);
    bool after = any && writes_after(f, r);
    if (any && !after && (folds(f, f->a) || folds(f, f->b))) return false;
    if (any && !after && r != AS_IS && is_on_device(f, f->a)) return false;
    for (int side = 0; any && side < 2; side++) {
        const td_group *grp = group_at(f, side ? f->b : f->a);
        for (int i = 0; i < grp->member.n; i++) {
            const td_point *w = &f->l->point.v[grp->member.v[i]];
            if (w->writes &&
                !(reads_in_place(f, w, side, f->a) && reads_in_place(f, w, side, f->b)))
                return false;
        }
    }
    return true;
}

/* ---- size ---------------------------------------------------------------- */

/* Adds the group's statements, loads and folds. */
static void measure(const td_lowered *l, const td_group *g, int *stmts, int *roots,
                    int *n_folds) {
    for (int i = 0; i < g->member.n; i++) {
        const td_point *p = &l->point.v[g->member.v[i]];
        *stmts += p->n_stmt;
        *n_folds += p->reach != TD_FOLDS_NOT;
        for (int k = 0; k < p->n_in; k++) {
            int n = p->in[k].root ? l->point_of[p->in[k].root->id] : -1;
            *roots += p->in[k].root && (n < 0 || l->point.v[n].group != p->group);
        }
    }
}

/* Does the merged group stay within the limits? */
static bool is_small(const fit *f) {
    int stmts = 0, roots = 0, n_folds = 0;
    measure(f->l, group_at(f, f->a), &stmts, &roots, &n_folds);
    measure(f->l, group_at(f, f->b), &stmts, &roots, &n_folds);
    int more = f->l->device ? 2 : 1; /* updates of several parameters at their end */
    return stmts <= more * MOST_STMTS && roots <= more * MOST_ROOTS &&
           n_folds <= MOST_FOLDS;
}

/* ---- merging ------------------------------------------------------------- */

/* Rewrites the strides of an access of b in dims of a. */
static void move_access(const fit *f, td_access *x, int n, int n_a) {
    td_access was = *x;
    for (int a = 0; a < n_a; a++) x->stride[a] = td__extent(0);
    for (int b = 0; b < n; b++) x->stride[f->to[b]] = was.stride[b];
}

/* Translates a point of group b into the dims of group a. */
static void move_point(const fit *f, td_point *p, role r) {
    const td_group *a = group_at(f, f->a), *b = group_at(f, f->b);
    move_access(f, &p->own, b->n_dims, a->n_dims);
    for (int k = 0; k < p->n_in; k++) move_access(f, &p->in[k], b->n_dims, a->n_dims);
    p->folded = map_mask(f, p->folded);
    p->walks = (uint8_t)level_as(p, (td_level)p->walks, r);
    p->level = (uint8_t)level_as(p, (td_level)p->level, r);
    p->group = f->a;
}

/* Inserts in graph order; the caller has reserved the space. */
static void add_member(td_lowered *l, td_group *g, int i) {
    int at = g->member.n++, pos = l->point.v[i].pos;
    for (; at > 0 && l->point.v[g->member.v[at - 1]].pos > pos; at--)
        g->member.v[at] = g->member.v[at - 1];
    g->member.v[at] = i;
}

/* Merges b into a. Memory is reserved first: on failure both groups stay as they
 * were. */
static bool merge(const fit *f, role r) {
    td_group *a = group_at(f, f->a), *b = group_at(f, f->b);
    int       n = a->member.n + b->member.n;
    if (n > a->member.cap &&
        !td__vec_grow((void **)&a->member.v, &a->member.cap, n, sizeof *a->member.v))
        return false;
    td__unit_merge(f->l, f->a, f->b);
    if (!a->split && b->split) {
        a->split = true;
        a->outer = map_mask(f, b->outer);
    }
    for (int i = 0; i < b->member.n; i++) {
        move_point(f, &f->l->point.v[b->member.v[i]], r);
        add_member(f->l, a, b->member.v[i]);
    }
    if (b->first < a->first) a->first = b->first;
    if (b->last > a->last) a->last = b->last;
    td__vec_free(&b->member);
    return true;
}

static void begin(fit *f, td_lowered *l, int a, int b) {
    *f = (fit){.l = l, .a = a, .b = b};
    for (int i = 0; i < TD_SPACE_DIMS; i++) f->to[i] = -1;
}

/* Checks everything that does not depend on strides, and merges. */
static bool finish(fit *f, td_level of) {
    role r;
    return find_role(f, of, &r) && reads_fit(f, f->a, f->b, r) &&
           reads_fit(f, f->b, f->a, r) && writes_fit(f, r) && is_small(f) &&
           !td__unit_between(f->l, f->a, f->b) && merge(f, r);
}

/* Does the group contain a node of this origin? */
static bool has_origin(const td_lowered *l, int group, td_origin origin) {
    const td_group *g = &l->group.v[group];
    for (int i = 0; i < g->member.n; i++)
        if (l->g->nodes.v[l->point.v[g->member.v[i]].pos]->origin == origin)
            return true;
    return false;
}

/* Recomputed nodes must not be fused with forward nodes: they would be computed, and
 * live, from then on. */
static bool must_stay_apart(const td_lowered *l, int a, int b) {
    return (has_origin(l, a, TD_FROM_AGAIN) && has_origin(l, b, TD_FROM_FORWARD)) ||
           (has_origin(l, b, TD_FROM_AGAIN) && has_origin(l, a, TD_FROM_FORWARD));
}

/* Can maker p and its reader r (argument k) be in one nest? Their dims are paired by
 * strides; either side may have more dims than the other. False: they stay apart, which
 * is always correct. */
bool td__group_join(td_lowered *l, int p, int r, int k) {
    td_point *from = &l->point.v[p], *to = &l->point.v[r];
    fit       f;
    if (from->group == to->group) return true;
    if (must_stay_apart(l, from->group, to->group)) return false;
    begin(&f, l, from->group, to->group);
    if (!pair_strides(&f, &from->own, &to->in[k]) || !pair_rest(&f)) return false;
    if (left_of_b(&f) < 0) return finish(&f, (td_level)from->level);
    /* The reader has more dims: the maker's points may be rows of its group. */
    if (from->level != TD_AT_POINT) return false;
    begin(&f, l, to->group, from->group);
    return pair_strides(&f, &to->in[k], &from->own) && finish(&f, TD_AT_POINT);
}

/* Joins two readers of the same elements. Recomputed nodes stay apart from the first
 * computation, or they would be alive for as long. */
bool td__group_share(td_lowered *l, int p, int k, int q, int j) {
    td_point *x = &l->point.v[p], *y = &l->point.v[q];
    fit       f;
    bool      rows = x->walks != TD_AT_POINT || y->walks != TD_AT_POINT;
    if (x->group == y->group || rows) return false;
    if (has_origin(l, x->group, TD_FROM_AGAIN) ||
        has_origin(l, y->group, TD_FROM_AGAIN))
        return false;
    if (!td__extent_eq(x->in[k].offset, y->in[j].offset)) return false;
    begin(&f, l, x->group, y->group);
    return pair_strides(&f, &x->in[k], &y->in[j]) && finish(&f, TD_AT_POINT);
}
