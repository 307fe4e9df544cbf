/* fuzz_state.c -- any bytes as the state of a module or an optimizer: an error that
 * changes nothing, or a state that trains on. The first byte chooses. */
#include "core/core.h"
#include "tandem/nn.h"
#include "tandem/optim.h"
#include "tandem/tandem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static td_ctx    *cx;
static td_module *net;
static td_optim  *optim;

static double step(void) {
    td_tensor *loss = td_sum(td_module_call(net, TD_ARGS(td_ones(cx, TD_SHAPE(1, 3)))));
    td_backward(loss);
    td_optim_step(optim);
    td_optim_zero_grad(optim);
    return td_item(loss);
}

static void start(void) {
    cx = td_open();
    net = td_nn_linear(cx, 3, 2, NULL);
    optim = td_optim_module(net, td_adamw(1e-3));
    step();
    if (!td_ok(cx)) abort();
}

static void read_weight(float to[6]) {
    if (!td_read(td_module_get(net, "weight"), TD_F32, to, 6 * sizeof *to)) abort();
}

/* A file in memory with these bytes, under a path. */
static int make_file(const uint8_t *data, size_t size, char *path, size_t cap) {
    int fd = memfd_create("state", 0);
    snprintf(path, cap, "/proc/self/fd/%d", fd);
    if (fd >= 0 && write(fd, data, size) != (ssize_t)size) abort();
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    if (!cx) start();
    if (size < 1) return 0;
    int fd = make_file(data + 1, size - 1, path, sizeof path);
    if (fd < 0) return 0;
    td_scope_begin(cx, "fuzz");
    float before[6], after[6];
    read_weight(before);
    bool ok =
        data[0] & 1 ? td_optim_load(optim, path) : td_module_load(net, path, NULL);
    if (ok != td_ok(cx)) abort();
    td_clear(cx);
    read_weight(after);
    if (!ok && memcmp(before, after, sizeof after)) abort();
    if (ok) (void)step();
    td_clear(cx);
    td_scope_end(cx, "fuzz", NULL);
    close(fd);
    return 0;
}
