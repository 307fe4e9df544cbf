/* boxed.c -- calls that take their arguments over. What the code reads for the last
 * time is dropped by the code; the rest here, whatever became of the call. */
#include "aot/aot.h"
#include "core/callback.h"

typedef struct box {
    td_value *v;     /* arguments, then results */
    bool     *own;   /* arguments that the code may drop */
    bool     *twice; /* arguments that are given more than once */
} box;

static bool open(td_fn *f, box *b, int n, int n_out) {
    size_t values = sizeof *b->v * (size_t)(n + n_out + 1);
    b->v = td__zalloc(values + 2 * (size_t)n + 1);
    if (!b->v) return td__fail_memory(f->cx);
    b->own = (bool *)b->v + values;
    b->twice = b->own + n;
    return true;
}

/* Of a tensor that is given twice none is the code's: dropped as one argument it would
 * be gone as the other. */
static void fill(const box *b, td_tensor *const *args, int n) {
    for (int i = 0; i < n; i++) {
        b->v[i] = args[i] ? td_value_tensor(args[i]) : TD_NONE;
        for (int k = 0; k < n; k++) b->twice[i] |= k != i && args[k] == args[i];
        b->own[i] = args[i] && !b->twice[i];
    }
}

static int call(td_fn *f, const box *b, int n, int n_out) {
    td_values   args = {b->v, n};
    td_callback in;
    td__callback_begin(&in, f->cx);
    n = f->state ? td__state_call(f, args, b->own, b->v + n, n_out)
                 : td__fn_call(f, args, b->own, b->v + n, n_out);
    td__callback_end(&in);
    return n;
}

/* Drops a tensor that may be given more often than it is owned, by td_keep and by its
 * scope. */
static void drop_again(td_tensor **arg) {
    td_tensor *t = *arg;
    *arg = NULL;
    if (td__is_live(t, TD_H_TENSOR) && (t->kept > 0 || t->slot >= 0)) td_drop(t);
}

/* The argument that result i is, NULL: none. */
static td_tensor *given(const box *b, td_tensor *const *args, int n, int i) {
    const td_value *v = &b->v[n + i];
    for (int k = 0; k < n && v->kind == TD_K_TENSOR; k++)
        if (v->u.t && args[k] == v->u.t) return v->u.t;
    return NULL;
}

/* Drops all arguments. A result that is an argument goes to the scope, as results do:
 * it is held meanwhile. False after td__fail. */
static bool drop_all(td_fn *f, const box *b, td_tensor **args, int n, int n_out) {
    td_tensor *few[16], **held = few;
    bool       ok = true;
    if (n_out > TD_COUNT(few) && !(held = td__alloc(sizeof *held * (size_t)n_out)))
        return td__fail_memory(f->cx);
    for (int i = 0; i < n_out; i++)
        if ((held[i] = given(b, args, n, i))) td__ref(held[i]);
    for (int i = 0; i < n; i++) {
        if (b->twice[i]) drop_again(&args[i]);
        else if (b->own[i]) td_drop(args[i]);
        args[i] = NULL;
    }
    for (int i = 0; i < n_out; i++) {
        if (!held[i]) continue;
        if (held[i]->slot >= 0) td__unref(held[i]);
        else if (!td__scope_own(held[i])) ok = (td__unref(held[i]), false);
    }
    if (held != few) td__free(held);
    return ok;
}

bool td_invoke_boxed(td_fn *f, td_tensor **args, int n, td_tensor **out, int n_out) {
    static const char who[] = "td_invoke_boxed";
    if (!TD_ENTER(f, FN) || !td__has_list(f->cx, who, args, n) ||
        !td__has_room(f->cx, who, out, n_out)) {
        td__nil_tensors(td__ctx_of_any(f), out, n_out);
        for (int i = 0; args && i < n; i++) drop_again(&args[i]);
        return false;
    }
    box  b = {0};
    bool ok = td_ok(f->cx) && open(f, &b, n, n_out);
    f->calls++;
    if (ok) fill(&b, args, n);
    int got = ok ? call(f, &b, n, n_out) : -1;
    ok = got >= 0 && td__fn_gives(f, who, got, n_out);
    ok = b.v && drop_all(f, &b, args, n, ok ? n_out : 0) && ok;
    for (int i = 0; i < n; i++) drop_again(&args[i]); /* where no memory was left */
    for (int i = 0; i < n_out; i++) {
        const td_value *v = ok ? &b.v[n + i] : NULL;
        out[i] = v && v->kind == TD_K_TENSOR && v->u.t ? v->u.t : td_nil(f->cx);
    }
    td__free(b.v);
    td__fn_leave(f);
    return ok;
}
