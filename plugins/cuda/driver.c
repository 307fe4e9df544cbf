/* driver.c -- loads the driver, counts, opens and describes devices. */
#include "cuda_int.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

td_driver td_cu;

bool td_cu_load(char *why, size_t cap) {
    static void *lib;
    if (lib) return true;
    void *opened = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!opened)
        return snprintf(why, cap,
                        "the driver is missing: %.300s. Install the NVIDIA driver (580 "
                        "or later for CUDA 13)",
                        dlerror()),
               false;
#define TD_CU(name, symbol)                                                            \
    if (!(*(void **)&td_cu.name = dlsym(opened, symbol)))                              \
        return snprintf(why, cap,                                                      \
                        "the driver is too old: it has no %s. Install version 580 or " \
                        "later",                                                       \
                        symbol),                                                       \
               false;
    TD_CU_FUNCTIONS
#undef TD_CU
    lib = opened;
    return true;
}

static const char *text_of(CUresult r) {
    const char *text = NULL;
    return td_cu.cuGetErrorString(r, &text) || !text ? "unknown error" : text;
}

bool td_cu_ok(td_cuda *d, CUresult r, const char *what) {
    if (r == CUDA_SUCCESS) return true;
    snprintf(d->error, sizeof d->error, "%s: %s", what, text_of(r));
    return false;
}

bool td_cu_enter(td_cuda *d) {
    d->stream = td_cuda_records(d) ? d->capture : d->main;
    return td_cu_ok(d, td_cu.cuCtxSetCurrent(d->context), "cuCtxSetCurrent");
}

static int count(char *why, size_t cap) {
    int n = 0;
    if (!td_cu_load(why, cap)) return 0;
    CUresult r = td_cu.cuInit(0);
    if (r == CUDA_SUCCESS) r = td_cu.cuDeviceGetCount(&n);
    if (r == CUDA_SUCCESS && n > 0) return n;
    snprintf(why, cap,
             "the driver is there and finds no GPU (%s). Check nvidia-smi, and "
             "CUDA_VISIBLE_DEVICES",
             r == CUDA_SUCCESS ? "none is visible" : text_of(r));
    return 0;
}

/* STATIC: bytes that a block of our kernels has beside what it keeps. */
enum { STATIC = 4096 };

/* What two blocks of a processor can keep. */
static int64_t shared_of(CUdevice device) {
    int all = 0, own = 0, block = 0;
    td_cu.cuDeviceGetAttribute(&all,
                               CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
                               device);
    td_cu.cuDeviceGetAttribute(&block,
                               CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
                               device);
    td_cu.cuDeviceGetAttribute(&own,
                               CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK,
                               device);
    int64_t two = all - 2 * (own + STATIC), one = 2 * (int64_t)(block - STATIC);
    return two < 0 || one < 0 ? 0 : two < one ? two : one;
}

/* Context, stream and pool. Freed memory stays in the pool: giving it back at every
 * synchronization costs more than all allocations. */
static bool start(td_cuda *d) {
    cuuint64_t most = UINT64_MAX;
    int        major = 0, minor = 0;
    bool       ok =
        td_cu_ok(d, td_cu.cuDevicePrimaryCtxRetain(&d->context, d->device),
                 "cuDevicePrimaryCtxRetain") &&
        td_cu_enter(d) &&
        td_cu_ok(d, td_cu.cuStreamCreate(&d->main, CU_STREAM_NON_BLOCKING),
                 "cuStreamCreate") &&
        td_cu_ok(d, td_cu.cuDeviceGetDefaultMemPool(&d->pool, d->device),
                 "cuDeviceGetDefaultMemPool") &&
        td_cu_ok(d,
                 td_cu.cuMemPoolSetAttribute(d->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                                             &most),
                 "cuMemPoolSetAttribute");
    td_cu.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                               d->device);
    td_cu.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                               d->device);
    d->arch = 10 * major + minor;
    d->shared = shared_of(d->device);
    return ok;
}

static void *open_device(int index, char *why, size_t cap) {
    td_cuda *d = calloc(1, sizeof *d);
    if (!d) return snprintf(why, cap, "out of memory"), NULL;
    if (td_cu_ok(d, td_cu.cuDeviceGet(&d->device, index), "cuDeviceGet") && start(d))
        return d;
    snprintf(why, cap, "the GPU cannot be used: %.600s", d->error);
    free(d);
    return NULL;
}

static void describe(void *dev, char *out, size_t cap) {
    td_cuda *d = dev;
    char     name[128] = "?";
    size_t   bytes = 0;
    td_cu.cuDeviceGetName(name, sizeof name, d->device);
    td_cu.cuDeviceTotalMem(&bytes, d->device);
    snprintf(out, cap, "%s, %.1f GiB, sm_%d", name, (double)bytes / 0x1p30, d->arch);
}

static const char *error(void *dev) { return ((td_cuda *)dev)->error; }

static const td_device_plugin plugin = {.version = TD_DEVICE_PLUGIN_VERSION,
                                        .name = "cuda",
                                        .count = count,
                                        .open = open_device,
                                        .describe = describe,
                                        .alloc = td_cuda_alloc,
                                        .release = td_cuda_release,
                                        .copy_in = td_cuda_copy_in,
                                        .copy_out = td_cuda_copy_out,
                                        .copy = td_cuda_copy,
                                        .fill = td_cuda_fill,
                                        .sync = td_cuda_sync,
                                        .error = error,
                                        .memory = td_cuda_memory,
                                        .build = td_cuda_build,
                                        .compile = td_cuda_code,
                                        .load = td_cuda_load,
                                        .target = td_cuda_target,
                                        .shared = td_cuda_shared,
                                        .launch = td_cuda_launch,
                                        .record = td_cuda_record,
                                        .recorded = td_cuda_recorded,
                                        .last = td_cuda_last,
                                        .change = td_cuda_change,
                                        .replay = td_cuda_replay,
                                        .forget = td_cuda_forget,
                                        .lend = td_cuda_lend,
                                        .product = td_cuda_product,
                                        .attention = td_cuda_attention,
                                        .convolution = td_cuda_convolution};

TD_API td_device_plugin_fn td_device_plugin_get;

const td_device_plugin *td_device_plugin_get(void) { return &plugin; }
