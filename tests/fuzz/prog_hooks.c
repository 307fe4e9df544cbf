/* prog_hooks.c -- gradient hooks that a function registers on a value it has computed:
 * a few forms, for a float tensor of any sizes. */
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

static void print_hook(td_buf *b, const char *form, const prog_val *x,
                       const prog_val *a) {
    bool reads = strstr(form, "%a") != NULL;
    td__buf_printf(b, "on_grad(%s, func @hook(%%g: ", x->name);
    prog_fill_in(b, reads ? "T, %a: T) {\n" : "T) {\n", x->t);
    prog_fill_in(b, form, x->t);
    td__buf_printf(b, "    }, [%s])\n", reads ? a->name : "");
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
