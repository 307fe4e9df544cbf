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

/* The bias is added along the rows of the column-major result. */
static bool add_bias(td_cuda *d, product *x, const td_device_product *p) {
    cublasLtEpilogue_t how = CUBLASLT_EPILOGUE_BIAS;
    return !p->bias ||
           (ok(d,
               cublasLtMatmulDescSetAttribute(x->op, CUBLASLT_MATMUL_DESC_EPILOGUE,
                                              &how, sizeof how),
               "epilogue") &&
            ok(d,
               cublasLtMatmulDescSetAttribute(x->op, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                              &p->bias, sizeof p->bias),
               "bias"));
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
           turn(d, x, CUBLASLT_MATMUL_DESC_TRANSB, ta) && add_bias(d, x, p) &&
           layout(d, &x->a, p, b) && layout(d, &x->b, p, a) &&
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

/* The largest power of 2, at most 256, of which both addresses are multiples. */
static uintptr_t alignment(const void *a, const void *b) {
    uintptr_t bits = (uintptr_t)a | (uintptr_t)b | 256;
    return bits & -bits;
}

/* Products of these sizes and alignments compute alike, wherever their matrices are. */
static td_device_product sizes_of(const td_device_product *p) {
    td_device_product s;
    memset(&s, 0, sizeof s); /* compared as bytes */
    s.m = p->m, s.n = p->n, s.k = p->k, s.batch = p->batch;
    s.row_a = p->row_a, s.row_b = p->row_b, s.row_c = p->row_c;
    s.batch_a = p->batch_a, s.batch_b = p->batch_b, s.batch_c = p->batch_c;
    s.transposed_a = p->transposed_a, s.transposed_b = p->transposed_b;
    s.dtype = p->dtype;
    s.a = (void *)alignment(p->a, NULL), s.b = (void *)alignment(p->b, NULL);
    s.c = (void *)alignment(p->c, NULL);
    s.bias = p->bias ? (void *)alignment(p->bias, NULL) : NULL;
    s.beta = p->beta == 0 ? 0 : 1;
    return s;
}

static uint32_t hash_of(const td_device_product *s) {
    const unsigned char *b = (const unsigned char *)s;
    uint32_t             h = 2166136261u;
    for (size_t i = 0; i < sizeof *s; i++) h = (h ^ b[i]) * 16777619u;
    return h % TD_CUDA_PLANS;
}

/* One run of the product by an algorithm. */
static cublasStatus_t multiply(td_cuda *d, const product *x, const td_device_product *p,
                               const cublasLtMatmulAlgo_t *algo) {
    float  f[2] = {(float)p->alpha, (float)p->beta};
    double w[2] = {p->alpha, p->beta};
    bool   wide = p->dtype == TD_F64;
    return cublasLtMatmul(d->lt, x->op, wide ? (void *)&w[0] : (void *)&f[0], p->b,
                          x->a, p->a, x->b, wide ? (void *)&w[1] : (void *)&f[1], p->c,
                          x->c, p->c, x->c, algo, d->workspace, TD_CUDA_WORKSPACE,
                          (cudaStream_t)d->stream);
}

/* ---- the algorithm ------------------------------------------------------- */

static bool prefer(td_cuda *d, cublasLtMatmulPreference_t want,
                   cublasLtMatmulPreferenceAttributes_t what, const void *value,
                   size_t bytes) {
    return ok(d, cublasLtMatmulPreferenceSetAttribute(want, what, value, bytes),
              "cublasLtMatmulPreferenceSetAttribute");
}

/* The algorithm that the heuristic names first. False: none. */
static bool first_algorithm(td_cuda *d, const product *x, const td_device_product *s,
                            cublasLtMatmulAlgo_t *algo) {
    cublasLtMatmulPreference_t      want = NULL;
    cublasLtMatmulHeuristicResult_t got;
    size_t                          room = TD_CUDA_WORKSPACE;
    uint32_t a = (uint32_t)(uintptr_t)s->b, b = (uint32_t)(uintptr_t)s->a;
    uint32_t c = (uint32_t)(uintptr_t)s->c;
    int      n = 0;
    bool     found =
        ok(d, cublasLtMatmulPreferenceCreate(&want), "preference") &&
        prefer(d, want, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room, sizeof room) &&
        prefer(d, want, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &a, sizeof a) &&
        prefer(d, want, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &b, sizeof b) &&
        prefer(d, want, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &c, sizeof c) &&
        prefer(d, want, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &c, sizeof c) &&
        ok(d,
           cublasLtMatmulAlgoGetHeuristic(d->lt, x->op, x->a, x->b, x->c, x->c, want, 1,
                                          &got, &n),
           "cublasLtMatmulAlgoGetHeuristic");
    if (want) cublasLtMatmulPreferenceDestroy(want);
    if (found && n > 0) *algo = got.algo;
    return found && n > 0;
}

/* The algorithm for the product; NULL: none. It is not the fastest of several, timed:
 * that saved 0.7 % of a step of GPT-2, and results would differ from process to
 * process. Another product with the same hash takes the place of the last. */
static const td_cuda_plan *plan_of(td_cuda *d, const product *x,
                                   const td_device_product *p) {
    td_device_product sizes = sizes_of(p);
    uint32_t          at = hash_of(&sizes);
    td_cuda_plan     *plan = &d->plans[at];
    if (d->planned[at] && !memcmp(&plan->of, &sizes, sizeof sizes)) return plan;
    d->planned[at] = first_algorithm(d, x, &sizes, &plan->algo);
    plan->of = sizes;
    return d->planned[at] ? plan : NULL;
}

int td_cuda_product(void *dev, const td_device_product *p) {
    td_cuda *d = dev;
    product  x = {0};
    if (p->dtype > TD_BF16) return 1;
    if (!td_cu_enter(d) || !begin(d)) return -1;
    const td_cuda_plan *plan = open_product(d, &x, p) ? plan_of(d, &x, p) : NULL;
    bool done = plan && ok(d, multiply(d, &x, p, &plan->algo), "cublasLtMatmul");
    close_product(&x);
    return done ? 0 : plan ? -1 : 1;
}
