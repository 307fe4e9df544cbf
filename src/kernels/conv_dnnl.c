/* conv_dnnl.c -- f32 convolution by oneDNN primitives on our pool.
 * The caller's plain NCHW is reordered into the layout the kernels like; the
 * reorders are part of every measurement below. Each thread takes a piece of the
 * batch, or of the channels where the weights outweigh the images. */
#include "kernels/conv.h"

#include "base/base.h"
#include "kernels/gemm.h"
#include "kernels/dnnl_primitive.h"

#include <stdatomic.h>
#include <string.h>

#if TD_HAVE_DNNL

enum { SPLIT_WORK = 1 << 19, PIECES_MAX = 64, SUM_GRAIN = 1 << 14, CHANNEL_GRAIN = 16 };

/* The key: what the primitive depends on. KEY_C_ALL and KEY_O_ALL are the channels
 * of the caller's arrays, more than KEY_C or KEY_O when those are cut. */
enum {
    KEY_KIND,
    KEY_DIR,
    KEY_LAYOUT,
    KEY_N,
    KEY_C,
    KEY_H,
    KEY_W,
    KEY_O,
    KEY_KH,
    KEY_KW,
    KEY_SH,
    KEY_SW,
    KEY_PH,
    KEY_PW,
    KEY_DH,
    KEY_DW,
    KEY_GROUPS,
    KEY_BIAS,
    KEY_C_ALL,
    KEY_O_ALL,
    KEY_D,
    KEY_KD,
    KEY_SD,
    KEY_PD,
    KEY_DD,
    KEY_COUNT
};
_Static_assert(KEY_COUNT <= (int)TD_PRIM_KEY, "a convolution's key fits");

static atomic_int forced = TD_CONV_AUTO;

void td__conv_set_layout(td_conv_layout layout) { atomic_store(&forced, (int)layout); }

/* Which layout to reorder into. In GF/s with reorders, one Zen 4 core, N=4
 * (blocked / nhwc / nchw): 3x3 128 channels @28 forward 118/117/87, weights
 * 111/111/82; 3x3/2 @56 weights 106/95/77; depthwise 42/21/4. Blocked reorders
 * cost half of nhwc's or less. Ice Lake runs nhwc forward 1.2 to 1.75 times as
 * fast as blocked for kernels above 1x1, and weights at stride 1 as much.
 * The data gradient towards few channels has no good kernel but nchw's: 3
 * channels 22/22/71, 1 channel 7/7/48. */
static td_conv_layout layout_of(const td_conv *p, td_conv_dir dir) {
    td_conv_layout want = (td_conv_layout)atomic_load(&forced);
    if (want != TD_CONV_AUTO) return want;
    if (dir == TD_CONV_DATA && p->groups == 1 && p->c < 8) return TD_CONV_NCHW;
#if defined(__x86_64__)
    bool wide = p->groups == 1 && p->kd * p->kh * p->kw > 1;
    bool flat = dir == TD_CONV_WEIGHTS && p->stride_h == 1 && p->stride_w == 1;
    if (wide && (flat || dir == TD_CONV_FORWARD) && __builtin_cpu_is("intel"))
        return TD_CONV_NHWC;
#endif
    return TD_CONV_BLOCKED;
}

/* ---- building ----------------------------------------------------------- */

/* Memory descriptors of input, weight, output and bias. */
typedef struct shapes {
    td_md x, w, y, bias;
} shapes;

/* Descriptors of version 2 own nothing. */
static void free_shapes(shapes *s) {
    td__md_free(&s->x);
    td__md_free(&s->w);
    td__md_free(&s->y);
    td__md_free(&s->bias);
}

static bool tagged(td_md *md, int rank, const dnnl_dims_t dims, dnnl_format_tag_t tag) {
    return td__md_tagged(md, rank, dims, dnnl_f32, tag);
}

/* One dim of an output. */
static int64_t out_of(int64_t in, int64_t k, int64_t step, int64_t pad, int64_t dil) {
    return (in + 2 * pad - dil * (k - 1) - 1) / step + 1;
}

/* Does the convolution move along one plane only? Then the library sees no depth. */
static bool is_flat(const int64_t *v) {
    return v[KEY_D] == 1 && v[KEY_KD] == 1 && v[KEY_PD] == 0;
}

/* Removes entry `at` of a list of n. */
static void leave_out(dnnl_dims_t v, int at, int n) {
    memmove(v + at, v + at + 1, (size_t)(n - at - 1) * sizeof v[0]);
}

/* Sizes and strides of x, y and the weights w; `rank` of x, `rank_w` of the weights. */
typedef struct geometry {
    dnnl_dims_t x, y, w, x_step, y_step, w_step;
    int         rank, rank_w;
} geometry;

/* As arrays with a depth and a dim for groups, then without what there is not. */
static void geometry_of(const int64_t *v, geometry *m) {
    const int64_t g = v[KEY_GROUPS], kd = v[KEY_KD], kh = v[KEY_KH], kw = v[KEY_KW];
    const int64_t d = v[KEY_D], h = v[KEY_H], w = v[KEY_W];
    const int64_t od = out_of(d, kd, v[KEY_SD], v[KEY_PD], v[KEY_DD]);
    const int64_t oh = out_of(h, kh, v[KEY_SH], v[KEY_PH], v[KEY_DH]);
    const int64_t ow = out_of(w, kw, v[KEY_SW], v[KEY_PW], v[KEY_DW]);
    const int64_t cell = kd * kh * kw, all = v[KEY_C_ALL] / g * cell;
    const int64_t x[2][5] = {{v[KEY_N], v[KEY_C], d, h, w},
                             {v[KEY_C_ALL] * d * h * w, d * h * w, h * w, w, 1}};
    const int64_t y[2][5] = {{v[KEY_N], v[KEY_O], od, oh, ow},
                             {v[KEY_O_ALL] * od * oh * ow, od * oh * ow, oh * ow, ow,
                              1}};
    const int64_t f[2][6] = {{g, v[KEY_O] / g, v[KEY_C] / g, kd, kh, kw},
                             {v[KEY_O] / g * all, all, cell, kh * kw, kw, 1}};
    memset(m, 0, sizeof *m);
    memcpy(m->x, x[0], sizeof x[0]), memcpy(m->x_step, x[1], sizeof x[1]);
    memcpy(m->y, y[0], sizeof y[0]), memcpy(m->y_step, y[1], sizeof y[1]);
    memcpy(m->w, f[0], sizeof f[0]), memcpy(m->w_step, f[1], sizeof f[1]);
    m->rank = 5, m->rank_w = 6;
    if (is_flat(v)) {
        leave_out(m->x, 2, 5), leave_out(m->x_step, 2, 5);
        leave_out(m->y, 2, 5), leave_out(m->y_step, 2, 5);
        leave_out(m->w, 3, 6), leave_out(m->w_step, 3, 6);
        m->rank--, m->rank_w--;
    }
    if (g == 1) {
        leave_out(m->w, 0, m->rank_w), leave_out(m->w_step, 0, m->rank_w);
        m->rank_w--;
    }
}

/* The caller's arrays, and what is asked of the library in their place. */
static bool describe(const int64_t *v, shapes *outer, shapes *inner) {
    const dnnl_dims_t bias = {v[KEY_O]};
    dnnl_format_tag_t tag = dnnl_format_tag_any;
    geometry          m;
    geometry_of(v, &m);
    if (v[KEY_LAYOUT] == TD_CONV_NCHW) tag = m.rank == 4 ? dnnl_nchw : dnnl_ncdhw;
    if (v[KEY_LAYOUT] == TD_CONV_NHWC) tag = m.rank == 4 ? dnnl_nhwc : dnnl_ndhwc;
    return td__md_strided(&outer->x, m.rank, m.x, m.x_step) &&
           td__md_strided(&outer->y, m.rank, m.y, m.y_step) &&
           td__md_strided(&outer->w, m.rank_w, m.w, m.w_step) &&
           tagged(&outer->bias, 1, bias, dnnl_a) &&
           tagged(&inner->x, m.rank, m.x, tag) && tagged(&inner->y, m.rank, m.y, tag) &&
           tagged(&inner->bias, 1, bias, dnnl_a) &&
           tagged(&inner->w, m.rank_w, m.w, dnnl_format_tag_any);
}

/* Backward descriptors need forward's as a hint. */
static bool describe_op(const int64_t *v, const shapes *in, dnnl_engine_t eng,
                        dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *pd) {
    td_dnnl_conv          c = {.eng = eng, .attr = attr};
    dnnl_primitive_desc_t hint;
    c.x = td__md(&in->x), c.w = td__md(&in->w), c.y = td__md(&in->y);
    c.bias = v[KEY_BIAS] ? td__md(&in->bias) : NULL;
    for (int d = 0; d < 3; d++) {
        static const int at[3][3] = {{KEY_SD, KEY_DD, KEY_PD},
                                     {KEY_SH, KEY_DH, KEY_PH},
                                     {KEY_SW, KEY_DW, KEY_PW}};
        c.stride[d] = v[at[d][0]];
        c.dilation[d] = v[at[d][1]] - 1;
        c.pad[d] = v[at[d][2]];
    }
    if (is_flat(v))
        leave_out(c.stride, 0, 3), leave_out(c.dilation, 0, 3), leave_out(c.pad, 0, 3);
    if (!td__dnnl_conv(&hint, &c)) return false;
    if (v[KEY_DIR] == TD_CONV_FORWARD) {
        *pd = hint;
        return true;
    }
    bool ok = v[KEY_DIR] == TD_CONV_DATA ? td__dnnl_conv_data(pd, &c, hint)
                                         : td__dnnl_conv_weights(pd, &c, hint);
    dnnl_primitive_desc_destroy(hint);
    return ok;
}

/* Operand i is argument `arg`; its inner layout is the one the library chose. */
static bool operand(td_prim *p, int i, int arg, dnnl_primitive_desc_t pd,
                    const td_md *outer) {
    td_md_ref md = dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, arg);
    if (!md) return false;
    p->arg[i] = arg;
    return td__md_copy(&p->outer[i], td__md(outer)) && td__md_copy(&p->inner[i], md);
}

/* Which operand of td_conv_args is which argument of the primitive, by direction. */
static bool set_operands(td_prim *p, const shapes *out, dnnl_primitive_desc_t pd) {
    const int64_t *v = p->key.v;
    switch ((td_conv_dir)v[KEY_DIR]) {
    case TD_CONV_FORWARD:
        return operand(p, TD_PRIM_A, DNNL_ARG_SRC, pd, &out->x) &&
               operand(p, TD_PRIM_B, DNNL_ARG_WEIGHTS, pd, &out->w) &&
               operand(p, TD_PRIM_OUT, DNNL_ARG_DST, pd, &out->y) &&
               (!v[KEY_BIAS] ||
                operand(p, TD_PRIM_BIAS, DNNL_ARG_BIAS, pd, &out->bias));
    case TD_CONV_DATA:
        return operand(p, TD_PRIM_A, DNNL_ARG_DIFF_DST, pd, &out->y) &&
               operand(p, TD_PRIM_B, DNNL_ARG_WEIGHTS, pd, &out->w) &&
               operand(p, TD_PRIM_OUT, DNNL_ARG_DIFF_SRC, pd, &out->x);
    case TD_CONV_WEIGHTS:
        return operand(p, TD_PRIM_A, DNNL_ARG_SRC, pd, &out->x) &&
               operand(p, TD_PRIM_B, DNNL_ARG_DIFF_DST, pd, &out->y) &&
               operand(p, TD_PRIM_OUT, DNNL_ARG_DIFF_WEIGHTS, pd, &out->w);
    }
    return false;
}

/* Fills in the descriptors of a new primitive for its key; called once per key by
 * td__prim_get. */
static bool build(td_prim *p, dnnl_engine_t eng, dnnl_primitive_attr_t attr,
                  dnnl_primitive_desc_t *pd) {
    shapes out, in;
    memset(&out, 0, sizeof out);
    memset(&in, 0, sizeof in);
    bool ok =
        describe(p->key.v, &out, &in) && describe_op(p->key.v, &in, eng, attr, pd);
    if (ok && !set_operands(p, &out, *pd)) {
        dnnl_primitive_desc_destroy(*pd);
        ok = false;
    }
    free_shapes(&out);
    free_shapes(&in);
    return ok;
}

/* ---- pieces ------------------------------------------------------------- */

/* What the pool cuts: images, output channels, or input channels. */
typedef enum cut { CUT_N, CUT_O, CUT_C } cut;

typedef struct job {
    const td_conv      *p;
    td_conv_dir         dir;
    const td_conv_args *t;
    cut                 by;
    int64_t             pieces, step; /* a piece is `step` items, the last fewer */
    float              *partial;      /* CUT_N of weights: pieces 1.. end here */
    atomic_bool         failed;
} job;

/* Elements of the weight. */
static int64_t weight_count(const td_conv *p) {
    return p->o * (p->c / p->groups) * p->kd * p->kh * p->kw;
}

/* Pixels of one output channel. */
static int64_t out_area(const td_conv *p) {
    return td__conv_out_d(p) * td__conv_out_h(p) * td__conv_out_w(p);
}

/* Finds or builds the primitive for the sizes s and runs it. */
static bool run_piece(const job *j, const td_conv *s,
                      void *const ptr[TD_PRIM_OPERANDS]) {
    td_prim_key key = {{'c',
                        (int64_t)j->dir,
                        (int64_t)layout_of(j->p, j->dir),
                        s->n,
                        s->c,
                        s->h,
                        s->w,
                        s->o,
                        s->kh,
                        s->kw,
                        s->stride_h,
                        s->stride_w,
                        s->pad_h,
                        s->pad_w,
                        s->dil_h,
                        s->dil_w,
                        s->groups,
                        ptr[TD_PRIM_BIAS] != NULL,
                        j->p->c,
                        j->p->o,
                        s->d,
                        s->kd,
                        s->stride_d,
                        s->pad_d,
                        s->dil_d}};
    td_prim    *p = td__prim_get(&key, build);
    if (!p) return false;
    bool ok = td__prim_run(p, ptr);
    td__prim_put(p);
    return ok;
}

/* x, w, y and b are where piece i begins in each array, in elements. */
static void piece(job *j, int64_t i) {
    const td_conv *p = j->p;
    td_conv        s = *p;
    const int64_t  at = i * j->step, cg = p->c / p->groups;
    const int64_t  cell = p->kd * p->kh * p->kw, volume = p->d * p->h * p->w;
    const int64_t  area = out_area(p);
    int64_t        x = 0, w = 0, y = 0, b = 0;
    int64_t       *size = j->by == CUT_N ? &s.n : j->by == CUT_O ? &s.o : &s.c;
    *size = *size - at < j->step ? *size - at : j->step;
    if (j->by == CUT_N) x = at * p->c * volume, y = at * p->o * area;
    if (j->by == CUT_O) w = at * cg * cell, y = at * area, b = at;
    if (j->by == CUT_C) x = at * volume, w = at * cell;
    const td_conv_args *t = j->t;
    float *a = (float *)(uintptr_t)t->a, *f = (float *)(uintptr_t)t->b, *out = t->out;
    float *bias = NULL;
    if (t->bias && j->dir == TD_CONV_FORWARD) bias = (float *)(uintptr_t)t->bias + b;
    if (j->dir == TD_CONV_FORWARD) a += x, f += w, out += y;
    if (j->dir == TD_CONV_DATA) a += y, f += w, out += x;
    if (j->dir == TD_CONV_WEIGHTS) a += x, f += y, out += w;
    if (j->partial && i > 0) out = j->partial + (i - 1) * weight_count(p);
    if (!run_piece(j, &s, (void *[]){a, f, out, bias})) atomic_store(&j->failed, true);
}

/* Pieces [begin, end) of the cut. */
static void pieces(void *arg, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) piece(arg, i);
}

/* The pieces' weight gradients are added in their order, whoever made them. */
static void add_partials(void *arg, int64_t begin, int64_t end) {
    const job    *j = arg;
    const int64_t count = weight_count(j->p);
    float        *out = j->t->out;
    for (int64_t k = 1; k < j->pieces; k++) {
        const float *from = j->partial + (k - 1) * count;
        for (int64_t i = begin; i < end; i++) out[i] += from[i];
    }
}

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Every thread reorders what its piece shares with the others: the weights when
 * images are cut, the images (`shared`) when channels are. The smaller wins. */
static void choose_cut(job *j) {
    const td_conv *p = j->p;
    const double   work = (double)(p->n * p->o) *
                        (double)(p->c / p->groups * p->kd * p->kh * p->kw) *
                        (double)out_area(p);
    const int64_t shared = j->dir == TD_CONV_DATA ? p->n * p->o * out_area(p)
                                                  : p->n * p->c * p->d * p->h * p->w;
    int64_t       threads = td__pool_size(), size = p->n, grain = 1;
    j->by = CUT_N;
    if (p->groups == 1 && (p->n == 1 || weight_count(p) > shared)) {
        j->by = j->dir == TD_CONV_DATA ? CUT_C : CUT_O;
        size = j->by == CUT_C ? p->c : p->o;
        grain = CHANNEL_GRAIN;
    }
    if (threads > PIECES_MAX) threads = PIECES_MAX;
    if (threads > 1 + (int64_t)(work / SPLIT_WORK))
        threads = 1 + (int64_t)(work / SPLIT_WORK);
    j->step = ceil_div(ceil_div(size, threads), grain) * grain;
    j->pieces = ceil_div(size, j->step);
}

/* 1x1 at stride 1 is a plain product on NCHW as it lies: 106 against 78 GF/s
 * forward, 64 to 256 channels @56, one core. Its weight gradient is a tie. */
static bool is_product(const td_conv *p, td_conv_dir dir) {
    return dir != TD_CONV_WEIGHTS && p->kd == 1 && p->kh == 1 && p->kw == 1 &&
           p->stride_d == 1 && p->stride_h == 1 && p->stride_w == 1 && p->pad_d == 0 &&
           p->pad_h == 0 && p->pad_w == 0 && p->groups == 1;
}

bool td__conv_dnnl(const td_conv *p, td_conv_dir dir, const td_conv_args *t) {
    if (atomic_load(&forced) == TD_CONV_AUTO &&
        (is_product(p, dir) || td__conv_at_once(p, dir)))
        return false;
    job    j = {.p = p, .dir = dir, .t = t};
    size_t bytes = 0;
    atomic_init(&j.failed, false);
    choose_cut(&j);
    if (dir == TD_CONV_WEIGHTS && j.by == CUT_N && j.pieces > 1) {
        bytes = (size_t)((j.pieces - 1) * weight_count(p)) * sizeof(float);
        j.partial = td__block_alloc(bytes);
        if (!j.partial) return false;
    }
    td__pool_run(j.pieces, 1, pieces, &j);
    bool ok = !atomic_load(&j.failed);
    if (ok && j.partial) td__pool_run(weight_count(p), SUM_GRAIN, add_partials, &j);
    if (j.partial) td__block_free(j.partial, bytes);
    return ok;
}

#else

void td__conv_set_layout(td_conv_layout layout) { (void)layout; }

bool td__conv_dnnl(const td_conv *p, td_conv_dir dir, const td_conv_args *t) {
    (void)p, (void)dir, (void)t;
    return false;
}

#endif
