/* conv.c -- convolution: checks, empty cases, halves, bias gradient, reference.
 * f32 goes to conv_dnnl.c, whatever that declines and f64 to conv_cols.c. */
#include "kernels/conv.h"

#include "kernels/loops/loops.h"
#include "kernels/math.h"

#include <string.h>

enum { CAST_GRAIN = 1 << 14 };

bool td__conv_is_valid(const td_conv *p) {
    return (unsigned)p->dtype <= TD_BF16 && p->n >= 0 && p->c >= 0 && p->h >= 0 &&
           p->w >= 0 && p->o >= 0 && p->kh >= 1 && p->kw >= 1 && p->stride_h >= 1 &&
           p->stride_w >= 1 && p->pad_h >= 0 && p->pad_w >= 0 && p->dil_h >= 1 &&
           p->dil_w >= 1 && p->d >= 0 && p->kd >= 1 && p->stride_d >= 1 &&
           p->pad_d >= 0 && p->dil_d >= 1 && p->groups >= 1 && p->c % p->groups == 0 &&
           p->o % p->groups == 0;
}

/* ---- sizes -------------------------------------------------------------- */

/* Bytes of an element of a float dtype. */
static size_t item_size(td_dtype t) { return t == TD_F64 ? 8 : t == TD_F32 ? 4 : 2; }

static int64_t x_count(const td_conv *p) { return p->n * p->c * p->d * p->h * p->w; }
static int64_t w_count(const td_conv *p) {
    return p->o * (p->c / p->groups) * p->kd * p->kh * p->kw;
}
/* Pixels of one output channel. */
static int64_t out_area(const td_conv *p) {
    return td__conv_out_d(p) * td__conv_out_h(p) * td__conv_out_w(p);
}
static int64_t y_count(const td_conv *p) { return p->n * p->o * out_area(p); }

/* Elements of td_conv_args.a, .b and .out, which depend on the direction. */
static int64_t a_count(const td_conv *p, td_conv_dir dir) {
    return dir == TD_CONV_DATA ? y_count(p) : x_count(p);
}
static int64_t b_count(const td_conv *p, td_conv_dir dir) {
    return dir == TD_CONV_WEIGHTS ? y_count(p) : w_count(p);
}
static int64_t out_count(const td_conv *p, td_conv_dir dir) {
    return dir == TD_CONV_FORWARD ? y_count(p)
           : dir == TD_CONV_DATA  ? x_count(p)
                                  : w_count(p);
}

/* ---- halves ------------------------------------------------------------- */

/* A conversion that threads share. */
typedef struct cast {
    td_dtype    from, to;
    const void *in;
    void       *out;
} cast;

/* Elements [begin, end). */
static void cast_range(void *arg, int64_t begin, int64_t end) {
    const cast   *c = arg;
    const int64_t in = (int64_t)item_size(c->from), out = (int64_t)item_size(c->to);
    td__isa()->convert[c->from][c->to](end - begin, (char *)c->out + begin * out, out,
                                       (const char *)c->in + begin * in, in);
}

/* Halves to f32, in parallel. */
static void widen(td_dtype half, const void *in, float *out, int64_t n) {
    td__pool_run(n, CAST_GRAIN, cast_range, &(cast){half, TD_F32, in, out});
}

/* Channels of a result that has a bias. */
static int64_t biased(const td_conv *p, td_conv_dir dir) {
    return dir == TD_CONV_DATA ? p->c : p->o;
}

/* out[n][c][:] += bias[c] of a data gradient, images [begin, end) of n * c. */
typedef struct bias_sum {
    const td_conv      *p;
    const td_conv_args *t;
} bias_sum;

static void add_bias(void *arg, int64_t begin, int64_t end) {
    const bias_sum *b = arg;
    const int64_t   area = b->p->d * b->p->h * b->p->w;
    for (int64_t i = begin; i < end; i++)
        if (b->p->dtype == TD_F64) {
            const double k = ((const double *)b->t->bias)[i % b->p->c];
            double      *y = (double *)b->t->out + i * area;
            for (int64_t q = 0; q < area; q++) y[q] += k;
        } else {
            const float k = ((const float *)b->t->bias)[i % b->p->c];
            float      *y = (float *)b->t->out + i * area;
            for (int64_t q = 0; q < area; q++) y[q] += k;
        }
}

/* f32 and f64: oneDNN where it takes the case, else columns. */
static bool floats(const td_conv *p, td_conv_dir dir, const td_conv_args *t) {
    bool ok = p->dtype == TD_F32 && td__conv_dnnl(p, dir, t);
    if (!ok && !td__conv_cols(p, dir, t)) return false;
    if (dir == TD_CONV_DATA && t->bias)
        td__pool_run(p->n * p->c, 1 + CAST_GRAIN / (p->d * p->h * p->w), add_bias,
                     &(bias_sum){p, t});
    return true;
}

/* The same convolution in f32, on widened copies. */
static bool halves(const td_conv *p, td_conv_dir dir, const td_conv_args *t) {
    const int64_t na = a_count(p, dir), nb = b_count(p, dir), no = out_count(p, dir);
    const int64_t bias = t->bias ? biased(p, dir) : 0;
    const size_t  bytes = (size_t)(na + nb + no + bias) * sizeof(float);
    float        *s = td__block_alloc(bytes);
    if (!s) return false;
    td_conv      wide = *p;
    td_conv_args f = {.a = s, .b = s + na, .out = s + na + nb};
    if (bias) f.bias = s + na + nb + no;
    wide.dtype = TD_F32;
    widen(p->dtype, t->a, s, na);
    widen(p->dtype, t->b, s + na, nb);
    if (bias) widen(p->dtype, t->bias, s + na + nb + no, bias);
    bool ok = floats(&wide, dir, &f);
    if (ok)
        td__pool_run(no, CAST_GRAIN, cast_range,
                     &(cast){TD_F32, p->dtype, f.out, t->out});
    td__block_free(s, bytes);
    return ok;
}

/* ---- entry -------------------------------------------------------------- */

/* Nothing to multiply: zeros, or the bias alone. */
static void empty(const td_conv *p, td_conv_dir dir, const td_conv_args *t) {
    const size_t item = item_size(p->dtype);
    const size_t bytes = (size_t)out_count(p, dir) * item;
    if (bytes) memset(t->out, 0, bytes);
    if (!t->bias || dir == TD_CONV_WEIGHTS) return;
    const int64_t channels = biased(p, dir), area = out_count(p, dir) / p->n / channels;
    for (int64_t i = 0; i < p->n * channels * area; i++)
        memcpy((char *)t->out + (size_t)i * item,
               (const char *)t->bias + (size_t)(i / area % channels) * item, item);
}

/* Empty results need no work; empty operands of a result that is not empty leave the
 * bias. */
bool td__conv(const td_conv *p, td_conv_dir dir, const td_conv_args *t) {
    if (!td__conv_is_valid(p)) return false;
    if (out_count(p, dir) == 0) return true;
    if (a_count(p, dir) == 0 || b_count(p, dir) == 0) {
        empty(p, dir, t);
        return true;
    }
    return item_size(p->dtype) == 2 ? halves(p, dir, t) : floats(p, dir, t);
}

/* ---- scalars ------------------------------------------------------------ */

/* Element i as double; the reference and the bias gradient accumulate in f64. */
static double load(td_dtype t, const void *p, int64_t i) {
    switch (t) {
    case TD_F64: return ((const double *)p)[i];
    case TD_F32: return (double)((const float *)p)[i];
    case TD_F16: return (double)td_m_f16_to_f32(((const uint16_t *)p)[i]);
    default: return (double)td_m_bf16_to_f32(((const uint16_t *)p)[i]);
    }
}

static void store(td_dtype t, void *p, int64_t i, double x) {
    switch (t) {
    case TD_F64: ((double *)p)[i] = x; break;
    case TD_F32: ((float *)p)[i] = (float)x; break;
    case TD_F16: ((uint16_t *)p)[i] = td_m_f32_to_f16((float)x); break;
    default: ((uint16_t *)p)[i] = td_m_f32_to_bf16((float)x);
    }
}

/* ---- bias gradient ------------------------------------------------------ */

typedef struct bias_job {
    const td_conv *p;
    const void    *dy;
    void          *db;
    int64_t        area;
} bias_job;

/* Eight sums at once, so that additions do not wait for each other. */
static double sum_f32(const float *x, int64_t n) {
    double  s[8] = {0}, all = 0;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; k++) s[k] += (double)x[i + k];
    for (; i < n; i++) all += (double)x[i];
    for (int k = 0; k < 8; k++) all += s[k];
    return all;
}

/* db[o] = sum of dy[n, o, :, :] for channels [begin, end). */
static void bias_channels(void *arg, int64_t begin, int64_t end) {
    const bias_job *j = arg;
    const td_conv  *p = j->p;
    for (int64_t o = begin; o < end; o++) {
        double sum = 0;
        for (int64_t n = 0; n < p->n; n++) {
            const int64_t at = (n * p->o + o) * j->area;
            if (p->dtype == TD_F32) sum += sum_f32((const float *)j->dy + at, j->area);
            else
                for (int64_t i = 0; i < j->area; i++)
                    sum += load(p->dtype, j->dy, at + i);
        }
        store(p->dtype, j->db, o, sum);
    }
}

/* Sums in double, over samples in order, so that threads do not change the result. */
bool td__conv_backward_bias(const td_conv *p, const void *dy, void *db) {
    if (!td__conv_is_valid(p)) return false;
    bias_job j = {p, dy, db, out_area(p)};
    td__pool_run(p->o, 1 + 4 * CAST_GRAIN / (p->n * j.area + 1), bias_channels, &j);
    return true;
}

/* ---- reference ---------------------------------------------------------- */

/* One term of the sum: y[y] += x[x] * w[w], whichever of them is the output. */
typedef struct term {
    int64_t x, w, y;
} term;

static void add_term(const td_conv *p, td_conv_dir dir, const td_conv_args *t,
                     double *sum, term at) {
    switch (dir) {
    case TD_CONV_FORWARD:
        sum[at.y] += load(p->dtype, t->a, at.x) * load(p->dtype, t->b, at.w);
        break;
    case TD_CONV_DATA:
        sum[at.x] += load(p->dtype, t->a, at.y) * load(p->dtype, t->b, at.w);
        break;
    case TD_CONV_WEIGHTS:
        sum[at.w] += load(p->dtype, t->a, at.x) * load(p->dtype, t->b, at.y);
        break;
    }
}

/* All terms that touch output pixel i of channel o of image n. */
static void naive_pixel(const td_conv *p, td_conv_dir dir, const td_conv_args *t,
                        double *sum, const int64_t at[3]) {
    const int64_t oh = td__conv_out_h(p), ow = td__conv_out_w(p);
    const int64_t cg = p->c / p->groups, cell = p->kd * p->kh * p->kw;
    const int64_t n = at[0], o = at[1], i = at[2], area = out_area(p);
    const int64_t c0 = o / (p->o / p->groups) * cg;
    for (int64_t q = 0; q < cg * cell; q++) {
        const int64_t k = q / (p->kh * p->kw) % p->kd, r = q / p->kw % p->kh;
        const int64_t z = i / ow / oh * p->stride_d - p->pad_d + k * p->dil_d;
        const int64_t y = i / ow % oh * p->stride_h - p->pad_h + r * p->dil_h;
        const int64_t x = i % ow * p->stride_w - p->pad_w + q % p->kw * p->dil_w;
        if (z < 0 || z >= p->d || y < 0 || y >= p->h || x < 0 || x >= p->w) continue;
        const int64_t image = n * p->c + c0 + q / cell;
        term e = {((image * p->d + z) * p->h + y) * p->w + x, o * cg * cell + q,
                  (n * p->o + o) * area + i};
        add_term(p, dir, t, sum, e);
    }
}

bool td__conv_naive(const td_conv *p, td_conv_dir dir, const td_conv_args *t) {
    if (!td__conv_is_valid(p)) return false;
    const int64_t count = out_count(p, dir), pixels = out_area(p);
    const int64_t area = dir == TD_CONV_DATA ? p->d * p->h * p->w : pixels;
    double       *sum = td__zalloc((size_t)(count + 1) * sizeof *sum);
    if (!sum) return false;
    for (int64_t u = 0; u < p->n * p->o * pixels; u++)
        naive_pixel(p, dir, t, sum,
                    (int64_t[3]){u / pixels / p->o, u / pixels % p->o, u % pixels});
    for (int64_t i = 0; i < count; i++) {
        if (dir != TD_CONV_WEIGHTS && t->bias)
            sum[i] += load(p->dtype, t->bias, i / area % biased(p, dir));
        store(p->dtype, t->out, i, sum[i]);
    }
    td__free(sum);
    return true;
}
