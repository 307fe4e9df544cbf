/* compile_graph.c -- calls a backend, or takes its code from the cache. */
#include "backend/backend.h"
#include "core/callback.h"

#include <time.h>

static const char *const halves[] = {"forward", "backward", "inference"};
static const char *const spans[] = {"compile forward", "compile backward",
                                    "compile inference"};

/* Calls the backend. One that returns no code should have recorded an error; otherwise
 * this does. *code is empty after a failure. */
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

/* ---- td_on_compile -------------------------------------------------------- */

const td_compile_info *td_compiling(td_ctx *cx) {
    return TD_ENTER_CTX(cx) ? td__compiling(cx) : NULL;
}

static int64_t now_ns(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

int64_t td__compile_begin(td_ctx *cx, const td_on_compile *on,
                          const td_compile_info *info) {
    if (on && on->begin) TD_CALLBACK_FOR(cx, info, on->begin(on->env, info));
    return on && on->end ? now_ns() : 0;
}

void td__compile_end(td_ctx *cx, const td_on_compile *on, const td_compile_info *info,
                     int64_t since, td_compiled how) {
    if (!on || !on->end) return;
    how.size = sizeof how;
    how.seconds = (double)(now_ns() - since) * 1e-9;
    TD_CALLBACK_FOR(cx, info, on->end(on->env, info, &how));
}

/* ---- a graph -------------------------------------------------------------- */

/* Code from the cache, or new code. Sets *found; the error is the backend's. */
static bool find_or_compile(td_ctx *cx, const td_backend *b, const td_graph *g,
                            const td_compile_info *info, td_runner *code, bool *found) {
    td_code_entry at = {0};
    *found = b->load && td__code_find(b, g, info, &at, code);
    bool ok = *found || compile(cx, b, g, info, code);
    if (ok && !*found && b->save) td__code_store(b, g, &at, code);
    td__buf_free(&at.key);
    return ok;
}

/* Calls a backend. One that fails without an error gets one here; *code is empty after
 * a failure. */
bool td__compile_told(td_ctx *cx, const td_backend *b, const td_graph *g,
                      const td_compile_info *of, const td_on_compile *on,
                      td_runner *code) {
    td_compile_info info = *of;
    bool            found = false, ok;
    info.stage = spans[info.half];
    *code = (td_runner){0};
    if (TD_UNLIKELY(td__graph_is_typed(g)))
        return td__compile_typed(cx, b, g, of, on, code);
    td__log(cx, TD_LOG_compile,
            "@%.60s #%d: %s graph of %d nodes, by %.40s, function %d", g->name, info.nr,
            halves[info.half], g->nodes.n, b->name ? b->name : "?", info.id);
    int64_t since = td__compile_begin(cx, on, &info);
    td__span_begin(cx, spans[info.half]);
    td__span_arg(cx, "nodes", g->nodes.n);
    TD_CALLBACK_FOR(cx, &info, ok = find_or_compile(cx, b, g, &info, code, &found));
    td__span_end(cx, spans[info.half]);
    found = ok && (found || td__native_found(code));
    td__compile_end(cx, on, &info, since, (td_compiled){.ok = ok, .found = found});
    return ok;
}

bool td__compile(td_ctx *cx, const td_backend *b, const td_graph *g,
                 const td_compile_info *info, td_runner *code) {
    return td__compile_told(cx, b, g, info, NULL, code);
}

void td__runner_drop(td_runner *code) {
    if (code->drop) code->drop(code->env);
    *code = (td_runner){0};
}
