/* compile_graph.c -- calls a backend, or takes its code from the cache. */
#include "backend/backend.h"

static const char *const halves[] = {"forward", "backward", "inference"};
static const char *const spans[] = {"compile forward", "compile backward",
                                    "compile inference"};

/* A backend without code to give must have said why; *code is empty after a failure. */
static bool compile(td_ctx *cx, const td_backend *b, const td_graph *g,
                    const td_compile_info *info, td_runner *code) {
    if (b->compile(b->env, g, info, code) && code->run) return true;
    if (td_ok(cx))
        td__fail(cx, TD_E_UNSUPPORTED,
                 "backend %.40s: compile returned no %s code for @%.60s",
                 b->name ? b->name : "?", halves[info->half], g->name);
    td__runner_drop(code);
    return false;
}

/* Calls a backend. One that fails without an error gets one here; *code is empty after
 * a failure. */
bool td__compile(td_ctx *cx, const td_backend *b, const td_graph *g,
                 const td_compile_info *info, td_runner *code) {
    td_code_entry at = {0};
    *code = (td_runner){0};
    if (TD_UNLIKELY(td__graph_is_typed(g)))
        return td__compile_typed(cx, b, g, info, code);
    td__log(cx, TD_LOG_compile, "@%.60s #%d: %s graph of %d nodes, by %.40s", g->name,
            info->nr, halves[info->half], g->nodes.n, b->name ? b->name : "?");
    td__span_begin(cx, spans[info->half]);
    td__span_arg(cx, "nodes", g->nodes.n);
    bool found = b->load && td__code_find(b, g, info, &at, code);
    bool ok = found || compile(cx, b, g, info, code);
    if (ok && !found && b->save) td__code_store(b, g, &at, code);
    td__span_end(cx, spans[info->half]);
    td__buf_free(&at.key);
    return ok;
}

void td__runner_drop(td_runner *code) {
    if (code->drop) code->drop(code->env);
    *code = (td_runner){0};
}
