/* kern_pointwise.c -- kernels of pointwise ops: from a call to a run of the op's
 * loop. Small dense calls take a short way past the iterator. Rows with options
 * (rounding modes, absent bounds, exponents with a cheaper form) choose a loop. */
#include "kernels/pointwise.h"
#include "ops/cast.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const uint8_t compute_of[TD_DTYPE_COUNT] = {
#define TD_DTYPE(id, text, bytes, klass, c, loop, ...) [TD_##id] = TD_COMPUTE_##loop,
#include "core/dtype.def"
#undef TD_DTYPE
};
static const uint8_t compute_dtype[TD_COMPUTE_COUNT] = {
    [TD_COMPUTE_F32] = TD_F32, [TD_COMPUTE_F64] = TD_F64, [TD_COMPUTE_I32] = TD_I32,
    [TD_COMPUTE_I64] = TD_I64, [TD_COMPUTE_C64] = TD_C64, [TD_COMPUTE_C128] = TD_C128};

/* ---- the way for dense tensors ------------------------------------------ */

/* All tensors row-major, of the output's element count and the loop's types. */
typedef struct dense {
    td_loop_fn       *loop;
    const td_scalars *p;
    td_convert_fn    *fill;
    int               n_in;
    uint8_t           bytes[TD_RUN_OPERANDS]; /* per element; 0: a number */
    char             *ptr[TD_RUN_OPERANDS];   /* the output first */
    td_element_bits   number[TD_LOOP_INPUTS];
    uint8_t           width; /* bytes of the loop's type */
} dense;

static void dense_part(void *arg, int64_t begin, int64_t end) {
    const dense *d = arg;
    const void  *in[TD_LOOP_INPUTS];
    for (int k = 0; k < d->n_in; k++) in[k] = d->ptr[k + 1] + begin * d->bytes[k + 1];
    d->loop(end - begin, d->ptr[0] + begin * d->bytes[0], in, d->p);
}

/* With numbers among the operands: each fills a buffer once, and the range goes by
 * in chunks of that length. */
static void dense_part_numbers(void *arg, int64_t begin, int64_t end) {
    _Alignas(64) char buf[TD_LOOP_INPUTS][TD_RUN_CHUNK * sizeof(td_element_bits)];
    const dense      *d = arg;
    int64_t           most = end - begin < TD_RUN_CHUNK ? end - begin : TD_RUN_CHUNK;
    const void       *in[TD_LOOP_INPUTS];
    for (int k = 0; k < d->n_in; k++)
        if (!d->bytes[k + 1])
            d->fill(most, buf[k], d->width, (const char *)&d->number[k], 0);
    for (int64_t i = begin, n; i < end; i += n) {
        n = end - i < most ? end - i : most;
        for (int k = 0; k < d->n_in; k++)
            in[k] = d->bytes[k + 1] ? d->ptr[k + 1] + i * d->bytes[k + 1] : buf[k];
        d->loop(n, d->ptr[0] + i * d->bytes[0], in, d->p);
    }
}

/* Is a number operand of halves passed to the loop, which computes in f32, without
 * rounding it to the half first? */
static bool is_exact_number(const td_pw *w) {
    return td__is_half(w->common) && td__row(w->op)->dtypes & TD_DT_EXACT_NUMBER;
}

/* The bits of number operand v in the type the loop computes in. */
static td_element_bits number_bits(const td_pw *w, const td_isa *isa, td_value v) {
    td_dtype        loop = (td_dtype)compute_dtype[compute_of[w->common]];
    td_element_bits narrow = {{0}}, bits = {{0}};
    bool            keep = is_exact_number(w);
    td__store_value(keep ? loop : w->common, &narrow, v);
    if (keep || loop == w->common) return narrow;
    isa->convert[w->common][loop](1, (char *)&bits, 8, (const char *)&narrow, 8);
    return bits;
}

/* Is t a row-major tensor of n elements of this dtype? n is not 0. */
static inline bool is_plain(const td_tensor *t, int64_t n, td_dtype dt) {
    if (t->numel != n || t->dtype != dt) return false;
    int64_t step = 1;
    for (int d = t->rank - 1; d >= 0; d--) {
        if (t->stride[d] != step && t->size[d] != 1) return false;
        step *= t->size[d];
    }
    return true;
}

/* All operands are row-major, of one dtype that is the loop's, or numbers: no iterator
 * is needed. False: they are not. */
static bool run_dense(const td_pw *w, const td_isa *isa, td_loop_fn *loop,
                      td_tensor *out, td_dtype out_type) {
    dense    d; /* large: only what is read gets set */
    int64_t  n = out->numel;
    bool     numbers = false;
    td_dtype dt = w->common;
    if (!is_plain(out, n, out_type)) return false;
    for (int k = 0; k < w->n; k++) {
        bool mask = w->masks >> k & 1;
        if (w->in[k].kind == TD_K_TENSOR) {
            td_tensor *t = w->in[k].u.t;
            if (!is_plain(t, n, mask ? TD_BOOL : dt)) return false;
            d.ptr[k + 1] = td__ptr(t);
            d.bytes[k + 1] = mask ? 1 : td__dtype_bytes[dt];
            continue;
        }
        d.bytes[k + 1] = 0;
        d.number[k] = number_bits(w, isa, w->in[k]);
        numbers = true;
    }
    d.loop = loop;
    d.p = &w->p;
    d.n_in = w->n;
    d.width = td__dtype_bytes[dt];
    d.fill = isa->convert[dt][dt];
    d.ptr[0] = td__ptr(out);
    d.bytes[0] = td__dtype_bytes[out_type];
    td_pool_fn *part = numbers ? dense_part_numbers : dense_part;
    if (n <= TD_RUN_GRAIN) part(&d, 0, n);
    else td__pool_run(n, TD_RUN_GRAIN, part, &d);
    return true;
}

/* ---- the general way ----------------------------------------------------- */

bool td__pw_keeps(const td_pw *w, const td_tensor *t) {
    return td__is_half(w->common) && t->rank == 0 &&
           td__row(w->op)->dtypes & TD_DT_EXACT_0_DIM;
}

static td_side input_side(const td_pw *w, const td_isa *isa, int k, td_dtype loop) {
    bool     mask = w->masks >> k & 1;
    td_dtype to = mask ? TD_BOOL : loop, from = to, via = to;
    td_side  s = {.loop = td__dtype_bytes[to]};
    if (w->in[k].kind == TD_K_TENSOR) {
        td_tensor *t = w->in[k].u.t;
        from = (td_dtype)t->dtype;
        if (!mask && from != w->common && w->common != loop && !td__pw_keeps(w, t)) {
            via = w->common;
            s.widen = isa->convert[via][loop];
            s.via = td__dtype_bytes[via];
        }
    }
    s.same = from == to;
    s.mem = td__dtype_bytes[from];
    s.convert = isa->convert[from][via];
    return s;
}

/* Any strides and dtypes: describes the operands to the iterator (iter.h). */
static void run_general(const td_pw *w, const td_isa *isa, td_loop_fn *loop,
                        td_tensor *out, td_dtype loop_out) {
    td_run           r;
    const td_tensor *t[TD_RUN_OPERANDS] = {out};
    td_dtype         type = (td_dtype)compute_dtype[compute_of[w->common]];
    td_dtype         mem = (td_dtype)out->dtype;
    r.loop = loop;
    r.isa = isa;
    r.p = w->p;
    r.side[0] = (td_side){.convert = isa->convert[loop_out][mem],
                          .same = mem == loop_out,
                          .mem = td__dtype_bytes[mem],
                          .loop = td__dtype_bytes[loop_out]};
    for (int k = 0; k < w->n; k++) {
        t[k + 1] = w->in[k].kind == TD_K_TENSOR ? w->in[k].u.t : NULL;
        r.side[k + 1] = input_side(w, isa, k, type);
    }
    td__iter_build(&r.it, t, w->n + 1);
    for (int k = 0; k < w->n; k++) {
        if (t[k + 1]) continue;
        r.number[k + 1] = number_bits(w, isa, w->in[k]);
        r.it.ptr[k + 1] = (char *)&r.number[k + 1];
    }
    td__run(&r);
}

/* Takes operands, numbers and the common dtype from a call whose shape rule has run.
 * Numbers of bool computations are 0 or 1. */
void td__pw_begin(td_pw *w, td_opcall *c) {
    const td_pw_args *a = td__pw_args(c->def);
    w->op = (td_op)(c->def - td__ops);
    w->n = a->n_in;
    w->masks = a->masks;
    w->common = c->def->dtypes & (TD_DT_BOOL_OUT | TD_DT_REAL_OUT) ? td__pw_common(c, a)
                                                                   : c->meta[0].dtype;
    for (int k = 0; k < a->n_in; k++) w->in[k] = c->in[a->in[k]];
    for (int k = 0; k < a->n_scalars; k++) {
        w->p.f[k] = td__value_f(c->in[a->scalar[k]]);
        w->p.i[k] = td__value_i(c->in[a->scalar[k]]);
        if (w->common != TD_BOOL) continue;
        w->p.i[k] = w->p.f[k] != 0; /* true, which no number of terms takes back */
        w->p.f[k] = (double)w->p.i[k];
    }
}

/* Stores the run for td__pw_describe instead of doing it; false: it is the second, and
 * a call of two runs has no description. */
static bool record(const td_pw *w, td_opcall *c) {
    bool first = c->describe->op == TD_OP_COUNT;
    *c->describe = *w;
    return first;
}

/* Runs the loop of w->op, or, while a call is only described (c->describe), records
 * it. */
bool td__pw_run(td_pw *w, td_opcall *c) {
    if (TD_UNLIKELY(c->describe)) return record(w, c);
    const td_isa *isa = td__isa();
    int           type = compute_of[w->common];
    td_loop_fn   *loop = isa->loops[type][w->op];
    td_tensor    *out = c->out[0];
    unsigned      dtypes = td__row(w->op)->dtypes;
    if (!loop)
        return td__op_fail(c, TD_E_DTYPE, "is not defined on %s",
                           td_dtype_name(w->common));
    if (out->numel == 0) return true;
    td_dtype loop_out = (td_dtype)compute_dtype[type];
    if (dtypes & TD_DT_BOOL_OUT) loop_out = TD_BOOL;
    if (dtypes & TD_DT_REAL_OUT) loop_out = td__real_of(loop_out);
    if (compute_dtype[type] == w->common && run_dense(w, isa, loop, out, loop_out))
        return true;
    run_general(w, isa, loop, out, loop_out);
    return true;
}

/* The kernel of most rows. */
bool td__kern_pointwise(td_opcall *c) {
    td_pw w;
    td__pw_begin(&w, c);
    return td__pw_run(&w, c);
}

/* ATen converts both numbers to the dtype of the tensor; in u8, -1 becomes 255. */
bool td__kern_threshold(td_opcall *c) {
    td_pw w;
    td__pw_begin(&w, c);
    for (int k = 0; k < 2 && w.common == TD_U8; k++) w.p.i[k] = (uint8_t)w.p.i[k];
    return td__pw_run(&w, c);
}

td_dtype td__pw_compute_dtype(td_dtype common) {
    return (td_dtype)compute_dtype[compute_of[common]];
}

int64_t td__pw_number(const td_pw *w, td_value v) {
    return number_bits(w, td__isa(), v).word[0];
}

/* Runs the row's own kernel on tensors without elements, with c->describe set: the
 * kernel chooses the loop as it would for a call. */
bool td__pw_describe(td_ctx *cx, td_pw *w, td_op op, const td_value *in, td_dtype out) {
    td_value  args[TD_MAX_ARGS];
    td_meta   meta = {.dtype = out};
    td_tensor none = {.numel = 0, .dtype = (uint8_t)out}, *result = &none;
    td_opcall c = {.cx = cx, .def = td__row(op), .info = td__opinfo(op)};
    c.in = args;
    c.n_in = c.info->s.n_in;
    c.n_out = 1;
    c.out = &result;
    c.meta = &meta;
    c.describe = w;
    for (int i = 0; i < c.n_in; i++) args[i] = in[i];
    w->op = TD_OP_COUNT;
    if (!c.def->cpu(&c) || w->op == TD_OP_COUNT) return false;
    if (td__is_complex(w->common)) return false; /* the emitter has no complex type */
    if (c.def->flags & TD_OPF_PICKY && !td__is_float(w->common)) return false;
    return td__isa()->loops[compute_of[w->common]][w->op] != NULL;
}

/* ---- rows that choose a loop --------------------------------------------- */

/* The call's operands with the loop of another op. */
static bool run_op(td_opcall *c, td_op op) {
    td_pw w;
    td__pw_begin(&w, c);
    w.op = op;
    return td__pw_run(&w, c);
}

/* Bits of a bool are not its truth value: bool has a loop of its own. */
bool td__kern_bitwise_not(td_opcall *c) {
    return run_op(c,
                  td__in(c, 0)->dtype == TD_BOOL ? TD_OP_not_bool : TD_OP_bitwise_not);
}

/* in: a, approximate. */
bool td__kern_gelu(td_opcall *c) {
    return run_op(c, strcmp(c->in[1].u.s, "tanh") ? TD_OP_gelu_erf : TD_OP_gelu_tanh);
}

bool td__kern_gelu_backward(td_opcall *c) {
    return run_op(c, strcmp(c->in[2].u.s, "tanh") ? TD_OP_gelu_erf_backward
                                                  : TD_OP_gelu_tanh_backward);
}

/* Rounds at 10^decimals, or 10^-decimals when that is what is whole. */
bool td__kern_round(td_opcall *c) {
    int64_t decimals = td__in_int(c, 1);
    td_pw   w;
    td__pw_begin(&w, c);
    if (decimals == 0 || !td__is_float(w.common)) return td__pw_run(&w, c);
    w.op = decimals < 0 ? TD_OP_round_tens : TD_OP_round_decimals;
    w.p.f[0] = pow(10.0, fabs((double)decimals));
    return td__pw_run(&w, c);
}

/* ---- division ------------------------------------------------------------ */

/* Looks for a zero in an integer tensor whose elements are converted to dtype `to`:
 * of a 0-dim i64 tensor beside an i32 tensor, the low 32 bits. */
static bool has_zero(const td_tensor *t, td_dtype to) {
    int64_t buf[256], idx[TD_MAX_RANK] = {0};
    int     above = 64 - 8 * (int)td_dtype_size(to);
    td_iter it;
    if (t->numel == 0) return false;
    td__iter_build(&it, &t, 1);
    td_convert_fn *cast = td__isa()->convert[t->dtype][TD_I64];
    for (char *row = it.ptr[0];;) {
        for (int64_t i = 0, n; i < it.size[0]; i += n) {
            n = it.size[0] - i < TD_COUNT(buf) ? it.size[0] - i : TD_COUNT(buf);
            cast(n, (char *)buf, 8, row + i * it.stride[0][0], it.stride[0][0]);
            for (int64_t k = 0; k < n; k++)
                if ((uint64_t)buf[k] << above == 0) return true;
        }
        int d = 1;
        for (; d < it.rank; d++) {
            row += it.stride[0][d];
            if (++idx[d] < it.size[d]) break;
            row -= it.size[d] * it.stride[0][d];
            idx[d] = 0;
        }
        if (d == it.rank) return false;
    }
}

/* Integer division by 0 would trap: looks for a zero in b before the loop runs. True
 * after td__op_fail. */
static bool divides_by_zero(const td_pw *w, td_opcall *c) {
    if (td__is_differentiable(w->common) || c->out[0]->numel == 0) return false;
    td_value b = w->in[1];
    if (b.kind == TD_K_TENSOR ? !has_zero(b.u.t, w->common) : td__value_i(b) != 0)
        return false;
    td__op_fail(c, TD_E_ARG, "integer division by zero");
    return true;
}

/* Between tensors of half floats ATen rounds the quotient before it truncates. */
static bool divide_trunc(td_pw *w, td_opcall *c) {
    td_value b = w->in[1];
    bool     twice = td__is_half(w->common) && c->out[0]->dtype == w->common &&
                 b.kind == TD_K_TENSOR && b.u.t->rank > 0;
    w->op = twice ? TD_OP_div : TD_OP_div_trunc;
    if (divides_by_zero(w, c) || !td__pw_run(w, c)) return false;
    if (!twice) return true;
    w->op = TD_OP_trunc;
    w->n = 1;
    w->in[0] = td_value_tensor(c->out[0]);
    return td__pw_run(w, c);
}

/* remainder, fmod and floor_divide. */
bool td__kern_int_div(td_opcall *c) {
    td_pw w;
    td__pw_begin(&w, c);
    return !divides_by_zero(&w, c) && td__pw_run(&w, c);
}

/* in: a, b, rounding_mode. */
bool td__kern_div(td_opcall *c) {
    const char *mode = c->in[2].u.s;
    td_pw       w;
    td__pw_begin(&w, c);
    if (!*mode) return td__pw_run(&w, c);
    if (*mode == 't') return divide_trunc(&w, c);
    w.op = TD_OP_floor_divide;
    return !divides_by_zero(&w, c) && td__pw_run(&w, c);
}

bool td__kern_div_trunc(td_opcall *c) {
    td_pw w;
    td__pw_begin(&w, c);
    return divide_trunc(&w, c);
}

/* ---- powers -------------------------------------------------------------- */

/* Exponents that ATen computes by other means than pow; the roots not in f16. */
static td_op cheap_power(double e, td_dtype dt) {
    if (e == 0.5 && dt != TD_F16) return TD_OP_sqrt;
    if (e == -0.5 && dt != TD_F16) return TD_OP_rsqrt;
    if (e == -1.0) return TD_OP_reciprocal;
    if (e == -2.0) return TD_OP_pow_minus_2;
    if (e == 3.0) return TD_OP_pow_3;
    return TD_OP_COUNT;
}

/* The same of complex numbers: their other powers are exponentials of logarithms. */
static td_op cheap_complex_power(double e) {
    return e == 0.5    ? TD_OP_sqrt
           : e == -0.5 ? TD_OP_rsqrt
           : e == -1.0 ? TD_OP_reciprocal
           : e == 3.0  ? TD_OP_pow_3
                       : TD_OP_COUNT;
}

/* in: a, b. A tensor exponent has the general loop; numbers that ATen computes
 * otherwise take that loop, for equal bits. */
bool td__kern_pow(td_opcall *c) {
    td_pw w;
    td__pw_begin(&w, c);
    if (w.in[1].kind == TD_K_TENSOR) return td__pw_run(&w, c);
    double e = td__value_f(w.in[1]);
    td_op  cheap = td__is_float(w.common) ? cheap_power(e, w.common) : TD_OP_COUNT;
    if (td__is_complex(w.common)) {
        if (e == 0.0) return td__fill(c->out[0], td_value_int(1));
        cheap = cheap_complex_power(e);
    }
    if (e == 2.0) {
        w.op = TD_OP_mul;
        w.in[1] = w.in[0];
    } else if (cheap != TD_OP_COUNT) {
        w.op = cheap;
        w.n = 1;
    }
    return td__pw_run(&w, c);
}

/* ---- bounds and replacements --------------------------------------------- */

/* in: a, min, max as numbers; an absent bound is the end of the range. */
bool td__kern_clamp(td_opcall *c) {
    td_pw w;
    td__pw_begin(&w, c);
    for (int k = 0; k < 2; k++) {
        td_value bound = td__clamp_bound(c->in[1 + k], k == 0, w.common);
        w.p.f[k] = td__value_f(bound);
        w.p.i[k] = td__value_i(bound);
    }
    return td__pw_run(&w, c);
}

/* in: a, bound, a number or a tensor. */
static bool clamp_one(td_opcall *c, bool is_min) {
    td_pw w;
    td__pw_begin(&w, c);
    w.in[1] = td__clamp_bound(w.in[1], is_min, w.common);
    return td__pw_run(&w, c);
}

bool td__kern_clamp_min(td_opcall *c) { return clamp_one(c, true); }
bool td__kern_clamp_max(td_opcall *c) { return clamp_one(c, false); }

/* in: a, min, max as tensors, one of which may be absent. */
bool td__kern_clamp_tensor(td_opcall *c) {
    td_pw w;
    td__pw_begin(&w, c);
    if (td__in(c, 1) && td__in(c, 2)) return td__pw_run(&w, c);
    w.n = 2;
    w.op = td__in(c, 1) ? TD_OP_maximum : TD_OP_minimum;
    w.in[1] = td__in(c, 1) ? c->in[1] : c->in[2];
    return td__pw_run(&w, c);
}

/* Infinities become the largest numbers of the tensor's dtype unless given. */
bool td__kern_nan_to_num(td_opcall *c) {
    static const double most[] = {[TD_F64] = DBL_MAX,
                                  [TD_F32] = FLT_MAX,
                                  [TD_F16] = 65504.0,
                                  [TD_BF16] = 3.3895313892515355e38};
    td_pw               w;
    td__pw_begin(&w, c);
    if (!td__is_float(w.common)) return td__pw_run(&w, c);
    if (td__in_none(c, 1)) w.p.f[0] = 0.0;
    if (td__in_none(c, 2)) w.p.f[1] = most[w.common];
    if (td__in_none(c, 3)) w.p.f[2] = -most[w.common];
    return td__pw_run(&w, c);
}

/* eps below 0 stands for none: nothing is clamped. */
bool td__kern_logit(td_opcall *c) {
    int   eps = c->n_in - 1;
    td_pw w;
    td__pw_begin(&w, c);
    if (td__in_none(c, eps)) w.p.f[0] = -1.0;
    return td__pw_run(&w, c);
}

/* The neighbour in the dtype itself: the loops of halves compute in f32, where the next
 * number is much nearer. */
bool td__kern_nextafter(td_opcall *c) {
    td_dtype dt = c->meta[0].dtype;
    return run_op(c, dt == TD_BF16  ? TD_OP_nextafter_bf16
                     : dt == TD_F16 ? TD_OP_nextafter_f16
                                    : TD_OP_nextafter);
}
