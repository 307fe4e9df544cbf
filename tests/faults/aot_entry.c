/* aot_entry.c -- failures of allocations while modules are compiled and called, calls
 * take their arguments over, and graphs are staged, exported, saved and loaded. */
#include "faults.h"

#include "../unit/tower_help.h"

#include <stdlib.h>
#include <unistd.h>

static char folder[] = "/tmp/td-entry-XXXXXX", path[256];

static td_tensor *input(td_ctx *cx) { return td_randn(cx, TD_SHAPE(4, 3)); }

static double grad_sum(td_module *m, const char *name) {
    return td_item(td_sum(td_grad_of(td_module_get(m, name))));
}

static double module_step(td_ctx *cx) {
    td_module *m = tower_make(cx);
    td_fn     *f = m ? td_aot_module(m, NULL) : NULL;
    td_tensor *out[2];
    double     sum = 0;
    if (f && td_invoke(f, TD_ARGS(input(cx)), out, 2) && td_backward(out[1])) {
        td_module_train(m, false);
        if (td_invoke(f, TD_ARGS(input(cx)), out, 2))
            sum = td_item(out[1]) + grad_sum(m, "in");
    }
    td_fn_drop(f);
    td_module_free(m);
    return sum;
}

static double boxed(td_ctx *cx) {
    td_module *m = tower_make(cx);
    td_fn     *f = m ? td_aot_module_flat(m, NULL) : NULL;
    td_tensor *args[1] = {td_keep(input(cx))}, *out[2];
    double     sum = 0;
    if (f && td_invoke_boxed(f, args, 1, out, 2)) sum = td_item(out[1]);
    td_drop(args[0]); /* NULL once it was taken */
    td_fn_drop(f);
    td_module_free(m);
    return sum;
}

static double staged(td_ctx *cx) {
    td_module  *m = tower_make(cx);
    td_tensor  *x = input(cx), *out[2];
    td_aot_opts o = {TD_AOT_OPTS};
    td_staged  *s = m ? td_stage_module(m, TD_ARGS(x), &o) : NULL;
    td_fn      *f = NULL;
    double      sum = 0;
    if (s && td_stage_replace(s, td_stage_joint(s))) f = td_stage_compile(s);
    td_stage_drop(s);
    if (f && td_invoke(f, TD_ARGS(x), out, 2)) sum = td_item(out[1]);
    td_fn_drop(f);
    td_module_free(m);
    return sum;
}

static double exported(td_ctx *cx) {
    td_module     *m = tower_make(cx);
    td_export_opts o = {TD_EXPORT_OPTS, .what = TD_EXPORT_LOSS, .loss = 1};
    o.in_tree = "(*)";
    td_exported *e = m ? td_export_module(m, TD_ARGS(input(cx)), &o) : NULL, *l = NULL;
    double       sum = 0;
    if (e && td_exported_save(e, path)) l = td_exported_load(cx, path);
    if (l) sum = td_exported_outputs(l) * 100 + td_exported_loss(l);
    td_exported_drop(e);
    td_exported_drop(l);
    td_module_free(m);
    return sum;
}

static const td_fault_case cases[] = {{.name = "module", .run = module_step},
                                      {.name = "boxed", .run = boxed},
                                      {.name = "staged", .run = staged},
                                      {.name = "exported",
                                       .run = exported,
                                       .io = true}};

int main(int argc, char **argv) {
    if (!mkdtemp(folder)) return perror(folder), 1;
    snprintf(path, sizeof path, "%s/net.td", folder);
    int status = fault_main(cases, TD_COUNT(cases), argc, argv);
    unlink(path);
    if (rmdir(folder)) return perror(folder), 1;
    return status;
}
