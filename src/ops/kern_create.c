/* kern_create.c -- kernels of creation: one value, or a sequence. */
#include "ops/cast.h"
#include "ops/create.h"

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
    double   start, end, step;    /* floats, and linspace of integers */
    int64_t  first, last, stride; /* integers */
    int64_t  n;
} range_job;

static void arange_ints(const range_job *j, int64_t begin, int64_t end) {
    size_t   item = td__dtype_bytes[j->dt];
    uint64_t at = (uint64_t)j->first + (uint64_t)begin * (uint64_t)j->stride;
    for (int64_t i = begin; i < end; i++, at += (uint64_t)j->stride)
        td__store_i(j->dt, j->p + (size_t)i * item, (int64_t)at);
}

/* Computed in double and rounded once; 16-bit floats in float, as ATen does. */
static void arange_range(void *arg, int64_t begin, int64_t end) {
    const range_job *j = arg;
    float            start = (float)j->start, step = (float)j->step;
    if (j->dt == TD_F32)
        for (int64_t i = begin; i < end; i++)
            ((float *)(void *)j->p)[i] = (float)(j->start + j->step * (double)i);
    else if (j->dt == TD_F64)
        for (int64_t i = begin; i < end; i++)
            ((double *)(void *)j->p)[i] = j->start + j->step * (double)i;
    else if (td__is_float(j->dt))
        for (int64_t i = begin; i < end; i++)
            td__store_f(j->dt, j->p + 2 * i, (double)(start + step * (float)i));
    else arange_ints(j, begin, end);
}

bool td__kern_arange(td_opcall *c) {
    td_tensor *t = c->out[0];
    range_job  j = {.p = td__ptr(t),
                    .dt = (td_dtype)t->dtype,
                    .start = td__in_f(c, 0),
                    .step = td__in_f(c, 2),
                    .first = td__value_i(c->in[0]),
                    .stride = td__value_i(c->in[2])};
    if (t->numel) td__pool_run(t->numel, GRAIN, arange_range, &j);
    return true;
}

static double rounded(td_dtype dt, double v) {
    char item[8];
    td__store_f(dt, item, v);
    return td__load_f(dt, item);
}

/* From start up to the middle, from end after it, so that both ends are exact.
 * Every operation rounds to the dtype, as ATen's scalars do. */
static void linspace_floats(const range_job *j, int64_t begin, int64_t end) {
    size_t item = td__dtype_bytes[j->dt];
    for (int64_t i = begin; i < end; i++) {
        bool    head = i < j->n / 2;
        int64_t k = head ? i : j->n - 1 - i;
        double  way = rounded(j->dt, j->step * rounded(j->dt, (double)k));
        td__store_f(j->dt, j->p + (size_t)i * item,
                    head ? j->start + way : j->end - way);
    }
}

static void linspace_ints(const range_job *j, int64_t begin, int64_t end) {
    size_t item = td__dtype_bytes[j->dt];
    for (int64_t i = begin; i < end; i++) {
        bool   head = i < j->n / 2;
        double v = head ? (double)j->first + j->step * (double)i
                        : (double)j->last - j->step * (double)(j->n - 1 - i);
        td__store_f(j->dt, j->p + (size_t)i * item, v);
    }
}

static void linspace_range(void *arg, int64_t begin, int64_t end) {
    const range_job *j = arg;
    if (td__is_float(j->dt)) linspace_floats(j, begin, end);
    else linspace_ints(j, begin, end);
}

bool td__kern_linspace(td_opcall *c) {
    td_tensor *t = c->out[0];
    td_dtype   dt = (td_dtype)t->dtype;
    range_job  j = {.p = td__ptr(t),
                    .dt = dt,
                    .n = t->numel,
                    .first = td__value_i(c->in[0]),
                    .last = td__value_i(c->in[1])};
    double     gaps = (double)(t->numel - 1);
    if (t->numel < 2) return t->numel ? td__fill(t, c->in[0]) : true;
    if (td__is_float(dt)) {
        j.start = rounded(dt, td__in_f(c, 0));
        j.end = rounded(dt, td__in_f(c, 1));
        j.step = rounded(dt, rounded(dt, j.end - j.start) / rounded(dt, gaps));
    } else j.step = ((double)j.last - (double)j.first) / gaps;
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
