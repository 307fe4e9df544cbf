/* boxed.c -- calls that take their arguments over. What the code reads for the last
 * time is dropped by the code; the rest here, whatever became of the call. */
#include "aot/aot.h"

typedef struct box {
    td_value *v; /* arguments, then results */
    bool     *own;
} box;

static bool open(td_fn *f, box *b, int n, int n_out) {
    size_t values = sizeof *b->v * (size_t)(n + n_out + 1);
    b->v = td__zalloc(values + (size_t)n + 1);
    if (!b->v) return td__fail_memory(f->cx);
    b->own = (bool *)b->v + values;
    return true;
}

static int call(td_fn *f, const box *b, int n, int n_out) {
    td_values args = {b->v, n};
    return f->state ? td__state_call(f, args, b->own, b->v + n, n_out)
                    : td__fn_call(f, args, b->own, b->v + n, n_out);
}

/* A result that is an argument itself goes to the scope, as results do. */
static bool hand_over(td_ctx *cx, td_tensor *t, td_tensor *const *args, int n) {
    bool given = false;
    for (int i = 0; i < n; i++) given |= args[i] == t;
    if (!given || t->slot >= 0) return true;
    if (!td__scope_own(t)) return td__fail_memory(cx);
    td__ref(t);
    return true;
}

static bool hand_over_all(td_fn *f, const box *b, td_tensor *const *args, int n,
                          int n_out) {
    for (int i = 0; i < n_out; i++) {
        const td_value *v = &b->v[n + i];
        if (v->kind == TD_K_TENSOR && v->u.t && !hand_over(f->cx, v->u.t, args, n))
            return false;
    }
    return true;
}

bool td_invoke_boxed(td_fn *f, td_tensor **args, int n, td_tensor **out, int n_out) {
    static const char who[] = "td_invoke_boxed";
    if (!TD_ENTER(f, FN) || !td__has_list(f->cx, who, args, n) ||
        !td__has_room(f->cx, who, out, n_out)) {
        td__nil_tensors(td__ctx_of_any(f), out, n_out);
        for (int i = 0; args && i < n; i++) args[i] = (td_drop(args[i]), NULL);
        return false;
    }
    box  b = {0};
    bool ok = td_ok(f->cx) && open(f, &b, n, n_out);
    f->calls++;
    for (int i = 0; ok && i < n; i++) {
        b.v[i] = args[i] ? td_value_tensor(args[i]) : TD_NONE;
        b.own[i] = args[i] != NULL;
    }
    ok = ok && call(f, &b, n, n_out) >= 0 && hand_over_all(f, &b, args, n, n_out);
    for (int i = 0; i < n; i++) {
        if (args[i] && (!b.v || b.own[i])) td_drop(args[i]);
        args[i] = NULL;
    }
    for (int i = 0; i < n_out; i++) {
        const td_value *v = ok ? &b.v[n + i] : NULL;
        out[i] = v && v->kind == TD_K_TENSOR && v->u.t ? v->u.t : td_nil(f->cx);
    }
    td__free(b.v);
    td__fn_leave(f);
    return ok;
}
