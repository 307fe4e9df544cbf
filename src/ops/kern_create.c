/* kern_create.c -- kernels of creation: one value, or a sequence. */
#include "ops/cast.h"
#include "ops/create.h"

#include <math.h>

#define GRAIN 32768 /* elements below which a second thread does not pay */

/* ---- one value ---------------------------------------------------------- */

bool td__kern_empty(td_opcall *c) { return c->out[0] != NULL; }
bool td__kern_zeros(td_opcall *c) { return td__fill(c->out[0], td_value_int(0)); }
bool td__kern_ones(td_opcall *c) { return td__fill(c->out[0], td_value_int(1)); }
bool td__kern_full(td_opcall *c) {
    return td__fill(c->out[0], c->in[td__scalar_arg(c)]);
}

bool td__kern_eye(td_opcall *c) {
    td_tensor *t = c->out[0];
    size_t     item = td__dtype_bytes[t->dtype];
    td__fill(t, td_value_int(0));
    for (int64_t i = 0; i < t->size[0] && i < t->size[1]; i++)
        td__store_i((td_dtype)t->dtype,
                    td__ptr(t) + (size_t)(i * (t->size[1] + 1)) * item, 1);
    return true;
}

/* ---- sequences ---------------------------------------------------------- */

typedef struct range_job {
    char    *p;
    td_dtype dt;
    double   start, end, step; /* floats, and linspace of integers */
    int64_t  first, stride;    /* integers */
    int64_t  n;
} range_job;

static double rounded(td_dtype dt, double v) {
    char item[8];
    td__store_f(dt, item, v);
    return td__load_f(dt, item);
}

static void arange_ints(const range_job *j, int64_t begin, int64_t end) {
    size_t   item = td__dtype_bytes[j->dt];
    uint64_t at = (uint64_t)j->first + (uint64_t)begin * (uint64_t)j->stride;
    for (int64_t i = begin; i < end; i++, at += (uint64_t)j->stride)
        td__store_i(j->dt, j->p + (size_t)i * item, (int64_t)at);
}

/* PyTorch steps in pairs of 32-byte vectors: the first lane of a vector is rounded
 * to the dtype and the others count from it; what is left behind the last pair has
 * no vector. Doing the same gives the same bits. Returns where the vector of
 * element i starts, or i itself. */
static int64_t vector_of(const range_job *j, int64_t i, int64_t lanes) {
    return i < j->n / (2 * lanes) * (2 * lanes) ? i / lanes * lanes : i;
}

static void arange_range(void *arg, int64_t begin, int64_t end) {
    const range_job *j = arg;
    float            step = (float)j->step;
    for (int64_t i = begin; i < end && j->dt == TD_F32; i++) {
        int64_t v = vector_of(j, i, 8);
        float   base = (float)fma(j->step, (double)v, j->start);
        ((float *)(void *)j->p)[i] = (float)fma(j->step, (double)(i - v), (double)base);
    }
    for (int64_t i = begin; i < end && j->dt == TD_F64; i++) {
        int64_t v = vector_of(j, i, 4);
        double  base = fma(j->step, (double)v, j->start);
        ((double *)(void *)j->p)[i] = fma(j->step, (double)(i - v), base);
    }
    for (int64_t i = begin; i < end && td__is_half(j->dt); i++) {
        int64_t v = vector_of(j, i, 16);
        double  base = rounded(j->dt, (double)fmaf(step, (float)v, (float)j->start));
        td__store_f(j->dt, j->p + 2 * i,
                    (double)fmaf(step, (float)(i - v), (float)base));
    }
    if (!td__is_float(j->dt)) arange_ints(j, begin, end);
}

bool td__kern_arange(td_opcall *c) {
    td_tensor *t = c->out[0];
    range_job  j = {.p = td__ptr(t),
                    .dt = (td_dtype)t->dtype,
                    .n = t->numel,
                    .start = td__in_f(c, 0),
                    .step = td__in_f(c, 2),
                    .first = td__value_i(c->in[0]),
                    .stride = td__value_i(c->in[2])};
    if (t->numel) td__pool_run(t->numel, GRAIN, arange_range, &j);
    return true;
}

/* From start up to the middle, from end after it, so that both ends are exact.
 * Product and sum round once together, except for f16, as in ATen. */
static void linspace_range(void *arg, int64_t begin, int64_t end) {
    const range_job *j = arg;
    size_t           item = td__dtype_bytes[j->dt];
    float            step = (float)j->step;
    for (int64_t i = begin; i < end; i++) {
        bool    head = i < j->n / 2;
        int64_t k = head ? i : i - (j->n - 1); /* steps from that end */
        double  from = head ? j->start : j->end, v;
        if (j->dt == TD_F32 || j->dt == TD_BF16)
            v = (double)fmaf(step, (float)k, (float)from);
        else if (j->dt == TD_F16) v = (double)((float)from + step * (float)k);
        else v = fma(j->step, (double)k, from);
        td__store_f(j->dt, j->p + (size_t)i * item, v);
    }
}

/* Bounds are rounded to the dtype, the step is not: 16-bit floats take one of
 * float, integers one of double. */
bool td__kern_linspace(td_opcall *c) {
    td_tensor *t = c->out[0];
    td_dtype   dt = (td_dtype)t->dtype;
    double     gaps = (double)(t->numel - 1);
    range_job  j = {.p = td__ptr(t), .dt = dt, .n = t->numel};
    char       ends[2][8];
    if (t->numel < 2) return t->numel ? td__fill(t, c->in[0]) : true;
    td__store_value(dt, ends[0], c->in[0]);
    td__store_value(dt, ends[1], c->in[1]);
    j.start = td__load_f(dt, ends[0]);
    j.end = td__load_f(dt, ends[1]);
    j.step = (j.end - j.start) / gaps;
    if (td__is_float(dt) && dt != TD_F64)
        j.step = (double)(((float)j.end - (float)j.start) / (float)gaps);
    td__pool_run(t->numel, GRAIN, linspace_range, &j);
    return true;
}

/* ---- triangles ---------------------------------------------------------- */

/* Writes the row and column of each element from `low` to `high` of every row. */
static bool tri_indices(td_opcall *c, bool upper) {
    td_tensor *t = c->out[0];
    td_dtype   dt = (td_dtype)t->dtype;
    int64_t    rows = td__in_int(c, 0), cols = td__in_int(c, 1), k = td__in_int(c, 2);
    size_t     item = td__dtype_bytes[dt];
    char      *row = td__ptr(t), *col = row ? row + (size_t)t->size[1] * item : NULL;
    if (k > cols) k = cols;
    if (k < -rows) k = -rows;
    for (int64_t i = 0; i < rows && row; i++) {
        int64_t low = upper && i + k > 0 ? i + k : 0;
        int64_t high = upper || i + k >= cols ? cols : i + k + 1;
        for (int64_t j = low; j < high; j++, row += item, col += item) {
            td__store_i(dt, row, i);
            td__store_i(dt, col, j);
        }
    }
    return true;
}

bool td__kern_tril_indices(td_opcall *c) { return tri_indices(c, false); }
bool td__kern_triu_indices(td_opcall *c) { return tri_indices(c, true); }
