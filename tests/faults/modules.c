/* modules.c -- failures of allocations and file calls while modules are made, copied,
 * converted, called, saved and loaded. A load that fails has written nothing. */
#include "faults.h"

#include "../unit/module_help.h"

#include <stdlib.h>
#include <unistd.h>

static char folder[] = "/tmp/td-modules-XXXXXX", path[256];

static double total(td_module *m, const char *name) {
    return m ? td_item(td_sum(td_to(td_module_get(m, name), TD_F64))) : 0;
}

static double make(td_ctx *cx) {
    td_module *m = net_make(cx);
    double     sum = total(m, "layers.0.weight");
    td_flat   *f = m ? td_module_flat(m) : NULL;
    if (f && f->entries) sum += f->n_params + f->entries[0].n_names;
    td_flat_drop(f);
    td_module_free(m);
    return sum;
}

static double change(td_ctx *cx) {
    td_module *m = net_make(cx), *c = m ? td_module_copy(m) : NULL;
    double     sum = 0;
    if (c && td_module_to(c, TD_F64)) {
        td_tensor *x = td_zeros(cx, TD_SHAPE(2), TD_I64);
        sum = td_item(td_sum(td_module_call(c, TD_ARGS(x))));
    }
    td_module_free(c);
    td_module_free(m);
    return sum;
}

static bool torn; /* a load that failed had written something */

/* Without allocations. */
static double plain_sum(td_module *m) {
    double v[9], sum = 0;
    if (!td_read(td_module_get(m, "layers.1.weight"), TD_F64, v, sizeof v)) return 0;
    for (int i = 0; i < 9; i++) sum += v[i];
    return sum;
}

static double files(td_ctx *cx) {
    td_module *m = net_make(cx), *n = m ? net_make(cx) : NULL;
    double     sum = 0, before = n ? plain_sum(n) : 0;
    if (n && td_ok(cx) && td_module_save(m, path, NULL)) {
        if (td_module_load(n, path, NULL)) sum = total(n, "layers.1.weight");
        else torn |= !fault_same(plain_sum(n), before);
    }
    td_module_free(n);
    td_module_free(m);
    return sum;
}

static const td_fault_case cases[] = {{.name = "make", .run = make},
                                      {.name = "change", .run = change},
                                      {.name = "files", .run = files, .io = true}};

int main(int argc, char **argv) {
    if (!mkdtemp(folder)) return perror(folder), 1;
    snprintf(path, sizeof path, "%s/net.safetensors", folder);
    int status = fault_main(cases, TD_COUNT(cases), argc, argv);
    unlink(path);
    if (torn) return puts("a load that failed had written something"), 1;
    if (rmdir(folder)) return perror(folder), 1; /* nothing half-written is left */
    return status;
}
