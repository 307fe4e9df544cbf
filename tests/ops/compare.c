/* compare.c -- tensors against stored or other tensors: geometry, dtype, values.
 * The first difference of a tensor is printed, with its index and distance. */
#include "sample.h"
#include "tandem/grad.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fail_sample(report *r, const char *fmt, ...) {
    va_list ap;
    r->failures++;
    if (r->quiet) return;
    printf("FAIL %s\n     ", r->s->src->text);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n     %s:%d: make t T='%s'\n", r->s->src->file, r->s->src->line,
           r->s->src->text);
}

/* Where nothing is added up, or little: units in the last place of the dtype. */
static tolerance plain_tolerance(const sample *s, td_dtype dt) {
    dt = td__real_of(dt);
    static const tolerance by_dtype[] = {{.rel = 1e-12, .abs = 1e-13},
                                         {.rel = 3e-6, .abs = 1e-6},
                                         {.rel = 2e-3, .abs = 1e-4},
                                         {.rel = 1.6e-2, .abs = 1e-3}};
    if (!td_dtype_is_float(dt) || (s->src->tags & TAG_EXACT)) return (tolerance){0};
    if (td__is_f8(dt)) return (tolerance){.rel = dt == TD_F8E4M3 ? 0x1p-3 : 0x1p-2};
    tolerance t = by_dtype[dt];
    if (s->src->tags & TAG_LOOSE) t.rel *= 16, t.abs *= 16;
    return t;
}

/* Sums: rounding of the result, and of what was added up. Halves are added up in f32
 * and rounded at the end; where a sample is tagged loose, PyTorch rounds the terms. */
static tolerance sum_tolerance(const sample *s, td_dtype dt, const sum_size *sum) {
    static const tolerance by_dtype[] = {{.rel = 0x1p-52, .of_sum = 0x1p-51},
                                         {.rel = 0x1p-23, .of_sum = 0x1p-22},
                                         {.rel = 0x1p-9, .of_sum = 0x1p-22},
                                         {.rel = 0x1p-6, .of_sum = 0x1p-22}};
    if (!td_dtype_is_float(dt) || td__is_f8(dt) || !sum || !sum->v ||
        s->src->tags & TAG_EXACT)
        return plain_tolerance(s, dt);
    tolerance t = by_dtype[dt];
    if (s->src->tags & TAG_LOOSE) t.of_sum = fmax(t.of_sum, t.rel);
    t.sum = *sum;
    return t;
}

tolerance result_tolerance(const report *r, int nr, td_dtype dt) {
    return sum_tolerance(r->s, dt, r->sums ? &r->sums->out[nr] : NULL);
}

tolerance base_tolerance(const report *r, int nr, td_dtype dt) {
    return sum_tolerance(r->s, dt, r->sums ? &r->sums->base[nr] : NULL);
}

/* A gradient is rounded more than once on its way. */
tolerance grad_tolerance(const report *r, int nr, td_dtype dt) {
    tolerance t = sum_tolerance(r->s, dt, r->sums ? &r->sums->grad[nr] : NULL);
    t.rel *= 4, t.abs *= 4, t.of_sum *= 4;
    return t;
}

static bool close_enough(double a, double b, tolerance tol, int64_t i) {
    double sum = i < tol.sum.n ? tol.sum.v[i] : 0;
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    if (a == b) return tol.rel > 0 || a != 0 || signbit(a) == signbit(b);
    if (isinf(a) || isinf(b)) return false;
    if (!isfinite(sum)) sum = 0;
    return fabs(a - b) <= tol.abs + tol.rel * fabs(b) + tol.of_sum * sum;
}

static double unit_of(td_dtype dt, double at) {
    static const int digits[] = {52, 23, 10, 7};
    int              e;
    frexp(at, &e);
    return ldexp(1, e - 1 - digits[dt]);
}

static void index_text(const td_tensor *t, int64_t i, char *out, size_t cap) {
    int64_t at[TD_MAX_RANK];
    for (int d = td_rank(t) - 1; d >= 0; d--) {
        int64_t n = td_size(t, d);
        at[d] = i % n;
        i /= n;
    }
    size_t k = (size_t)snprintf(out, cap, "[");
    for (int d = 0; d < td_rank(t) && k < cap; d++)
        k += (size_t)snprintf(out + k, cap - k, d ? ",%lld" : "%lld", (long long)at[d]);
    if (k < cap) snprintf(out + k, cap - k, "]");
}

bool compare_values(report *r, const char *what, td_tensor *t, const uint8_t *want,
                    td_dtype want_dt, tolerance tol) {
    td_dtype dt = td_dtype_of(t);
    int64_t  n = td_numel(t);
    size_t   each = td_dtype_size(dt);
    uint8_t *got = malloc((size_t)n * each + 1);
    char     at[128];
    bool     same = got && td_read(t, dt, got, (size_t)n * each);
    int      parts = td_dtype_is_complex(dt) ? 2 : 1; /* real, imaginary, in turn */
    n *= parts, each /= (size_t)parts;
    dt = td__real_of(dt), want_dt = td__real_of(want_dt);
    tol.sum.n = parts == 1 ? tol.sum.n : 0;
    if (!same) fail_sample(r, "%s: cannot read it: %s", what, td_message(td_ctx_of(t)));
    for (int64_t i = 0; i < n && same; i++) {
        const void *a = got + (size_t)i * each;
        const void *b = want + (size_t)i * td_dtype_size(want_dt);
        if (!td_dtype_is_float(dt)) {
            if (td__load_i(dt, a) == td__load_i(want_dt, b)) continue;
            index_text(t, i, at, sizeof at);
            fail_sample(r, "%s%s is %lld, expected %lld", what, at,
                        (long long)td__load_i(dt, a),
                        (long long)td__load_i(want_dt, b));
            same = false;
            break;
        }
        double x = td__load_f(dt, a), y = td__load_f(want_dt, b);
        if (r->s->src->tags & TAG_SIGNS) x = fabs(x), y = fabs(y);
        if (close_enough(x, y, tol, i)) continue;
        index_text(t, i / parts, at, sizeof at);
        fail_sample(r, "%s%s is %.17g, expected %.17g (%.3g apart, %.3g ulp)%s%.3g",
                    what, at, x, y, fabs(x - y), fabs(x - y) / unit_of(dt, y),
                    "; magnitude of the terms ",
                    i < tol.sum.n ? tol.sum.v[i] : fabs(y));
        same = false;
    }
    free(got);
    return same;
}

static bool compare_geometry(report *r, const char *what, td_tensor *t,
                             const exp_tensor *e) {
    bool sizes = td_rank(t) == e->rank, strides = true;
    for (int i = 0; sizes && i < e->rank; i++) sizes = td_size(t, i) == e->size[i];
    if (td_dtype_of(t) != e->dt || !sizes) {
        fail_sample(r, "%s is %s, expected %s%s", what, td__type_str(t),
                    td_dtype_name(e->dt), td__sizes_str(e->rank, e->size));
        return false;
    }
    if (r->s->src->tags & TAG_VALUES) return true;
    for (int i = 0; i < e->rank; i++) strides &= td_stride(t, i) == e->stride[i];
    if (!strides) {
        fail_sample(r, "%s %s has strides %s, expected %s", what, td__type_str(t),
                    td__sizes_str(e->rank, td_strides(t).v),
                    td__sizes_str(e->rank, e->stride));
        return false;
    }
    if (td_offset(t) != e->offset) {
        fail_sample(r, "%s has offset %lld, expected %lld", what,
                    (long long)td_offset(t), (long long)e->offset);
        return false;
    }
    return true;
}

bool compare_tensor(report *r, const char *what, td_tensor *t, const exp_tensor *e,
                    tolerance tol) {
    if (!compare_geometry(r, what, t, e)) return false;
    /* PyTorch may set the flag on an integer written from a float; it means nothing. */
    bool grad = (e->flags & EXP_GRAD) &&
                (td_dtype_is_float(e->dt) || td_dtype_is_complex(e->dt));
    if (td_requires_grad(t) != grad && !(r->s->src->tags & TAG_VALUES)) {
        fail_sample(r, "%s: requires_grad is %s, expected %s", what,
                    grad ? "false" : "true", grad ? "true" : "false");
        return false;
    }
    if (!e->values || (r->s->src->tags & TAG_RANDOM)) return true;
    return compare_values(r, what, t, e->values, e->dt, tol);
}

bool compare_tensors(report *r, const char *what, td_tensor *a, td_tensor *b,
                     tolerance tol) {
    td_dtype dt = td_dtype_of(b);
    size_t   bytes = (size_t)td_numel(b) * td_dtype_size(dt);
    if (td_dtype_of(a) != dt || td_numel(a) != td_numel(b)) {
        fail_sample(r, "%s: %s, expected %s", what, td__type_str(a), td__type_str(b));
        return false;
    }
    uint8_t *want = malloc(bytes + 1);
    bool     same = want && td_read(b, dt, want, bytes) &&
                compare_values(r, what, a, want, dt, tol);
    free(want);
    return same;
}
