/* numbers.c -- number arguments that change. At first a number is a constant of the
 * code. Once it has changed, the function passes it as a tensor, so that further values
 * run the same code: a float as a 0-d tensor, an int as the size of a tensor with one
 * element in memory. All later stages see tensors; only the body sees a number again
 * (td_sym_arg, td_arg_value). A number that the body reads as a C number stays a
 * constant. */
#include "aot/aot.h"

#include <string.h>

/* td_fn.numbers, by argument. */
enum { READ = TD_ARG_READ, LIFTED = 2, NEVER = 4, TRIED = 8 };

/* Ints that can be sizes. 0 and 1 are numbers in every trace. */
static bool is_size(int64_t i) { return i > 1 && i < (int64_t)1 << 40; }

static bool can_lift(td_value v) {
    return v.kind == TD_K_FLOAT || (v.kind == TD_K_INT && is_size(v.u.i));
}

bool td__numbers_reserve(td_fn *f, int n) {
    if (n <= f->n_numbers) return true;
    uint8_t *more = td__zalloc((size_t)n);
    if (!more) return td__fail_memory(f->cx);
    if (f->n_numbers) memcpy(more, f->numbers, (size_t)f->n_numbers);
    td__free(f->numbers);
    f->numbers = more;
    f->n_numbers = n;
    return true;
}

/* ---- tensors that stand for numbers -------------------------------------- */

/* The tensor for number v; belongs to the innermost scope. NULL after td__fail. */
static td_tensor *lift(td_fn *f, td_value v) {
    bool       real = v.kind == TD_K_FLOAT;
    td_meta    m = {.dtype = real ? TD_F64 : TD_I64, .rank = !real, .strided = true};
    td_tensor *t;
    if (!real) m.size[0] = v.u.i; /* its stride is 0 */
    if (!(t = td__tensor_make(f->cx, &m, false))) return NULL;
    memset(td__ptr(t), 0, sizeof(double));
    if (real) memcpy(td__ptr(t), &v.u.f, sizeof v.u.f);
    else t->maybe = 1; /* a symbol where that is possible */
    t->flags |= TD_TF_NUMBER;
    return t;
}

void td__lifted_end(td_lifted *l) {
    for (int i = 0; l->n_lifted && i < l->given.n; i++)
        if (l->args.v[i].kind != l->given.v[i].kind) td_drop(l->args.v[i].u.t);
    if (l->heap) td__free(l->heap);
    l->heap = NULL;
    l->n_lifted = 0;
    l->args = l->given;
}

bool td__lifted_make(td_fn *f, td_lifted *l) {
    int       n = l->given.n;
    td_value *to = l->few;
    td__lifted_end(l);
    if (!f->n_lifted) return true;
    if (n > TD_COUNT(l->few) && !(to = l->heap = td__alloc(sizeof *to * (size_t)n)))
        return td__fail_memory(f->cx);
    for (int i = 0; i < n; i++) to[i] = l->given.v[i];
    l->args = (td_values){to, n};
    for (int i = 0; i < n && i < f->n_numbers; i++) {
        if ((f->numbers[i] & (LIFTED | NEVER)) != LIFTED || !can_lift(to[i])) continue;
        td_tensor *t = lift(f, to[i]);
        if (!t) return false;
        to[i] = td_value_tensor(t);
        l->n_lifted++;
    }
    return true;
}

/* ---- when ---------------------------------------------------------------- */

/* May argument i be passed as a tensor? */
static bool may_lift(const td_fn *f, int i, td_value v) {
    return i >= f->n_state && i < f->n_numbers && !f->numbers[i] && can_lift(v) &&
           !td__arg_is_static(f, i);
}

/* Numbers in which the call differs from a specialization that agrees in everything
 * else but sizes. True: there are new ones. */
static bool learn(td_fn *f, td_values args, uint32_t *changed) {
    bool any = false;
    for (const td_spec *s = f->specs; s; s = s->next) {
        memset(changed, 0, sizeof *changed * (size_t)args.n);
        if (!s->plan || !td__spec_changes(f, s, args, changed)) continue;
        for (int i = 0; i < args.n; i++) {
            if (!changed[i] || !may_lift(f, i, args.v[i])) continue;
            f->numbers[i] |= LIFTED;
            f->n_lifted++;
            any = true;
        }
    }
    return any;
}

bool td__numbers_learn(td_fn *f, td_values args) {
    td_shapes how = td__fn_settings(f).dynamic;
    bool      some = false;
    for (int i = f->n_state; i < args.n && !some; i++) some = may_lift(f, i, args.v[i]);
    if (!some || !f->body || f->inner || how == TD_SHAPES_STATIC ||
        how == TD_SHAPES_MARKED)
        return false;
    uint32_t *changed = td__alloc(sizeof *changed * ((size_t)args.n + 1));
    if (!changed) return td__fail_memory(f->cx);
    some = learn(f, args, changed);
    td__free(changed);
    return some && td_ok(f->cx);
}

void td__numbers_forbid(td_fn *f, const td_lifted *l) {
    for (int i = 0; i < l->given.n && i < f->n_numbers; i++)
        if (l->args.v[i].kind != l->given.v[i].kind) f->numbers[i] |= NEVER | TRIED;
    td__log(f->cx, TD_LOG_guards, "%s: numbers stay constants: %s", f->name,
            td__message(f->cx));
    td_clear(f->cx);
}

void td__numbers_decide(td_fn *f, bool constants) {
    unsigned drop = constants ? TRIED : NEVER | TRIED;
    for (int i = 0; i < f->n_numbers; i++)
        if (f->numbers[i] & TRIED) f->numbers[i] &= (uint8_t)~drop;
}
