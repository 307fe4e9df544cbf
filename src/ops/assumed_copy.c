/* assumed_copy.c -- copies that contiguous and reshape take because of a size that only
 * run time knows. A trace assumes such a size to be above 1. For a size of 0 or 1 every
 * layout is contiguous: eager would return the argument, or a view of it, and no copy.
 * As long as the program cannot tell the two apart, the trace is right for all sizes. A
 * program that writes one of them, or returns both, can; then the sizes must be above 1
 * when it runs. Storages of fake tensors hold what was assumed about them. */
#include "ops/call.h"

typedef struct guess {
    int refs; /* storages that may be one */
    TD_VEC(int64_t) sizes;
} guess;

void td__copy_by_layout(const td_tensor *from, const td_tensor *copy) {
    bool symbolic = false;
    if (!td__dim_tracing() || td_is_nil(copy)) return;
    td_layout_copy *last = &from->cx->layout_copy;
    for (int d = 0; d < from->rank; d++) {
        last->size[d] = from->size[d];
        symbolic |= td__dim_is_sym(from->size[d]);
    }
    last->from = from->st;
    last->copy = symbolic ? copy->st : NULL;
    last->rank = from->rank;
}

/* Records that these sizes are at least 2 when the program runs; false when the trace
 * knows otherwise. */
static bool above_one(td_ctx *cx, const int64_t *size, int n) {
    for (int i = 0; i < n; i++)
        if (td__dim_is_sym(size[i]) && !td__dim_expect(size[i], TD_DIM_IS_GE, 2))
            return td__fail(
                cx, TD_E_UNSUPPORTED,
                "unsupported: contiguous or reshape copies here, and returns its "
                "argument where a size that depends on values is 0 or 1. The program "
                "writes the copy, returns it beside its source or makes it in another "
                "grad mode, so the two would differ; use clone instead");
    return true;
}

/* A storage that shared the guess is freed. */
static void drop(void *env) {
    guess *g = env;
    if (--g->refs > 0) return;
    td__vec_free(&g->sizes);
    td__free(g);
}

/* The guess that a fake storage takes part in; NULL: none. */
static guess *guess_of(const td_storage *st) {
    return st->fake && st->release == drop ? st->env : NULL;
}

/* Attaches a guess to a fake storage, in place of an older one. */
static void hold(td_storage *st, guess *g) {
    if (guess_of(st)) drop(st->env);
    st->release = drop;
    st->env = g;
    g->refs++;
}

/* The two storages, and all that may be the first, may be one. */
static bool relate(td_ctx *cx, td_storage *from, td_storage *copy) {
    const td_layout_copy *last = &cx->layout_copy;
    guess                *g = guess_of(from);
    if (!g && !(g = td__zalloc(sizeof *g))) return td__fail_memory(cx);
    hold(copy, g);
    if (guess_of(from) != g) hold(from, g);
    for (int d = 0; d < last->rank; d++)
        if (!td__vec_push(&g->sizes, last->size[d])) return td__fail_memory(cx);
    return true;
}

bool td__copy_noted(td_opcall *c, bool ok) {
    td_layout_copy   *last = &c->cx->layout_copy;
    const td_storage *copy = last->copy;
    td_tensor        *t = td__in(c, 0);
    last->copy = NULL;                 /* also of an op that failed behind it */
    if (!ok || !copy || !t) return ok; /* one that failed may have no results */
    const td_tensor *r = c->out[0];
    if (r->st != copy || t->st != last->from || !t->st->fake) return true;
    if ((t->flags ^ r->flags) & (TD_TF_INFERENCE | TD_TF_NEEDS_GRAD))
        return above_one(c->cx, last->size, last->rank);
    return relate(c->cx, t->st, r->st);
}

bool td__copies_written(td_opcall *c) {
    for (int i = 0; i < c->n_in; i++) {
        td_tensor *t = c->info->s.in[i].write ? td__in(c, i) : NULL;
        guess     *g = t ? guess_of(t->st) : NULL;
        if (g && !above_one(c->cx, g->sizes.v, g->sizes.n)) return false;
    }
    return true;
}

bool td__copies_returned(td_ctx *cx, const td_value *out, int n) {
    for (int i = 0; i < n; i++) {
        guess *g = out[i].kind == TD_K_TENSOR ? guess_of(out[i].u.t->st) : NULL;
        for (int k = 0; g && k < i; k++)
            if (out[k].kind == TD_K_TENSOR && out[k].u.t->st != out[i].u.t->st &&
                guess_of(out[k].u.t->st) == g && !above_one(cx, g->sizes.v, g->sizes.n))
                return false;
    }
    return true;
}
