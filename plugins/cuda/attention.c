/* attention.c -- attention forward and backward by cuDNN's graph API. A graph is built
 * for one set of sizes and strides, and its plan is kept: building one takes a second.
 *
 * Forward:  S = scale Q K', masked; lse = max + log sum exp; O = exp(S - max) / sum
 * V. Backward: with P = exp(S - lse) and r = the row sums of dO O, dV = P' dO, dS =
 * scale P (dO V' - r), dK = dS' Q, dQ = dS K. The backward without a sum in place of
 * dQ is used: results repeat to the bit. */
#include "cuda_int.h"

#include "dnn.h"

#ifdef TD_HAS_DNN
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- descriptors -------------------------------------------------------- */

enum { MOST_DESCRIPTORS = 256, MOST_OPS = 40, MOST_TENSORS = 16 };

typedef cudnnBackendDescriptor_t desc;

/* A graph that is being built; the first failure is kept. */
typedef struct graph {
    td_cuda      *d;
    desc          all[MOST_DESCRIPTORS], ops[MOST_OPS];
    int           n_all, n_ops;
    int64_t       next_id;
    cudnnStatus_t status;
} graph;

static bool check(graph *g, cudnnStatus_t s, const char *what) {
    if (s == CUDNN_STATUS_SUCCESS) return true;
    if (g->status == CUDNN_STATUS_SUCCESS) {
        g->status = s;
        snprintf(g->d->error, sizeof g->d->error, "cuDNN: %s: %s", what,
                 td_dnn.cudnnGetErrorString(s));
    }
    return false;
}

static desc make(graph *g, cudnnBackendDescriptorType_t type) {
    desc x = NULL;
    if (g->n_all < MOST_DESCRIPTORS &&
        check(g, td_dnn.cudnnBackendCreateDescriptor(type, &x), "create"))
        g->all[g->n_all++] = x;
    return x;
}

static void set(graph *g, desc x, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t n, const void *v) {
    if (x) check(g, td_dnn.cudnnBackendSetAttribute(x, name, type, n, v), "set");
}

static void link_to(graph *g, desc x, cudnnBackendAttributeName_t name, desc to) {
    set(g, x, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &to);
}

static void type_is(graph *g, desc x, cudnnBackendAttributeName_t name,
                    cudnnDataType_t type) {
    set(g, x, name, CUDNN_TYPE_DATA_TYPE, 1, &type);
}

static void finish(graph *g, desc x) {
    if (x) check(g, td_dnn.cudnnBackendFinalize(x), "finalize");
}

/* A tensor of 4 dims: its descriptor, number, sizes and strides. */
typedef struct node {
    desc    x;
    int64_t id, size[4], stride[4];
} node;
typedef enum kind {
    REAL,
    BETWEEN,
    NUMBER
} kind; /* in memory; within a graph; a number */

static node tensor(graph *g, cudnnDataType_t type, const int64_t *size,
                   const int64_t *stride, kind k) {
    node    t = {.id = g->next_id++};
    int64_t align = 16;
    bool    yes = true;
    memcpy(t.size, size, sizeof t.size);
    memcpy(t.stride, stride, sizeof t.stride);
    t.x = make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    type_is(g, t.x, CUDNN_ATTR_TENSOR_DATA_TYPE, type);
    set(g, t.x, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, size);
    set(g, t.x, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, stride);
    set(g, t.x, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &t.id);
    set(g, t.x, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &align);
    if (k == BETWEEN)
        set(g, t.x, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes);
    if (k == NUMBER)
        set(g, t.x, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes);
    finish(g, t.x);
    return t;
}

/* Sizes a, b, c and d, row-major. */
static node between(graph *g, cudnnDataType_t type, int64_t a, int64_t b, int64_t c,
                    int64_t d) {
    int64_t size[4] = {a, b, c, d}, stride[4] = {b * c * d, c * d, d, 1};
    return tensor(g, type, size, stride, BETWEEN);
}

static node number(graph *g) {
    static const int64_t one[4] = {1, 1, 1, 1};
    return tensor(g, CUDNN_DATA_FLOAT, one, one, NUMBER);
}

/* ---- operations --------------------------------------------------------- */

static void add_op(graph *g, desc x) {
    finish(g, x);
    if (g->n_ops < MOST_OPS) g->ops[g->n_ops++] = x;
}

static void product(graph *g, node a, node b, node c) {
    desc m = make(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    type_is(g, m, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
    finish(g, m);
    desc o = make(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    link_to(g, o, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a.x);
    link_to(g, o, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b.x);
    link_to(g, o, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c.x);
    link_to(g, o, CUDNN_ATTR_OPERATION_MATMUL_DESC, m);
    add_op(g, o);
}

/* y = mode(x, b), or, with t, chosen by t. */
static void each(graph *g, cudnnPointwiseMode_t mode, cudnnDataType_t in, int64_t axis,
                 node x, const node *b, const node *t, node y) {
    float one = 1;
    desc  p = make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(g, p, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    type_is(g, p, CUDNN_ATTR_POINTWISE_MATH_PREC, in);
    if (mode == CUDNN_POINTWISE_GEN_INDEX)
        set(g, p, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
    finish(g, p);
    desc o = make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    link_to(g, o, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, p);
    link_to(g, o, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x.x);
    link_to(g, o, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y.x);
    if (b) link_to(g, o, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b->x);
    if (t) link_to(g, o, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t->x);
    set(g, o, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, CUDNN_TYPE_FLOAT, 1, &one);
    set(g, o, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, CUDNN_TYPE_FLOAT, 1, &one);
    add_op(g, o);
}

/* The same in f32, into a new tensor like x. */
static node map(graph *g, cudnnPointwiseMode_t mode, node x, const node *b) {
    node y = between(g, CUDNN_DATA_FLOAT, x.size[0], x.size[1], x.size[2], x.size[3]);
    each(g, mode, CUDNN_DATA_FLOAT, 0, x, b, NULL, y);
    return y;
}

/* Folds the last dim. */
static node fold(graph *g, cudnnReduceTensorOp_t how, node x) {
    node y = between(g, CUDNN_DATA_FLOAT, x.size[0], x.size[1], x.size[2], 1);
    desc p = make(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    type_is(g, p, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
    set(g, p, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1,
        &how);
    finish(g, p);
    desc o = make(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    link_to(g, o, CUDNN_ATTR_OPERATION_REDUCTION_DESC, p);
    link_to(g, o, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x.x);
    link_to(g, o, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y.x);
    add_op(g, o);
    return y;
}

static void reshape(graph *g, node x, node y) {
    desc o = make(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    link_to(g, o, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x.x);
    link_to(g, o, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y.x);
    add_op(g, o);
}

/* The transpose of square matrices, cast to the dtype of the operands. */
static node transposed(graph *g, cudnnDataType_t type, node x) {
    int64_t rows = x.size[2], cols = x.size[3];
    int64_t size[4] = {x.size[0], x.size[1], cols, rows};
    int64_t stride[4] = {x.size[1] * rows * cols, rows * cols, 1, cols};
    node    y = tensor(g, type, size, stride, BETWEEN);
    reshape(g, x, y);
    return y;
}

/* Scores of keys after the query become -inf. */
static node causal(graph *g, node s, node least) {
    int64_t *n = s.size;
    node     row = between(g, CUDNN_DATA_INT32, n[0], n[1], n[2], n[3]);
    node     col = between(g, CUDNN_DATA_INT32, n[0], n[1], n[2], n[3]);
    node     keep = between(g, CUDNN_DATA_BOOLEAN, n[0], n[1], n[2], n[3]);
    node     y = between(g, CUDNN_DATA_FLOAT, n[0], n[1], n[2], n[3]);
    each(g, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, 2, s, NULL, NULL, row);
    each(g, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, 3, s, NULL, NULL, col);
    each(g, CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, 0, row, &col, NULL, keep);
    each(g, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, 0, s, &least, &keep, y);
    return y;
}

/* ---- the two graphs ----------------------------------------------------- */

/* One kind of call, and how it is computed. Numbers of tensors by role. */
struct td_cuda_attention_plan {
    td_device_attention of; /* without addresses */
    desc                plan;
    int64_t             workspace;
    int64_t             id[MOST_TENSORS];
    int                 n;
};
enum { Q, K, V, OUT, LSE, GRAD, DQ, DK, DV, SCALE, LEAST, ONE, ROWS, ROLES };

static cudnnDataType_t type_of(const td_device_attention *a) {
    return a->dtype == TD_F16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
}

/* Operand `role` [B,H,T,D]; transposed: as [B,H,D,T]. */
static node operand(graph *g, const td_device_attention *a, int role, bool turn) {
    const int64_t *s = a->stride[role];
    bool           keys = role == K || role == V || role == DK || role == DV;
    int64_t        rows = keys ? a->keys : a->queries;
    int64_t size[4] = {a->batch, a->heads, turn ? a->dim : rows, turn ? rows : a->dim};
    int64_t stride[4] = {s[0], s[1], turn ? 1 : s[2], turn ? s[2] : 1};
    return tensor(g, type_of(a), size, stride, REAL);
}

/* One number for each query. */
static node per_query(graph *g, const td_device_attention *a) {
    int64_t size[4] = {a->batch, a->heads, a->queries, 1};
    int64_t stride[4] = {a->heads * a->queries, a->queries, 1, 1};
    return tensor(g, CUDNN_DATA_FLOAT, size, stride, REAL);
}

static void write_forward(graph *g, const td_device_attention *a, int64_t *id) {
    node q = operand(g, a, Q, false), k = operand(g, a, K, true);
    node v = operand(g, a, V, false), out = operand(g, a, OUT, false);
    node lse = per_query(g, a), scale = number(g), least = number(g);
    node s = between(g, CUDNN_DATA_FLOAT, a->batch, a->heads, a->queries, a->keys);
    node p = between(g, type_of(a), a->batch, a->heads, a->queries, a->keys);
    product(g, q, k, s);
    s = map(g, CUDNN_POINTWISE_MUL, s, &scale);
    if (a->causal) s = causal(g, s, least);
    node most = fold(g, CUDNN_REDUCE_TENSOR_MAX, s);
    node e = map(g, CUDNN_POINTWISE_EXP, map(g, CUDNN_POINTWISE_SUB, s, &most), NULL);
    node sum = fold(g, CUDNN_REDUCE_TENSOR_ADD, e);
    node log = map(g, CUDNN_POINTWISE_LOG, sum, NULL);
    each(g, CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, 0, most, &log, NULL, lse);
    each(g, CUDNN_POINTWISE_DIV, CUDNN_DATA_FLOAT, 0, e, &sum, NULL, p);
    product(g, p, v, out);
    id[Q] = q.id, id[K] = k.id, id[V] = v.id, id[OUT] = out.id, id[LSE] = lse.id;
    id[SCALE] = scale.id;
    if (a->causal) id[LEAST] = least.id;
}

static void write_backward(graph *g, const td_device_attention *a, int64_t *id) {
    int64_t b = a->batch, h = a->heads, t = a->queries, d = a->dim;
    int64_t all[4] = {b, h, t, d}, by_row[4] = {h * t * d, t * d, h * d, 1};
    node    q = operand(g, a, Q, false), k = operand(g, a, K, true);
    node    v = operand(g, a, V, true), out = operand(g, a, OUT, false);
    node    grad = operand(g, a, GRAD, false), lse = per_query(g, a);
    node    dq = operand(g, a, DQ, false), dk = operand(g, a, DK, false);
    node    dv = operand(g, a, DV, false);
    node    scale = number(g), least = number(g), one = number(g);
    node    both = tensor(g, CUDNN_DATA_FLOAT, all, by_row, BETWEEN);
    each(g, CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, 0, grad, &out, NULL, both);
    node sums = fold(g, CUDNN_REDUCE_TENSOR_ADD, both), rows = per_query(g, a);
    each(g, CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, 0, sums, &one, NULL, rows);
    node s = between(g, CUDNN_DATA_FLOAT, b, h, t, a->keys);
    product(g, q, k, s);
    s = map(g, CUDNN_POINTWISE_MUL, s, &scale);
    s = map(g, CUDNN_POINTWISE_SUB, s, &lse);
    if (a->causal) s = causal(g, s, least);
    node p = map(g, CUDNN_POINTWISE_EXP, s, NULL);
    product(g, transposed(g, type_of(a), p), grad, dv);
    node dp = between(g, CUDNN_DATA_FLOAT, b, h, t, a->keys);
    product(g, grad, v, dp);
    dp = map(g, CUDNN_POINTWISE_SUB, dp, &rows);
    dp = map(g, CUDNN_POINTWISE_MUL, dp, &p);
    node ds = map(g, CUDNN_POINTWISE_MUL, dp, &scale);
    product(g, transposed(g, type_of(a), ds), q, dk);
    int64_t size[4] = {b, h, a->keys, d};
    int64_t stride[4] = {k.stride[0], k.stride[1], k.stride[3], k.stride[2]};
    node    plain = tensor(g, CUDNN_DATA_FLOAT, size, stride, BETWEEN);
    reshape(g, k, plain);
    product(g, ds, plain, dq);
    const node *in[] = {&q,  &k,  &v,     &out,   &lse, &grad, &dq,
                        &dk, &dv, &scale, &least, &one, &rows};
    for (int i = 0; i < ROLES; i++) id[i] = i == LEAST && !a->causal ? 0 : in[i]->id;
}

/* ---- plans -------------------------------------------------------------- */

/* Where graphs are planned: a handle, or without a GPU the description of one. */
typedef struct place {
    cudnnHandle_t handle;
    desc          described;
} place;

enum { MOST_CONFIGS = 8 };

/* Configurations of engines that compute the graph, best first; returns their
 * number. */
static int engines(graph *g, const place *at, desc *config) {
    desc                   all = make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    desc                   found = make(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    int64_t                most = 0, n = 0;
    if (at->handle)
        set(g, all, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1,
            &at->handle);
    set(g, all, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->n_ops,
        g->ops);
    finish(g, all);
    link_to(g, found, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, all);
    set(g, found, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (at->described)
        link_to(g, found, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, at->described);
    finish(g, found);
    if (g->status) return 0;
    check(g,
          td_dnn.cudnnBackendGetAttribute(found, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                          CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &most,
                                          NULL),
          "heuristics");
    if (most > MOST_CONFIGS) most = MOST_CONFIGS;
    for (int i = 0; i < most; i++)
        config[i] = make(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (g->status || most == 0) return 0;
    check(g,
          td_dnn.cudnnBackendGetAttribute(found, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                          CUDNN_TYPE_BACKEND_DESCRIPTOR, most, &n,
                                          config),
          "heuristics");
    return g->status ? 0 : (int)n;
}

/* The first configuration that becomes a plan; NULL: none. */
static desc plan_of(graph *g, const place *at) {
    desc config[MOST_CONFIGS];
    int  n = engines(g, at, config);
    for (int i = 0; i < n && !g->status; i++) {
        desc plan = make(g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        set(g, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
            &at->handle);
        link_to(g, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config[i]);
        if (!g->status && td_dnn.cudnnBackendFinalize(plan) == CUDNN_STATUS_SUCCESS)
            return plan;
    }
    return NULL;
}

/* The graph of a kind of call; NULL: out of memory. */
static graph *write(td_cuda *d, td_cuda_attention_plan *p) {
    graph *g = calloc(1, sizeof *g);
    if (!g) return NULL;
    g->d = d;
    g->next_id = 1;
    (p->of.backward ? write_backward : write_forward)(g, &p->of, p->id);
    return g;
}

/* Frees the graph and its descriptors, but for one. */
static void drop(graph *g, desc but) {
    for (int i = 0; i < g->n_all; i++)
        if (g->all[i] != but) td_dnn.cudnnBackendDestroyDescriptor(g->all[i]);
    free(g);
}

/* Builds the plan of a kind of call. False: cuDNN does not offer it. */
static bool build(td_cuda *d, td_cuda_attention_plan *p) {
    place   at = {.handle = d->dnn};
    graph  *g = write(d, p);
    int64_t n;
    if (!g) return false;
    p->plan = g->status ? NULL : plan_of(g, &at);
    if (p->plan)
        check(g,
              td_dnn.cudnnBackendGetAttribute(p->plan,
                                              CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                              CUDNN_TYPE_INT64, 1, &n, &p->workspace),
              "workspace");
    bool ok = p->plan && !g->status;
    drop(g, p->plan);
    return ok;
}

enum { MOST_PLANS = 64 };

/* What a plan depends on. */
static td_device_attention kind_of(const td_device_attention *a) {
    td_device_attention k;
    memset(&k, 0, sizeof k); /* compared as bytes */
    k.batch = a->batch, k.heads = a->heads, k.queries = a->queries, k.keys = a->keys;
    k.dim = a->dim, k.dtype = a->dtype, k.causal = a->causal, k.backward = a->backward;
    memcpy(k.stride, a->stride, sizeof k.stride);
    return k;
}

/* NULL: it is not offered. */
static td_cuda_attention_plan *find(td_cuda *d, const td_device_attention *a) {
    td_device_attention own = kind_of(a);
    if (!d->attention) d->attention = calloc(MOST_PLANS, sizeof *d->attention);
    if (!d->attention) return NULL;
    td_cuda_attention_plan *p = d->attention;
    for (int i = 0; i < d->n_attention; i++, p++)
        if (!memcmp(&p->of, &own, sizeof own)) return p->plan ? p : NULL;
    if (d->n_attention == MOST_PLANS) return NULL;
    d->n_attention++;
    p->of = own;
    if (!build(d, p)) p->plan = NULL;
    return p->plan ? p : NULL;
}

/* ---- calls -------------------------------------------------------------- */

static bool execute(td_cuda *d, const td_cuda_attention_plan *p,
                    const td_device_attention *a, void *room, void *rows) {
    graph   g = {.d = d};
    float   scale = (float)a->scale, least = -INFINITY, one = 1;
    void   *at[ROLES], *to[ROLES];
    int64_t id[ROLES];
    int     n = 0;
    for (int i = 0; i <= DV; i++) at[i] = a->at[i];
    at[SCALE] = &scale, at[LEAST] = &least, at[ONE] = &one, at[ROWS] = rows;
    for (int i = 0; i < ROLES; i++)
        if (p->id[i]) id[n] = p->id[i], to[n++] = at[i];
    desc pack = make(&g, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set(&g, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, id);
    set(&g, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n, to);
    set(&g, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &room);
    finish(&g, pack);
    if (!g.status)
        check(&g, td_dnn.cudnnBackendExecute(d->dnn, p->plan, pack), "attention");
    if (pack) td_dnn.cudnnBackendDestroyDescriptor(pack);
    return !g.status;
}

int td_cuda_attention(void *dev, const td_device_attention *a) {
    td_cuda *d = dev;
    if (a->dtype != TD_F16 && a->dtype != TD_BF16) return 1;
    if (!td_cu_enter(d)) return -1;
    if (!td_dnn_begin(d)) return 1;
    const td_cuda_attention_plan *p = find(d, a);
    if (!p) return 1;
    size_t rows = (size_t)(a->batch * a->heads * a->queries) * sizeof(float);
    size_t bytes = (size_t)p->workspace + 256, all = (bytes + 255) / 256 * 256 + rows;
    char  *room = td_cuda_workspace(d, all);
    if (!room) return -1;
    bool ok = execute(d, p, a, room, room + (all - rows));
    td_cuda_workspace_end(d, room, all);
    return ok ? 0 : -1;
}

/* How many configurations of cuDNN compute a call on the GPU that the text
 * describes; for tests on machines without one. -1: there is no cuDNN, or it knows
 * no such GPU. */
int td_cuda_attention_engines(const td_device_attention *a, const char *gpu, char *why,
                              size_t cap) {
    static td_cuda         none;
    td_cuda_attention_plan p = {.of = kind_of(a)};
    place                  at = {NULL, NULL};
    desc                   config[MOST_CONFIGS];
    int                    n = 0;
    if (!td_dnn_load() ||
        td_dnn.cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR,
                                            &at.described) ||
        td_dnn.cudnnBackendSetAttribute(at.described,
                                        CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                        CUDNN_TYPE_CHAR, (int64_t)strlen(gpu), gpu) ||
        td_dnn.cudnnBackendFinalize(at.described))
        return -1;
    graph *g = write(&none, &p);
    if (g && !g->status) n = engines(g, &at, config);
    if (g) drop(g, NULL);
    td_dnn.cudnnBackendDestroyDescriptor(at.described);
    snprintf(why, cap, "%s", none.error);
    return n;
}

#else

int td_cuda_attention(void *dev, const td_device_attention *a) {
    (void)dev, (void)a;
    return 1;
}

int td_cuda_attention_engines(const td_device_attention *a, const char *gpu, char *why,
                              size_t cap) {
    (void)a, (void)gpu, (void)why, (void)cap;
    return -1;
}

#endif
