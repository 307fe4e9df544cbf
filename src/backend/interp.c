/* interp.c -- the backend that needs no compiler: a graph runs as its replay, straight
 * on the kernels. The meaning of every other backend. */
#include "backend/backend.h"

/* What a graph gives is nobody's view; views are made outside, where they count. */
static bool plain_outputs(td_ctx *cx, const td_graph *g, td_value *out) {
    for (int i = 0; i < g->outputs.n; i++) {
        if (out[i].kind != TD_K_TENSOR || !out[i].u.t->base) continue;
        out[i].u.t = td__tensor_alias(cx, out[i].u.t);
        if (!out[i].u.t) return false;
    }
    return true;
}

static bool run(void *env, td_ctx *cx, const td_value *in, td_value *out) {
    td_mode *top = cx->top;
    bool     grad = cx->grad_enabled;
    cx->top = NULL;
    cx->grad_enabled = false;
    bool ok = td__graph_replay(env, in, out) && plain_outputs(cx, env, out);
    cx->top = top;
    cx->grad_enabled = grad;
    return ok;
}

static bool compile(void *env, const td_graph *g, const td_compile_info *info,
                    td_runner *code) {
    (void)env;
    (void)info;
    *code = (td_runner){.run = run, .env = (void *)(uintptr_t)g};
    return true;
}

const td_backend td__interp = {.name = "interp", .compile = compile};

bool td__compile(td_ctx *cx, const td_backend *b, const td_graph *g,
                 const td_compile_info *info, td_runner *code) {
    static const char *const which[] = {"forward", "backward", "inference"};
    *code = (td_runner){0};
    if (b->compile(b->env, g, info, code) && code->run) return true;
    if (td_ok(cx))
        td__fail(cx, TD_E_UNSUPPORTED, "backend %.40s gave no %s code for @%.60s",
                 b->name ? b->name : "?", which[info->half], g->name);
    td__runner_drop(code);
    return false;
}

void td__runner_drop(td_runner *code) {
    if (code->drop) code->drop(code->env);
    *code = (td_runner){0};
}
