/* call_nest.c -- an op call as a loop nest: pointwise rows, copies, constants and
 * reductions. */
#include "device/device_int.h"
#include "kernels/pointwise.h"
#include "rules/reduce_dims.h"

#include <string.h>

/* ---- parts of a nest ---------------------------------------------------- */

/* Appends a statement and returns its index. */
static int add(td_call_nest *t, td_stmt s) {
    t->failed |= !td__vec_push(&t->nest.stmt, s);
    return t->nest.stmt.n - 1;
}

/* A parameter of the kernel; equal numbers get different ones, so that the text does
 * not depend on them. */
static td_extent param(td_call_nest *t, int64_t n) {
    if (t->nest.n_sizes == TD_DEVICE_SIZES) {
        t->failed = true;
        return (td_extent){n, -1};
    }
    t->run.size[t->nest.n_sizes] = n;
    return (td_extent){1, t->nest.n_sizes++};
}

static td_extent stride_of(td_call_nest *t, int64_t n) {
    return n == 0 || n == 1 ? (td_extent){n, -1} : param(t, n);
}

/* A pointer to memory of this dtype; -1: too many. */
static int pointer(td_call_nest *t, void *at, int dtype, bool written) {
    int k = t->nest.ptr.n;
    t->failed |=
        k == TD_DEVICE_PTRS ||
        !td__vec_push(&t->nest.ptr, ((td_pointer){(uint8_t)dtype, written, false}));
    if (!t->failed) t->run.ptr[k] = at;
    return k;
}

/* Room for the strides of one access, outermost dim first. */
static td_extent *new_strides(td_call_nest *t) {
    t->failed |= t->n_strides == 16;
    return t->strides[t->failed ? 0 : t->n_strides++];
}

static int load(td_call_nest *t, int dtype, void *at, const td_extent *stride) {
    return add(t, (td_stmt){.kind = TD_S_LOAD,
                            .dtype = (uint8_t)dtype,
                            .ptr = (int16_t)pointer(t, at, dtype, false),
                            .stride = stride});
}

static void store(td_call_nest *t, int value, int dtype, void *at,
                  const td_extent *stride) {
    td_stmt s = {.kind = TD_S_STORE,
                 .dtype = (uint8_t)dtype,
                 .n = 1,
                 .ptr = (int16_t)pointer(t, at, dtype, true),
                 .stride = stride};
    s.a[0] = value;
    add(t, s);
}

static int cast(td_call_nest *t, int a, td_dtype to) {
    td_stmt s = {.kind = TD_S_CAST, .dtype = (uint8_t)to, .n = 1};
    if (t->failed || t->nest.stmt.v[a].dtype == to) return a;
    s.a[0] = a;
    return add(t, s);
}

/* A number of the run, in the C type of a variable of that dtype. */
static int given(td_call_nest *t, td_dtype dt, int64_t bits) {
    int k = t->nest.n_given;
    t->failed |= k == TD_DEVICE_GIVEN;
    if (t->failed) return 0;
    t->run.given[k] = bits;
    t->nest.n_given++;
    return add(t,
               (td_stmt){.kind = TD_S_GIVEN, .dtype = (uint8_t)dt, .ptr = (int16_t)k});
}

/* ---- elements ----------------------------------------------------------- */

/* The dims of a result and its operands, joined and in the order of memory. */
static bool set_dims(td_call_nest *t, const td_iter *it) {
    td_nest *n = &t->nest;
    if (it->rank > TD_NEST_DIMS) return false;
    n->n_dims = it->rank;
    t->rows = 1;
    t->inside = 1;
    for (int d = 0; d < it->rank; d++) {
        n->size[d] = param(t, it->size[it->rank - 1 - d]);
        t->inside *= it->size[d];
    }
    return true;
}

/* Strides of operand k, in elements. */
static const td_extent *strides_at(td_call_nest *t, const td_iter *it, int k,
                                   int dtype) {
    td_extent *s = new_strides(t);
    for (int d = 0; d < it->rank; d++)
        s[d] = stride_of(t, it->stride[k][it->rank - 1 - d] / td__dtype_bytes[dtype]);
    return s;
}

/* The arguments of a call as a description takes them: tensors without elements. */
static void describe_args(const td_opcall *c, td_tensor *t, td_value *in) {
    for (int i = 0; i < c->n_in; i++) {
        const td_tensor *x = td__in(c, i);
        in[i] = c->in[i];
        if (!x) continue;
        t[i] = (td_tensor){.dtype = x->dtype, .rank = x->rank, .numel = 1};
        in[i] = td_value_tensor(&t[i]);
    }
}

static td_compute compute_of(td_dtype loop) {
    return loop == TD_F32   ? TD_COMPUTE_F32
           : loop == TD_F64 ? TD_COMPUTE_F64
           : loop == TD_I64 ? TD_COMPUTE_I64
                            : TD_COMPUTE_I32;
}

/* A pointwise call as its row describes it: the argument of each operand, and the
 * layout. */
typedef struct described {
    td_pw            w;
    td_tensor        t[TD_MAX_ARGS];
    const td_tensor *x[TD_RUN_OPERANDS]; /* the result, then operands; NULL: a number */
    td_iter          it;
} described;

static bool describe(described *p, td_opcall *c) {
    td_value in[TD_MAX_ARGS];
    memset(&p->w, 0, sizeof p->w);
    describe_args(c, p->t, in);
    td_op op = (td_op)(c->def - td__ops);
    if (op >= TD_OP_COUNT ||
        !td__pw_describe(c->cx, &p->w, op, in, (td_dtype)c->out[0]->dtype))
        return false;
    p->x[0] = c->out[0];
    for (int k = 0; k < p->w.n; k++)
        p->x[k + 1] = p->w.in[k].kind == TD_K_TENSOR
                          ? td__in(c, (int)(p->w.in[k].u.t - p->t))
                          : NULL;
    td__iter_build(&p->it, p->x, p->w.n + 1);
    return true;
}

/* Operand k as the row's expression reads it. */
static int operand(td_call_nest *t, const described *p, int k) {
    const td_pw     *w = &p->w;
    td_dtype         type = td__pw_compute_dtype(w->common);
    const td_tensor *x = p->x[k + 1];
    if (!x) return given(t, type, td__pw_number(w, w->in[k]));
    int v = load(t, x->dtype, td__ptr(x), strides_at(t, &p->it, k + 1, x->dtype));
    if (w->masks >> k & 1) return v;
    return cast(t, v, td__pw_keeps(w, x) ? type : w->common);
}

/* The numbers that the row's expression reads; the rest is 0, because nests are
 * compared whole. */
static void set_scalars(td_call_nest *t, const td_pw *w) {
    size_t n = td__pw_args(td__row(w->op))->n_scalars;
    memcpy(t->scalars.f, w->p.f, sizeof *w->p.f * n);
    memcpy(t->scalars.i, w->p.i, sizeof *w->p.i * n);
}

/* Operands, the row's expression, a cast to the result's dtype. */
static bool pointwise(td_call_nest *t, td_opcall *c) {
    described p;
    if (!describe(&p, c) || !set_dims(t, &p.it)) return false;
    td_dtype type = td__pw_compute_dtype(p.w.common);
    td_dtype out = (td_dtype)c->out[0]->dtype;
    bool     truth = td__row(p.w.op)->dtypes & TD_DT_BOOL_OUT;
    td_stmt  s = {.kind = TD_S_EXPR, .op = p.w.op, .masks = p.w.masks};
    s.compute = (uint8_t)compute_of(type);
    s.dtype = (uint8_t)(truth                               ? TD_BOOL
                        : td__pw_compute_dtype(out) == type ? out
                                                            : type);
    s.n = (uint8_t)p.w.n;
    for (int k = 0; k < p.w.n && !t->failed; k++) s.a[k] = operand(t, &p, k);
    set_scalars(t, &p.w);
    s.p = &t->scalars;
    store(t, cast(t, add(t, s), out), out, td__ptr(c->out[0]),
          strides_at(t, &p.it, 0, out));
    return !t->failed;
}

static bool is_complex(const td_tensor *t) {
    return td__is_complex((td_dtype)t->dtype);
}

bool td__copy_nest(td_call_nest *t, td_tensor *dst, const td_tensor *src) {
    const td_tensor *x[2] = {dst, src};
    td_iter          it;
    *t = (td_call_nest){0};
    if (dst->numel == 0 || td__may_share_places(dst)) return false;
    if (is_complex(dst) || is_complex(src)) return false;
    td__iter_build(&it, x, 2);
    if (!set_dims(t, &it)) return false;
    int v = load(t, src->dtype, td__ptr(src), strides_at(t, &it, 1, src->dtype));
    store(t, cast(t, v, (td_dtype)dst->dtype), dst->dtype, td__ptr(dst),
          strides_at(t, &it, 0, dst->dtype));
    return !t->failed;
}

/* A nest that stores one value to all elements. */
static bool constant(td_call_nest *t, td_tensor *out, td_value v) {
    td_dtype         dt = (td_dtype)out->dtype, held = td__pw_compute_dtype(dt);
    const td_tensor *x[1] = {out};
    td_iter          it;
    int64_t          narrow = 0, wide = 0;
    if (v.kind != TD_K_INT && v.kind != TD_K_FLOAT && v.kind != TD_K_BOOL) return false;
    if (is_complex(out)) return false;
    td__store_value(dt, &narrow, v); /* rounded, then widened to the variable's type */
    if (td__is_float(dt)) td__store_f(held, &wide, td__load_f(dt, &narrow));
    else td__store_i(held, &wide, td__load_i(dt, &narrow));
    td__iter_build(&it, x, 1);
    if (!set_dims(t, &it)) return false;
    store(t, cast(t, given(t, held, wide), dt), dt, td__ptr(out),
          strides_at(t, &it, 0, dt));
    return !t->failed;
}

bool td__fill_nest(td_call_nest *t, td_tensor *dst, td_value number) {
    *t = (td_call_nest){0};
    return dst->numel > 0 && !td__may_share_places(dst) && constant(t, dst, number);
}

/* ---- reductions --------------------------------------------------------- */

/* Rows are the dims that stay, in the result's order; the inside the folded ones. */
static bool set_rows(td_call_nest *t, const td_tensor *x, const td_tensor *out,
                     const bool *folded, td_extent *in, td_extent *to) {
    td_nest *n = &t->nest;
    bool     keep = out->rank == x->rank;
    if (x->rank > TD_NEST_DIMS) return false;
    t->rows = t->inside = 1;
    for (int pass = 0; pass < 2; pass++)
        for (int d = 0, at = 0; d < x->rank; d++) {
            int64_t step = folded[d] ? 0 : out->stride[at];
            if (keep || !folded[d]) at++;
            if (folded[d] != pass) continue;
            n->size[n->n_dims] = param(t, x->size[d]);
            in[n->n_dims] = stride_of(t, x->stride[d]);
            to[n->n_dims++] = stride_of(t, step);
            n->n_outer += !pass;
            *(pass ? &t->inside : &t->rows) *= x->size[d];
        }
    return true;
}

/* `as`: the dtype to which elements are cast first; TD_DTYPE_NONE: none. */
static bool fold(td_call_nest *t, td_opcall *c, td_fold how, td_dtype as) {
    td_tensor *x = td__in(c, 0), *out = c->out[0];
    td_dtype   dt = (td_dtype)out->dtype;
    bool     folded[TD_MAX_RANK + 1], sums = how == TD_FOLD_SUM || how == TD_FOLD_PROD;
    int      arg = td__op_arg(c->info->op, "dim");
    td_value dims = arg >= 0 ? c->in[arg] : td_value_none();
    td_extent *in = new_strides(t), *to = new_strides(t);
    td__reduce_mask(&dims, x->rank, true, folded);
    if (!set_rows(t, x, out, folded, in, to)) return false;
    int v = load(t, x->dtype, td__ptr(x), in);
    if (as != TD_DTYPE_NONE) v = cast(t, v, as);
    td_dtype acc = t->failed ? dt : (td_dtype)t->nest.stmt.v[v].dtype;
    if (sums) acc = !td__is_float(dt) ? TD_I64 : dt == TD_F64 ? TD_F64 : TD_F32;
    td_stmt s = {.kind = TD_S_REDUCE, .how = (uint8_t)how, .n = 1};
    s.a[0] = cast(t, v, acc);
    s.dtype = (uint8_t)acc;
    store(t, cast(t, add(t, s), dt), dt, td__ptr(out), to);
    return !t->failed;
}

static bool fold_sum(td_call_nest *t, td_opcall *c, td_fold how) {
    int arg = td__op_arg(c->info->op, "dtype");
    return fold(t, c, how,
                arg >= 0 ? td__in_dtype(c, arg, TD_DTYPE_NONE) : TD_DTYPE_NONE);
}

/* all and any: the least and the largest of x != 0. An empty list of dims reduces
 * none. */
static bool fold_truth(td_call_nest *t, td_opcall *c, td_fold how) {
    int arg = td__op_arg(c->info->op, "dim");
    if (td__in(c, 0)->dtype == TD_U8 ||
        (arg >= 0 && c->in[arg].kind == TD_K_INTS && c->in[arg].n == 0))
        return false;
    return fold(t, c, how, TD_BOOL);
}

/* ---- calls -------------------------------------------------------------- */

/* The nest for the element expression in the op's row. */
static bool by_row(td_call_nest *t, td_opcall *c) {
    td_tensor *out = c->out[0];
    int        value = td__op_arg(c->info->op, "value");
    switch ((td_element)c->def->element) {
    case TD_EL_COPY: return td__copy_nest(t, out, td__in(c, 0));
    case TD_EL_COPY_INTO: return td__copy_nest(t, out, td__in(c, 1));
    case TD_EL_ZERO: return constant(t, out, td_value_int(0));
    case TD_EL_ONE: return constant(t, out, td_value_int(1));
    case TD_EL_VALUE: return value >= 0 && constant(t, out, c->in[value]);
    case TD_EL_SUM: return fold_sum(t, c, TD_FOLD_SUM);
    case TD_EL_PROD: return fold_sum(t, c, TD_FOLD_PROD);
    case TD_EL_MAX: return fold(t, c, TD_FOLD_MAX, TD_DTYPE_NONE);
    case TD_EL_MIN: return fold(t, c, TD_FOLD_MIN, TD_DTYPE_NONE);
    case TD_EL_ALL: return fold_truth(t, c, TD_FOLD_MIN);
    case TD_EL_ANY: return fold_truth(t, c, TD_FOLD_MAX);
    default: return false;
    }
}

/* A call without elements, or with an empty operand, runs on the CPU, whose kernels
 * define its result. */
bool td__call_nest(td_call_nest *t, td_opcall *c) {
    *t = (td_call_nest){0};
    if (c->n_out != 1 || !c->out[0] || c->out[0]->numel == 0) return false;
    if (is_complex(c->out[0])) return false; /* no device text of complex numbers */
    for (int i = 0; i < c->n_in; i++)
        if (td__in(c, i) && (td__in(c, i)->numel == 0 || is_complex(td__in(c, i))))
            return false;
    return c->def->flags & TD_OPF_POINTWISE ? pointwise(t, c) : by_row(t, c);
}

void td__call_nest_free(td_call_nest *t) {
    td__vec_free(&t->nest.stmt);
    td__vec_free(&t->nest.ptr);
}
