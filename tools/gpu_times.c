/* gpu_times.c -- the time of every kernel that a program runs on a GPU, by CUPTI:
 *
 *     cc -shared -fPIC -I$CUDA/include tools/gpu_times.c -o libgpu-times.so -lcupti
 *     CUDA_INJECTION64_PATH=libgpu-times.so GPU_TIMES=FILE program ...
 *
 * A line per kernel, in the order of their starts: start and length in ns, blocks,
 * threads, bytes of shared memory, the kernel's node in a CUDA graph, and its name. */
#include <cupti.h>
#include <stdio.h>
#include <stdlib.h>

static FILE *out;

static void CUPTIAPI request(uint8_t **buffer, size_t *bytes, size_t *records) {
    *bytes = 4 << 20;
    *records = 0;
    *buffer = aligned_alloc(64, *bytes);
}

static void CUPTIAPI complete(CUcontext context, uint32_t stream, uint8_t *buffer,
                              size_t bytes, size_t valid) {
    CUpti_Activity *r = NULL;
    (void)context, (void)stream, (void)bytes;
    while (cuptiActivityGetNextRecord(buffer, valid, &r) == CUPTI_SUCCESS) {
        if (r->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
            const CUpti_ActivityMemset4 *m = (const CUpti_ActivityMemset4 *)r;
            fprintf(out, "%llu %llu 0 0 0 0 memset\n", (unsigned long long)m->start,
                    (unsigned long long)(m->end - m->start));
        }
        if (r->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
            const CUpti_ActivityMemcpy6 *m = (const CUpti_ActivityMemcpy6 *)r;
            fprintf(out, "%llu %llu 0 0 0 0 memcpy\n", (unsigned long long)m->start,
                    (unsigned long long)(m->end - m->start));
        }
        if (r->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
        const CUpti_ActivityKernel10 *k = (const CUpti_ActivityKernel10 *)r;
        fprintf(out, "%llu %llu %d %d %d %llu %.150s\n", (unsigned long long)k->start,
                (unsigned long long)(k->end - k->start),
                k->gridX * k->gridY * k->gridZ, k->blockX * k->blockY * k->blockZ,
                k->dynamicSharedMemory + k->staticSharedMemory,
                (unsigned long long)k->graphNodeId, k->name);
    }
    free(buffer);
}

static void finish(void) {
    cuptiActivityFlushAll(1);
    fclose(out);
}

__attribute__((visibility("default"))) int InitializeInjection(void);

int InitializeInjection(void) {
    const char *path = getenv("GPU_TIMES");
    out = fopen(path ? path : "gpu-times.txt", "w");
    if (!out || cuptiActivityRegisterCallbacks(request, complete) != CUPTI_SUCCESS)
        return 0;
    cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET);
    cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY);
    atexit(finish);
    return 1;
}
