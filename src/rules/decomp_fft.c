/* decomp_fft.c -- Fourier transforms as users call them, as calls of the three ops that
 * compute, and the derivatives of those. */
#include "core/dim.h"
#include "rules/create.h"
#include "rules/rule_arith.h"

#include <string.h>

enum { PLAIN, BY_ROOT, BY_N }; /* td__kern_fft_c2c, normalization */

/* What to transform: sizes of dims. */
typedef struct frame {
    int     n;
    int64_t dim[TD_MAX_RANK], size[TD_MAX_RANK];
    int64_t norm;
} frame;

static bool give(td_opcall *c, td_tensor *t) {
    c->out[0] = t;
    return t && !td_is_nil(t);
}
static td_ints dims_of(const frame *f) { return (td_ints){f->dim, f->n}; }

/* ---- arguments -------------------------------------------------------------- */

/* Argument 3: which direction is divided by the number of elements. */
static bool read_norm(td_opcall *c, bool forward, frame *f) {
    const char *s = c->in[3].u.s;
    if (!strcmp(s, "backward")) f->norm = forward ? PLAIN : BY_N;
    else if (!strcmp(s, "forward")) f->norm = forward ? BY_N : PLAIN;
    else if (!strcmp(s, "ortho")) f->norm = BY_ROOT;
    else
        return td__op_fail(c, TD_E_ARG,
                           "norm must be backward, forward or ortho, got \"%s\"", s);
    return true;
}

static bool check_size(td_opcall *c, int64_t n) {
    return !td__dim_lt(n, 1) ||
           td__op_fail(c, TD_E_SHAPE, "a transform needs at least 1 element, got %lld",
                       (long long)td__dim_now(n));
}

/* Argument 0 as f32, f64, or, if `complex`, complex numbers. NULL after td__fail. */
static td_tensor *as_input(td_opcall *c, bool complex) {
    td_tensor *t = td__in(c, 0);
    td_dtype   dt = (td_dtype)t->dtype;
    if (td__is_complex(dt)) return t;
    if (!td__is_float(dt)) dt = c->cx->default_dtype;
    if (td__is_half(dt)) {
        td__op_fail(c, TD_E_DTYPE, "no transform of %s; convert it to f32",
                    td__type_str(t));
        return NULL;
    }
    return t_as(t, complex ? td__complex_of(dt) : dt);
}

static bool want_real(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    return !td__is_complex((td_dtype)t->dtype) ||
           td__op_fail(c, TD_E_DTYPE, "self must be real, got %s", td__type_str(t));
}

/* t with `size` elements in dim: padded with zeros, or cut. */
static td_tensor *fit(td_tensor *t, int64_t dim, int64_t size) {
    int64_t pad[2 * TD_MAX_RANK] = {0}, has = t->size[dim];
    if (td__dim_same(has, size)) return t;
    if (td__dim_lt(size, has))
        return td_op_slice(t, dim, td_value_int(0), td_value_int(size), 1);
    if (td__dim_eq(has, size)) return t;
    int n = 2 * (t->rank - (int)dim);
    pad[n - 1] = td__dim_sub(size, has);
    return td_op_constant_pad_nd(t, (td_ints){pad, n}, td_value_int(0));
}

static td_tensor *fit_all(td_tensor *t, const frame *f) {
    for (int i = 0; i < f->n && t && !td_is_nil(t); i++)
        t = fit(t, f->dim[i], f->size[i]);
    return t;
}

/* ---- over one dim ----------------------------------------------------------- */

/* in: self, n, dim, norm. half: the input has n / 2 + 1 elements. */
static bool read_one(td_opcall *c, bool forward, bool half, frame *f) {
    const td_tensor *t = td__in(c, 0);
    int              d = td__op_dim(c, td__in_int(c, 2), t->rank);
    if (d < 0) return false;
    if (t->rank == 0)
        return td__op_fail(c, TD_E_SHAPE,
                           "self has no dims, and a transform needs one");
    *f = (frame){.n = 1, .dim = {d}};
    int64_t has = t->size[d];
    f->size[0] = !td__in_none(c, 1) ? td__in_int(c, 1)
                 : half             ? td__dim_mul(td__dim_sub(has, 1), 2)
                                    : has;
    return check_size(c, f->size[0]) && read_norm(c, forward, f);
}

static int64_t half_of(int64_t n) { return td__dim_add(td__dim_div(n, 2), 1); }

/* Complex, or real with both halves. */
static bool fft1(td_opcall *c, bool forward) {
    frame      f;
    td_tensor *t = as_input(c, false);
    if (!t || !read_one(c, forward, false, &f)) return false;
    t = fit_all(t, &f);
    if (td__is_complex((td_dtype)t->dtype))
        return give(c, td_op__fft_c2c(t, dims_of(&f), f.norm, forward));
    t = td_op__fft_r2c(t, dims_of(&f), f.norm, false);
    return give(c, forward ? t : td_op_conj_physical(t));
}
bool td__decomp_fft_fft(td_opcall *c) { return fft1(c, true); }
bool td__decomp_fft_ifft(td_opcall *c) { return fft1(c, false); }

/* Half of the transform of a real one. */
static bool rfft1(td_opcall *c, bool forward) {
    frame f;
    if (!want_real(c)) return false;
    td_tensor *t = as_input(c, false);
    if (!t || !read_one(c, forward, false, &f)) return false;
    t = td_op__fft_r2c(fit_all(t, &f), dims_of(&f), f.norm, true);
    return give(c, forward ? t : td_op_conj_physical(t));
}
bool td__decomp_fft_rfft(td_opcall *c) { return rfft1(c, true); }
bool td__decomp_fft_ihfft(td_opcall *c) { return rfft1(c, false); }

/* Real numbers of half a transform. */
static bool irfft1(td_opcall *c, bool forward) {
    frame      f;
    td_tensor *t = as_input(c, true);
    if (!t || !read_one(c, forward, true, &f)) return false;
    t = fit(t, f.dim[0], half_of(f.size[0]));
    if (forward) t = td_op_conj_physical(t);
    return give(c, td_op__fft_c2r(t, dims_of(&f), f.norm, f.size[0]));
}
bool td__decomp_fft_irfft(td_opcall *c) { return irfft1(c, false); }
bool td__decomp_fft_hfft(td_opcall *c) { return irfft1(c, true); }

/* ---- over several ----------------------------------------------------------- */

/* Dims by argument 2, or the last ones, as many as there are sizes, or all. */
static bool read_dims(td_opcall *c, frame *f) {
    const td_tensor *t = td__in(c, 0);
    td_value         s = c->in[1], dim = c->in[2];
    uint64_t         seen = 0;
    bool             sized = s.kind == TD_K_INTS, given = dim.kind == TD_K_INTS;
    f->n = (int)(given ? dim.n : sized ? s.n : (uint32_t)t->rank);
    if (sized && given && s.n != dim.n)
        return td__op_fail(c, TD_E_ARG, "s has %u entries and dim %u; they must agree",
                           s.n, dim.n);
    if (f->n > t->rank)
        return td__op_fail(c, TD_E_ARG, "%d dims to transform, and self %s has %d",
                           f->n, td__type_str(t), t->rank);
    for (int i = 0; i < f->n; i++) {
        int d = given ? td__op_dim(c, dim.u.ints[i], t->rank) : t->rank - f->n + i;
        if (d < 0) return false;
        if (seen >> d & 1)
            return td__op_fail(c, TD_E_ARG, "dim %d is transformed twice", d);
        seen |= (uint64_t)1 << d;
        f->dim[i] = d;
        f->size[i] = sized && s.u.ints[i] != -1 ? s.u.ints[i] : t->size[d];
    }
    return true;
}

/* in: self, s, dim, norm. */
static bool read_several(td_opcall *c, bool forward, bool any, frame *f) {
    if (!read_dims(c, f)) return false;
    if (f->n == 0 && !any)
        return td__op_fail(c, TD_E_ARG, "at least one dim must be transformed");
    for (int i = 0; i < f->n; i++)
        if (!check_size(c, f->size[i])) return false;
    return read_norm(c, forward, f);
}

static bool fftn(td_opcall *c, bool forward) {
    frame      f;
    td_tensor *t = as_input(c, true);
    return t && read_several(c, forward, true, &f) &&
           give(c, td_op__fft_c2c(fit_all(t, &f), dims_of(&f), f.norm, forward));
}
bool td__decomp_fft_fftn(td_opcall *c) { return fftn(c, true); }
bool td__decomp_fft_ifftn(td_opcall *c) { return fftn(c, false); }
bool td__decomp_fft_fft2(td_opcall *c) { return fftn(c, true); }
bool td__decomp_fft_ifft2(td_opcall *c) { return fftn(c, false); }

static bool rfftn(td_opcall *c) {
    frame f;
    if (!want_real(c)) return false;
    td_tensor *t = as_input(c, false);
    return t && read_several(c, true, false, &f) &&
           give(c, td_op__fft_r2c(fit_all(t, &f), dims_of(&f), f.norm, true));
}
bool td__decomp_fft_rfftn(td_opcall *c) { return rfftn(c); }
bool td__decomp_fft_rfft2(td_opcall *c) { return rfftn(c); }

/* The last dim as half of a transform, its conjugate, then the others. */
static bool ihfftn(td_opcall *c) {
    frame f;
    if (!want_real(c)) return false;
    td_tensor *t = as_input(c, false);
    if (!t || !read_several(c, false, false, &f)) return false;
    td_ints last = {f.dim + f.n - 1, 1}, others = {f.dim, f.n - 1};
    t = td_op_conj_physical(td_op__fft_r2c(fit_all(t, &f), last, f.norm, true));
    return give(c, f.n == 1 ? t : td_op__fft_c2c(t, others, f.norm, false));
}
bool td__decomp_fft_ihfftn(td_opcall *c) { return ihfftn(c); }
bool td__decomp_fft_ihfft2(td_opcall *c) { return ihfftn(c); }

/* The last size is that of the result: *size, of which the input has half. */
static bool read_half(td_opcall *c, bool forward, frame *f, int64_t *size) {
    td_value s = c->in[1];
    if (!read_dims(c, f)) return false;
    if (f->n == 0)
        return td__op_fail(c, TD_E_ARG, "at least one dim must be transformed");
    int64_t *last = &f->size[f->n - 1];
    bool     given = s.kind == TD_K_INTS && s.u.ints[s.n - 1] != -1;
    *size = given ? *last : td__dim_mul(td__dim_sub(*last, 1), 2);
    if (!check_size(c, *size)) return false;
    *last = half_of(*size);
    for (int i = 0; i < f->n; i++)
        if (!check_size(c, f->size[i])) return false;
    return read_norm(c, forward, f);
}

static bool irfftn(td_opcall *c) {
    frame      f;
    int64_t    size;
    td_tensor *t = as_input(c, true);
    return t && read_half(c, false, &f, &size) &&
           give(c, td_op__fft_c2r(fit_all(t, &f), dims_of(&f), f.norm, size));
}
bool td__decomp_fft_irfftn(td_opcall *c) { return irfftn(c); }
bool td__decomp_fft_irfft2(td_opcall *c) { return irfftn(c); }

static bool hfftn(td_opcall *c) {
    frame      f;
    int64_t    size;
    td_tensor *t = as_input(c, true);
    if (!t || !read_half(c, true, &f, &size)) return false;
    td_ints last = {f.dim + f.n - 1, 1}, others = {f.dim, f.n - 1};
    t = fit_all(t, &f);
    if (f.n > 1) t = td_op__fft_c2c(t, others, f.norm, true);
    return give(c, td_op__fft_c2r(td_op_conj_physical(t), last, f.norm, size));
}
bool td__decomp_fft_hfftn(td_opcall *c) { return hfftn(c); }
bool td__decomp_fft_hfft2(td_opcall *c) { return hfftn(c); }

/* ---- derivatives ------------------------------------------------------------ */

static td_ints list_of(td_value v) { return (td_ints){v.u.ints, (int)v.n}; }

/* Linear: the conjugate transpose, which is the transform in the other direction. */
bool td__vjp_fft_c2c(td_vjp *v) {
    v->grad[0] =
        td_op__fft_c2c(v->g[0], list_of(v->in[1]), v->in[2].u.i, !v->in[3].u.i);
    return td_ok(v->cx);
}

/* Real parts of the same, of g with zeros for the half that was left out. */
bool td__vjp_fft_r2c(td_vjp *v) {
    td_ints    dim = list_of(v->in[1]);
    int64_t    last = dim.v[dim.n - 1];
    td_tensor *g = fit(v->g[0], last, v->in_meta[0]->size[last]);
    v->grad[0] = td_op_real(td_op__fft_c2c(g, dim, v->in[2].u.i, false));
    return td_ok(v->cx);
}

/* The transform of g, in which elements count twice that stand for two. */
bool td__vjp_fft_c2r(td_vjp *v) {
    td_ints    dim = list_of(v->in[1]);
    int64_t    last = dim.v[dim.n - 1], n = v->in[3].u.i;
    td_tensor *t = td_op__fft_r2c(v->g[0], dim, v->in[2].u.i, true);
    int64_t    twice = td__dim_div(td__dim_sub(n, 1), 2); /* all but the ends */
    if (!td_is_nil(t) && td__dim_lt(0, twice)) {
        td_value   one = td_value_int(1), end = td_value_int(td__dim_add(twice, 1));
        td_tensor *part = td_op_slice(t, last, one, end, 1);
        t = td_op_slice_scatter(t, td_op_mul(part, td_value_int(2)), last, one, end, 1);
    }
    v->grad[0] = t;
    return td_ok(v->cx);
}

/* ---- frequencies ------------------------------------------------------------ */

/* in: n, d, dtype. Numbers from `from` up to `end`, over n d. */
static td_tensor *numbers(td_opcall *c, int64_t from, int64_t end, td_dtype dt) {
    return td_op_arange(c->cx, td_value_int(from), td_value_int(end), td_value_int(1),
                        dt);
}

static bool frequencies(td_opcall *c, bool both) {
    int64_t  n = td__in_number(c, 0);
    td_dtype dt = td__create_dtype(c, c->cx->default_dtype);
    double   d = td__in_f(c, 1);
    if (!td__is_float(dt))
        return td__op_fail(c, TD_E_DTYPE, "dtype must be floating point, got %s",
                           td_dtype_name(dt));
    if (n < 0)
        return td__op_fail(c, TD_E_ARG, "n must not be negative, got %lld",
                           (long long)n);
    td_tensor *t = both ? numbers(c, 0, (n + 1) / 2, dt) : numbers(c, 0, n / 2 + 1, dt);
    if (both) {
        td_tensor *all[] = {t, numbers(c, -(n / 2), 0, dt)};
        t = td_op_cat((td_tensors){all, 2}, 0);
    }
    return give(c, t_scale(t, 1 / ((double)n * d)));
}
bool td__decomp_fft_fftfreq(td_opcall *c) { return frequencies(c, true); }
bool td__decomp_fft_rfftfreq(td_opcall *c) { return frequencies(c, false); }

/* in: self, dim. Half of each size, rounded down, or up for the inverse. */
static bool shift(td_opcall *c, int64_t more) {
    td_tensor *t = td__in(c, 0);
    int64_t    dim[TD_MAX_RANK], by[TD_MAX_RANK];
    bool       given = !td__in_none(c, 1);
    int        n = given ? (int)c->in[1].n : t->rank;
    if (n > TD_MAX_RANK)
        return td__op_fail(c, TD_E_ARG, "%d dims, and self %s has %d", n,
                           td__type_str(t), t->rank);
    for (int i = 0; i < n; i++) {
        int d = given ? td__op_dim(c, c->in[1].u.ints[i], t->rank) : i;
        if (d < 0) return false;
        dim[i] = d;
        by[i] = t->rank ? td__dim_div(td__dim_add(t->size[d], more), 2) : 0;
    }
    return give(c, td_op_roll(t, (td_ints){by, n}, (td_ints){dim, n}));
}
bool td__decomp_fft_fftshift(td_opcall *c) { return shift(c, 0); }
bool td__decomp_fft_ifftshift(td_opcall *c) { return shift(c, 1); }

/* ---- short-time transforms -------------------------------------------------- */

/* Arguments of both: sizes of windows and their distance, and the window. */
typedef struct frames {
    int64_t    n, hop, length; /* n_fft, hop_length, win_length */
    td_tensor *window;         /* n elements; NULL: all are 1 */
} frames;

/* in: self, n_fft, hop_length, win_length, window. */
static bool read_frames(td_opcall *c, frames *f) {
    f->n = td__in_number(c, 1);
    f->hop = td__in_none(c, 2) ? f->n / 4 : td__in_number(c, 2);
    f->length = td__in_none(c, 3) ? f->n : td__in_number(c, 3);
    f->window = td__in(c, 4);
    if (f->n <= 0 || f->hop <= 0 || f->length <= 0 || f->length > f->n)
        return td__op_fail(c, TD_E_ARG,
                           "n_fft %lld, hop_length %lld and win_length %lld must be "
                           "positive, and win_length at most n_fft",
                           (long long)f->n, (long long)f->hop, (long long)f->length);
    if (f->window &&
        (f->window->rank != 1 || !td__dim_eq(f->window->size[0], f->length)))
        return td__op_fail(c, TD_E_SHAPE,
                           "window must be a vector of win_length %lld, got %s",
                           (long long)f->length, td__type_str(f->window));
    return true;
}

/* The window between zeros, of n elements; ones of dt where there is none. */
static void pad_window(td_opcall *c, td_dtype dt, frames *f) {
    int64_t left = (f->n - f->length) / 2, pad[] = {left, f->n - f->length - left};
    if (!f->window) f->window = td_op_ones(c->cx, (td_ints){&f->length, 1}, dt);
    if (f->length < f->n)
        f->window =
            td_op_constant_pad_nd(f->window, (td_ints){pad, 2}, td_value_int(0));
}

/* Argument i, onesided, or `otherwise`. */
static bool onesided(const td_opcall *c, int i, bool otherwise) {
    return td__in_none(c, i) ? otherwise : td__in_f(c, i) != 0;
}

/* [N,T] with n / 2 elements more at both ends. */
static td_tensor *pad_ends(td_tensor *t, int64_t n, const char *mode) {
    int64_t pad[] = {n / 2, n / 2};
    if (td__is_complex((td_dtype)t->dtype))
        return td_op_complex(pad_ends(td_op_real(t), n, mode),
                             pad_ends(td_op_imag(t), n, mode));
    t = td_op_pad(td_op_unsqueeze(t, 0), (td_ints){pad, 2}, mode, TD_NONE);
    return td_op_select(t, 0, 0);
}

/* in: ..., 5 center, pad_mode, normalized, onesided, return_complex. */
bool td__decomp_stft(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    td_dtype   dt = (td_dtype)t->dtype;
    frames     f;
    bool       vector = t->rank == 1;
    if (!td__is_differentiable(dt) || td__is_half(dt) || t->rank < 1 || t->rank > 2)
        return td__op_fail(c, TD_E_SHAPE,
                           "self must be [T] or [N,T] of f32, f64, c64 or c128, got %s",
                           td__type_str(t));
    if (!read_frames(c, &f)) return false;
    if (vector) t = td_op_unsqueeze(t, 0);
    if (td__in_bool(c, 5)) t = pad_ends(t, f.n, c->in[6].u.s);
    if (td_is_nil(t)) return give(c, t);
    if (td__dim_lt(t->size[1], f.n))
        return td__op_fail(c, TD_E_SHAPE, "n_fft %lld is more than the %lld elements",
                           (long long)f.n, (long long)td__dim_now(t->size[1]));
    t = td_op_unfold(t, 1, f.n, f.hop);
    if (f.window || f.length < f.n) {
        pad_window(c, dt, &f);
        t = t_mul(t, f.window);
    }
    if (td_is_nil(t)) return give(c, t);
    bool    full = td__is_complex((td_dtype)t->dtype), half = onesided(c, 8, !full);
    int64_t last = 2, norm = td__in_bool(c, 7) ? BY_ROOT : PLAIN;
    td_ints dim = {&last, 1};
    if (full && half)
        return td__op_fail(c, TD_E_ARG,
                           "onesided must be false if self or window is complex");
    t = full ? td_op__fft_c2c(t, dim, norm, true) : td_op__fft_r2c(t, dim, norm, half);
    t = td_op_transpose(t, 1, 2);
    if (vector) t = td_op_select(t, 0, 0);
    return give(c, td__in_bool(c, 9) ? t : td_op_view_as_real(t));
}

/* Windows y[c, frames, n] at distance hop, added up. */
static td_tensor *overlap(td_tensor *y, int64_t length, const frames *f) {
    if (td_is_nil(y)) return y;
    int64_t size[] = {y->size[0], length};
    return td_op_unfold_backward(y, (td_ints){size, 2}, 1, f->n, f->hop);
}

/* The windows of self[c, n_fft or half of it, frames], each times the window. */
static td_tensor *windows_of(td_opcall *c, td_tensor *t, const frames *f, bool half) {
    int64_t last = 2, norm = td__in_bool(c, 6) ? BY_ROOT : BY_N;
    td_ints dim = {&last, 1};
    t = td_op_transpose(t, 1, 2);
    if (td__in_bool(c, 9)) t = td_op__fft_c2c(t, dim, norm, false);
    else {
        if (!half)
            t = td_op_slice(t, 2, td_value_int(0), td_value_int(f->n / 2 + 1), 1);
        t = td_op__fft_c2r(t, dim, norm, f->n);
    }
    return t_mul(t, f->window);
}

/* in: ..., 5 center, normalized, onesided, length, return_complex. */
static bool check_istft(td_opcall *c, const frames *f, bool half) {
    const td_tensor *t = td__in(c, 0);
    int64_t          rows = half ? f->n / 2 + 1 : f->n;
    bool             whole = td__in_bool(c, 9);
    if (!td__dim_eq(t->size[t->rank - 2], rows))
        return td__op_fail(c, TD_E_SHAPE,
                           "self %s must have %lld frequencies for n_fft %lld",
                           td__type_str(t), (long long)rows, (long long)f->n);
    if (f->hop > f->length)
        return td__op_fail(c, TD_E_ARG, "hop_length %lld is more than win_length %lld",
                           (long long)f->hop, (long long)f->length);
    if (whole ? half : f->window && td__is_complex((td_dtype)f->window->dtype))
        return td__op_fail(c, TD_E_ARG,
                           whole ? "onesided must be false with return_complex"
                                 : "a complex window needs return_complex");
    return true;
}

bool td__decomp_istft(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    td_dtype   dt = (td_dtype)t->dtype;
    frames     f;
    if (!td__is_complex(dt) || t->rank < 2 || t->rank > 3)
        return td__op_fail(c, TD_E_SHAPE,
                           "self must be complex, [frequencies, times] or with a dim "
                           "before them, got %s",
                           td__type_str(t));
    if (!read_frames(c, &f)) return false;
    bool    vector = t->rank == 2;
    int64_t count = t->size[t->rank - 1];
    bool    half = onesided(c, 7, !td__dim_eq(t->size[t->rank - 2], f.n));
    if (!check_istft(c, &f, half)) return false;
    int64_t length = td__dim_add(td__dim_mul(td__dim_sub(count, 1), f.hop), f.n);
    int64_t start = td__in_bool(c, 5) ? f.n / 2 : 0, end = td__dim_sub(length, start);
    if (!td__in_none(c, 8)) end = td__dim_add(start, td__in_int(c, 8));
    pad_window(c, td__real_of(dt), &f);
    td_tensor *y = windows_of(c, vector ? td_op_unsqueeze(t, 0) : t, &f, half);
    y = overlap(y, length, &f);
    int64_t    all[] = {1, count, f.n};
    td_tensor *sum =
        overlap(td_op_expand(td_op_square(f.window), (td_ints){all, 3}), length, &f);
    td_value from = td_value_int(start), to = td_value_int(end);
    y = td_op_slice(y, 1, from, to, 1);
    sum = td_op__istft_divisor(td_op_slice(sum, 1, from, to, 1));
    y = t_div(y, sum);
    if (td_is_nil(y)) return give(c, y);
    y = fit(y, 1, td__dim_sub(end, start));
    return give(c, vector ? td_op_select(y, 0, 0) : y);
}
