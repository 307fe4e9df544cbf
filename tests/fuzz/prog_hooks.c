/* prog_hooks.c -- gradient hooks that a function registers on a value it has computed,
 * and that a case registers on values it computes from a result: a few forms, for a
 * float tensor of any sizes. */
#include "prog.h"

#include <stdio.h>
#include <string.h>

/* The statements of a hook. It gets the gradient %g and, where it reads one, a value %a
 * of the same type. T stands for the type, S for the sizes. */
static const char *const forms[] = {
    "      %h = mul(%g, 2.0)\n      return %h\n",
    "      %h = clamp(%g, -0.5, 0.5)\n      return %h\n", /* not linear */
    "      %h = mul(%g, %g)\n      return %h\n",
    "      mul_(%g, 2.0)\n      return none\n", /* writes the gradient */
    "      mul_(%g, 2.0)\n      %h = neg(%g)\n      return %h\n",
    "      %h = neg(%g)\n      return none\n", /* leaves it */
    "      return %g\n",
    "      %r = reshape(%g, [-1])\n      %n = neg(%r)\n"
    "      %h = reshape(%n, S)\n      return %h\n",
    "      %h = mul(%g, %a)\n      return %h\n", /* reads a value */
    "      %h = add(%g, %a)\n      return %h\n",
    "      no_grad {\n        %h = mul(%g, %a)\n      }\n      return %h\n",
    "      %k = mul(%a, 2.0)\n      return %k\n", /* does not depend on the gradient */
    "      return %a\n",                          /* a tensor of the function */
};

/* Only outside of functions: they write a value, which a node may have saved. */
static const char *const writing[] = {
    "      mul_(%a, 2.0)\n      return none\n",
    "      no_grad {\n        fill_(%a, 1)\n      }\n      return %g\n",
};

/* A value with a grad_fn that the function made; NULL: none was found. Not where it
 * calls td_cond: of a tensor that a branch returns twice, one result is a copy of the
 * other in eager, and in a compiled function neither passes the other's gradient on. */
static const prog_val *some_result(prog_world *w) {
    if (w->control) return NULL;
    for (int tries = 0; tries < 8 && w->vals.n; tries++) {
        const prog_val *v = &w->vals.v[prog_upto(&w->r, w->vals.n)];
        if (v->name[1] == w->letter && td__is_float((td_dtype)v->t->dtype) &&
            v->t->numel && td_requires_grad(v->t) && !td_is_leaf(v->t))
            return v;
    }
    return NULL;
}

static void print_hook_of(td_buf *b, const char *form, const td_tensor *t,
                          const char *x, const char *a) {
    bool reads = strstr(form, "%a") != NULL;
    td__buf_printf(b, "on_grad(%s, func @hook(%%g: ", x);
    prog_fill_in(b, reads ? "T, %a: T) {\n" : "T) {\n", t);
    prog_fill_in(b, form, t);
    td__buf_printf(b, "    }, [%s])\n", reads ? a : "");
}

static void print_hook(td_buf *b, const char *form, const prog_val *x,
                       const prog_val *a) {
    print_hook_of(b, form, x->t, x->name, a->name);
}

/* Registers the hook on x itself, so that what it does to the tensors of the function
 * is done; false: it fails. */
static bool run_hook(prog_world *w, const char *form, const prog_val *x,
                     const prog_val *a) {
    td_buf b = {0};
    bool   two = strcmp(x->name, a->name) != 0;
    td__buf_printf(&b, "func @t(%s%s%s) {\n  ", x->name, two ? ", " : "",
                   two ? a->name : "");
    print_hook(&b, form, x, a);
    td__buf_add(&b, "  return\n}\n");
    td_gfile *file = td__gfile_parse(w->cx, td__buf_str(&b), b.n, "hook.td");
    td_value  in[2] = {td_value_tensor(x->t), td_value_tensor(a->t)};
    bool      ok = file && td__graph_replay(file->graphs.v[0], in, NULL);
    td__gfile_drop(file);
    td__buf_free(&b);
    return ok;
}

bool prog_hook(prog_world *w) {
    const char     *form = forms[prog_upto(&w->r, (int)(sizeof forms / sizeof *forms))];
    const prog_val *x = some_result(w);
    const prog_val *a = x ? prog_one_like(w, x) : NULL;
    if (!x || !run_hook(w, form, x, a)) return td_clear(w->cx), false;
    prog_indent(&w->text, w);
    print_hook(&w->text, form, x, a);
    prog_calls[TD_OP_on_grad]++;
    return true;
}

/* ---- outside of functions ----------------------------------------------- */

enum { OUTSIDE = 5 };

/* %A and %B stand for earlier values. */
static const char *const ops[] = {"sin(%A)",          "mul(%A, %B)", "add(%A, %B)",
                                  "mul(%A, 0.5)",     "sigmoid(%A)", "alias(%A)",
                                  "where(%M, %A, %B)"};

static void print_op(td_buf *b, const char *op, const char *x, const char *y) {
    for (; *op; op++) {
        bool name = *op == '%';
        if (name) op++;
        if (name && *op == 'M') td__buf_printf(b, "%%qm");
        else if (name) td__buf_add(b, *op == 'A' ? x : y);
        else td__buf_printf(b, "%c", *op);
    }
}

static void print_outside_hook(prog_rng *r, td_buf *b, const td_tensor *t,
                               const char *x, const char *a) {
    int         plain = (int)(sizeof forms / sizeof *forms);
    const char *form =
        prog_chance(r, 15) ? writing[prog_upto(r, 2)] : forms[prog_upto(r, plain)];
    td__buf_add(b, "  ");
    print_hook_of(b, form, t, x, a);
}

void prog_hooks_outside(prog_rng *r, td_buf *b, const td_tensor *t, int k,
                        char root[PROG_NAME]) {
    char name[OUTSIDE + 1][PROG_NAME];
    int  n = prog_range(r, 2, OUTSIDE);
    snprintf(name[0], PROG_NAME, "%%out.%d", k);
    td__buf_printf(b, "  %%qm = gt(%s, 0)\n", name[0]);
    for (int i = 1; i <= n; i++) {
        /* mostly the newest, so that the root has all of them below it */
        const char *x = name[prog_chance(r, 70) ? i - 1 : prog_upto(r, i)];
        snprintf(name[i], PROG_NAME, "%%q%d", i);
        td__buf_printf(b, "  %s = ", name[i]);
        print_op(b, ops[prog_upto(r, (int)(sizeof ops / sizeof *ops))], x,
                 name[prog_upto(r, i)]);
        td__buf_add(b, "\n");
        while (prog_chance(r, 45))
            print_outside_hook(r, b, t, name[prog_range(r, 1, i)],
                               name[prog_upto(r, i + 1)]);
        if (prog_chance(r, 10)) td__buf_printf(b, "  mul_(%s, 0.5)\n", name[i]);
    }
    snprintf(root, PROG_NAME, "%s", name[n]);
    prog_calls[TD_OP_on_grad]++;
}
