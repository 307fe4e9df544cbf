/* own_backend.c -- a backend: it hears which graph of which function it is given,
 * counts its nodes, and lets td_graph_run do the work. Its code is kept in the cache on
 * disk: the second function loads it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tandem/tandem.h>

/* What the backend did. */
typedef struct work {
    int nodes, compiled, loaded;
} work;

/* Its code: here a number, in place of instructions for some machine. */
typedef struct code {
    const td_graph *g;
    int             nodes;
} code;

static bool layer(td_call *c) {
    return td_return(c, td_sum(td_exp(td_mul(td_arg(c, 0), td_arg(c, 0)))));
}

static bool run(void *env, td_ctx *cx, const td_value *in, td_value *out) {
    const code *c = env;
    (void)cx;
    return td_graph_run(c->g, in, td_graph_inputs(c->g), out, td_graph_outputs(c->g));
}

static bool make(const td_graph *g, int nodes, td_runner *to) {
    code *c = malloc(sizeof *c);
    if (!c) return td_fail(td_graph_ctx(g), TD_E_MEMORY, "no memory"), false;
    *c = (code){g, nodes};
    *to = (td_runner){.run = run, .drop = free, .env = c};
    return true;
}

static bool compile(void *env, const td_graph *g, const td_compile_info *info,
                    td_runner *to) {
    static const char *const halves[] = {"forward", "backward", "inference"};
    work                    *w = env;
    printf("%s, number %d: %s graph of %d nodes\n", info->name, info->nr,
           halves[info->half], td_graph_nodes(g));
    w->nodes += td_graph_nodes(g);
    w->compiled++;
    return make(g, td_graph_nodes(g), to);
}

/* Bytes from which load makes the same code, in this process or another. */
static bool save(void *env, const td_runner *r, td_code_put *put, void *to) {
    const code *c = r->env;
    (void)env;
    return put(to, &c->nodes, sizeof c->nodes);
}

/* The cache verified that these are the bytes that save gave for an equal graph. False:
 * it is compiled. */
static bool load(void *env, const td_graph *g, const td_compile_info *info,
                 const void *bytes, size_t n, td_runner *to) {
    work *w = env;
    int   nodes;
    if (n != sizeof nodes) return false;
    memcpy(&nodes, bytes, sizeof nodes);
    w->loaded++;
    printf("%s, number %d: loaded, %d nodes\n", info->name, info->nr, nodes);
    return make(g, nodes, to);
}

/* A call and its backward. */
static bool train(td_ctx *cx, const td_backend *ours) {
    td_aot_opts opts = {TD_AOT_OPTS, .name = "layer", .forward = ours, .backward = ours,
                        .inference = ours};
    td_fn      *f = td_aot_function(cx, layer, NULL, &opts);
    td_tensor  *x = td_set_requires_grad(td_zeros(cx, TD_SHAPE(3)), true), *y;
    td_invoke(f, TD_ARGS(x), &y, 1);
    td_backward(y);
    bool ok = td_ok(cx) && td_item(y) == 3;
    td_fn_drop(f);
    return ok;
}

int main(void) {
    td_ctx    *cx = td_open();
    work       w = {0};
    td_backend ours = {.name = "counting",
                       .version = "1",
                       .compile = compile,
                       .save = save,
                       .load = load,
                       .env = &w};
    bool       ok = train(cx, &ours) && train(cx, &ours);
    /* Without a cache on disk nothing is loaded, and all four are compiled. */
    printf("%d nodes, %d compiled, %d loaded\n", w.nodes, w.compiled, w.loaded);
    ok = ok && w.compiled + w.loaded == 4;
    if (!td_ok(cx)) fprintf(stderr, "%s\n", td_message(cx));
    td_close(cx);
    return !ok;
}
