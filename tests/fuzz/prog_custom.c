/* prog_custom.c -- custom functions for a program: a few forms of forward and backward,
 * for a float tensor of any sizes. The statement is run by parsing it. */
#include "prog.h"

#include <stdio.h>
#include <string.h>

/* One form. T stands for the type of its input, S for its sizes. */
typedef struct form {
    const char *results; /* how many, and options behind the lists of tensors */
    int         n_out;
    const char *forward, *saved, *backward;
} form;

static const form forms[] = {
    /* saves a value of its own, which comes back behind the result */
    {"", 2,
     "      %t = sin(%a)\n      %z = mul(%a, %t)\n      return %z, %t <saved 0>\n",
     "%t: T <saved 0>, ", "      %h = mul(%g, %t)\n      return %h <grad 0>\n"},
    /* saves its input */
    {"", 1, "      %z = mul(%a, %a)\n      return %z, %a <saved 0>\n",
     "%a: T <saved 0>, ", "      %h = mul(%g, %a)\n      return %h <grad 0>\n"},
    /* saves its result */
    {"", 1, "      %z = tanh(%a)\n      return %z, %z <saved 0>\n", "%z: T <saved 0>, ",
     "      %h = mul(%g, %z)\n      return %h <grad 0>\n"},
    /* the same three, stashed: read as they are then */
    {", stash=[0]", 2,
     "      %t = sin(%a)\n      %z = mul(%a, %t)\n      return %z, %t <saved 0>\n",
     "%t: T <saved 0>, ", "      %h = mul(%g, %t)\n      return %h <grad 0>\n"},
    {", stash=[0]", 1, "      %z = mul(%a, 3.0)\n      return %z, %a <saved 0>\n",
     "%a: T <saved 0>, ", "      %h = mul(%g, %a)\n      return %h <grad 0>\n"},
    {", stash=[0]", 1, "      %z = mul(%a, 2.0)\n      return %z, %z <saved 0>\n",
     "%z: T <saved 0>, ", "      %h = mul(%g, %z)\n      return %h <grad 0>\n"},
    /* writes its input */
    {", dirty=[0]", 1, "      mul_(%a, 2.0)\n      return %a\n", "",
     "      %h = mul(%g, 2.0)\n      return %h <grad 0>\n"},
    /* a second result without gradient */
    {", plain=[1]", 2,
     "      %z = mul(%a, 3.0)\n      %i = ge(%a, 0.0)\n      return %z, %i\n", "",
     "      %h = mul(%g, 3.0)\n      return %h <grad 0>\n"},
    /* a backward that views the gradient */
    {"", 1, "      %z = mul(%a, -1.0)\n      return %z\n", "",
     "      %r = reshape(%g, [-1])\n      %n = neg(%r)\n"
     "      %h = reshape(%n, S)\n      return %h <grad 0>\n"},
    /* a backward that writes a copy of what it gets */
    {"", 1, "      %z = mul(%a, 2.0)\n      return %z\n", "",
     "      %c = clone(%g)\n      mul_(%c, 2.0)\n      return %c <grad 0>\n"},
    /* ...the tangent itself */
    {"", 1, "      %z = mul(%a, 2.0)\n      return %z\n", "",
     "      mul_(%g, 2.0)\n      %h = neg(%g)\n      return %h <grad 0>\n"},
    /* backwards that are not linear in what they get */
    {"", 1, "      %z = sin(%a)\n      return %z\n", "",
     "      %h = clamp(%g, -0.5, 0.5)\n      return %h <grad 0>\n"},
    {"", 1, "      %z = sin(%a)\n      return %z, %z <saved 0>\n", "%z: T <saved 0>, ",
     "      %h = add(%g, %z)\n      return %h <grad 0>\n"},
    {"", 1, "      %z = mul(%a, %a)\n      return %z, %z <saved 0>\n",
     "%z: T <saved 0>, ", "      %h = mul(%z, 2.0)\n      return %h <grad 0>\n"},
    /* a gradient for an input that forward does not read */
    {"", 1, "      %z = mul(%a, 2.0)\n      return %z, %z <saved 0>\n",
     "%z: T <saved 0>, ",
     "      %h = mul(%z, %g)\n      %k = mul(%g, 5.0)\n"
     "      return %h <grad 0>, %k <grad 1>\n"},
    /* two results with gradients, each to an input of its own */
    {"", 2,
     "      %z = mul(%a, 2.0)\n      %y = sin(%b)\n      return %z, %y, %b <saved 0>\n",
     "%b: T <saved 0>, %k: T <tangent 1>, ",
     "      %h = mul(%g, 2.0)\n      %l = mul(%k, %b)\n"
     "      return %h <grad 0>, %l <grad 1>\n"},
    /* ...both to one, and one to the other */
    {"", 2, "      %z = mul(%a, %b)\n      %y = add(%a, 1.0)\n      return %z, %y\n",
     "%k: T <tangent 1>, ",
     "      %h = add(%g, %k)\n      %l = neg(%k)\n"
     "      return %h <grad 0>, %l <grad 1>\n"},
};

void prog_fill_in(td_buf *b, const char *text, const td_tensor *t) {
    for (; *text; text++) {
        bool sizes = *text == 'S', type = *text == 'T';
        if (type) td__buf_printf(b, "%s", td_dtype_name((td_dtype)t->dtype));
        if (type || sizes) prog_print_ints(b, t->size, t->rank);
        else td__buf_addn(b, text, 1);
    }
}

/* Has it two inputs, %a and %b? */
static bool is_two(const form *f) { return strstr(f->backward, "<grad 1>") != NULL; }

/* x is %a, y is %b, which may be the same value. */
static void print_custom(td_buf *b, const form *f, const prog_val *x,
                         const prog_val *y) {
    td__buf_add(b, "custom(\"own\", func @forward(%a: ");
    prog_fill_in(b, is_two(f) ? "T, %b: T) {\n" : "T) {\n", x->t);
    prog_fill_in(b, f->forward, x->t);
    td__buf_add(b, "    }, func @backward(");
    prog_fill_in(b, f->saved, x->t);
    prog_fill_in(b, "%g: T <tangent 0>) {\n", x->t);
    prog_fill_in(b, f->backward, x->t);
    td__buf_printf(b, "    }, [%s", x->name);
    if (is_two(f)) td__buf_printf(b, ", %s", y->name);
    td__buf_printf(b, "], []%s)\n", f->results);
}

/* Runs the call on x and y themselves; false: it fails. */
static bool run_custom(prog_world *w, const form *f, const prog_val *x,
                       const prog_val *y, td_value *out) {
    td_buf b = {0};
    bool   two = strcmp(x->name, y->name) != 0;
    td__buf_printf(&b, "func @t(%s%s%s) {\n  %%r0%s = ", x->name, two ? ", " : "",
                   two ? y->name : "", f->n_out > 1 ? ", %r1" : "");
    print_custom(&b, f, x, y);
    td__buf_printf(&b, "  return %%r0%s\n}\n", f->n_out > 1 ? ", %r1" : "");
    td_gfile *file = td__gfile_parse(w->cx, td__buf_str(&b), b.n, "custom.td");
    td_value  in[2] = {td_value_tensor(x->t), td_value_tensor(y->t)};
    bool      ok = file && td__graph_replay(file->graphs.v[0], in, out);
    td__gfile_drop(file);
    td__buf_free(&b);
    return ok;
}

static const prog_val *some_float_value(prog_world *w) {
    for (int tries = 0; tries < 8 && w->vals.n; tries++) {
        const prog_val *v = &w->vals.v[prog_upto(&w->r, w->vals.n)];
        if (w->typed && !v->t->typed) continue;
        if (td__is_float((td_dtype)v->t->dtype) && v->t->numel) return v;
    }
    return NULL;
}

const prog_val *prog_one_like(prog_world *w, const prog_val *x) {
    for (int tries = 0; tries < 8; tries++) {
        const prog_val *v = &w->vals.v[prog_upto(&w->r, w->vals.n)];
        if (v->t->dtype == x->t->dtype && v->t->rank == x->t->rank &&
            td__dims_eq(v->t->size, x->t->size, x->t->rank))
            return v;
    }
    return x;
}

bool prog_custom(prog_world *w) {
    const form     *f = &forms[prog_upto(&w->r, (int)(sizeof forms / sizeof *forms))];
    const prog_val *x = some_float_value(w);
    const prog_val *y = x && is_two(f) ? prog_one_like(w, x) : x;
    td_value        out[2] = {TD_NONE, TD_NONE};
    if (!x || !run_custom(w, f, x, y, out)) return td_clear(w->cx), false;
    prog_val of = *x, with = *y; /* naming results moves the values */
    prog_indent(&w->text, w);
    for (int i = 0; i < f->n_out; i++) {
        prog_val v = {.t = out[i].u.t};
        snprintf(v.name, sizeof v.name, "%%%c%d", w->letter, w->n_names++);
        td__buf_printf(&w->text, i ? ", %s" : "%s", v.name);
        if (out[i].kind == TD_K_TENSOR) td__vec_push(&w->vals, v);
    }
    td__buf_add(&w->text, " = ");
    print_custom(&w->text, f, &of, &with);
    return true;
}
