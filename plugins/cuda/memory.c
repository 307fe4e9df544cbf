/* memory.c -- memory from the stream-ordered pool of the device, and copies. */
#include "cuda_int.h"

static CUdeviceptr address(const void *p) { return (CUdeviceptr)(uintptr_t)p; }

/* If the pool cannot give it, memory that earlier work still holds is waited for and
 * what the pool has cached is returned to the driver first. */
void *td_cuda_alloc(void *dev, size_t bytes) {
    td_cuda    *d = dev;
    CUdeviceptr p = 0;
    if (!td_cu_enter(d)) return NULL;
    if ((p = td_cuda_reuse(d, bytes))) return (void *)(uintptr_t)p;
    CUresult r = td_cu.cuMemAllocAsync(&p, bytes, d->main);
    if (r == CUDA_ERROR_OUT_OF_MEMORY) {
        td_cu.cuStreamSynchronize(d->main);
        td_cu.cuMemPoolTrimTo(d->pool, 0);
        r = td_cu.cuMemAllocAsync(&p, bytes, d->main);
    }
    if (!td_cu_ok(d, r, "cuMemAllocAsync")) return NULL;
    d->bytes += bytes;
    if (d->bytes > d->peak) d->peak = d->bytes;
    return (void *)(uintptr_t)p;
}

void td_cuda_release(void *dev, void *memory, size_t bytes) {
    td_cuda *d = dev;
    if (!td_cu_enter(d) || td_cuda_keep(d, address(memory), bytes)) return;
    d->bytes -= bytes;
    td_cu_ok(d, td_cu.cuMemFreeAsync(address(memory), d->main), "cuMemFreeAsync");
}

void td_cuda_lend(void *dev, void *memory, size_t bytes) {
    td_cuda *d = dev;
    d->lent = memory;
    d->n_lent = bytes;
}

void *td_cuda_workspace(td_cuda *d, size_t bytes) {
    return bytes <= d->n_lent ? d->lent : td_cuda_alloc(d, bytes);
}

void td_cuda_workspace_end(td_cuda *d, void *room, size_t bytes) {
    if (room != d->lent) td_cuda_release(d, room, bytes);
}

bool td_cuda_copy_in(void *dev, void *to, const void *from, size_t bytes) {
    td_cuda *d = dev;
    return td_cu_enter(d) && td_cuda_flush(d) &&
           td_cu_ok(d, td_cu.cuMemcpyHtoDAsync(address(to), from, bytes, d->stream),
                    "cuMemcpyHtoDAsync");
}

bool td_cuda_copy_out(void *dev, void *to, const void *from, size_t bytes) {
    td_cuda *d = dev;
    return td_cu_enter(d) && td_cuda_flush(d) &&
           td_cu_ok(d, td_cu.cuMemcpyDtoHAsync(to, address(from), bytes, d->stream),
                    "cuMemcpyDtoHAsync") &&
           td_cuda_sync(d);
}

bool td_cuda_copy(void *dev, void *to, const void *from, size_t bytes) {
    td_cuda *d = dev;
    return td_cu_enter(d) &&
           td_cu_ok(d,
                    td_cu.cuMemcpyDtoDAsync(address(to), address(from), bytes,
                                            d->stream),
                    "cuMemcpyDtoDAsync");
}

bool td_cuda_fill(void *dev, void *to, int byte, size_t bytes) {
    td_cuda *d = dev;
    return td_cu_enter(d) &&
           td_cu_ok(d,
                    td_cu.cuMemsetD8Async(address(to), (unsigned char)byte, bytes,
                                          d->stream),
                    "cuMemsetD8Async");
}

/* Reports failures of kernels that were started before. */
bool td_cuda_sync(void *dev) {
    td_cuda *d = dev;
    return td_cu_enter(d) && td_cuda_flush(d) &&
           td_cu_ok(d, td_cu.cuStreamSynchronize(d->main), "cuStreamSynchronize");
}

void td_cuda_memory(void *dev, td_device_memory *out) {
    const td_cuda *d = dev;
    *out = (td_device_memory){d->bytes, d->peak};
}
