/* decompose.c -- the mode that replaces ops by simpler ones: composites by their parts,
 * and ops with a kernel by the form their row gives. */
#include "trace/trace.h"

#include "ops/call.h"
#include "tandem/mode.h"

#include <string.h>

typedef struct decompose {
    td_mode mode; /* first: the mode is this */
    bool    want[TD_OP_COUNT];
} decompose;

static bool replace(td_mode *m, td_opcall *c) {
    bool want = ((decompose *)m)->want[c->info->op];
    return want ? td__call_simpler(m, c) : td__call_below(m, c);
}

/* The op called by the first n characters. */
static bool want_one(td_ctx *cx, decompose *d, const char *name, size_t n) {
    char  word[64];
    td_op op = TD_OP_COUNT;
    if (n < sizeof word) {
        memcpy(word, name, n);
        word[n] = 0;
        op = td__op_find(word);
    }
    if (op == TD_OP_COUNT)
        return td__fail(cx, TD_E_ARG, "decompose: there is no op %.*s",
                        (int)(n < 60 ? n : 60), name);
    if (!td__opinfo(op)->has_simpler)
        return td__fail(cx, TD_E_ARG,
                        "decompose: %s has no simpler form (docs/ops.md lists them)",
                        td__ops[op].name);
    d->want[op] = true;
    return true;
}

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
                        "td_decompose_end: the innermost mode is not a decomposition");
    td__mode_pop(cx, m);
    drop(m);
    return true;
}
