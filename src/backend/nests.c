/* nests.c -- builds the nest of a group: adjacent dims that every access walks as one
 * are joined, recipes become one list of statements without duplicates, and values
 * that are read outside the group are stored. */
#include "backend/native.h"

#include <string.h>

enum { SHORTEST_ROW = 256, LONGEST_ROW = 8192 };

/* The state of building one nest. */
typedef struct builder {
    td_lowered     *l;
    const td_group *grp;
    td_built       *to;
    int             order[TD_SPACE_DIMS];     /* dims of the group, outermost first */
    int             n_rows;                   /* number of outer dims */
    int             last[TD_SPACE_DIMS + 1];  /* by dim of the nest: the innermost of
                                              * the group's dims in it */
    td_extent       times[TD_SPACE_DIMS + 1]; /* and the factor of its stride */
    int            *stmt_of; /* by member: the statement of its value */
    bool            failed;  /* out of memory */
    bool            beyond;  /* a size exceeds td_product */
} builder;

/* ---- dims ---------------------------------------------------------------- */

/* Outer dims first, each kind in the group's order. */
static void order_dims(builder *b) {
    int n = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int d = 0; d < b->grp->n_dims; d++) {
            bool outer = b->grp->split && b->grp->outer >> d & 1;
            if (outer == (pass == 0)) b->order[n++] = d;
        }
        if (pass == 0) b->n_rows = n;
    }
}

/* Does the access walk the two dims as one? */
static bool joins(builder *b, const td_access *a, int outer, int inner) {
    td_extent span =
        td__extent_mul(&b->l->products, a->stride[inner], b->grp->size[inner]);
    return td__extent_eq(span, a->stride[outer]);
}

/* May dims `outer` and `inner` of the group become one loop? */
static bool all_join(builder *b, int outer, int inner) {
    for (int i = 0; i < b->grp->member.n; i++) {
        const td_point *p = &b->l->point.v[b->grp->member.v[i]];
        if ((p->folded >> outer & 1) != (p->folded >> inner & 1)) return false;
        if (!joins(b, &p->own, outer, inner)) return false;
        for (int k = 0; k < p->n_in; k++)
            if (!joins(b, &p->in[k], outer, inner)) return false;
    }
    return true;
}

/* A single long dim that is folded is divided into rows of a convenient length, if
 * one divides it, so that threads can share it. */
static void cut_into_rows(builder *b) {
    td_nest  *n = &b->to->nest;
    td_extent whole = n->size[0];
    int64_t   row = whole.c;
    for (int64_t m = LONGEST_ROW; whole.p == -1 && m >= SHORTEST_ROW; m--)
        if (whole.c > m && whole.c % m == 0) {
            row = m;
            break;
        }
    n->size[1] = whole.p == -1 ? td__extent(row) : whole;
    n->size[0] = whole.p == -1 && row ? td__extent(whole.c / row) : td__extent(1);
    b->times[1] = td__extent(1);
    b->times[0] = n->size[1];
    b->last[1] = b->last[0];
    n->n_dims = 2;
    n->n_outer = 1;
}

/* Chooses the dims of the nest. */
static void join_dims(builder *b) {
    td_nest *n = &b->to->nest;
    for (int i = 0; i < b->grp->n_dims; i++) {
        int  d = b->order[i];
        bool first = i == 0 || (b->grp->split && i == b->n_rows);
        bool join = !first && all_join(b, b->order[i - 1], d);
        if (join) {
            td_extent *s = &n->size[n->n_dims - 1];
            *s = td__extent_mul(&b->l->products, *s, b->grp->size[d]);
            b->last[n->n_dims - 1] = d;
        } else {
            n->size[n->n_dims] = b->grp->size[d];
            b->times[n->n_dims] = td__extent(1);
            b->last[n->n_dims++] = d;
        }
        if (b->grp->split && i < b->n_rows) n->n_outer = n->n_dims;
    }
    if (!b->grp->split && n->n_dims > 1) n->n_outer = n->n_dims - 1;
    if (n->n_dims == 1 && !b->grp->split && td__group_folds(b->l, b->grp))
        cut_into_rows(b);
}

/* Computes rows and inside. */
static void measure_space(builder *b) {
    td_nest *n = &b->to->nest;
    n->rows = n->inside = td__extent(1);
    for (int d = 0; d < n->n_dims; d++) {
        td_extent *of = d < n->n_outer ? &n->rows : &n->inside;
        *of = td__extent_mul(&b->l->products, *of, n->size[d]);
    }
    b->beyond |= n->rows.p == TD_EXTENT_BAD || n->inside.p == TD_EXTENT_BAD;
}

/* ---- statements ---------------------------------------------------------- */

static bool same_strides(const builder *b, const td_extent *x, const td_extent *y) {
    for (int d = 0; x && y && d < b->to->nest.n_dims; d++)
        if (!td__extent_eq(x[d], y[d])) return false;
    return !x == !y;
}

/* Do two statements compute the same value? */
static bool same_stmt(const builder *b, const td_stmt *x, const td_stmt *y) {
    bool head = x->kind == y->kind && x->dtype == y->dtype &&
                x->compute == y->compute && x->how == y->how && x->n == y->n &&
                x->masks == y->masks && x->wide == y->wide && x->ptr == y->ptr &&
                x->op == y->op && x->num.i == y->num.i;
    if (!head || !same_strides(b, x->stride, y->stride)) return false;
    for (int k = 0; k < x->n; k++)
        if (x->a[k] != y->a[k]) return false;
    return x->p == y->p || (x->p && y->p && !memcmp(x->p, y->p, sizeof *x->p));
}

/* Adds a statement, or finds an equal one; returns its index. */
static int add(builder *b, td_stmt s) {
    td_nest *n = &b->to->nest;
    for (int i = 0; i < n->stmt.n; i++)
        if (same_stmt(b, &n->stmt.v[i], &s)) return i;
    b->failed |= !td__vec_push(&n->stmt, s);
    return n->stmt.n - 1;
}

/* The pointer for an access; shared by accesses of the same memory. */
static int pointer(builder *b, const td_access *a, bool written) {
    td_built *t = b->to;
    for (int i = 0; i < t->bytes.n; i++) {
        const td_bytes *y = &t->bytes.v[i];
        if (y->v != a->root || y->dtype != a->dtype ||
            !td__extent_eq(y->offset, a->offset))
            continue;
        t->nest.ptr.v[i].written |= written;
        return i;
    }
    td_bytes   y = {a->root, a->offset, a->dtype};
    td_pointer p = {a->dtype, written, false};
    b->failed |= !td__vec_push(&t->nest.ptr, p) || !td__vec_push(&t->bytes, y);
    return t->bytes.n - 1;
}

/* The strides of an access in dims of the nest, times `times`. */
static const td_extent *strides(builder *b, const td_access *a, int64_t times) {
    int        n = b->to->nest.n_dims;
    td_extent *s = td__arena_alloc(&b->l->arena, sizeof *s * (size_t)(n + 1));
    b->failed |= !s;
    for (int d = 0; s && d < n; d++) {
        td_extent step =
            td__extent_mul(&b->l->products, a->stride[b->last[d]], td__extent(times));
        s[d] = td__extent_mul(&b->l->products, step, b->times[d]);
        b->beyond |= s[d].p == TD_EXTENT_BAD;
    }
    return s;
}

/* The index of a point among the members; -1: it is none. */
static int member_of(const builder *b, int point) {
    for (int i = 0; i < b->grp->member.n; i++)
        if (b->grp->member.v[i] == point) return i;
    return -1;
}

static int recipe(builder *b, const td_point *p, const td_access *seen);

/* The statement of an operand: a value of this group, a leaf computed here, an index
 * or a load. */
static int operand(builder *b, const td_access *a) {
    int n = a->root ? b->l->point_of[a->root->id] : -1;
    int m = n >= 0 ? member_of(b, n) : -1;
    if (n >= 0 && b->l->point.v[n].leaf) return recipe(b, &b->l->point.v[n], a);
    if (m >= 0) return b->stmt_of[m];
    td_stmt s = {.kind = a->root ? TD_S_LOAD : TD_S_PLACE, .dtype = a->dtype};
    s.stride = strides(b, a, 1);
    if (a->root) s.ptr = (int16_t)pointer(b, a, false);
    else s.num.i = a->offset.c;
    return add(b, s);
}

/* The index in memory of a PLACE leaf whose elements are read through `seen`. */
static int place(builder *b, const td_access *leaf, const td_access *seen) {
    td_stmt s = {.kind = TD_S_PLACE, .dtype = TD_I64};
    int64_t step = leaf->stride[0].c;
    b->beyond |= seen->offset.p >= 0;
    s.stride = strides(b, seen, step);
    s.num.i = leaf->offset.c + step * seen->offset.c;
    return add(b, s);
}

/* A fold over one element is that element. A float sum still adds it to 0, as eager
 * does: -0 becomes 0. */
static int fold_one(builder *b, td_stmt s) {
    static const td_scalars once = {{1}, {1}};
    if (s.how != TD_FOLD_SUM || !td__is_float((td_dtype)s.dtype)) return s.a[0];
    bool    wide = s.dtype == TD_F64;
    td_stmt sum = {.kind = TD_S_EXPR, .op = TD_OP_add, .dtype = s.dtype, .n = 2};
    sum.compute = wide ? TD_COMPUTE_F64 : TD_COMPUTE_F32;
    sum.p = &once;
    sum.a[0] = s.a[0];
    sum.a[1] = add(b, (td_stmt){.kind = TD_S_NUM, .dtype = s.dtype});
    return add(b, sum);
}

/* The statement of a fold in this nest: REDUCE, COLUMN, or both. */
static int fold(builder *b, const td_point *p, td_stmt s) {
    if (p->reach == TD_FOLDS_NOT) return fold_one(b, s);
    if (p->level == TD_AT_ROW) return add(b, s);
    if (p->level == TD_AT_ONCE && p->walks == TD_AT_POINT) s.a[0] = add(b, s);
    s.wide = p->level == TD_AT_END;
    s.kind = TD_S_COLUMN;
    return add(b, s);
}

/* A DRAW, which takes two given numbers. */
static int draw(builder *b, const td_point *p, td_stmt s) {
    bool    wide = p->v->type->dtype == TD_F64 && s.how != TD_DRAW_COIN;
    td_draw d = {p->v, wide ? 2 : 4, b->to->nest.n_given};
    s.ptr = (int16_t)d.at;
    b->failed |= !td__vec_push(&b->to->draws, d);
    b->to->nest.n_given += 2;
    return add(b, s);
}

/* A GIVEN for a number that is known at run time only. */
static int run_number(builder *b, const td_point *p, td_stmt s) {
    td_run_number t = {&p->v->node->in[s.ptr], p->pw, b->to->nest.n_given++};
    s.ptr = (int16_t)t.at;
    b->failed |= !td__vec_push(&b->to->run_numbers, t);
    return add(b, s);
}

/* The statements of a point. seen: how a reader accesses a leaf; else NULL. */
static int recipe(builder *b, const td_point *p, const td_access *seen) {
    int at[TD_POINT_STMTS] = {0};
    for (int i = 0; i < p->n_stmt && !b->failed; i++) {
        td_stmt s = p->stmt[i];
        for (int k = 0; k < s.n; k++) s.a[k] = at[s.a[k]];
        if (s.kind == TD_S_LOAD)
            at[i] = seen && !p->in[s.ptr].root ? place(b, &p->in[s.ptr], seen)
                                               : operand(b, &p->in[s.ptr]);
        else if (s.kind == TD_S_REDUCE) at[i] = fold(b, p, s);
        else if (s.kind == TD_S_DRAW) at[i] = draw(b, p, s);
        else if (s.kind == TD_S_GIVEN) at[i] = run_number(b, p, s);
        else at[i] = add(b, s);
    }
    return at[p->n_stmt - 1];
}

/* Stores a value that is read outside the group. */
static void store(builder *b, const td_point *p, int value) {
    td_stmt s = {.kind = TD_S_STORE, .dtype = p->own.dtype, .n = 1, .from = p->v->node};
    s.a[0] = value;
    s.ptr = (int16_t)pointer(b, &p->own, true);
    s.stride = strides(b, &p->own, 1);
    if ((s.p = p->tail)) s.a[s.n++] = operand(b, &p->in[p->n_in - 1]);
    add(b, s);
    if (!p->writes) b->failed |= !td__vec_push(&b->to->makes, p->v);
    else b->failed |= !td__vec_push(&b->to->writes, p->own.root);
}

/* ---- sizes of the run ---------------------------------------------------- */

/* Replaces the index of a product by its index in the nest's parameters. */
static void local(builder *b, td_extent *e) {
    if (e->p < 0) return;
    int n = b->to->params.n;
    for (int i = 0; i < n; i++)
        if (b->to->params.v[i] == e->p) {
            e->p = i;
            return;
        }
    b->failed |= !td__vec_push(&b->to->params, (int)e->p);
    e->p = n;
}

/* Makes all extents of the nest refer to its own parameters. */
static void local_sizes(builder *b) {
    td_nest *n = &b->to->nest;
    for (int d = 0; d < n->n_dims; d++) local(b, &n->size[d]);
    local(b, &n->rows);
    local(b, &n->inside);
    for (int i = 0; i < b->to->bytes.n; i++) local(b, &b->to->bytes.v[i].offset);
    for (int i = 0; i < n->stmt.n; i++) {
        td_extent *s =
            (td_extent *)(uintptr_t)n->stmt.v[i].stride; /* allocated by strides() */
        for (int d = 0; s && d < n->n_dims; d++) local(b, &s[d]);
    }
    n->n_sizes = b->to->params.n;
}

/* Turns a group into a nest: orders and joins dims, then one statement sequence per
 * member, then the stores. */
bool td__nest_build(td_lowered *l, const td_group *grp, td_built *to) {
    builder b = {.l = l, .grp = grp, .to = to};
    b.stmt_of = td__arena_alloc(&l->arena, sizeof(int) * (size_t)(grp->member.n + 1));
    if (!b.stmt_of) return td__fail_memory(l->g->cx);
    order_dims(&b);
    join_dims(&b);
    measure_space(&b);
    for (int i = 0; i < grp->member.n && !b.failed; i++)
        b.stmt_of[i] = recipe(&b, &l->point.v[grp->member.v[i]], NULL);
    for (int i = 0; i < grp->member.n && !b.failed; i++) {
        const td_point *p = &l->point.v[grp->member.v[i]];
        if (p->stored) store(&b, p, b.stmt_of[i]);
    }
    local_sizes(&b);
    if (b.failed || l->products.failed) return td__fail_memory(l->g->cx);
    return !b.beyond || td__fail(l->g->cx, TD_E_UNSUPPORTED,
                                 "@%.60s: unsupported by native code: a symbolic size "
                                 "that is a product of more than 6 symbols. Set "
                                 "backend=interp",
                                 l->g->name);
}

void td__built_free(td_built *b) {
    td__vec_free(&b->nest.ptr);
    td__vec_free(&b->nest.stmt);
    td__vec_free(&b->bytes);
    td__vec_free(&b->params);
    td__vec_free(&b->makes);
    td__vec_free(&b->draws);
    td__vec_free(&b->run_numbers);
    td__vec_free(&b->writes);
}
