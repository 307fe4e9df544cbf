/* files.c -- failures of allocations and file calls while files are written and
 * read. */
#include "faults.h"

#include <stdlib.h>
#include <unistd.h>

static char folder[] = "/tmp/td-faults-XXXXXX";

static const char *in_folder(const char *name) {
    static char path[2][256];
    static int  turn;
    turn ^= 1;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static double total(td_tensor *t) { return td_item(td_sum(td_to(t, TD_F64))); }

static double npy(td_ctx *cx) {
    td_tensor *x = td_t(td_reshape(td_arange(cx, 0, 12), TD_SHAPE(3, 4)));
    if (!td_save_npy(x, in_folder("x.npy"))) return 0;
    td_tensor *y = td_load_npy(cx, in_folder("x.npy"));
    return total(td_mul(y, y));
}

static double safetensors(td_ctx *cx) {
    static const char *const names[] = {"w", "a longer name", "empty"};
    static const char *const notes[] = {"format", "tandem", NULL};
    td_tensor *t[] = {td_arange(cx, 0, 9), td_ones(cx, TD_SHAPE(2, 3), TD_F16),
                      td_zeros(cx, TD_SHAPE(0, 2))};
    double     sum = 0;
    if (!td_safetensors_save(cx, in_folder("m.safetensors"), names, (td_tensors){t, 3},
                             notes))
        return 0;
    td_safetensors *f = td_safetensors_open(cx, in_folder("m.safetensors"));
    for (int i = 0; f && i < td_safetensors_count(f); i++)
        sum += total(td_safetensors_get(f, td_safetensors_name(f, i)));
    td_safetensors_close(f);
    return sum;
}

static const td_fault_case cases[] = {{.name = "npy", .run = npy, .io = true},
                                      {.name = "safetensors",
                                       .run = safetensors,
                                       .io = true}};

int main(int argc, char **argv) {
    if (!mkdtemp(folder)) return perror(folder), 1;
    int status = fault_main(cases, TD_COUNT(cases), argc, argv);
    unlink(in_folder("x.npy"));
    unlink(in_folder("m.safetensors"));
    if (rmdir(folder)) return perror(folder), 1; /* nothing half-written is left */
    return status;
}
