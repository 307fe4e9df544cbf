/* cuda_int.h -- shared by the files of libtandem-cuda.so.
 *
 * The driver is loaded when it is first needed, so that a machine without one gets a
 * message instead of a library that cannot be loaded. One context, one stream and one
 * memory pool per device; all work of a device is in its stream. */
#ifndef TD_CUDA_INT_H
#define TD_CUDA_INT_H

#include "tandem/device_plugin.h"

#include <cublasLt.h>
#include <cuda.h>
#include <pthread.h>

/* The functions of the driver that the plugin calls: TD_CU(name, its symbol). */
#define TD_CU_FUNCTIONS                                                    \
    TD_CU(cuInit, "cuInit")                                                \
    TD_CU(cuGetErrorString, "cuGetErrorString")                            \
    TD_CU(cuDeviceGetCount, "cuDeviceGetCount")                            \
    TD_CU(cuDeviceGet, "cuDeviceGet")                                      \
    TD_CU(cuDeviceGetName, "cuDeviceGetName")                              \
    TD_CU(cuDeviceGetAttribute, "cuDeviceGetAttribute")                    \
    TD_CU(cuDeviceTotalMem, "cuDeviceTotalMem_v2")                         \
    TD_CU(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain")            \
    TD_CU(cuCtxSetCurrent, "cuCtxSetCurrent")                              \
    TD_CU(cuStreamCreate, "cuStreamCreate")                                \
    TD_CU(cuStreamSynchronize, "cuStreamSynchronize")                      \
    TD_CU(cuDeviceGetDefaultMemPool, "cuDeviceGetDefaultMemPool")          \
    TD_CU(cuMemPoolSetAttribute, "cuMemPoolSetAttribute")                  \
    TD_CU(cuMemPoolTrimTo, "cuMemPoolTrimTo")                              \
    TD_CU(cuMemAllocAsync, "cuMemAllocAsync")                              \
    TD_CU(cuMemFreeAsync, "cuMemFreeAsync")                                \
    TD_CU(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2")                       \
    TD_CU(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2")                       \
    TD_CU(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2")                       \
    TD_CU(cuMemsetD8Async, "cuMemsetD8Async")                              \
    TD_CU(cuModuleLoadData, "cuModuleLoadData")                            \
    TD_CU(cuModuleEnumerateFunctions, "cuModuleEnumerateFunctions")        \
    TD_CU(cuLaunchKernel, "cuLaunchKernel")                                \
    TD_CU(cuFuncSetAttribute, "cuFuncSetAttribute")                        \
    TD_CU(cuStreamBeginCapture, "cuStreamBeginCapture_v2")                 \
    TD_CU(cuStreamEndCapture, "cuStreamEndCapture")                        \
    TD_CU(cuStreamGetCaptureInfo, "cuStreamGetCaptureInfo_v3")             \
    TD_CU(cuGraphInstantiate, "cuGraphInstantiateWithFlags")               \
    TD_CU(cuGraphLaunch, "cuGraphLaunch")                                  \
    TD_CU(cuGraphDestroy, "cuGraphDestroy")                                \
    TD_CU(cuGraphGetNodes, "cuGraphGetNodes")                              \
    TD_CU(cuGraphNodeGetType, "cuGraphNodeGetType")                        \
    TD_CU(cuGraphMemsetNodeGetParams, "cuGraphMemsetNodeGetParams")        \
    TD_CU(cuGraphNodeGetDependencies, "cuGraphNodeGetDependencies_v2")     \
    TD_CU(cuGraphNodeGetDependentNodes, "cuGraphNodeGetDependentNodes_v2") \
    TD_CU(cuGraphAddKernelNode, "cuGraphAddKernelNode_v2")                 \
    TD_CU(cuGraphAddDependencies, "cuGraphAddDependencies_v2")             \
    TD_CU(cuGraphDestroyNode, "cuGraphDestroyNode")                        \
    TD_CU(cuGraphExecDestroy, "cuGraphExecDestroy")                        \
    TD_CU(cuGraphExecKernelNodeSetParams, "cuGraphExecKernelNodeSetParams_v2")

/* The loaded driver; all zero before td_cu_load. */
typedef struct td_driver {
#define TD_CU(name, symbol) __typeof__(name) *name;
    TD_CU_FUNCTIONS
#undef TD_CU
} td_driver;
extern td_driver td_cu;

/* How cuBLASLt computes a product of these sizes, found once. */
typedef struct td_cuda_plan {
    td_device_product    of; /* its sizes, and how addresses are aligned */
    cublasLtMatmulAlgo_t algo;
} td_cuda_plan;
enum { TD_CUDA_PLANS = 1024, TD_CUDA_WORKSPACE = 32 << 20 };

typedef struct td_cuda_attention_plan td_cuda_attention_plan; /* convolution.c */
int td_cuda_convolution(void *dev, const td_device_convolution *p);

/* attention.c */

/* An open device. */
typedef struct td_cuda {
    CUdevice  device;
    CUcontext context;
    CUstream  stream; /* where this call starts work: main, or capture */
    CUstream  main, capture;
    struct td_cuda_recording *open; /* what is being recorded; NULL: nothing */
    pthread_t                 by;   /* the thread that records */
    CUmemoryPool              pool;
    int                       arch;   /* 90: sm_90 */
    int64_t                   shared; /* bytes, see td_cuda_shared */
    void                     *zero;   /* the kernel of zeros.c; NULL until needed */
    uint64_t                  bytes, peak;
    char                      error[4096];
    cublasLtHandle_t          lt;   /* NULL until the first product */
    void                     *lent; /* memory of the library that a call may use */
    size_t                    n_lent;
    void         *workspace; /* of TD_CUDA_WORKSPACE bytes; NULL until then */
    td_cuda_plan *plans;     /* [TD_CUDA_PLANS] by hash */
    bool         *planned;   /* [TD_CUDA_PLANS] */

    void                   *dnn;    /* the handle of cuDNN; NULL until it is needed */
    bool                    no_dnn; /* it cannot be loaded */
    td_cuda_attention_plan *attention; /* [n_attention] plans that are built */
    int                     n_attention;
} td_cuda;

/* Loads the driver. False, and why: it is missing, or too old. */
bool td_cu_load(char *why, size_t cap);
/* Stores "what: reason" as the error of d; true if r is no error. */
bool td_cu_ok(td_cuda *d, CUresult r, const char *what);
/* Makes d the current device of the thread, and d->stream the one that this call starts
 * work in. Every function of the plugin begins with it. */
bool td_cu_enter(td_cuda *d);

/* memory.c */
void *td_cuda_alloc(void *dev, size_t bytes);
void  td_cuda_release(void *dev, void *memory, size_t bytes);
bool  td_cuda_copy_in(void *dev, void *to, const void *from, size_t bytes);
bool  td_cuda_copy_out(void *dev, void *to, const void *from, size_t bytes);
bool  td_cuda_copy(void *dev, void *to, const void *from, size_t bytes);
bool  td_cuda_fill(void *dev, void *to, int byte, size_t bytes);
bool  td_cuda_sync(void *dev);
void  td_cuda_memory(void *dev, td_device_memory *out);

/* A workspace: what the library has lent, if that is enough, else new memory. NULL: out
 * of memory. */
void *td_cuda_workspace(td_cuda *d, size_t bytes);
void  td_cuda_workspace_end(td_cuda *d, void *room, size_t bytes);
void  td_cuda_lend(void *dev, void *memory, size_t bytes);

/* kernels.c */
void        *td_cuda_build(void *dev, const char *text, const char *entry);
void        *td_cuda_code(void *dev, const char *text, size_t *bytes);
void        *td_cuda_load(void *dev, const void *code, size_t bytes, const char *entry);
void         td_cuda_target(void *dev, char *out, size_t cap);
int64_t      td_cuda_shared(void *dev);
bool         td_cuda_launch(void *dev, void *kernel, td_device_grid grid, void **args);
/* Compiles text for sm_<arch> without a device: the machine code, to be freed, or NULL
 * and why. For tests on machines without a GPU. */
TD_API void *td_cuda_compile(const char *text, int arch, size_t *bytes, char *why,
                             size_t cap);

/* record.c */
bool        td_cuda_record(void *dev);
void       *td_cuda_recorded(void *dev);
int         td_cuda_last(void *dev);
bool        td_cuda_change(void *dev, void *recording, int launch, void **args);
bool        td_cuda_replay(void *dev, void *recording);
void        td_cuda_forget(void *dev, void *recording);
bool        td_cuda_records(const td_cuda *d); /* does this thread record? */
/* If this thread records: frees the memory with the recording, and returns true. */
bool        td_cuda_keep(td_cuda *d, CUdeviceptr memory, size_t bytes);
/* Kept memory of this size, for work that is recorded later and so runs later; 0: none.
 */
CUdeviceptr td_cuda_reuse(td_cuda *d, size_t bytes);
/* If this thread records: starts what it has recorded, and ends the recording. */
bool        td_cuda_flush(td_cuda *d);
/* Keeps a launch that was just started for td_cuda_change. */
void        td_cuda_note(td_cuda *d, void *kernel, td_device_grid grid);

/* zeros.c: makes kernels of a graph's fills with zeros. */
void td_cuda_zeros(td_cuda *d, CUgraph g);

/* product.c */
int td_cuda_product(void *dev, const td_device_product *p);

/* convolution.c */
int td_cuda_convolution(void *dev, const td_device_convolution *p);

/* attention.c */
int        td_cuda_attention(void *dev, const td_device_attention *a);
TD_API int td_cuda_attention_engines(const td_device_attention *a, const char *gpu,
                                     char *why, size_t cap);

#endif
