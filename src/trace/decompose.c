/* decompose.c -- the decomposition mode: replaces chosen ops by simpler ones. A
 * composite becomes its parts; an op with a kernel becomes the form its row
 * gives (`simpler`). */
#include "trace/trace.h"

#include "ops/call.h"
#include "tandem/mode.h"

#include <string.h>

/* One decomposition on the mode stack. */
typedef struct decompose {
    td_mode mode; /* first: the mode is this */
    bool    want[TD_OP_LIMIT];
} decompose;

/* td_mode.call: decomposes chosen ops, passes the others on. */
static bool replace(td_mode *m, td_opcall *c) {
    bool want = ((decompose *)m)->want[c->info->op];
    return want ? td__call_simpler(m, c) : td__call_below(m, c);
}

/* Chooses the op named by the first n characters of name. */
static bool want_one(td_ctx *cx, decompose *d, const char *name, size_t n) {
    char  word[64];
    td_op op = TD_OP_COUNT;
    if (n < sizeof word) {
        memcpy(word, name, n);
        word[n] = 0;
        op = td__op_find(word);
    }
    if (op == TD_OP_COUNT)
        return td__fail(cx, TD_E_ARG,
                        "decompose: there is no op %.*s; docs/ops.md lists the ops",
                        (int)(n < 60 ? n : 60), name);
    if (!td__opinfo(op)->has_simpler)
        return td__fail(cx, TD_E_ARG,
                        "decompose: op %s has no decomposition (docs/ops.md lists the "
                        "ops that do)",
                        td__row(op)->name);
    d->want[op] = true;
    return true;
}

/* Reads the list of ops: "all" or NULL, or names separated by commas. */
static bool choose(td_ctx *cx, decompose *d, const char *ops) {
    if (!ops || !strcmp(ops, "all")) {
        for (int op = 0; op < TD_OP_COUNT; op++)
            d->want[op] = td__opinfo((td_op)op)->has_simpler;
        return true;
    }
    for (const char *p = ops; *p;) {
        size_t n = strcspn(p, ",");
        if (!want_one(cx, d, p, n)) return false;
        p += n + (p[n] == ',');
    }
    return true;
}

static void drop(td_mode *m) { td__free(m); }

/* Pushes a mode that replaces the ops named by simpler ones. `ops` is a list with
 * commas or "all"; an unknown op is an error. */
bool td_decompose_begin(td_ctx *cx, const char *ops) {
    if (!TD_ENTER_CTX(cx) || !td__has(cx, "td_decompose_begin", "the list of ops", ops))
        return false;
    decompose *d = td__zalloc(sizeof *d);
    if (!d) return td__fail_memory(cx);
    d->mode = (td_mode){.name = "decompose",
                        .call = replace,
                        .composites = true,
                        .drop = drop};
    if (!choose(cx, d, ops)) {
        td__free(d);
        return false;
    }
    td__mode_push(cx, &d->mode);
    return true;
}

bool td_decompose_end(td_ctx *cx) {
    if (!TD_ENTER_CTX(cx)) return false;
    td_mode *m = td__mode_inner(cx);
    if (!m || m->call != replace)
        return td__fail(cx, TD_E_ARG,
                        "td_decompose_end: the innermost mode was not pushed by "
                        "td_decompose_begin; end regions in reverse order");
    td__mode_pop(cx, m);
    drop(m);
    return true;
}
