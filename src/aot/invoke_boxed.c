/* invoke_boxed.c -- td_invoke_boxed: calls that take over their arguments, so that
 * the code can free each one after its last use. Arguments that the code does not
 * free are dropped here, also when the call fails. */
#include "aot/aot.h"
#include "core/callback.h"

/* The arguments and results of one call, in one allocation. */
typedef struct box {
    td_value *v;     /* n arguments, then n_out results */
    bool     *own;   /* [n]: the code may drop argument i */
    bool     *twice; /* [n]: argument i is passed more than once */
} box;

/* Allocates v, own and twice; free(b->v) releases all. False after td__fail. */
static bool open(td_fn *f, box *b, int n, int n_out) {
    size_t values = sizeof *b->v * (size_t)(n + n_out + 1);
    b->v = td__zalloc(values + 2 * (size_t)n + 1);
    if (!b->v) return td__fail_memory(f->cx);
    b->own = (bool *)b->v + values;
    b->twice = b->own + n;
    return true;
}

/* A tensor that is passed twice is never the code's to drop: dropping it as one
 * argument would free it as the other. */
static void fill(const box *b, td_tensor *const *args, int n) {
    for (int i = 0; i < n; i++) {
        b->v[i] = args[i] ? td_value_tensor(args[i]) : TD_NONE;
        for (int k = 0; k < n; k++) b->twice[i] |= k != i && args[k] == args[i];
        b->own[i] = args[i] && !b->twice[i];
    }
}

/* Runs f as a callback scope, because backends and passes are user code. Returns the
 * number of results, -1 after td__fail. */
static int call(td_fn *f, const box *b, int n, int n_out) {
    td_values   args = {b->v, n};
    td_callback in;
    td__callback_begin(&in, f->cx);
    n = f->state ? td__state_call(f, args, b->own, b->v + n, n_out)
                 : td__fn_call(f, args, b->own, b->v + n, n_out);
    td__callback_end(&in);
    return n;
}

/* Drops *arg if anything owns it (td_keep or its scope), and sets it to NULL. A
 * tensor that is passed more often than it is owned is dropped only as often as it is
 * owned. */
static void drop_owned(td_tensor **arg) {
    td_tensor *t = *arg;
    *arg = NULL;
    if (td__is_live(t, TD_H_TENSOR) && (t->kept > 0 || t->slot >= 0)) td_drop(t);
}

/* The argument that result i is; NULL: it is a new tensor. */
static td_tensor *argument_of(const box *b, td_tensor *const *args, int n, int i) {
    const td_value *v = &b->v[n + i];
    for (int k = 0; k < n && v->kind == TD_K_TENSOR; k++)
        if (v->u.t && args[k] == v->u.t) return v->u.t;
    return NULL;
}

/* Drops all arguments. A result that is an argument moves to the innermost scope,
 * like any result; a reference keeps it alive in between. False after td__fail. */
static bool drop_all(td_fn *f, const box *b, td_tensor **args, int n, int n_out) {
    td_tensor *few[16], **results = few;
    bool       ok = true;
    if (n_out > TD_COUNT(few) &&
        !(results = td__alloc(sizeof *results * (size_t)n_out)))
        return td__fail_memory(f->cx);
    for (int i = 0; i < n_out; i++)
        if ((results[i] = argument_of(b, args, n, i))) td__ref(results[i]);
    for (int i = 0; i < n; i++) {
        if (b->twice[i]) drop_owned(&args[i]);
        else if (b->own[i]) td_drop(args[i]);
        args[i] = NULL;
    }
    for (int i = 0; i < n_out; i++) {
        if (!results[i]) continue;
        if (results[i]->slot >= 0) td__unref(results[i]);
        else if (!td__scope_own(results[i])) ok = (td__unref(results[i]), false);
    }
    if (results != few) td__free(results);
    return ok;
}

/* The references of args are dropped on every path, also if the call is invalid: the
 * caller has given them up. */
bool td_invoke_boxed(td_fn *f, td_tensor **args, int n, td_tensor **out, int n_out) {
    static const char who[] = "td_invoke_boxed";
    if (!TD_ENTER(f, FN) || !td__has_list(f->cx, who, args, n) ||
        !td__has_room(f->cx, who, out, n_out)) {
        td__nil_tensors(td__ctx_of_any(f), out, n_out);
        for (int i = 0; args && i < n; i++) drop_owned(&args[i]);
        return false;
    }
    box  b = {0};
    bool ok = td_ok(f->cx) && open(f, &b, n, n_out);
    f->calls++;
    if (ok) fill(&b, args, n);
    int got = ok ? call(f, &b, n, n_out) : -1;
    ok = got >= 0 && td__fn_check_results(f, who, got, n_out);
    ok = b.v && drop_all(f, &b, args, n, ok ? n_out : 0) && ok;
    for (int i = 0; i < n; i++) drop_owned(&args[i]); /* where no memory was left */
    for (int i = 0; i < n_out; i++) {
        const td_value *v = ok ? &b.v[n + i] : NULL;
        out[i] = v && v->kind == TD_K_TENSOR && v->u.t ? v->u.t : td_nil(f->cx);
    }
    td__free(b.v);
    td__fn_leave(f);
    return ok;
}
