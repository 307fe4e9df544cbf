/* conv_cols.c -- convolution as matrix products, for f32 and f64.
 * One image and group at a time: its patches become columns [C/g*KD*KH*KW, OD*OH*OW]
 * and td__gemm does the rest. Rows are counted through all depths: an image has d*h
 * of them, a result od*oh. A 1x1 kernel with stride 1 and no padding needs no
 * columns: the image is already the matrix. */
#include "kernels/conv.h"

#include "base/base.h"
#include "kernels/gemm.h"

#include <stdatomic.h>
#include <string.h>

/* AT_ONCE: up to so many pixels in a batch. Against oneDNN's blocked kernel and its
 * reorders, 8 images, one Zen 4 core, ms: 512 channels @2 1.7 to 3.4, 256 to 512 @4/2
 * 0.9 to 1.8; 256 @4, 128 pixels, a tie. */
enum { AT_ONCE = 64, GATHER_GRAIN = 1 << 14 };

/* One call; the arrays are contiguous, strides follow from the sizes. */
typedef struct job {
    const td_conv      *p;
    td_conv_dir         dir;
    const td_conv_args *t;
    int64_t             oh, ow, rows; /* of the result; rows: OD*OH */
    int64_t             depth;        /* C/g*KD*KH*KW, a column's length */
    int64_t             item;
    bool                direct; /* the image serves as the columns */
    atomic_bool         failed;
} job;

/* A 1x1 kernel that reads every pixel once, where it is. */
static bool is_pointwise(const td_conv *p) {
    return p->kd == 1 && p->kh == 1 && p->kw == 1 && p->stride_d == 1 &&
           p->stride_h == 1 && p->stride_w == 1 && p->pad_d == 0 && p->pad_h == 0 &&
           p->pad_w == 0;
}

/* ---- columns ------------------------------------------------------------ */

/* Where one row of columns (channel c, kernel cell r,s) meets one output row. */
typedef struct cell {
    int64_t c, s, y; /* y: the input row, or outside the image */
} cell;

/* Row q of the columns is (channel, kernel depth, row, column). False: the input row
 * for output row `row` is padding. */
static bool locate(const job *j, int64_t q, int64_t row, cell *at) {
    const td_conv *p = j->p;
    const int64_t  plane = p->kh * p->kw;
    const int64_t  z =
        row / j->oh * p->stride_d - p->pad_d + q / plane % p->kd * p->dil_d;
    const int64_t y =
        row % j->oh * p->stride_h - p->pad_h + q / p->kw % p->kh * p->dil_h;
    at->c = q / (p->kd * plane);
    at->s = q % p->kw;
    at->y = z * p->h + y;
    return z >= 0 && z < p->d && y >= 0 && y < p->h;
}

/* Output positions [first,last) of a row read inside the image for cell s. */
static void inside(const job *j, int64_t s, int64_t *first, int64_t *last) {
    const td_conv *p = j->p;
    const int64_t  shift = s * p->dil_w - p->pad_w; /* x = i * stride + shift */
    *first = shift >= 0 ? 0 : (-shift + p->stride_w - 1) / p->stride_w;
    *last = p->w - shift <= 0 ? 0 : (p->w - shift - 1) / p->stride_w + 1;
    if (*first > j->ow) *first = j->ow;
    if (*last > j->ow) *last = j->ow;
    if (*last < *first) *last = *first;
}

/* One row of columns from one row of the image, zeros outside of it. */
static void copy_row(const job *j, const char *row, char *col, int64_t s) {
    const td_conv *p = j->p;
    const int64_t  shift = s * p->dil_w - p->pad_w;
    int64_t        first, last;
    inside(j, s, &first, &last);
    memset(col, 0, (size_t)(first * j->item));
    memset(col + last * j->item, 0, (size_t)((j->ow - last) * j->item));
    if (last == first) return;
    if (p->stride_w == 1)
        memcpy(col + first * j->item, row + (first + shift) * j->item,
               (size_t)((last - first) * j->item));
    else if (j->item == 4)
        for (int64_t i = first; i < last; i++)
            ((float *)col)[i] = ((const float *)row)[i * p->stride_w + shift];
    else
        for (int64_t i = first; i < last; i++)
            ((double *)col)[i] = ((const double *)row)[i * p->stride_w + shift];
}

/* cols[q][oh][ow] = the element of `image` that cell q of the kernel meets at that
 * output position, 0 in the padding. */
static void unfold(const job *j, const char *image, char *cols) {
    for (int64_t q = 0; q < j->depth; q++)
        for (int64_t r = 0; r < j->rows; r++) {
            char *col = cols + (q * j->rows + r) * j->ow * j->item;
            cell  at;
            if (locate(j, q, r, &at))
                copy_row(j,
                         image + (at.c * j->p->d * j->p->h + at.y) * j->p->w * j->item,
                         col, at.s);
            else memset(col, 0, (size_t)(j->ow * j->item));
        }
}

/* The transpose of unfold: every column is added to where it came from. */
static void fold(const job *j, const char *cols, char *image) {
    const td_conv *p = j->p;
    memset(image, 0, (size_t)(p->c / p->groups * p->d * p->h * p->w * j->item));
    for (int64_t u = 0; u < j->depth * j->rows; u++) {
        const char *col = cols + u * j->ow * j->item;
        cell        at;
        int64_t     first, last;
        if (!locate(j, u / j->rows, u % j->rows, &at)) continue;
        inside(j, at.s, &first, &last);
        const int64_t shift = at.s * p->dil_w - p->pad_w;
        const int64_t base = (at.c * p->d * p->h + at.y) * p->w;
        if (j->item == 4)
            for (int64_t i = first; i < last; i++)
                ((float *)image)[base + i * p->stride_w + shift] +=
                    ((const float *)col)[i];
        else
            for (int64_t i = first; i < last; i++)
                ((double *)image)[base + i * p->stride_w + shift] +=
                    ((const double *)col)[i];
    }
}

/* ---- one image of one group --------------------------------------------- */

/* A product without a batch, alpha 1, beta 0. */
static td_gemm product(const job *j) {
    return (td_gemm){.dtype = j->p->dtype, .batch = 1, .alpha = 1};
}

/* y[o][:] += bias[o0 + o] for the output channels of one group. */
static void add_bias(const job *j, char *y, int64_t o0) {
    const int64_t area = j->rows * j->ow, count = j->p->o / j->p->groups;
    for (int64_t u = 0; u < count * area; u++)
        if (j->item == 4) ((float *)y)[u] += ((const float *)j->t->bias)[o0 + u / area];
        else ((double *)y)[u] += ((const double *)j->t->bias)[o0 + u / area];
}

/* y[O/g, area] = w[O/g, depth] @ cols[depth, area] */
static bool forward(const job *j, const char *x, const char *w, char *y, char *cols) {
    const int64_t area = j->rows * j->ow;
    td_gemm       g = product(j);
    if (!j->direct) unfold(j, x, cols);
    g.m = j->p->o / j->p->groups, g.n = area, g.k = j->depth;
    g.a = w, g.a_row = j->depth, g.a_col = 1;
    g.b = j->direct ? x : cols, g.b_row = area, g.b_col = 1;
    g.c = y, g.c_row = area, g.c_col = 1;
    return td__gemm(&g);
}

/* cols[depth, area] = w^T @ dy[O/g, area], then folded */
static bool data(const job *j, const char *dy, const char *w, char *dx, char *cols) {
    const int64_t area = j->rows * j->ow;
    td_gemm       g = product(j);
    g.m = j->depth, g.n = area, g.k = j->p->o / j->p->groups;
    g.a = w, g.a_row = 1, g.a_col = j->depth;
    g.b = dy, g.b_row = area, g.b_col = 1;
    g.c = j->direct ? dx : cols, g.c_row = area, g.c_col = 1;
    if (!td__gemm(&g)) return false;
    if (!j->direct) fold(j, cols, dx);
    return true;
}

/* dw[O/g, depth] (+)= dy[O/g, area] @ cols^T */
static bool weights(const job *j, const char *x, const char *dy, char *dw, char *cols,
                    bool add) {
    const int64_t area = j->rows * j->ow;
    td_gemm       g = product(j);
    if (!j->direct) unfold(j, x, cols);
    g.m = j->p->o / j->p->groups, g.n = j->depth, g.k = area;
    g.a = dy, g.a_row = area, g.a_col = 1;
    g.b = j->direct ? x : cols, g.b_row = 1, g.b_col = area;
    g.c = dw, g.c_row = j->depth, g.c_col = 1;
    g.beta = add;
    return td__gemm(&g);
}

/* Unit u is (sample, group): finds its parts of the three arrays and runs the
 * direction. */
static bool image(const job *j, int64_t u, char *cols) {
    const td_conv      *p = j->p;
    const td_conv_args *t = j->t;
    const int64_t       n = u / p->groups, gr = u % p->groups, og = p->o / p->groups;
    const int64_t       volume = p->d * p->h * p->w * j->item;
    const int64_t       x = (n * p->c + gr * (p->c / p->groups)) * volume;
    const int64_t       y = (n * p->o + gr * og) * j->rows * j->ow * j->item;
    const int64_t       w = gr * og * j->depth * j->item;
    const char         *a = t->a, *b = t->b;
    char               *out = t->out;
    if (j->dir == TD_CONV_DATA) return data(j, a + y, b + w, out + x, cols);
    if (j->dir == TD_CONV_WEIGHTS)
        return weights(j, a + x, b + y, out + w, cols, n > 0);
    if (!forward(j, a + x, b + w, out + y, cols)) return false;
    if (t->bias) add_bias(j, out + y, gr * og);
    return true;
}

/* One block of columns serves all units of a thread. */
static void images(void *arg, int64_t begin, int64_t end) {
    job         *j = arg;
    const size_t bytes = (size_t)(j->depth * j->rows * j->ow * j->item);
    char        *cols = j->direct ? NULL : td__block_alloc(bytes);
    bool         ok = cols || j->direct;
    for (int64_t u = begin; ok && u < end; u++) ok = image(j, u, cols);
    if (cols) td__block_free(cols, bytes);
    if (!ok) atomic_store(&j->failed, true);
}

/* ---- all images of a weight gradient at once ----------------------------- */

/* Columns of the whole batch side by side, [depth, images], and dy as [O, images]. */
typedef struct batch {
    const job *j;
    int64_t    images; /* N*OD*OH*OW */
    char      *cols, *dy;
} batch;

/* One row of columns; elements outside the image are zero already. */
static void gather_row(const batch *b, int64_t q) {
    const job     *j = b->j;
    const td_conv *p = j->p;
    const int64_t  shift = q % p->kw * p->dil_w - p->pad_w;
    int64_t        first, last;
    inside(j, q % p->kw, &first, &last);
    for (int64_t u = 0; u < p->n * j->rows; u++) {
        const int64_t to = q * b->images + u * j->ow;
        cell          at;
        if (!locate(j, q, u % j->rows, &at)) continue;
        const int64_t image = u / j->rows * p->c + at.c;
        const int64_t from = (image * p->d * p->h + at.y) * p->w + shift;
        for (int64_t i = first; i < last; i++)
            if (j->item == 4)
                ((float *)b->cols)[to + i] =
                    ((const float *)j->t->a)[from + i * p->stride_w];
            else
                ((double *)b->cols)[to + i] =
                    ((const double *)j->t->a)[from + i * p->stride_w];
    }
}

/* Rows [begin, end) of the columns. */
static void gather_rows(void *arg, int64_t begin, int64_t end) {
    const batch *b = arg;
    for (int64_t q = begin; q < end; q++) gather_row(b, q);
}

/* dy [N][O][area] as [O][N][area], so that the batch is one dim of the product. */
static void gather_dy(const batch *b) {
    const job   *j = b->j;
    const size_t run = (size_t)(j->rows * j->ow * j->item);
    for (int64_t o = 0; o < j->p->o; o++)
        for (int64_t n = 0; n < j->p->n; n++)
            memcpy(b->dy + (size_t)(o * j->p->n + n) * run,
                   (const char *)j->t->b + (size_t)(n * j->p->o + o) * run, run);
}

/* dw[O, depth] = dy @ cols^T: one product, deep enough to pay. */
static bool weights_at_once(const job *j) {
    batch         b = {j, j->p->n * j->rows * j->ow, NULL, NULL};
    const int64_t o = j->p->o;
    const size_t  cols = (size_t)(j->depth * b.images * j->item);
    const size_t  bytes = cols + (size_t)(o * b.images * j->item);
    b.cols = td__block_alloc(bytes);
    if (!b.cols) return false;
    b.dy = b.cols + cols;
    memset(b.cols, 0, cols);
    td__pool_run(j->depth, 1 + GATHER_GRAIN / b.images, gather_rows, &b);
    gather_dy(&b);
    td_gemm g = product(j);
    g.m = o, g.n = j->depth, g.k = b.images;
    g.a = b.dy, g.a_row = b.images, g.a_col = 1;
    g.b = b.cols, g.b_row = 1, g.b_col = b.images;
    g.c = j->t->out, g.c_row = j->depth, g.c_col = 1;
    bool ok = td__gemm(&g);
    td__block_free(b.cols, bytes);
    return ok;
}

bool td__conv_at_once(const td_conv *p, td_conv_dir dir) {
    return dir == TD_CONV_WEIGHTS && p->groups == 1 && !is_pointwise(p) &&
           p->n * td__conv_out_d(p) * td__conv_out_h(p) * td__conv_out_w(p) <= AT_ONCE;
}

/* ---- entry -------------------------------------------------------------- */

/* Images are independent except in the weight gradient, which adds them up and
 * so goes through them in order, splitting inside the products. */
bool td__conv_cols(const td_conv *p, td_conv_dir dir, const td_conv_args *t) {
    job j = {.p = p,
             .dir = dir,
             .t = t,
             .oh = td__conv_out_h(p),
             .ow = td__conv_out_w(p),
             .rows = td__conv_out_d(p) * td__conv_out_h(p),
             .depth = p->c / p->groups * p->kd * p->kh * p->kw,
             .item = p->dtype == TD_F64 ? 8 : 4,
             .direct = is_pointwise(p)};
    if (td__conv_at_once(p, dir)) return weights_at_once(&j);
    atomic_init(&j.failed, false);
    const int64_t units = p->n * p->groups;
    if (dir != TD_CONV_WEIGHTS && units >= td__pool_size())
        td__pool_run(units, 1, images, &j);
    else images(&j, 0, units);
    return !atomic_load(&j.failed);
}
