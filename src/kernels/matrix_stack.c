/* matrix_stack.c -- what kernels over stacks of matrices share: where each matrix is,
 * column-major copies for LAPACK, threads over the stack, and errors that name the
 * matrix. */
#include "kernels/blas_setup.h"
#include "kernels/lapack.h"
#include "ops/cast.h"
#include "rules/matrix_args.h"
#include "rules/shape_rules.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

int64_t td__stack_count(const td_tensor *t) {
    int64_t n = 1;
    for (int d = 0; d < t->rank - 2; d++) n *= t->size[d];
    return n;
}

char *td__stack_at(const td_tensor *t, int tail, const td_tensor *of, int64_t i) {
    int64_t at = 0;
    int     d = t->rank - tail - 1;
    for (int k = of->rank - 3; k >= 0 && d >= 0; k--, d--) {
        if (t->size[d] != 1) at += i % of->size[k] * t->stride[d];
        i /= of->size[k];
    }
    return td__ptr(t) + at * td__dtype_bytes[t->dtype];
}

/* A tensor of meta m with the elements of t. */
static td_tensor *copy_as(td_opcall *c, const td_meta *m, const td_tensor *t) {
    td_tensor *r = td__tensor_make(c->cx, m, false);
    if (r && !td_is_nil(r) && t && !td__copy_into(r, t)) {
        td_drop(r);
        return NULL;
    }
    return r && td_is_nil(r) ? NULL : r;
}

td_tensor *td__columns_copy(td_opcall *c, const td_tensor *t) {
    td_meta m;
    td__meta_columns(&m, (td_dtype)t->dtype, t->rank, t->size);
    return copy_as(c, &m, t);
}

td_tensor *td__columns_of(td_opcall *c, td_tensor *t, td_tensor **own) {
    int64_t rows = t->size[t->rank - 2], cols = t->size[t->rank - 1];
    bool    fits = (rows < 2 || t->stride[t->rank - 2] == 1) &&
                (cols < 2 || t->stride[t->rank - 1] == (rows ? rows : 1));
    *own = NULL;
    if (fits) return t;
    return *own = td__columns_copy(c, t);
}

td_tensor *td__dense_of(td_opcall *c, td_tensor *t, td_tensor **own) {
    td_meta m;
    *own = NULL;
    if (td__is_dense(t->rank, t->size, t->stride)) return t;
    td__meta_dense(&m, (td_dtype)t->dtype, t->rank, t->size);
    return *own = copy_as(c, &m, t);
}

bool td__fits_lapack(td_opcall *c, const td_tensor *t) {
    if (t->size[t->rank - 1] <= INT_MAX && t->size[t->rank - 2] <= INT_MAX) return true;
    return td__op_fail(c, TD_E_SHAPE,
                       "LAPACK takes matrices with up to %d rows and "
                       "columns, got %s",
                       INT_MAX, td__type_str(t));
}

/* ---- running ------------------------------------------------------------ */

typedef struct stack_run {
    td_matrix_fn *fn;
    void         *job;
    atomic_bool   failed;
} stack_run;

static void run_range(void *arg, int64_t begin, int64_t end) {
    stack_run *r = arg;
    for (int64_t i = begin; i < end; i++)
        if (!r->fn(r->job, i)) atomic_store(&r->failed, true);
}

bool td__each_matrix(td_opcall *c, int64_t count, double work, td_matrix_fn *fn,
                     void *job) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    stack_run             r = {.fn = fn, .job = job};
    pthread_once(&once, td__blas_start);
    td__pool_run(count, 1 + (int64_t)(1e5 / (work + 1e3)), run_range, &r);
    return !atomic_load(&r.failed) || td__fail_memory(c->cx);
}

bool td__check_infos(td_opcall *c, const int32_t *info, int64_t count,
                     const char *rule) {
    char text[160];
    for (int64_t i = 0; i < count; i++) {
        if (info[i] == 0) continue;
        snprintf(text, sizeof text, "matrix %lld of %s %s: %s", (long long)i,
                 c->info->s.in[0].name, td__type_str(td__in(c, 0)), rule);
        return td__op_fail(c, TD_E_ARG, "%s %d", text, (int)info[i]);
    }
    return true;
}

int td__lapack_work(td_dtype dt, const void *answer) {
    double n = td__load_f(td__real_of(dt), answer); /* the real part of a complex one */
    /* an f32 may have been rounded down */
    return n >= INT_MAX / 2 ? INT_MAX : (int)(n * (1 + 1e-6)) + 1;
}

void *td__lapack_block(td_dtype dt, int64_t n, int64_t ints, size_t *bytes) {
    *bytes = (size_t)(n + 1) * (size_t)td__dtype_bytes[dt] + (size_t)(ints + 1) * 8;
    return td__block_alloc(*bytes);
}
