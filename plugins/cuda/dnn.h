/* dnn.h -- the functions of cuDNN, which is loaded when it is first needed: a machine
 * without it computes by other means. */
#ifndef TD_DNN_H
#define TD_DNN_H

#include "cuda_int.h"

#if __has_include(<cudnn.h>)
#define TD_HAS_DNN
#include <cudnn.h>

#define TD_DNN_FUNCTIONS                                  \
    TD_DNN(cudnnCreate)                                   \
    TD_DNN(cudnnSetStream)                                \
    TD_DNN(cudnnGetErrorString)                           \
    TD_DNN(cudnnBackendCreateDescriptor)                  \
    TD_DNN(cudnnBackendDestroyDescriptor)                 \
    TD_DNN(cudnnBackendSetAttribute)                      \
    TD_DNN(cudnnBackendGetAttribute)                      \
    TD_DNN(cudnnBackendFinalize)                          \
    TD_DNN(cudnnBackendExecute)                           \
    TD_DNN(cudnnCreateTensorDescriptor)                   \
    TD_DNN(cudnnDestroyTensorDescriptor)                  \
    TD_DNN(cudnnSetTensor4dDescriptor)                    \
    TD_DNN(cudnnCreateFilterDescriptor)                   \
    TD_DNN(cudnnDestroyFilterDescriptor)                  \
    TD_DNN(cudnnSetFilter4dDescriptor)                    \
    TD_DNN(cudnnCreateConvolutionDescriptor)              \
    TD_DNN(cudnnDestroyConvolutionDescriptor)             \
    TD_DNN(cudnnSetConvolution2dDescriptor)               \
    TD_DNN(cudnnSetConvolutionGroupCount)                 \
    TD_DNN(cudnnSetConvolutionMathType)                   \
    TD_DNN(cudnnGetConvolutionForwardAlgorithm_v7)        \
    TD_DNN(cudnnGetConvolutionBackwardDataAlgorithm_v7)   \
    TD_DNN(cudnnGetConvolutionBackwardFilterAlgorithm_v7) \
    TD_DNN(cudnnConvolutionForward)                       \
    TD_DNN(cudnnConvolutionBackwardData)                  \
    TD_DNN(cudnnConvolutionBackwardFilter)

/* All zero before td_dnn_load. */
typedef struct td_dnn_functions {
#define TD_DNN(name) __typeof__(name) *name;
    TD_DNN_FUNCTIONS
#undef TD_DNN
} td_dnn_functions;
extern td_dnn_functions td_dnn;

/* False: there is no cuDNN 9. */
bool td_dnn_load(void);
/* Loads it and makes the handle of d. */
bool td_dnn_begin(td_cuda *d);
#endif

#endif
