/* recipe.c -- the recipe of a point: the statements that compute one element of its
 * op. Pointwise rows describe their own loop (td__pw_describe); copies, constants,
 * reductions and random draws are written here. An op without a recipe is called. */
#include "backend/native.h"
#include "kernels/pointwise.h"
#include "kernels/reduce.h"

#include <string.h>

/* A recipe under construction. */
typedef struct builder {
    td_lowered     *l;
    td_point       *p;
    const td_gnode *node;
    const td_gtype *space;
    td_stmt         s[TD_POINT_STMTS];
    td_access       in[TD_LOOP_INPUTS];
    int             n, n_in;
    uint32_t        late;   /* set of arguments that are numbers known at run time */
    bool            failed; /* the op has no recipe here */
} builder;

/* ---- statements ---------------------------------------------------------- */

/* Appends a statement and returns its index. Too many statements: no recipe. */
static int add(builder *c, td_stmt s) {
    c->failed |= c->n == TD_POINT_STMTS;
    if (c->failed) return 0;
    s.from = c->node;
    c->s[c->n] = s;
    return c->n++;
}

/* Appends a LOAD of v, broadcast to the space. */
static int load(builder *c, const td_gval *v) {
    td_stmt s = {.kind = TD_S_LOAD, .ptr = (int16_t)c->n_in};
    c->failed |=
        c->n_in == TD_LOOP_INPUTS || !td__access_of(c->l, v, c->space, &c->in[c->n_in]);
    if (c->failed) return 0;
    s.dtype = v->type->dtype;
    c->n_in++;
    return add(c, s);
}

/* A value in another dtype; no statement if it has that dtype. */
static int cast(builder *c, int a, td_dtype to) {
    if (c->failed || c->s[a].dtype == to) return a;
    td_stmt s = {.kind = TD_S_CAST, .dtype = (uint8_t)to, .n = 1};
    s.a[0] = a;
    return add(c, s);
}

/* A constant of dtype dt, from its bits. */
static int number(builder *c, td_dtype dt, int64_t bits) {
    td_stmt s = {.kind = TD_S_NUM, .dtype = (uint8_t)dt};
    if (td__is_float(dt)) s.num.f = td__load_f(dt, &bits);
    else s.num.i = td__load_i(dt, &bits);
    return add(c, s);
}

/* ---- arguments ----------------------------------------------------------- */

static const td_gval *tensor_arg(const td_gnode *n, int i) {
    bool           value = i < n->n_in && n->in[i].kind == TD_G_VALUE;
    const td_gval *v = value ? n->in[i].u.v : NULL;
    return v && v->type && v->type->kind == TD_K_TENSOR ? v : NULL;
}

/* Argument i as a call would get it; a tensor becomes *t, with dtype and rank only.
 * False: it is known at run time only. */
static bool plain_arg(const td_gnode *n, int i, td_tensor *t, td_value *to) {
    const td_param *p = &td__opinfo(n->op)->s.in[i];
    const td_gval  *v = tensor_arg(n, i);
    const td_garg  *a = i < n->n_in ? &n->in[i] : NULL;
    *to = a ? td_value_none() : p->def;
    if (v) {
        *t = (td_tensor){.dtype = v->type->dtype, .rank = v->type->rank, .numel = 1};
        *to = td_value_tensor(t);
    }
    if (!a || v) return true;
    if (!td__garg_literal(a, to)) return false;
    if (a->kind == TD_G_NONE && p->has_default) *to = p->def;
    for (uint32_t k = 0; a->kind == TD_G_INTS && k < a->n; k++)
        if (td__dim_is_sym(a->u.ints[k])) return false;
    return true;
}

/* Is argument i a number that is known at run time only? *to is a number of its kind.
 */
static bool is_run_number(const td_gnode *n, int i, td_value *to) {
    const td_garg  *a = &n->in[i];
    const td_gtype *l = a->kind == TD_G_VALUE ? a->u.v->type : NULL;
    bool            whole = a->kind == TD_G_SYM || (l && l->kind == TD_K_INT);
    bool            real = l && l->kind == TD_K_FLOAT;
    *to = real ? td_value_float(1) : td_value_int(1);
    return whole || real;
}

/* All arguments; *late is the set of those that are run-time numbers. False: another
 * one is unknown. */
static bool plain_args(const td_gnode *n, td_tensor *t, td_value *to, uint32_t *late) {
    *late = 0;
    for (int i = 0; i < td__opinfo(n->op)->s.n_in; i++) {
        if (plain_arg(n, i, &t[i], &to[i])) continue;
        if (!is_run_number(n, i, &to[i])) return false;
        *late |= 1u << i;
    }
    return true;
}

/* ---- pointwise ----------------------------------------------------------- */

/* Kernels that do not branch on the number's value can take it at run time. */
static bool takes_run_numbers(td_op op, uint32_t late) {
    const td_pw_args *a = td__pw_args(td__row(op));
    uint32_t          operands = 0;
    for (int k = 0; k < a->n_in; k++) operands |= 1u << a->in[k];
    return !late || (!(late & ~operands) && (td__row(op)->cpu == td__kern_pointwise ||
                                             td__row(op)->cpu == td__kern_div));
}

/* The numbers that the loop's expression reads; the rest is 0, because statements are
 * compared and hashed whole. NULL after td__fail. */
static const td_scalars *numbers_of(builder *c, const td_pw *w) {
    size_t      n = td__pw_args(td__row(w->op))->n_scalars;
    td_scalars *p = td__arena_zalloc(&c->l->arena, sizeof *p);
    if (!p) return td__fail_memory(c->l->g->cx), NULL;
    memcpy(p->f, w->p.f, sizeof *p->f * n);
    memcpy(p->i, w->p.i, sizeof *p->i * n);
    return p;
}

/* Operand k of a pointwise loop, converted as the loop reads it. */
static int operand(builder *c, const td_pw *w, int k, const td_tensor *t) {
    td_dtype type = td__pw_compute_dtype(w->common);
    td_value v = w->in[k];
    int      arg = td__pw_args(td__row(c->node->op))->in[k];
    if (v.kind != TD_K_TENSOR && c->late >> arg & 1)
        return add(c, (td_stmt){.kind = TD_S_GIVEN,
                                .dtype = (uint8_t)type,
                                .ptr = (int16_t)arg});
    if (v.kind != TD_K_TENSOR) return number(c, type, td__pw_number(w, v));
    int s = load(c, tensor_arg(c->node, (int)(v.u.t - t)));
    if (w->masks >> k & 1) return s;
    return cast(c, s, td__pw_keeps(w, v.u.t) ? type : w->common);
}

static td_compute compute_of(td_dtype loop) {
    return loop == TD_F32   ? TD_COMPUTE_F32
           : loop == TD_F64 ? TD_COMPUTE_F64
           : loop == TD_I64 ? TD_COMPUTE_I64
                            : TD_COMPUTE_I32;
}

/* The recipe of a pointwise row: operands, its expression, a cast to the result's
 * dtype. */
static void pointwise(builder *c) {
    td_tensor t[TD_MAX_ARGS];
    td_value  in[TD_MAX_ARGS];
    td_pw     w = {0}; /* all bytes defined: equal statements are found by memcmp */
    td_dtype  out = (td_dtype)c->p->v->type->dtype;
    c->failed = !plain_args(c->node, t, in, &c->late) ||
                !takes_run_numbers(c->node->op, c->late) ||
                !td__pw_describe(c->l->g->cx, &w, c->node->op, in, out);
    if (c->failed) return;
    if (c->late) { /* the run converts its numbers with this */
        td_pw *pw = td__arena_alloc(&c->l->arena, sizeof *pw);
        if ((c->failed = !pw)) {
            td__fail_memory(c->l->g->cx);
            return;
        }
        *pw = w;
        c->p->pw = pw;
    }
    td_dtype type = td__pw_compute_dtype(w.common);
    bool     truth = td__row(w.op)->dtypes & TD_DT_BOOL_OUT;
    td_stmt  s = {.kind = TD_S_EXPR, .op = w.op, .masks = w.masks};
    s.compute = (uint8_t)compute_of(type);
    s.dtype = (uint8_t)(truth                               ? TD_BOOL
                        : td__pw_compute_dtype(out) == type ? out
                                                            : type);
    s.n = (uint8_t)w.n;
    for (int k = 0; k < w.n && !c->failed; k++) s.a[k] = operand(c, &w, k, t);
    c->failed |= !(s.p = numbers_of(c, &w));
    if (c->failed) return;
    cast(c, add(c, s), out);
}

/* ---- copies and constants ------------------------------------------------ */

/* Argument `arg`, cast to the result's dtype. */
static void copy_of(builder *c, int arg) {
    const td_gval *v = tensor_arg(c->node, arg);
    c->failed |= !v;
    if (v) cast(c, load(c, v), (td_dtype)c->p->v->type->dtype);
}

/* Has every element its own address? Each dim, by ascending stride, must step over
 * everything that the smaller strides reach. */
static bool has_distinct_elements(const td_gtype *l) {
    int64_t reach = 0;
    bool    done[TD_MAX_RANK] = {0};
    if (l->dense) return true;
    for (int d = 0; d < l->rank; d++)
        if (td__dim_is_sym(l->size[d]) || td__dim_is_sym(l->stride[d])) return false;
    for (int n = 0; n < l->rank; n++) {
        int at = 0;
        while (done[at]) at++;
        for (int d = at; d < l->rank; d++)
            if (!done[d] && l->stride[d] < l->stride[at]) at = d;
        done[at] = true;
        if (l->size[at] == 1) continue;
        if (l->stride[at] <= reach) return false;
        reach += (l->size[at] - 1) * l->stride[at];
    }
    return true;
}

/* `copy` keeps strides even if elements share addresses; then all of them get the
 * last element written, which loops do not guarantee. */
static void copy_exactly(builder *c) {
    c->failed |= !c->p->writes && !has_distinct_elements(c->p->v->type);
    copy_of(c, 1);
}

/* A constant op: its value converted to the result's dtype at compile time. */
static void constant(builder *c, td_value v) {
    td_dtype dt = (td_dtype)c->p->v->type->dtype;
    int64_t  bits = 0;
    c->failed |= v.kind != TD_K_INT && v.kind != TD_K_FLOAT && v.kind != TD_K_BOOL;
    if (c->failed) return;
    td__store_value(dt, &bits, v);
    number(c, dt, bits);
}

/* A tensor argument is copied, a number is a constant. */
static void constant_arg(builder *c, int i) {
    td_tensor      t;
    td_value       v;
    const td_gval *of = tensor_arg(c->node, i);
    if (of) copy_of(c, i);
    else if (plain_arg(c->node, i, &t, &v)) constant(c, v);
    else c->failed = true;
}

/* Integers in steps. Float ranges round as their kernel does, and are called. */
static void arange(builder *c) {
    td_tensor t;
    td_value  first, step;
    td_dtype  dt = (td_dtype)c->p->v->type->dtype;
    td_stmt   s = {.kind = TD_S_LOAD, .dtype = TD_I64};
    c->failed |= !plain_arg(c->node, 0, &t, &first) ||
                 !plain_arg(c->node, 2, &t, &step) || first.kind != TD_K_INT ||
                 step.kind != TD_K_INT || td__is_float(dt) || dt == TD_BOOL;
    if (c->failed) return;
    c->in[0] = (td_access){.dtype = TD_I64, .offset = td__extent(first.u.i)};
    c->in[0].stride[0] = td__extent(step.u.i);
    c->n_in = 1;
    cast(c, add(c, s), dt);
}

/* The dim that a pad extends at its end, by how much; -1: another pad. */
static int padded_dim(const td_gnode *n, int64_t *by) {
    const td_garg *pad = &n->in[1];
    td_tensor      t;
    td_value       value;
    int            dim = -1;
    if (pad->kind != TD_G_INTS || !plain_arg(n, 2, &t, &value) ||
        !(value.kind == TD_K_FLOAT ? value.u.f == 0
                                   : value.kind == TD_K_INT && !value.u.i))
        return -1;
    for (uint32_t k = 0; k < pad->n; k++) {
        if (pad->u.ints[k] == 0) continue;
        if (k % 2 == 0 || dim >= 0 || pad->u.ints[k] < 0 ||
            td__dim_is_sym(pad->u.ints[k]))
            return -1;
        dim = n->out[0]->type->rank - 1 - (int)(k / 2);
        *by = pad->u.ints[k];
    }
    return dim;
}

/* Zeros behind a tensor along one dim: loops over the tensor store its elements where
 * the result has them, so that they can be those that compute the tensor. The last of
 * a line stores the zeros. */
static void pad(builder *c) {
    const td_gval  *v = tensor_arg(c->node, 0);
    const td_gtype *to = c->p->v->type;
    td_scalars     *tail = td__arena_zalloc(&c->l->arena, sizeof *tail);
    int64_t         by = 0;
    int             dim = v && to->device && to->dense ? padded_dim(c->node, &by) : -1;
    c->failed |= dim < 0 || !tail || td__dims_any_sym(to->size, to->rank);
    if (c->failed) return;
    c->space = v->type;
    load(c, v);
    c->failed |= c->n_in != 1;
    c->p->own =
        (td_access){.root = c->p->v, .dtype = to->dtype, .offset = td__extent(0)};
    for (int d = 0; d < to->rank; d++)
        c->p->own.stride[d] = td__extent(v->type->size[d] == 1 ? 0 : to->stride[d]);
    c->in[1] = (td_access){.dtype = TD_I64, .offset = td__extent(0)};
    c->in[1].stride[dim] = td__extent(1);
    c->n_in = 2;
    tail->i[0] = v->type->size[dim] - 1;
    tail->i[1] = by;
    tail->i[2] = to->stride[dim];
    c->p->tail = tail;
}

/* ---- reductions ---------------------------------------------------------- */

/* The set of dims that the reduction folds. False: known at run time only. */
static bool find_folded(builder *c, int arg) {
    td_tensor t;
    td_value  dims = td_value_none();
    bool      mask[TD_MAX_RANK + 1];
    if (arg >= 0 && !plain_arg(c->node, arg, &t, &dims)) return false;
    td__reduce_mask(&dims, c->space->rank, true, mask);
    for (int d = 0; d < c->space->rank; d++) c->p->folded |= (uint32_t)mask[d] << d;
    return true;
}

/* The strides of the result along the dims that stay. */
static bool place_result(builder *c) {
    const td_gval  *v = c->p->v;
    const td_gtype *type = v->type;
    bool            keep = type->rank == c->space->rank;
    c->p->own = (td_access){.root = v, .dtype = type->dtype, .offset = td__extent(0)};
    for (int d = 0, at = 0; d < c->space->rank; d++) {
        bool gone = c->p->folded >> d & 1;
        c->p->own.stride[d] = td__extent(0);
        if (!gone && at < type->rank && type->size[at] != 1)
            c->p->own.stride[d] =
                td__extent_of(&c->l->products, c->l->g, type->stride[at]);
        if (c->p->own.stride[d].p == TD_EXTENT_BAD) return false;
        if (keep || !gone) at++;
    }
    return true;
}

/* A reduction; elements are cast to `as` first, unless it is TD_DTYPE_NONE. */
static void fold(builder *c, td_fold how, td_dtype as) {
    const td_gval *v = tensor_arg(c->node, 0);
    td_dtype       out = (td_dtype)c->p->v->type->dtype;
    c->failed |= !v || v->type->rank > TD_SPACE_DIMS;
    if (c->failed) return;
    c->space = v->type;
    c->p->reach = TD_FOLDS_SOME;
    c->failed |= !find_folded(c, td__op_arg(c->node->op, "dim")) || !place_result(c);
    int x = c->failed ? 0 : load(c, v);
    if (as != TD_DTYPE_NONE) x = cast(c, x, as);
    bool     sums = how == TD_FOLD_SUM || how == TD_FOLD_PROD;
    td_dtype acc = (td_dtype)c->s[x].dtype;
    if (sums) acc = !td__is_float(out) ? TD_I64 : out == TD_F64 ? TD_F64 : TD_F32;
    td_stmt s = {.kind = TD_S_REDUCE, .how = (uint8_t)how, .n = 1};
    s.a[0] = cast(c, x, acc);
    s.dtype = (uint8_t)acc;
    cast(c, add(c, s), out);
}

/* sum and prod: the dtype argument is what each element is cast to first. */
static void fold_sum(builder *c, td_fold how) {
    td_tensor t;
    td_value  dt;
    bool      known = plain_arg(c->node, td__op_arg(c->node->op, "dtype"), &t, &dt);
    c->failed |= !known;
    if (known) fold(c, how, dt.kind == TD_K_DTYPE ? dt.u.dt : TD_DTYPE_NONE);
}

/* all and any: the minimum and maximum of x != 0. Their results for empty tensors are
 * not the loops' neutral elements, so no size may be 0. */
static void fold_truth(builder *c, td_fold how) {
    const td_gval *v = tensor_arg(c->node, 0);
    td_dtype       dt = v ? (td_dtype)v->type->dtype : TD_BOOL;
    c->failed |= !v || dt == TD_U8;
    for (int d = 0; !c->failed && d < v->type->rank; d++)
        c->failed = v->type->size[d] == 0;
    /* An empty list of dims reduces none. */
    c->failed |=
        c->node->n_in > 1 && c->node->in[1].kind == TD_G_INTS && c->node->in[1].n == 0;
    if (!c->failed) fold(c, how, TD_BOOL);
}

/* ---- random numbers ------------------------------------------------------ */

/* Element i of a draw, in row-major order, is a function of seed, offset and i. */
static void draw(builder *c, td_draw_kind kind, double p) {
    const td_gtype *type = c->p->v->type;
    td_dtype        dt = (td_dtype)type->dtype;
    td_stmt         at = {.kind = TD_S_LOAD, .dtype = TD_I64};
    td_stmt         s = {.kind = TD_S_DRAW, .how = (uint8_t)kind, .n = 1, .num.f = p};
    td_extent       step = td__extent(1);
    /* Seed and offset that are values are read by the kernel. */
    c->failed |= td__gnode_has_rng(c->node);
    c->failed |= kind != TD_DRAW_COIN && !td__is_float(dt);
    if (c->failed) return;
    c->in[0] = (td_access){.dtype = TD_I64, .offset = td__extent(0)};
    for (int d = type->rank - 1; d >= 0; d--) {
        td_products *t = &c->l->products;
        c->in[0].stride[d] = type->size[d] == 1 ? td__extent(0) : step;
        step = td__extent_mul(t, step, td__extent_of(t, c->l->g, type->size[d]));
        c->failed |= step.p == TD_EXTENT_BAD;
    }
    c->n_in = 1;
    s.a[0] = add(c, at);
    s.dtype = (uint8_t)(kind == TD_DRAW_COIN ? TD_BOOL : dt);
    cast(c, add(c, s), dt);
}

/* bernoulli: the probability must be a plain number. */
static void coins(builder *c) {
    td_tensor t;
    td_value  p;
    c->failed |= !plain_arg(c->node, td__op_arg(c->node->op, "p"), &t, &p);
    if (!c->failed) draw(c, TD_DRAW_COIN, td__value_f(p));
}

/* ---- by row --------------------------------------------------------------- */

/* The recipe named in the op's row; an in-place op computes the elements of its
 * functional twin. */
static void by_row(builder *c) {
    td_op op = c->p->writes ? td__opinfo(c->node->op)->pure : c->node->op;
    switch ((td_element)td__row(op)->element) {
    case TD_EL_CALLED:
        if (op == TD_OP_constant_pad_nd) pad(c);
        else c->failed = true;
        break;
    case TD_EL_COPY: copy_of(c, 0); break;
    case TD_EL_COPY_INTO: copy_exactly(c); break;
    case TD_EL_ZERO: constant(c, td_value_int(0)); break;
    case TD_EL_ONE: constant(c, td_value_int(1)); break;
    case TD_EL_VALUE: constant_arg(c, td__op_arg(c->node->op, "value")); break;
    case TD_EL_RANGE: arange(c); break;
    case TD_EL_SUM: fold_sum(c, TD_FOLD_SUM); break;
    case TD_EL_PROD: fold_sum(c, TD_FOLD_PROD); break;
    case TD_EL_MAX: fold(c, TD_FOLD_MAX, TD_DTYPE_NONE); break;
    case TD_EL_MIN: fold(c, TD_FOLD_MIN, TD_DTYPE_NONE); break;
    case TD_EL_ALL: fold_truth(c, TD_FOLD_MIN); break;
    case TD_EL_ANY: fold_truth(c, TD_FOLD_MAX); break;
    case TD_EL_UNIFORM: draw(c, TD_DRAW_UNIFORM, 0); break;
    case TD_EL_NORMAL: draw(c, TD_DRAW_NORMAL, 0); break;
    case TD_EL_COIN: coins(c); break;
    }
}

/* Copies the recipe to the point. False after td__fail. */
static bool finish(builder *c) {
    td_point *p = c->p;
    td_arena *a = &c->l->arena;
    p->n_in = c->n_in;
    p->n_stmt = c->n;
    p->in = td__arena_alloc(a, sizeof *p->in * (size_t)(c->n_in + 1));
    p->stmt = td__arena_alloc(a, sizeof *p->stmt * (size_t)c->n);
    if (!p->in || !p->stmt) return td__fail_memory(c->l->g->cx);
    memcpy(p->in, c->in, sizeof *p->in * (size_t)c->n_in);
    memcpy(p->stmt, c->s, sizeof *p->stmt * (size_t)c->n);
    return true;
}

/* Do loops run where the result is? On a device that has kernels, if no size can be 0;
 * the first such device of a graph. */
static bool has_loops(td_lowered *l, const td_gtype *type) {
    if (!type->device) return true;
    if (!l->device && td__device_has_loops(type->device)) l->device = type->device;
    if (l->device != type->device) return false;
    for (int d = 0; d < type->rank; d++)
        if (td__gdim_least(l->g, type->size[d]) < 1) return false;
    return true;
}

/* Are all operands where the result is, with at least one element? */
static bool is_together(const builder *c) {
    const td_gtype *to = c->p->v->type;
    for (int k = 0; k < c->n_in; k++) {
        const td_gtype *l = c->in[k].root ? c->in[k].root->type : to;
        if (l->device != to->device) return false;
    }
    for (int d = 0; to->device && d < c->space->rank; d++)
        if (td__gdim_least(c->l->g, c->space->size[d]) < 1) return false;
    return true;
}

static bool is_complex(const td_gval *v) {
    return v->type && v->type->kind == TD_K_TENSOR &&
           td__is_complex((td_dtype)v->type->dtype);
}

/* Does the op read or return complex tensors? The emitter has no complex type. */
static bool has_complex(const td_gnode *n) {
    for (int i = 0; i < n->n_out; i++)
        if (is_complex(n->out[i])) return true;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i].kind == TD_G_VALUE && is_complex(n->in[i].u.v)) return true;
    return false;
}

/* The statements that compute one element of p, if loops can compute its op at all.
 * False, without an error: the op is called instead. */
bool td__recipe(td_lowered *l, td_point *p) {
    builder c = {.l = l, .p = p, .node = p->v->node, .space = p->v->type};
    /* of a tensor without elements nothing is stored, not even once per row */
    if (td__gtype_is_empty(c.space) || !has_loops(l, c.space)) return false;
    if (has_complex(c.node)) return false;
    if (!p->writes && p->v->type->offset != 0)
        return false; /* results begin at offset 0 */
    if (td__row(c.node->op)->flags & TD_OPF_POINTWISE) pointwise(&c);
    else by_row(&c);
    if (c.failed || c.n == 0) return false;
    if (!is_together(&c)) return false;
    const td_gval *to = p->writes ? tensor_arg(c.node, 0) : p->v;
    if (!p->reach && !p->tail && (!to || !td__access_of(l, to, p->v->type, &p->own)))
        return false;
    if (p->writes && c.in[0].root && /* a copy onto itself */
        l->bytes_of[c.in[0].root->id] == l->bytes_of[p->own.root->id])
        return false;
    return finish(&c);
}
