/* exports.c -- failures of allocations and file calls while graphs are exported,
 * written as text and to files, read back and run. What comes back computes what was
 * exported. */
#include "faults.h"

#include "../unit/export_help.h"

#include <unistd.h>

static char folder[] = "/tmp/td-exports-XXXXXX", path[256];

static double sum_of(td_value v) {
    return v.kind == TD_K_TENSOR && v.u.t ? td_item(td_sum(td_to(v.u.t, TD_F64))) : 0;
}

/* All outputs of a run, each with a weight of its own. */
static double total(const td_exported *e, td_values in) {
    td_value out[ROOM];
    double   sum = 0;
    if (!td_exported_run(e, in, out, td_exported_outputs(e))) return 0;
    for (int i = 0; i < td_exported_outputs(e); i++) sum += (i + 1) * sum_of(out[i]);
    return sum;
}

/* Tangents are ones of the size of what they belong to. */
static int give(td_ctx *cx, const td_exported *e, td_values args, td_value *in) {
    int n = td_exported_inputs(e);
    for (int i = 0; i < n && td_ok(cx); i++) {
        td_slot s = td_exported_input(e, i);
        in[i] = s.kind == TD_SLOT_PLAIN ? args.v[s.index]
                                        : td_value_tensor(td_ones(cx, TD_SHAPE(3, 3)));
    }
    return n;
}

/* As it is, and again from its text: the same, unless a run writes its inputs. */
static double twice(td_ctx *cx, const td_exported *e, td_values in, bool writes) {
    static char  text[1 << 14];
    double       sum = total(e, in);
    size_t       n = td_ok(cx) ? td_exported_text(e, text, sizeof text) : 0;
    td_exported *back = n ? td_exported_parse(cx, text, n, "text") : NULL;
    double       again = td_is_nil(back) ? 0 : total(back, in);
    td_exported_drop(back);
    if (td_ok(cx) && fault_same(again, sum) == writes)
        td_fail(cx, TD_E_BUILD, "the text computes something else");
    return sum + again;
}

static bool writes(td_call *c) {
    td_tensor *x = td_arg(c, 0), *y = td_mul(td_arg(c, 1), 2.0);
    td_add_(td_detach(x), 1.0);
    return td_return(c, td_mul(td_matmul(y, x), td_sum(y, TD_DIMS(1), true)));
}

static double function(td_ctx *cx, td_body *body, bool dynamic, bool keep) {
    td_export_opts o = {TD_EXPORT_OPTS, .in_tree = "(*,*)", .keep_mutations = keep};
    if (dynamic) o.dynamic = TD_SHAPES_DYNAMIC;
    td_tensor   *x = td_requires_grad_(td_mul(td_ones(cx, TD_SHAPE(3, 3)), 0.5));
    td_tensor   *y = td_requires_grad_(td_randn(cx, TD_SHAPE(3, 3)));
    td_value     args[] = {td_value_tensor(x), td_value_tensor(y)}, in[ROOM];
    td_values    all = {args, 2};
    td_exported *e = td_ok(cx) ? td_export_joint(cx, body, NULL, all, &o) : NULL;
    double       sum = 0;
    if (e && !td_is_nil(e)) {
        int n = give(cx, e, all, in);
        if (td_ok(cx)) sum = twice(cx, e, (td_values){in, n}, body == writes);
    }
    td_exported_drop(e);
    return sum;
}

static double joint(td_ctx *cx) { return function(cx, products, false, false); }
static double sizes(td_ctx *cx) { return function(cx, products, true, false); }
static double written(td_ctx *cx) { return function(cx, writes, false, false); }
static double kept(td_ctx *cx) { return function(cx, writes, false, true); }

/* Through a file, with members by their names. */
static double module(td_ctx *cx, bool train, td_export_what what) {
    td_module     *m = tower_make(cx);
    td_export_opts o = {TD_EXPORT_OPTS, .what = what, .loss = 1, .out_tree = "(*,*)"};
    td_value       x = td_value_tensor(td_randn(cx, TD_SHAPE(4, 3))), in[ROOM];
    td_exported   *e = NULL, *l = NULL;
    double         sum = 0;
    if (m) td_module_train(m, train);
    if (m && td_ok(cx)) e = td_export_module(m, (td_values){&x, 1}, &o);
    if (e && td_exported_save(e, path)) l = td_exported_load(cx, path);
    if (l && !td_is_nil(l)) {
        int n = fill(l, m, (td_values){&x, 1}, in);
        sum = twice(cx, l, (td_values){in, n}, false);
    }
    td_exported_drop(e);
    td_exported_drop(l);
    td_module_free(m);
    return sum;
}

static double loss(td_ctx *cx) { return module(cx, true, TD_EXPORT_LOSS); }
static double forward(td_ctx *cx) { return module(cx, false, TD_EXPORT_FORWARD); }

static const char *const c_names[] = {"model.c", "model.h", "main.c", "weights.c",
                                      "Makefile"};

/* A function that writes, draws and returns a view, as C files. */
static bool learns(td_call *c) {
    td_tensor *x = td_arg(c, 0), *y = td_arg(c, 1);
    td_add_(td_detach(x), td_softmax(td_matmul(x, y), 1));
    return td_return(c, td_sum(td_dropout(x, 0.5)), td_transpose(y, 0, 1));
}

static double c_files(td_ctx *cx) {
    td_tensor *x = td_randn(cx, TD_SHAPE(3, 3)), *y = td_randn(cx, TD_SHAPE(3, 3));
    td_value   args[] = {td_value_tensor(x), td_value_tensor(y)};
    td_fn     *f = td_ok(cx) ? td_aot_function(cx, learns, NULL, NULL) : NULL;
    bool       ok = f && td_export_c(f, (td_values){args, 2}, folder, NULL);
    td_fn_drop(f);
    return ok ? 1 : 0;
}

static const td_fault_case cases[] = {
    {.name = "c files", .run = c_files, .io = true},
    {.name = "joint", .run = joint},
    {.name = "sizes", .run = sizes},
    {.name = "written", .run = written},
    {.name = "kept", .run = kept},
    {.name = "loss", .run = loss, .io = true, .slow = true},
    {.name = "forward", .run = forward, .io = true, .slow = true},
};

int main(int argc, char **argv) {
    if (!mkdtemp(folder)) return perror(folder), 1;
    snprintf(path, sizeof path, "%s/net.td", folder);
    int status = fault_main(cases, TD_COUNT(cases), argc, argv);
    unlink(path);
    for (int i = 0; i < TD_COUNT(c_names); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, c_names[i]);
        unlink(path);
    }
    if (rmdir(folder)) return perror(folder), 1; /* nothing half-written is left */
    return status;
}
