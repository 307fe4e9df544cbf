/* convolution.c -- convolutions over planes by cuDNN. Only algorithms that give the
 * same bits in every run are used; f32 is computed in f32, without TF32. */
#include "dnn.h"

#ifdef TD_HAS_DNN
#include <stdio.h>
#include <string.h>

enum { MOST_ALGORITHMS = 10, MOST_WORKSPACE = 512 << 20 };

/* The descriptors of one convolution; destroyed by close_all. */
typedef struct conv {
    td_cuda                     *d;
    cudnnTensorDescriptor_t      x, y;
    cudnnFilterDescriptor_t      w;
    cudnnConvolutionDescriptor_t c;
    int                          algorithm;
    size_t                       workspace;
} conv;

static bool check(td_cuda *d, cudnnStatus_t s, const char *what) {
    if (s == CUDNN_STATUS_SUCCESS) return true;
    snprintf(d->error, sizeof d->error, "cuDNN: %s: %s", what,
             td_dnn.cudnnGetErrorString(s));
    return false;
}

static bool open_all(conv *v, const td_device_convolution *p) {
    td_cuda        *d = v->d;
    cudnnDataType_t t = p->dtype == TD_F64   ? CUDNN_DATA_DOUBLE
                        : p->dtype == TD_F32 ? CUDNN_DATA_FLOAT
                        : p->dtype == TD_F16 ? CUDNN_DATA_HALF
                                             : CUDNN_DATA_BFLOAT16;
    cudnnDataType_t in = p->dtype == TD_F64 ? t : CUDNN_DATA_FLOAT;
    cudnnMathType_t math = p->dtype <= TD_F32 ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH;
    const cudnnTensorFormat_t rows = CUDNN_TENSOR_NCHW;
    return check(d, td_dnn.cudnnCreateTensorDescriptor(&v->x), "x") &&
           check(d, td_dnn.cudnnCreateTensorDescriptor(&v->y), "y") &&
           check(d, td_dnn.cudnnCreateFilterDescriptor(&v->w), "weight") &&
           check(d, td_dnn.cudnnCreateConvolutionDescriptor(&v->c), "convolution") &&
           check(d,
                 td_dnn.cudnnSetTensor4dDescriptor(v->x, rows, t, (int)p->n, (int)p->c,
                                                   (int)p->h, (int)p->w),
                 "x") &&
           check(d,
                 td_dnn.cudnnSetTensor4dDescriptor(v->y, rows, t, (int)p->n, (int)p->o,
                                                   (int)p->oh, (int)p->ow),
                 "y") &&
           check(d,
                 td_dnn.cudnnSetFilter4dDescriptor(v->w, t, rows, (int)p->o,
                                                   (int)(p->c / p->groups), (int)p->kh,
                                                   (int)p->kw),
                 "weight") &&
           check(d,
                 td_dnn.cudnnSetConvolution2dDescriptor(
                     v->c, (int)p->pad[0], (int)p->pad[1], (int)p->stride[0],
                     (int)p->stride[1], (int)p->dilation[0], (int)p->dilation[1],
                     CUDNN_CROSS_CORRELATION, in),
                 "convolution") &&
           check(d, td_dnn.cudnnSetConvolutionGroupCount(v->c, (int)p->groups),
                 "groups") &&
           check(d, td_dnn.cudnnSetConvolutionMathType(v->c, math), "math type");
}

static void close_all(conv *v) {
    if (v->x) td_dnn.cudnnDestroyTensorDescriptor(v->x);
    if (v->y) td_dnn.cudnnDestroyTensorDescriptor(v->y);
    if (v->w) td_dnn.cudnnDestroyFilterDescriptor(v->w);
    if (v->c) td_dnn.cudnnDestroyConvolutionDescriptor(v->c);
}

/* The first algorithm of a list that repeats its bits and fits into the workspace. */
#define CHOOSE(v, list, n, found)                                               \
    for (int i = 0; i < (n) && !(found); i++) {                                 \
        if ((list)[i].status || (list)[i].determinism != CUDNN_DETERMINISTIC || \
            (list)[i].memory > MOST_WORKSPACE)                                  \
            continue;                                                           \
        (v)->algorithm = (int)(list)[i].algo;                                   \
        (v)->workspace = (list)[i].memory;                                      \
        found = true;                                                           \
    }

static bool choose(conv *v, const td_device_convolution *p) {
    cudnnConvolutionFwdAlgoPerf_t       y[MOST_ALGORITHMS];
    cudnnConvolutionBwdDataAlgoPerf_t   x[MOST_ALGORITHMS];
    cudnnConvolutionBwdFilterAlgoPerf_t w[MOST_ALGORITHMS];
    cudnnHandle_t                       h = v->d->dnn;
    int                                 n = 0;
    bool                                found = false;
    if (p->makes == TD_CONV_Y &&
        !td_dnn.cudnnGetConvolutionForwardAlgorithm_v7(h, v->x, v->w, v->c, v->y,
                                                       MOST_ALGORITHMS, &n, y))
        CHOOSE(v, y, n, found)
    if (p->makes == TD_CONV_X &&
        !td_dnn.cudnnGetConvolutionBackwardDataAlgorithm_v7(h, v->w, v->y, v->c, v->x,
                                                            MOST_ALGORITHMS, &n, x))
        CHOOSE(v, x, n, found)
    if (p->makes == TD_CONV_W &&
        !td_dnn.cudnnGetConvolutionBackwardFilterAlgorithm_v7(h, v->x, v->y, v->c, v->w,
                                                              MOST_ALGORITHMS, &n, w))
        CHOOSE(v, w, n, found)
    return found;
}

static bool execute(const conv *v, const td_device_convolution *p, void *room) {
    double        w[2] = {1, 0};
    float         f[2] = {1, 0};
    const void   *one = p->dtype == TD_F64 ? (void *)&w[0] : (void *)&f[0];
    const void   *zero = p->dtype == TD_F64 ? (void *)&w[1] : (void *)&f[1];
    cudnnHandle_t h = v->d->dnn;
    cudnnStatus_t s;
    if (p->makes == TD_CONV_Y)
        s = td_dnn.cudnnConvolutionForward(h, one, v->x, p->x, v->w, p->weight, v->c,
                                           (cudnnConvolutionFwdAlgo_t)v->algorithm,
                                           room, v->workspace, zero, v->y, p->y);
    else if (p->makes == TD_CONV_X)
        s = td_dnn.cudnnConvolutionBackwardData(
            h, one, v->w, p->weight, v->y, p->y, v->c,
            (cudnnConvolutionBwdDataAlgo_t)v->algorithm, room, v->workspace, zero, v->x,
            p->x);
    else
        s = td_dnn.cudnnConvolutionBackwardFilter(
            h, one, v->x, p->x, v->y, p->y, v->c,
            (cudnnConvolutionBwdFilterAlgo_t)v->algorithm, room, v->workspace, zero,
            v->w, p->weight);
    return check(v->d, s, "convolution");
}

int td_cuda_convolution(void *dev, const td_device_convolution *p) {
    td_cuda *d = dev;
    conv     v = {.d = d};
    if (!td_cu_enter(d)) return -1;
    if (!td_dnn_begin(d)) return 1;
    int how = open_all(&v, p) && choose(&v, p) ? 0 : 1;
    if (how == 0) {
        void *room = v.workspace ? td_cuda_workspace(d, v.workspace) : NULL;
        how = (room || !v.workspace) && execute(&v, p, room) ? 0 : -1;
        if (room) td_cuda_workspace_end(d, room, v.workspace);
    }
    close_all(&v);
    return how;
}

#else

int td_cuda_convolution(void *dev, const td_device_convolution *p) {
    (void)dev, (void)p;
    return 1;
}

#endif
