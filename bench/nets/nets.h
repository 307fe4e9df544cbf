/* nets.h -- the networks that whole training steps are measured on. bench/peers/nets.py
 * has the same ones for PyTorch. Not part of the library. */
#ifndef BENCH_NETS_H
#define BENCH_NETS_H

#include <tandem/nn.h>
#include <tandem/optim.h>
#include <tandem/tandem.h>

/* A network with a batch for it: cross entropy of net(x) and y, then AdamW. The tensors
 * belong to the scope it was made in. */
typedef struct net_job {
    td_ctx    *cx;
    td_module *net;
    td_optim  *opt;
    td_tensor *x, *y;
    int64_t    classes;
} net_job;

typedef struct net_kind {
    const char *name;
    void (*make)(net_job *j, int64_t batch, int64_t size); /* net, x, y, classes */
    int64_t batch, size;
} net_kind;

/* Ends with one without a name. */
extern const net_kind net_kinds[];

/* False: something failed, and j has nothing to be freed. */
bool net_open(net_job *j, td_ctx *cx, const net_kind *kind);
void net_close(net_job *j);

/* A body for td_call_body and td_aot_step: (x, y) gives the loss; env is the job. */
bool net_step(td_call *c);

#endif
