/* zeros.c -- zeros in recordings. cuBLASLt and cuDNN fill a few bytes with zeros before
 * many of their kernels. In a CUDA graph such a fill costs 5 us, as what is beside it
 * waits; a kernel of one block that does the same costs 1.5. */
#include "cuda_int.h"

#include <stdlib.h>

/* MOST: words that one block fills. */
enum { THREADS = 128, MOST = 4096 };

static const char text[] = ".version 7.0\n"
                           ".target sm_70\n"
                           ".address_size 64\n"
                           ".visible .entry td_zero(.param .u64 to, .param .u32 n) {\n"
                           "    .reg .pred %p;\n"
                           "    .reg .u32 %i, %n, %step, %zero;\n"
                           "    .reg .u64 %to, %at;\n"
                           "    ld.param.u64 %to, [to];\n"
                           "    ld.param.u32 %n, [n];\n"
                           "    cvta.to.global.u64 %to, %to;\n"
                           "    mov.u32 %i, %tid.x;\n"
                           "    mov.u32 %step, %ntid.x;\n"
                           "    mov.u32 %zero, 0;\n"
                           "NEXT:\n"
                           "    setp.ge.u32 %p, %i, %n;\n"
                           "    @%p bra END;\n"
                           "    mad.wide.u32 %at, %i, 4, %to;\n"
                           "    st.global.u32 [%at], %zero;\n"
                           "    add.u32 %i, %i, %step;\n"
                           "    bra NEXT;\n"
                           "END:\n"
                           "    ret;\n"
                           "}\n";

/* The kernel, made at the first recording. */
static bool open_kernel(td_cuda *d) {
    if (!d->zero) d->zero = td_cuda_load(d, text, sizeof text, "td_zero");
    return d->zero != NULL;
}

/* Is it a fill of few zero words? Where, and how many. */
static bool is_zeros(CUgraphNode node, CUdeviceptr *to, unsigned *n) {
    CUgraphNodeType         type;
    CUDA_MEMSET_NODE_PARAMS p;
    if (td_cu.cuGraphNodeGetType(node, &type) || type != CU_GRAPH_NODE_TYPE_MEMSET ||
        td_cu.cuGraphMemsetNodeGetParams(node, &p))
        return false;
    size_t bytes = p.width * p.elementSize;
    *to = p.dst;
    *n = (unsigned)(bytes / 4);
    return p.height == 1 && p.value == 0 && p.dst % 4 == 0 && bytes % 4 == 0 &&
           bytes <= 4 * MOST;
}

/* Neighbours of a node: at most MANY on each side, and ordinary edges. */
enum { MANY = 8 };
typedef struct sides {
    CUgraphNode before[MANY], after[MANY];
    size_t      n_before, n_after;
} sides;

static bool look(CUgraphNode node, sides *s) {
    return !td_cu.cuGraphNodeGetDependencies(node, NULL, NULL, &s->n_before) &&
           !td_cu.cuGraphNodeGetDependentNodes(node, NULL, NULL, &s->n_after) &&
           s->n_before <= MANY && s->n_after <= MANY &&
           !td_cu.cuGraphNodeGetDependencies(node, s->before, NULL, &s->n_before) &&
           !td_cu.cuGraphNodeGetDependentNodes(node, s->after, NULL, &s->n_after);
}

static bool replace(td_cuda *d, CUgraph g, CUgraphNode node) {
    CUdeviceptr to;
    unsigned    n;
    sides       s;
    CUgraphNode made, from[MANY];
    void       *args[] = {&to, &n};
    if (!is_zeros(node, &to, &n) || !look(node, &s)) return false;
    CUDA_KERNEL_NODE_PARAMS p = {.func = d->zero,
                                 .gridDimX = 1,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = THREADS,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .kernelParams = args};
    if (td_cu.cuGraphAddKernelNode(&made, g, s.before, s.n_before, &p)) return false;
    for (size_t i = 0; i < s.n_after; i++) from[i] = made;
    if (td_cu.cuGraphAddDependencies(g, from, s.after, NULL, s.n_after)) {
        td_cu.cuGraphDestroyNode(made);
        return false;
    }
    return !td_cu.cuGraphDestroyNode(node);
}

void td_cuda_zeros(td_cuda *d, CUgraph g) {
    size_t n = 0;
    if (!open_kernel(d) || td_cu.cuGraphGetNodes(g, NULL, &n)) return;
    CUgraphNode *all = malloc(sizeof *all * (n + 1));
    if (all && !td_cu.cuGraphGetNodes(g, all, &n))
        for (size_t i = 0; i < n; i++) replace(d, g, all[i]);
    free(all);
}
