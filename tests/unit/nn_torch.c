/* nn_torch.c -- layers against PyTorch: files both ways, results, gradients, buffers.
 * The files below tests/nn are PyTorch's, written by tools/oracle/nn.py. */
#include "nn_help.h"
#include "td_files.h"

#include <stdlib.h>

#define MODEL "tests/nn/model.safetensors"

static bool has(td_safetensors *f, const char *name) {
    for (int i = 0; i < td_safetensors_count(f); i++)
        if (!strcmp(td_safetensors_name(f, i), name)) return true;
    return false;
}

/* The file's tensor called "layer.what" and a number; NULL: none. */
static td_tensor *stored(td_safetensors *f, const char *layer, const char *what,
                         int nr) {
    char name[128];
    if (nr < 0) snprintf(name, sizeof name, "%.60s.%.60s", layer, what);
    else snprintf(name, sizeof name, "%.60s.%.50s%d", layer, what, nr);
    return has(f, name) ? td_safetensors_get(f, name) : NULL;
}

static bool near(td_tensor *got, td_tensor *want, const char *layer, const char *what) {
    double apart = nn_apart(got, want);
    bool   ok = td_rank(got) == td_rank(want) && apart < 4e-6;
    if (!ok) fprintf(stderr, "%s.%s: %g apart\n", layer, what, apart);
    return ok;
}

typedef struct checking {
    td_safetensors *file;
    const char     *layer;
    bool            ok;
    int             seen;
} checking;

static bool check_member(void *env, const td_member *m) {
    checking *k = env;
    char      what[128];
    snprintf(what, sizeof what, "%s.%s", m->buffer ? "after" : "grad", m->name);
    td_tensor *want = stored(k->file, k->layer, what, -1);
    td_tensor *got = m->buffer ? m->t : td_grad_of(m->t);
    k->ok &= want && near(got, want, k->layer, what);
    k->seen++;
    return true;
}

/* Results, then gradients of inputs and parameters, then buffers. */
static bool check_layer(td_safetensors *f, td_module *m, const char *layer, td_fn *fn) {
    enum { MOST = 6 };
    td_ctx    *cx = td_module_ctx(m);
    td_value   args[MOST], out[3];
    td_tensor *roots[3], *grads[3];
    int        n = 0, n_out = 0;
    checking   k = {f, layer, true, 0};
    for (int i = 0; i < MOST; i++) {
        td_tensor *t = stored(f, layer, "in", i);
        if (t) t = td_clone(t);
        if (t && td_dtype_is_float(td_dtype_of(t))) td_requires_grad_(t);
        args[i] = t ? td_value_tensor(t) : TD_NONE;
        if (t) n = i + 1;
    }
    while (n_out < 3 && stored(f, layer, "out", n_out)) n_out++;
    int got = fn ? td_invoke_values(fn, (td_values){args, n}, out, n_out)
                 : td_module_call_values(m, (td_values){args, n}, out, n_out);
    if (got != n_out) return fprintf(stderr, "%s: %s\n", layer, td_message(cx)), false;
    int n_roots = 0; /* indices have no tangent */
    for (int i = 0; i < n_out; i++) {
        td_tensor *tangent = stored(f, layer, "tangent", i);
        k.ok &= near(out[i].u.t, stored(f, layer, "out", i), layer, "out");
        if (!tangent) continue;
        roots[n_roots] = out[i].u.t;
        grads[n_roots++] = tangent;
    }
    k.ok &= td_backward_with((td_tensors){roots, n_roots}, (td_tensors){grads, n_roots},
                             NULL);
    for (int i = 0; i < n; i++)
        if (stored(f, layer, "gin", i))
            k.ok &=
                near(td_grad_of(args[i].u.t), stored(f, layer, "gin", i), layer, "gin");
    td_module_visit(m, TD_VISIT_ALL, check_member, &k);
    return k.ok && td_ok(cx);
}

static void check_all(bool compiled) {
    td_ctx         *cx = td_open();
    td_module      *m = whole_make(cx);
    td_safetensors *f = td_safetensors_open(cx, "tests/nn/layers.safetensors");
    CHECK_OK(cx);
    CHECK(td_module_load(m, MODEL, NULL));

    bool ok = true;
    for (int i = 0; i < td_module_children(m); i++) {
        const char *name;
        td_module  *layer = td_module_child_at(m, i, &name);
        td_fn      *fn = compiled ? td_aot_module(layer, NULL) : NULL;
        ok &= check_layer(f, layer, name, fn);
        td_fn_drop(fn);
    }

    CHECK_OK(cx);
    CHECK(ok && td_module_children(m) == 111);
    td_safetensors_close(f);
    td_module_free(m);
    td_close(cx);
}

TEST(layers_compute_what_pytorch_computes) { check_all(false); }
TEST(compiled_layers_compute_what_pytorch_computes) { check_all(true); }

/* ---- files -------------------------------------------------------------- */

TEST(a_saved_module_has_the_names_and_sizes_pytorch_gives) {
    td_ctx    *cx = td_open();
    td_module *m = whole_make(cx);
    files_begin();
    CHECK(td_module_save(m, files_path("m.safetensors"), NULL));

    td_safetensors *ours = td_safetensors_open(cx, files_path("m.safetensors"));
    td_safetensors *theirs = td_safetensors_open(cx, MODEL);
    CHECK_OK(cx);
    CHECK(td_safetensors_count(ours) == td_safetensors_count(theirs));
    for (int i = 0; i < td_safetensors_count(ours); i++) {
        const char *name = td_safetensors_name(ours, i);
        CHECK(has(theirs, name));
        td_tensor *a = td_safetensors_get(ours, name);
        td_tensor *b = td_safetensors_get(theirs, name);
        CHECK(td_dtype_of(a) == td_dtype_of(b) && td_rank(a) == td_rank(b));
        for (int d = 0; d < td_rank(a); d++) CHECK(td_size(a, d) == td_size(b, d));
    }
    td_safetensors_close(ours);
    td_safetensors_close(theirs);
    td_module_free(m);
    files_end();
    td_close(cx);
}

static char order[4096];

static bool add_name(void *env, const td_member *m) {
    (void)env;
    size_t n = strlen(order);
    snprintf(order + n, sizeof order - n, "%s ", m->name);
    return true;
}

TEST(members_come_in_pytorchs_order) {
    td_ctx    *cx = td_open();
    td_module *m = whole_make(cx);

    CHECK(td_module_visit(td_module_find(m, "lstm"), TD_VISIT_ALL, add_name, NULL));
    CHECK(!strncmp(order,
                   "weight_ih_l0 weight_hh_l0 bias_ih_l0 bias_hh_l0 "
                   "weight_ih_l0_reverse weight_hh_l0_reverse ",
                   80));
    order[0] = 0;
    CHECK(td_module_visit(td_module_find(m, "self"), TD_VISIT_ALL, add_name, NULL));
    CHECK_STR(order, "in_proj_weight in_proj_bias out_proj.weight out_proj.bias ");
    order[0] = 0;
    CHECK(td_module_visit(td_module_find(m, "bn1"), TD_VISIT_ALL, add_name, NULL));
    CHECK_STR(order, "weight bias running_mean running_var num_batches_tracked ");
    td_module_free(m);
    td_close(cx);
}

/* A Python with torch: that of $TD_TORCH_PYTHON, else python3; NULL: none. */
static const char *torch_python(void) {
    static char command[512];
    const char *python = getenv("TD_TORCH_PYTHON");
    if (!python) python = "python3";
    snprintf(
        command, sizeof command,
        "%s -c 'import importlib.util as u, sys; sys.exit(not (u.find_spec(\"torch\") "
        "and u.find_spec(\"safetensors\")))' >/dev/null 2>&1",
        python);
    return system(command) == 0 ? python : NULL;
}

TEST(pytorch_loads_what_is_saved_here_where_there_is_one) {
    const char *python = torch_python();
    char        command[1024];
    if (!python) return;
    td_ctx    *cx = td_open();
    td_module *m = whole_make(cx);
    files_begin();
    CHECK(td_module_save(m, files_path("m.safetensors"), NULL));

    snprintf(command, sizeof command, "%s tools/oracle/nn.py --load %s", python,
             files_path("m.safetensors"));
    CHECK(system(command) == 0);
    td_module_free(m);
    files_end();
    td_close(cx);
}
