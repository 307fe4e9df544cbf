/* dnn.c -- loads cuDNN. */
#include "dnn.h"

#ifdef TD_HAS_DNN
#include <dlfcn.h>

td_dnn_functions td_dnn;

bool td_dnn_load(void) {
    static bool tried, all;
    if (tried) return all;
    tried = true;
    void *lib = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_GLOBAL);
    all = lib != NULL;
#define TD_DNN(name) all = all && (*(void **)&td_dnn.name = dlsym(lib, #name));
    TD_DNN_FUNCTIONS
#undef TD_DNN
    return all;
}

bool td_dnn_begin(td_cuda *d) {
    cudnnHandle_t h = NULL;
    if (!d->dnn) {
        d->no_dnn = d->no_dnn || !td_dnn_load() || td_dnn.cudnnCreate(&h);
        if (!d->no_dnn) d->dnn = h;
    }
    return d->dnn && !td_dnn.cudnnSetStream(d->dnn, (cudaStream_t)d->stream);
}
#else
typedef int td_no_dnn; /* ISO C wants a declaration */
#endif
