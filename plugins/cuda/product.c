/* product.c -- matrix products by cuBLASLt. A row-major matrix is a column-major one
 * transposed, so C = A B is computed as C' = B' A'. */
#include "cuda_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool ok(td_cuda *d, cublasStatus_t s, const char *what) {
    if (s == CUBLAS_STATUS_SUCCESS) return true;
    snprintf(d->error, sizeof d->error, "%s: %s", what, cublasLtGetStatusString(s));
    return false;
}

static cudaDataType_t type_of(td_dtype dt) {
    return dt == TD_F64   ? CUDA_R_64F
           : dt == TD_F32 ? CUDA_R_32F
           : dt == TD_F16 ? CUDA_R_16F
                          : CUDA_R_16BF;
}

/* The descriptors of one product; destroyed by close. */
typedef struct product {
    cublasLtMatmulDesc_t   op;
    cublasLtMatrixLayout_t a, b, c; /* of the column-major product: a is B' */
} product;

/* A column-major matrix, and elements from one of a batch to the next. */
typedef struct matrix {
    int64_t rows, cols, ld, apart;
} matrix;

static bool layout(td_cuda *d, cublasLtMatrixLayout_t *l, const td_device_product *p,
                   matrix m) {
    int n = (int)p->batch;
    return ok(d,
              cublasLtMatrixLayoutCreate(l, type_of(p->dtype), (uint64_t)m.rows,
                                         (uint64_t)m.cols, m.ld),
              "cublasLtMatrixLayoutCreate") &&
           ok(d,
              cublasLtMatrixLayoutSetAttribute(*l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                               &n, sizeof n),
              "batch count") &&
           ok(d,
              cublasLtMatrixLayoutSetAttribute(
                  *l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &m.apart,
                  sizeof m.apart),
              "batch stride");
}

static bool turn(td_cuda *d, product *x, cublasLtMatmulDescAttributes_t which,
                 bool on) {
    cublasOperation_t op = on ? CUBLAS_OP_T : CUBLAS_OP_N;
    return ok(d, cublasLtMatmulDescSetAttribute(x->op, which, &op, sizeof op),
              "transpose");
}

/* f32 is computed in f32, without TF32; halves accumulate in f32. */
static bool open_product(td_cuda *d, product *x, const td_device_product *p) {
    bool                wide = p->dtype == TD_F64;
    cublasComputeType_t compute = wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F;
    bool                ta = p->transposed_a, tb = p->transposed_b;
    matrix              b = {tb ? p->k : p->n, tb ? p->n : p->k, p->row_b, p->batch_b};
    matrix              a = {ta ? p->m : p->k, ta ? p->k : p->m, p->row_a, p->batch_a};
    return ok(d,
              cublasLtMatmulDescCreate(&x->op, compute, wide ? CUDA_R_64F : CUDA_R_32F),
              "cublasLtMatmulDescCreate") &&
           turn(d, x, CUBLASLT_MATMUL_DESC_TRANSA, tb) &&
           turn(d, x, CUBLASLT_MATMUL_DESC_TRANSB, ta) && layout(d, &x->a, p, b) &&
           layout(d, &x->b, p, a) &&
           layout(d, &x->c, p, (matrix){p->n, p->m, p->row_c, p->batch_c});
}

static void close_product(product *x) {
    if (x->a) cublasLtMatrixLayoutDestroy(x->a);
    if (x->b) cublasLtMatrixLayoutDestroy(x->b);
    if (x->c) cublasLtMatrixLayoutDestroy(x->c);
    if (x->op) cublasLtMatmulDescDestroy(x->op);
}

/* The library and its workspace, at the first product. */
static bool begin(td_cuda *d) {
    if (d->lt) return true;
    d->plans = d->plans ? d->plans : calloc(TD_CUDA_PLANS, sizeof *d->plans);
    d->planned = d->planned ? d->planned : calloc(TD_CUDA_PLANS, sizeof *d->planned);
    if (!d->workspace) d->workspace = td_cuda_alloc(d, TD_CUDA_WORKSPACE);
    if (d->plans && d->planned && d->workspace)
        return ok(d, cublasLtCreate(&d->lt), "cublasLtCreate");
    snprintf(d->error, sizeof d->error, "out of memory");
    return false;
}

/* Products of these sizes compute alike, wherever their matrices are. */
static td_device_product sizes_of(const td_device_product *p) {
    td_device_product s;
    memset(&s, 0, sizeof s); /* compared as bytes */
    s.m = p->m, s.n = p->n, s.k = p->k, s.batch = p->batch;
    s.row_a = p->row_a, s.row_b = p->row_b, s.row_c = p->row_c;
    s.batch_a = p->batch_a, s.batch_b = p->batch_b, s.batch_c = p->batch_c;
    s.transposed_a = p->transposed_a, s.transposed_b = p->transposed_b;
    s.dtype = p->dtype;
    return s;
}

static uint32_t hash_of(const td_device_product *s) {
    const unsigned char *b = (const unsigned char *)s;
    uint32_t             h = 2166136261u;
    for (size_t i = 0; i < sizeof *s; i++) h = (h ^ b[i]) * 16777619u;
    return h % TD_CUDA_PLANS;
}

/* The algorithm that the heuristic names first; NULL: none. Another product with the
 * same hash takes the place of the last. */
static const td_cuda_plan *plan_of(td_cuda *d, const product *x,
                                   const td_device_product *p) {
    td_device_product sizes = sizes_of(p);
    uint32_t          at = hash_of(&sizes);
    td_cuda_plan     *plan = &d->plans[at];
    if (d->planned[at] && !memcmp(&plan->of, &sizes, sizeof sizes)) return plan;
    cublasLtMatmulPreference_t      want = NULL;
    cublasLtMatmulHeuristicResult_t got;
    size_t                          most = TD_CUDA_WORKSPACE;
    int                             n = 0;
    bool                            found =
        ok(d, cublasLtMatmulPreferenceCreate(&want), "preference") &&
        ok(d,
           cublasLtMatmulPreferenceSetAttribute(
               want, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most),
           "workspace") &&
        ok(d,
           cublasLtMatmulAlgoGetHeuristic(d->lt, x->op, x->a, x->b, x->c, x->c, want, 1,
                                          &got, &n),
           "cublasLtMatmulAlgoGetHeuristic") &&
        n > 0;
    if (want) cublasLtMatmulPreferenceDestroy(want);
    if (!found) return NULL;
    *plan = (td_cuda_plan){sizes, got.algo, got.workspaceSize};
    d->planned[at] = true;
    return plan;
}

int td_cuda_product(void *dev, const td_device_product *p) {
    td_cuda *d = dev;
    product  x = {0};
    float    f[2] = {(float)p->alpha, (float)p->beta};
    double   w[2] = {p->alpha, p->beta};
    bool     wide = p->dtype == TD_F64;
    if (p->dtype > TD_BF16) return 1;
    if (!td_cu_enter(d) || !begin(d)) return -1;
    const td_cuda_plan *plan = open_product(d, &x, p) ? plan_of(d, &x, p) : NULL;
    bool                done =
        plan &&
        ok(d,
           cublasLtMatmul(d->lt, x.op, wide ? (void *)&w[0] : (void *)&f[0], p->b, x.a,
                          p->a, x.b, wide ? (void *)&w[1] : (void *)&f[1], p->c, x.c,
                          p->c, x.c, &plan->algo, d->workspace, TD_CUDA_WORKSPACE,
                          (cudaStream_t)d->stream),
           "cublasLtMatmul");
    close_product(&x);
    return done ? 0 : plan ? -1 : 1;
}
