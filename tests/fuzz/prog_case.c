/* prog_case.c -- what a case does with its function: calls, with other arguments too,
 * backwards from all or some results, gradients of gradients, writes in between. Much
 * of it fails for some program; then it must fail alike. */
#include "prog.h"

#include <stdio.h>
#include <string.h>

bool prog_wide;

typedef struct ending {
    prog_maker *m;
    prog_rng   *r;
    td_buf     *b;
    int         n_more; /* values named so far: %b0 %b1 ...; with any, arguments may
                         * depend on each other */
    bool        later;  /* results may have other sizes than those of the first call */
    char        arg[PROG_INPUTS][PROG_NAME];
    td_value    number[PROG_NUMBER_ARGS];
} ending;

/* ---- calls -------------------------------------------------------------- */

static void print_args(const ending *e) {
    td__buf_add(e->b, "  call @f(");
    for (int i = 0; i < e->m->n_args; i++)
        td__buf_printf(e->b, i ? ", %s" : "%s", e->arg[i]);
    for (int i = 0; i < e->m->body.n_numbers; i++) {
        td__buf_add(e->b, ", ");
        prog_print_number(e->b, e->number[i]);
    }
    td__buf_add(e->b, ")");
}

/* What every call of the function has. */
static void print_ways(const ending *e) {
    if (e->m->body.control) td__buf_add(e->b, " control=true");
    if (e->m->reads) td__buf_add(e->b, " body=true");
}

/* An option of a call, with one of two words. */
static void option(const ending *e, unsigned with, int percent, const char *a,
                   const char *b) {
    if (prog_with & with && prog_chance(e->r, percent))
        td__buf_add(e->b, prog_chance(e->r, 65) ? a : b);
}

/* Does no argument that requires grad depend on another? A gradient inside the function
 * would pass what is outside. */
static bool are_independent(const prog_maker *m) {
    const td_tensor *first = NULL;
    bool             leaves = true, one = true;
    for (int i = 0; i < m->n_args; i++) {
        if (!td_requires_grad(m->arg[i].t)) continue;
        leaves &= td_is_leaf(m->arg[i].t);
        one &= !first || first == m->arg[i].t;
        first = m->arg[i].t;
    }
    td_clear(m->inputs.cx);
    return leaves || one;
}

/* A region that changes tensors that outlive it does so again whenever backward runs it
 * again, and how often that is, is nobody's promise. */
static void as_region(const ending *e, int percent) {
    if (!e->m->writes)
        option(e, PROG_CHECKPOINT, percent, " checkpoint=true", " checkpoint=true");
}

/* A hook that packs a copy keeps the history that detach_ takes from the saved tensor
 * afterwards; a compiled function saves other values, as docs/beyond.md says. */
static bool detaches(const prog_maker *m) {
    return strstr(td__buf_str(&m->body.text), "detach_(") != NULL;
}

/* A gradient hook reads a result as the call left it, and eager's as it is in backward:
 * where a saved-tensor hook has a copy, no version tells (docs/aot.md). */
static bool hooks_read(const prog_maker *m) {
    return strstr(td__buf_str(&m->body.text), "on_grad(") != NULL;
}

static void print_call(const ending *e) {
    print_args(e);
    option(e, PROG_AUTOCAST, 50, " autocast=bf16", " autocast=f16");
    if (!detaches(e->m) && !hooks_read(e->m))
        option(e, PROG_HOOKS, 25, " hooks=clone", " hooks=clone");
    as_region(e, 30);
    if (!e->n_more && are_independent(e->m))
        option(e, PROG_GRADS, 50, " grads=true", " grads=true");
    option(e, PROG_MODULE, 60, " module=train", " module=eval");
    /* most programs of several parts have a dim that cannot be symbolic */
    const char *must = prog_with != PROG_MARKS ? " dynamic=maybe"
                       : prog_chance(e->r, 70) ? " dynamic=first"
                                               : " dynamic=all";
    option(e, PROG_MARKS, 60, " dynamic=maybe", must);
    print_ways(e);
    td__buf_add(e->b, "\n");
}

static bool same_type(const td_tensor *a, const td_meta *b) {
    bool same = a->dtype == b->dtype && a->rank == b->rank;
    for (int d = 0; same && d < a->rank; d++) same = a->size[d] == b->size[d];
    return same;
}

/* A second call needs arguments of the same dtypes and sizes. */
static bool looks_stayed(const prog_maker *m) {
    for (int i = 0; i < m->n_args; i++)
        if (!same_type(m->arg[i].t, &m->was[i])) return false;
    return true;
}

static void name_more(ending *e, int i, const char *op, const char *of,
                      const char *rest) {
    td__buf_printf(e->b, "  %%b%d = %s(%s%s)\n", e->n_more, op, of, rest);
    snprintf(e->arg[i], sizeof e->arg[i], "%%b%d", e->n_more++);
}

/* Another tensor of the same dtype and sizes for argument i: of its own, without
 * history, with other strides, or the one another argument gets. */
static void vary(ending *e, int i) {
    const td_tensor *t = e->m->arg[i].t;
    int              k = prog_upto(e->r, e->m->n_args);
    switch (prog_upto(e->r, 5)) {
    case 0: name_more(e, i, "clone", e->arg[i], ""); break;
    case 1: name_more(e, i, "detach", e->arg[i], ""); break;
    case 2: name_more(e, i, "alias", e->arg[i], ""); break;
    case 3:
        if (t->rank < 2) break;
        name_more(e, i, "transpose", e->arg[i], ", 0, 1");
        name_more(e, i, "contiguous", e->arg[i], "");
        name_more(e, i, "transpose", e->arg[i], ", 0, 1");
        break;
    default:
        if (same_type(t, &e->m->was[k])) memcpy(e->arg[i], e->arg[k], PROG_NAME);
        break;
    }
}

/* A rehearsal with hooks that are no inverses: what it leaves in a compiled function
 * must not show in later calls. */
static void visit(const ending *e) {
    if (!(prog_with & PROG_HOOKS) || !prog_chance(e->r, 50)) return;
    print_args(e);
    td__buf_add(e->b, prog_chance(e->r, 50) ? " hooks=bf16" : " hooks=twice");
    as_region(e, 20);
    print_ways(e);
    td__buf_add(e->b, " rehearse=true\n");
}

/* Twice as long in the first dim, where types leave that open. */
static void lengthen(ending *e) {
    char twice[2 * PROG_NAME + 8];
    for (int i = 0; i < e->m->n_args; i++) {
        if (e->m->arg[i].t->rank == 0) continue;
        snprintf(twice, sizeof twice, "[%s, %s]", e->arg[i], e->arg[i]);
        name_more(e, i, "cat", twice, ", 0");
    }
}

/* Other numbers for some of the arguments, seldom of another kind. */
static void vary_numbers(ending *e) {
    for (int i = 0; i < e->m->body.n_numbers; i++) {
        if (!prog_chance(e->r, 70)) continue;
        td_value v = prog_number(e->r);
        bool     other = v.kind != e->number[i].kind;
        for (int k = 0; other && k < 6 && prog_chance(e->r, 90); k++) {
            v = prog_number(e->r);
            other = v.kind != e->number[i].kind;
        }
        e->number[i] = v;
    }
}

/* ---- backward ----------------------------------------------------------- */

static void print_backward(const ending *e, const char *from, const char *how) {
    td__buf_printf(e->b, "  backward%s", from);
    if (prog_chance(e->r, 80)) td__buf_printf(e->b, " seed=%d", prog_range(e->r, 1, 9));
    td__buf_printf(e->b, "%s\n", how);
}

/* %NAME = randn of t's type, its last dim `times` as long; the caller closes it. */
static void print_draw(const ending *e, const char *name, const td_tensor *t,
                       int64_t times) {
    int64_t size[TD_MAX_RANK + 1] = {0};
    for (int d = 0; d < t->rank; d++) size[d] = t->size[d];
    if (t->rank) size[t->rank - 1] *= times;
    td__buf_printf(e->b, "  %%%s = randn(", name);
    prog_print_ints(e->b, size, t->rank);
    td__buf_printf(e->b, ", %s, seed=%d", td_dtype_name((td_dtype)t->dtype),
                   prog_range(e->r, 1, 9));
}

static bool has(const ending *e, const char *word) {
    return strstr(td__buf_str(&e->m->body.text), word) != NULL;
}

/* From result k, with a tangent that the case names: a tensor of its own, one with
 * gaps, an expanded one, or one that shares the result's storage. */
static void back_with(const ending *e, int k, const char *how) {
    const td_tensor *t = e->m->result[k].t;
    switch (prog_upto(e->r, 6)) {
    case 0:
    case 4:
    case 5:
        print_draw(e, "t", t, 1);
        td__buf_add(e->b, prog_chance(e->r, 60) ? ", requires_grad=true)\n" : ")\n");
        break;
    case 1:
        print_draw(e, t->rank ? "s" : "t", t, 2);
        td__buf_add(e->b, ")\n");
        if (t->rank)
            td__buf_printf(e->b, "  %%t = slice(%%s, -1, 0, %lld, 2)\n",
                           2 * (long long)t->size[t->rank - 1]);
        break;
    case 2:
        td__buf_printf(e->b,
                       "  no_grad {\n    %%s = sum(%%out.%d)\n    %%t = "
                       "expand_as(%%s, %%out.%d)\n  }\n",
                       k, k);
        break;
    default: td__buf_printf(e->b, "  %%t = detach(%%out.%d)\n", k);
    }
    td__buf_printf(e->b, "  backward %%out.%d with %%t%s\n", k, how);
}

/* A float result, by its number; -1: none was found. */
static int some_float_result(const ending *e) {
    int k = e->m->n_out ? prog_upto(e->r, e->m->n_out) : -1;
    return k >= 0 && td__is_float((td_dtype)e->m->result[k].t->dtype) ? k : -1;
}

/* Now and then from a value that the case computes from a result, with hooks on the
 * way. False: not now. */
static bool from_outside(ending *e, char *from, size_t cap) {
    char root[PROG_NAME];
    int  k = prog_with & PROG_HOOKS && !e->later ? some_float_result(e) : -1;
    bool fits = k >= 0 && td_requires_grad(e->m->result[k].t) && prog_chance(e->r, 60);
    e->later = true;
    if (!fits) return false;
    prog_hooks_outside(e->r, e->b, e->m->result[k].t, k, root);
    snprintf(from, cap, " %s", root);
    return true;
}

/* From a result or two, or from all. */
static void some_results(const ending *e, char *from, size_t cap) {
    from[0] = '\0';
    if (prog_chance(e->r, 65)) return;
    int n = prog_range(e->r, 1, 2), at = 0;
    for (int i = 0; i < n; i++)
        at += snprintf(from + at, cap - (size_t)at, i ? ", %%out.%d" : " %%out.%d",
                       prog_upto(e->r, e->m->n_out));
}

static bool is_grad_leaf(td_tensor *t) { return td_requires_grad(t) && td_is_leaf(t); }

/* A leaf that may have a gradient, an argument for choice; NULL: none. */
static const prog_val *some_leaf(const ending *e) {
    const prog_vals *v = &e->m->inputs.vals;
    const prog_val  *found = NULL;
    for (int i = 0; i < v->n; i++)
        if (is_grad_leaf(v->v[i].t) && (!found || prog_chance(e->r, 50)))
            found = &v->v[i];
    for (int i = 0; i < e->m->n_args; i++)
        if (is_grad_leaf(e->m->arg[i].t) && prog_chance(e->r, 70))
            found = &e->m->arg[i];
    td_clear(e->m->inputs.cx);
    return found;
}

static void higher(const ending *e) {
    const prog_val *leaf = some_leaf(e);
    for (int order = prog_range(e->r, 1, 2), i = 0; leaf && i < order; i++) {
        td__buf_printf(e->b, "  %%g%d = grad %s\n", i, leaf->name);
        char from[16];
        snprintf(from, sizeof from, " %%g%d", i);
        print_backward(e, from, i + 1 < order ? " create_graph=true" : "");
    }
}

static void write_something(const ending *e) {
    bool out = prog_chance(e->r, 50) || e->m->n_args == 0;
    char name[PROG_NAME];
    if (out) snprintf(name, sizeof name, "%%out.%d", prog_upto(e->r, e->m->n_out));
    else snprintf(name, sizeof name, "%s", e->arg[prog_upto(e->r, e->m->n_args)]);
    td__buf_printf(e->b, "  no_grad {\n    fill_(%s, 1)\n  }\n", name);
}

static void go_back(ending *e) {
    char from[40] = "";
    bool twice = prog_chance(e->r, 25), create = prog_chance(e->r, 20);
    bool outside = from_outside(e, from, sizeof from);
    if (!outside) some_results(e, from, sizeof from);
    if (prog_chance(e->r, 6)) write_something(e);
    const char *how = create ? " create_graph=true" : twice ? " retain_graph=true" : "";
    int         k = !outside && prog_chance(e->r, 30) ? some_float_result(e) : -1;
    /* gradients through a branch, and of leaves that the body makes and nobody can
     * reach, share storage with tangents in eager alone (docs/beyond.md) */
    bool shares = has(e, "cond(") || has(e, "while_loop(") || has(e, "requires_grad_(");
    if (k >= 0 && !shares) back_with(e, k, how);
    else print_backward(e, from, how);
    if (create && prog_chance(e->r, 80)) higher(e);
    if (!twice) return;
    if (!outside || prog_chance(e->r, 30)) some_results(e, from, sizeof from);
    if (prog_chance(e->r, 10)) write_something(e);
    print_backward(e, from, "");
}

/* ---- the whole ---------------------------------------------------------- */

static void call_again(ending *e, bool back) {
    bool off = prog_chance(e->r, 20);
    if (prog_with & PROG_HOOKS && prog_chance(e->r, 40)) visit(e);
    if (prog_chance(e->r, 60))
        for (int i = 0; i < e->m->n_args; i++)
            if (prog_chance(e->r, 40)) vary(e, i);
    if (e->m->types == 0 && prog_chance(e->r, 60)) lengthen(e);
    vary_numbers(e);
    if (off) td__buf_add(e->b, prog_chance(e->r, 70) ? "no_grad {\n" : "inference {\n");
    print_call(e);
    if (off) td__buf_add(e->b, "}\n");
    if (back && !off && prog_chance(e->r, 50)) go_back(e);
}

/* Calls with other numbers and sizes, where the program is about them. */
static void call_others(ending *e, bool back) {
    if (!(prog_with & (PROG_NUMBERS | PROG_MARKS)) || !looks_stayed(e->m)) return;
    for (int more = prog_upto(e->r, 4); more > 0; more--) {
        vary_numbers(e);
        if (prog_with & PROG_MARKS && e->m->types == 0 && prog_chance(e->r, 50))
            lengthen(e);
        print_call(e);
        if (back && prog_chance(e->r, 60)) print_backward(e, "", "");
    }
}

/* Calls with the same arguments, backwards from all results. */
static void finish_plain(ending *e, bool back) {
    bool retain = back && prog_chance(e->r, 25);
    char from[40] = "";
    print_call(e);
    td__buf_add(e->b, td__buf_str(&e->m->call));
    if (back) from_outside(e, from, sizeof from);
    if (back) print_backward(e, from, retain ? " retain_graph=true" : "");
    if (retain) print_backward(e, from, "");
    if (prog_chance(e->r, 15))
        td__buf_printf(e->b, "  no_grad {\n    fill_(%%out.%d, 1)\n  }\n",
                       prog_upto(e->r, e->m->n_out));
    call_others(e, back);
    if (!looks_stayed(e->m) || !prog_chance(e->r, 25)) return;
    print_call(e);
    if (back && prog_chance(e->r, 50)) print_backward(e, "", "");
}

static void finish_wide(ending *e, bool back) {
    print_call(e);
    td__buf_add(e->b, td__buf_str(&e->m->call));
    if (back) go_back(e);
    if (prog_chance(e->r, 10)) write_something(e);
    call_others(e, back);
    for (int more = 2; more > 0 && looks_stayed(e->m) && prog_chance(e->r, 30); more--)
        call_again(e, back);
}

void prog_finish(prog_maker *m) {
    ending e = {.m = m, .r = &m->inputs.r, .b = &m->inputs.text};
    bool   back = m->n_grad_out && prog_chance(e.r, 70);
    for (int i = 0; i < m->n_args; i++)
        snprintf(e.arg[i], sizeof e.arg[i], "%s", m->arg[i].name);
    memcpy(e.number, m->body.number, sizeof e.number);
    visit(&e);
    if (prog_wide) finish_wide(&e, back);
    else finish_plain(&e, back);
    td__buf_add(e.b, "}\n");
}
