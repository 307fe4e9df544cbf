/* tandem/dlpack.h -- hand tensors to and from other libraries without copying.
 *
 * DLPack is an exchange format many array libraries speak. Its structures are
 * declared here, with the layout of DLPack 1.x, unless its own header has been
 * included before; including that header afterwards does no harm. */
#ifndef TANDEM_DLPACK_H
#define TANDEM_DLPACK_H

#include "tandem/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifndef DLPACK_DLPACK_H_
#define DLPACK_DLPACK_H_

#define DLPACK_MAJOR_VERSION 1
#define DLPACK_MINOR_VERSION 1

#define DLPACK_FLAG_BITMASK_READ_ONLY (1UL << 0UL) /* the consumer may not write */
#define DLPACK_FLAG_BITMASK_IS_COPIED (1UL << 1UL) /* made for this exchange */

typedef struct {
    uint32_t major; /* another major: call the deleter and nothing else */
    uint32_t minor;
} DLPackVersion;

#ifdef __cplusplus
typedef enum : int32_t {
#else
typedef enum {
#endif
    kDLCPU = 1,
    kDLCUDA = 2,
    kDLCUDAHost = 3,
    kDLOpenCL = 4,
    kDLVulkan = 7,
    kDLMetal = 8,
    kDLVPI = 9,
    kDLROCM = 10,
    kDLROCMHost = 11,
    kDLExtDev = 12,
    kDLCUDAManaged = 13,
    kDLOneAPI = 14,
    kDLWebGPU = 15,
    kDLHexagon = 16,
    kDLMAIA = 17
} DLDeviceType;

typedef struct {
    DLDeviceType device_type;
    int32_t      device_id;
} DLDevice;

typedef enum {
    kDLInt = 0U,
    kDLUInt = 1U,
    kDLFloat = 2U,
    kDLOpaqueHandle = 3U,
    kDLBfloat = 4U,
    kDLComplex = 5U,
    kDLBool = 6U,
    kDLFloat8_e4m3fn = 10U,
    kDLFloat8_e5m2 = 12U
} DLDataTypeCode;

typedef struct {
    uint8_t  code; /* DLDataTypeCode */
    uint8_t  bits;
    uint16_t lanes; /* 1, except for vector types */
} DLDataType;

typedef struct {
    void      *data; /* the memory; the first element is byte_offset further on */
    DLDevice   device;
    int32_t    ndim;
    DLDataType dtype;
    int64_t   *shape;
    int64_t   *strides; /* in elements; NULL: row-major */
    uint64_t   byte_offset;
} DLTensor;

/* The form of DLPack before 1.0: no version, no flags. */
typedef struct DLManagedTensor {
    DLTensor dl_tensor;
    void    *manager_ctx; /* the producer's */
    void (*deleter)(struct DLManagedTensor *self);
} DLManagedTensor;

typedef struct DLManagedTensorVersioned {
    DLPackVersion version;
    void         *manager_ctx; /* the producer's */
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags; /* DLPACK_FLAG_BITMASK_... */
    DLTensor dl_tensor;
} DLManagedTensorVersioned;

#endif

/* The memory of t for another library.
 *
 *   returns  NULL when it fails
 *   owns     the receiver, who calls its deleter once, on any thread, also after
 *            td_close: the bytes live until then
 *   aliases  both sides see each other's writes; Tandem does not count those of
 *            the other side (td_bump does)
 *   fails    TD_E_GRAD   t needs a gradient; pass td_detach(t)
 *            TD_E_TRACE  t has no bytes
 *            TD_E_ALIAS  _legacy only: t is read-only, which the old
 *                        form cannot say; the new one sets its flag
 *   cost     no copy
 *   since    0.1
 */
TD_API struct DLManagedTensorVersioned *td_to_dlpack(const td_tensor *t);
TD_API struct DLManagedTensor          *td_to_dlpack_legacy(const td_tensor *t);

/* A tensor over memory of another library.
 *
 *   returns  nil when it fails
 *   owns     takes m over, also when it fails: the deleter runs once, at once or
 *            when the last tensor over the memory dies
 *   aliases  the producer's memory; writes are refused when m is flagged read-only
 *   fails    TD_E_UNSUPPORTED  another major version, a device that is not the
 *                              CPU, an element type Tandem does not have, a
 *                              negative stride
 *            TD_E_ARG          m contradicts itself, has no addresses for what it
 *                              describes, or elements are not aligned
 *   note     strides of dims of size 1, and of empty tensors, mean nothing: where
 *            one is negative or beyond 2^40 it becomes that of a dense tensor.
 *            Bytes are the producer's word: they are there, and a bool is 0 or 1
 *   cost     no copy
 *   since    0.1
 */
TD_API td_tensor *td_from_dlpack(td_ctx *cx, struct DLManagedTensorVersioned *m);
TD_API td_tensor *td_from_dlpack_legacy(td_ctx *cx, struct DLManagedTensor *m);

#ifdef __cplusplus
}
#endif

#endif
