/* record.c -- recordings as CUDA graphs. While a thread records, its work goes to a
 * stream that is being captured; memory is still allocated and released in the main
 * stream. */
#include "cuda_int.h"

#include <stdlib.h>

/* A launch: its node and how it was started. */
typedef struct launch {
    CUgraphNode    node;
    void          *kernel;
    td_device_grid grid;
} launch;

/* Memory that was released in between, and that a replay uses. */
typedef struct kept {
    CUdeviceptr memory;
    size_t      bytes;
} kept;

typedef struct td_cuda_recording {
    CUgraph     graph;
    CUgraphExec exec;
    launch     *launches;
    int         n, cap;
    bool        ended; /* something had to be started */
    kept       *kept;
    int         n_kept, cap_kept;
} recording;

static void drop(td_cuda *d, recording *r) {
    for (int i = 0; i < r->n_kept; i++) {
        td_cu.cuMemFreeAsync(r->kept[i].memory, d->main);
        d->bytes -= r->kept[i].bytes;
    }
    free(r->kept);
    if (r->exec) td_cu.cuGraphExecDestroy(r->exec);
    if (r->graph) td_cu.cuGraphDestroy(r->graph);
    free(r->launches);
    free(r);
}

bool td_cuda_records(const td_cuda *d) {
    return d->open && !d->open->ended && pthread_equal(d->by, pthread_self());
}

bool td_cuda_record(void *dev) {
    td_cuda *d = dev;
    if (d->open || !td_cu_enter(d)) return false;
    if (!d->capture &&
        !td_cu_ok(d, td_cu.cuStreamCreate(&d->capture, CU_STREAM_NON_BLOCKING),
                  "cuStreamCreate"))
        return false;
    recording *r = calloc(1, sizeof *r);
    if (!r) return false;
    if (!td_cu_ok(d,
                  td_cu.cuStreamBeginCapture(d->capture,
                                             CU_STREAM_CAPTURE_MODE_RELAXED),
                  "cuStreamBeginCapture"))
        return free(r), false;
    d->open = r;
    d->by = pthread_self();
    return true;
}

bool td_cuda_keep(td_cuda *d, CUdeviceptr memory, size_t bytes) {
    recording *r = d->open;
    if (!td_cuda_records(d)) return false;
    if (r->n_kept == r->cap_kept) {
        int   cap = r->cap_kept ? 2 * r->cap_kept : 64;
        kept *v = realloc(r->kept, sizeof *v * (size_t)cap);
        if (!v) return true; /* it is lost, which is better than used twice */
        r->kept = v;
        r->cap_kept = cap;
    }
    r->kept[r->n_kept++] = (kept){memory, bytes};
    return true;
}

CUdeviceptr td_cuda_reuse(td_cuda *d, size_t bytes) {
    recording *r = d->open;
    if (!td_cuda_records(d)) return 0;
    for (int i = 0; i < r->n_kept; i++)
        if (r->kept[i].bytes == bytes) {
            CUdeviceptr memory = r->kept[i].memory;
            r->kept[i] = r->kept[--r->n_kept];
            return memory;
        }
    return 0;
}

/* Ends the capture and makes the graph ready. */
static bool finish(td_cuda *d, recording *r) {
    r->ended = true;
    if (!td_cu_ok(d, td_cu.cuStreamEndCapture(d->capture, &r->graph),
                  "cuStreamEndCapture"))
        return false;
    td_cuda_zeros(d, r->graph);
    return td_cu_ok(d, td_cu.cuGraphInstantiate(&r->exec, r->graph, 0),
                    "cuGraphInstantiate");
}

bool td_cuda_flush(td_cuda *d) {
    if (!td_cuda_records(d)) return true;
    bool ok = finish(d, d->open) &&
              td_cu_ok(d, td_cu.cuGraphLaunch(d->open->exec, d->main), "cuGraphLaunch");
    d->stream = d->main;
    return ok;
}

void *td_cuda_recorded(void *dev) {
    td_cuda   *d = dev;
    recording *r = d->open;
    if (!r || !pthread_equal(d->by, pthread_self())) return NULL;
    bool ok = !r->ended && finish(d, r);
    d->open = NULL;
    d->stream = d->main;
    if (ok) return r;
    /* the graph that a flush started may still run: its memory is freed after it */
    td_cu.cuStreamSynchronize(d->main);
    drop(d, r);
    return NULL;
}

void td_cuda_note(td_cuda *d, void *kernel, td_device_grid grid) {
    recording             *r = d->open;
    CUstreamCaptureStatus  status;
    const CUgraphNode     *last = NULL;
    const CUgraphEdgeData *edges = NULL;
    CUgraph                graph;
    size_t                 n = 0;
    cuuint64_t             id;
    if (!td_cuda_records(d)) return;
    if (r->n == r->cap) {
        int     cap = r->cap ? 2 * r->cap : 64;
        launch *v = realloc(r->launches, sizeof *v * (size_t)cap);
        if (!v) return;
        r->launches = v;
        r->cap = cap;
    }
    CUresult got = td_cu.cuStreamGetCaptureInfo(d->capture, &status, &id, &graph, &last,
                                                &edges, &n);
    bool     one = got == CUDA_SUCCESS && n == 1;
    r->launches[r->n++] = (launch){one ? last[0] : NULL, kernel, grid};
}

int td_cuda_last(void *dev) {
    const td_cuda *d = dev;
    return td_cuda_records(d) ? d->open->n - 1 : -1;
}

bool td_cuda_change(void *dev, void *recorded, int nr, void **args) {
    td_cuda      *d = dev;
    recording    *r = recorded;
    const launch *l = nr >= 0 && nr < r->n ? &r->launches[nr] : NULL;
    if (!l || !l->node || !td_cu_enter(d)) return false;
    CUDA_KERNEL_NODE_PARAMS p = {.func = l->kernel,
                                 .gridDimX = l->grid.blocks,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = l->grid.threads,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .sharedMemBytes = l->grid.shared,
                                 .kernelParams = args};
    return td_cu_ok(d, td_cu.cuGraphExecKernelNodeSetParams(r->exec, l->node, &p),
                    "cuGraphExecKernelNodeSetParams");
}

bool td_cuda_replay(void *dev, void *recorded) {
    td_cuda   *d = dev;
    recording *r = recorded;
    return td_cu_enter(d) && td_cuda_flush(d) &&
           td_cu_ok(d, td_cu.cuGraphLaunch(r->exec, d->main), "cuGraphLaunch");
}

/* What still runs of it is waited for. */
void td_cuda_forget(void *dev, void *recorded) {
    td_cuda *d = dev;
    if (td_cu_enter(d)) td_cu.cuStreamSynchronize(d->main);
    drop(d, recorded);
}
