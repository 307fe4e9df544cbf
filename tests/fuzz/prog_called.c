/* prog_called.c -- regions for a program: a few forms of bodies over a value or two of
 * any sizes. A function calls the same region several times, with other operands. The
 * statement is run by parsing it. */
#include "prog.h"

#include "cli/case_run.h"

#include <stdio.h>
#include <string.h>

enum {
    FLOATS = 1, /* takes floats only */
    TWO = 2,    /* has a second operand, %b */
    OWN = 4 /* only by td_call_region: it writes an operand, or returns a view or one
                 * tensor twice */
};

/* A body, which reads %a, and %b where there are two operands. T stands for the type of
 * the operands, S for their sizes. */
typedef struct form {
    int         flags, n_out;
    const char *body;
} form;

#define INNER                                          \
    "      %i = region(func @in(%c: T, %d: T) {\n"     \
    "        %k = mul(%c, %d)\n        %l = sin(%k)\n" \
    "        return %l\n      }, [%a, %b])\n"

static const form forms[] = {
    /* pure: what is saved is an operand, a result, a value between, or nothing */
    {0, 1, "      %r = mul(%a, 2)\n      return %r\n"},
    {TWO, 1, "      %r = mul(%a, %b)\n      return %r\n"},
    {FLOATS, 1, "      %r = tanh(%a)\n      return %r\n"},
    {FLOATS | TWO, 1,
     "      %p = mul(%a, %b)\n      %s = sin(%p)\n      %e = exp(%s)\n"
     "      %r = add(%e, %a)\n      return %r\n"},
    {FLOATS | TWO, 1,
     "      %m = matmul(%a, %b)\n      %t = tanh(%m)\n      %r = add(%t, %a)\n"
     "      return %r\n"},
    {FLOATS, 1, "      %r = softmax(%a, -1)\n      return %r\n"},
    {FLOATS, 1,
     "      %s = sum(%a, [0], true)\n      %r = mul(%s, %a)\n      return %r\n"},
    {FLOATS, 1, "      %l = logsumexp(%a, [0])\n      return %l\n"},
    /* several results: of one history, of separate ones, one computed from another */
    {FLOATS | TWO, 2,
     "      %e = exp(%a)\n      %p = mul(%e, %b)\n      %q = mul(%e, %e)\n"
     "      return %p, %q\n"},
    {FLOATS | TWO, 2, "      %p = sin(%a)\n      %q = cos(%b)\n      return %p, %q\n"},
    {FLOATS, 2, "      %p = sin(%a)\n      %q = mul(%p, %p)\n      return %p, %q\n"},
    {0, 2, "      %p = add(%a, 1)\n      %q = add(%a, 2)\n      return %p, %q\n"},
    /* results without gradient */
    {0, 2, "      %p = mul(%a, %a)\n      %q = gt(%a, 0)\n      return %p, %q\n"},
    {0, 1, "      %q = gt(%a, 0)\n      return %q\n"},
    {FLOATS, 2,
     "      %d = detach(%a)\n      %p = mul(%d, %a)\n      %q = mul(%d, 2.0)\n"
     "      return %p, %q\n"},
    {FLOATS | TWO, 2,
     "      no_grad {\n        %p = mul(%a, %b)\n      }\n      %q = mul(%p, %a)\n"
     "      return %p, %q\n"},
    {FLOATS, 1,
     "      enable_grad {\n        %p = mul(%a, %a)\n      }\n      return %p\n"},
    /* operands that nothing reads, or that are read without gradient */
    {TWO, 1, "      %r = mul(%a, 3)\n      return %r\n"},
    {FLOATS | TWO, 1,
     "      %d = detach(%b)\n      %r = mul(%a, %d)\n      return %r\n"},
    {0, 1, "      %r = ones_like(%a)\n      return %r\n"},
    /* random numbers */
    {FLOATS, 1, "      %k = rand_like(%a)\n      %r = mul(%a, %k)\n      return %r\n"},
    {FLOATS, 1,
     "      %d = dropout(%a, 0.5, true)\n      %r = exp(%d)\n      return %r\n"},
    {FLOATS | TWO, 2,
     "      %k = randn_like(%a)\n      %p = mul(%k, %b)\n      %l = rand_like(%a)\n"
     "      %q = mul(%p, %l)\n      return %q, %k\n"},
    /* views, operands and one tensor twice among the results */
    {OWN, 1, "      %v = unsqueeze(%a, 0)\n      return %v\n"},
    {OWN, 1, "      return %a\n"},
    {TWO | OWN, 2, "      %r = add(%a, %b)\n      return %b, %r\n"},
    {OWN, 2, "      %r = mul(%a, 2)\n      return %r, %r\n"},
    {OWN, 2,
     "      %r = mul(%a, 2)\n      %v = reshape(%r, [-1])\n      return %r, %v\n"},
    {0, 1, "      %m = mul(%a, 2)\n      %v = reshape(%m, [-1])\n      return %v\n"},
    {0, 1,
     "      %v = reshape(%a, [-1])\n      %w = mul(%v, 2)\n      %r = reshape(%w, S)\n"
     "      %q = add(%r, 1)\n      return %q\n"},
    /* writes of tensors of its own, and of operands */
    {TWO, 1,
     "      %c = clone(%a)\n      mul_(%c, 2)\n      %r = add(%c, %b)\n"
     "      return %r\n"},
    {FLOATS, 1,
     "      %c = sin(%a)\n      %v = unsqueeze(%c, 0)\n      mul_(%v, %v)\n"
     "      %r = mul(%c, 2.0)\n      return %r\n"},
    {0, 1, "      %c = mul(%a, 2)\n      add_(%c, 1)\n      return %c\n"},
    {OWN, 1, "      mul_(%a, 2)\n      %r = add(%a, 1)\n      return %r\n"},
    {TWO | OWN, 1, "      add_(%b, %a)\n      %r = mul(%b, 2)\n      return %r\n"},
    {FLOATS | OWN, 1,
     "      no_grad {\n        mul_(%a, 0.5)\n      }\n      %r = sin(%a)\n"
     "      return %r\n"},
    {FLOATS | OWN, 1, "      exp_(%a)\n      return %a\n"},
    /* a literal, which a captured region closes over */
    {OWN, 1,
     "      %k = tensor([2], i64, [])\n      %r = mul(%a, %k)\n      return %r\n"},
    /* regions inside */
    {FLOATS | TWO, 1, INNER "      return %i\n"},
    {FLOATS | TWO, 1,
     INNER
     "      %j = region(@in, [%i, %b])\n      %r = mul(%j, %a)\n      return %r\n"},
    {FLOATS | TWO, 1,
     INNER "      %j = region(@in, [%b, %b])\n      %d = detach(%j)\n"
           "      %k = region(@in, [%i, %d])\n      return %k\n"},
    /* branches and loops inside, and regions in those */
    {FLOATS | TWO, 1,
     "      %s = full([], 1, i64)\n      %t = cond(%s, func @yes(%c: T, %d: T) {\n"
     "        %m = mul(%c, %d)\n        return %m\n"
     "      }, func @no(%c: T, %d: T) {\n        %m = sub(%c, %d)\n        return %m\n"
     "      }, [%a, %b])\n      %r = sin(%t)\n      return %r\n"},
    {FLOATS | TWO, 1,
     "      %s = full([], 0, i64)\n      %t = cond(%s, func @yes(%c: T, %d: T) {\n"
     "        %m = mul(%c, %d)\n        return %m\n"
     "      }, func @no(%c: T, %d: T) {\n"
     "        %m = region(func @in(%e: T, %f: T) {\n          %k = mul(%e, %f)\n"
     "          %l = sin(%k)\n          return %l\n        }, [%c, %d])\n"
     "        %n = region(@in, [%m, %d])\n        return %n\n"
     "      }, [%a, %b])\n      return %t\n"},
    {FLOATS | TWO, 1,
     "      %s = full([], 0, i64)\n      %n, %t = while_loop(func @test(%n: i64[], %c: "
     "T,"
     " %d: T) {\n        %o = lt(%n, 2)\n        return %o\n"
     "      }, func @body(%n: i64[], %c: T, %d: T) {\n        %m = add(%n, 1)\n"
     "        %k = region(func @in(%e: T, %f: T) {\n          %k = mul(%e, %f)\n"
     "          %l = sin(%k)\n          return %l\n        }, [%c, %d])\n"
     "        return %m, %k\n      }, [%s, %a], [%b])\n      return %t\n"},
    /* a custom function */
    {FLOATS, 1,
     "      %z = custom(\"own\", func @forward(%u: T) {\n        %v = mul(%u, %u)\n"
     "        return %v, %u <saved 0>\n      }, func @backward(%u: T <saved 0>, "
     "%g: T <tangent 0>) {\n        %h = mul(%g, %u)\n        return %h <grad 0>\n"
     "      }, [%a], [])\n      %r = sin(%z)\n      return %r\n"},
    /* checkpoint regions inside */
    {FLOATS | TWO, 1,
     "      %p = mul(%a, %b) prefer_recompute 91\n      %s = sin(%p) prefer_recompute "
     "91\n"
     "      %e = exp(%s) must_recompute 91\n      %r = mul(%e, %a)\n      return %r\n"},
};

/* One statement. */
typedef struct statement {
    const form *of;
    const char *name; /* and a number: @r0 @once1 @grad2 ... (case_control.c) */
    int         nr;
    bool        known; /* the text has it already */
    prog_val    x, y;
    bool        closes; /* the body closes over y */
} statement;

/* The region and its operands; `whole`: with its body, even if it is known. */
static void print_call(td_buf *b, const statement *s, bool whole) {
    bool two = s->of->flags & TWO;
    if (s->known && !whole) td__buf_printf(b, "region(@%s%d", s->name, s->nr);
    else {
        td__buf_printf(b, "region(func @%s%d(", s->name, s->nr);
        prog_fill_in(b, two ? "%a: T, %b: T" : "%a: T", s->x.t);
        td__buf_add(b, s->closes ? " <const>) {\n" : ") {\n");
        prog_fill_in(b, s->of->body, s->x.t);
        td__buf_add(b, "    }");
    }
    td__buf_printf(b, ", [%s", s->x.name);
    if (two) td__buf_printf(b, ", %s", s->y.name);
    td__buf_add(b, "])");
}

/* Runs the statement on the tensors themselves; false: it fails. */
static bool run_statement(prog_world *w, const statement *s, td_value *out) {
    td_buf      b = {0};
    bool        two = strcmp(s->x.name, s->y.name) != 0;
    const char *r = s->of->n_out > 1 ? "%r0, %r1" : "%r0";
    td__buf_printf(&b, "func @t(%s%s%s) {\n  %s = ", s->x.name, two ? ", " : "",
                   two ? s->y.name : "", r);
    print_call(&b, s, true);
    td__buf_printf(&b, "\n  return %s\n}\n", r);
    td_gfile *file = td__gfile_parse(w->cx, td__buf_str(&b), b.n, "region.td");
    td_value  in[2] = {td_value_tensor(s->x.t), td_value_tensor(s->y.t)};
    bool      ok = file && (w->control ? case_replay_control(file->graphs.v[0], in, out)
                                       : td__graph_replay(file->graphs.v[0], in, out));
    td__gfile_drop(file);
    td__buf_free(&b);
    return ok;
}

static const prog_val *some_number(prog_world *w, bool floats) {
    for (int tries = 0; tries < 8 && w->vals.n; tries++) {
        const prog_val *v = &w->vals.v[prog_upto(&w->r, w->vals.n)];
        td_dtype        dt = (td_dtype)v->t->dtype;
        if (w->typed && !v->t->typed) continue;
        if (dt != TD_BOOL && (td__is_float(dt) || !floats) && v->t->numel) return v;
    }
    return NULL;
}

/* A value of the type that a known region takes; NULL: none. */
static const prog_val *one_for(prog_world *w, const prog_known *k) {
    for (int tries = 0; tries < 12; tries++) {
        const prog_val *v = &w->vals.v[prog_upto(&w->r, w->vals.n)];
        if (v->t->dtype == k->dtype && v->t->rank == k->rank &&
            td__dims_eq(v->t->size, k->size, k->rank))
            return v;
    }
    return NULL;
}

/* What td_call_region does beside calling the body: it is told that this may be called
 * once, or gradients are taken inside, which PyTorch's programs do not have. */
static const char *choose_name(prog_world *w) {
    static const char *const names[] = {"once", "grad", "once_grad"};
    bool more = w->control && !prog_public && prog_chance(&w->r, 30);
    return more ? names[prog_upto(&w->r, TD_COUNT(names))] : "r";
}

/* A region of before, or a new one. */
static bool choose(prog_world *w, statement *s) {
    const prog_val *x;
    *s = (statement){.nr = w->n_known, .of = &forms[prog_upto(&w->r, TD_COUNT(forms))]};
    s->name = choose_name(w);
    if (w->n_known && prog_chance(&w->r, 60)) {
        const prog_known *k = &w->known[s->nr = prog_upto(&w->r, w->n_known)];
        *s = (statement){.nr = s->nr, .of = k->form, .known = true};
        s->closes = k->closes;
        s->name = k->name;
        x = one_for(w, k);
    } else x = some_number(w, s->of->flags & FLOATS);
    if (!x || s->nr >= PROG_KNOWN || x->t->rank > PROG_LIST) return false;
    if (s->of->flags & OWN && !w->control) return false;
    const prog_val *y = s->of->flags & TWO ? prog_one_like(w, x) : x;
    if (!s->known && s->of->flags & TWO && w->control)
        s->closes = prog_chance(&w->r, 40);
    s->x = *x;
    s->y = *y;
    return true;
}

/* Adds a new region to those that the text has. */
static void note_known(prog_world *w, const statement *s) {
    if (s->known) return;
    prog_known *k = &w->known[w->n_known++];
    *k = (prog_known){.form = s->of, .dtype = s->x.t->dtype, .closes = s->closes};
    k->name = s->name;
    k->rank = s->x.t->rank;
    for (int d = 0; d < k->rank; d++) k->size[d] = s->x.t->size[d];
}

bool prog_region(prog_world *w) {
    statement s;
    td_value  out[2] = {TD_NONE, TD_NONE};
    bool      ok = choose(w, &s);
    uint64_t  seed = td_rng_seed(w->cx), offset = td_rng_offset(w->cx);
    if (ok && !run_statement(w, &s, out)) {
        td_rng_set(w->cx, seed, offset);
        ok = false;
    }
    if (ok) {
        prog_indent(&w->text, w);
        for (int i = 0; i < s.of->n_out; i++) {
            prog_val v = {.t = out[i].u.t};
            snprintf(v.name, sizeof v.name, "%%%c%d", w->letter, w->n_names++);
            td__buf_printf(&w->text, i ? ", %s" : "%s", v.name);
            td__vec_push(&w->vals, v);
        }
        td__buf_add(&w->text, " = ");
        print_call(&w->text, &s, false);
        prog_add_policy(&w->text, w);
        note_known(w, &s);
    }
    td_clear(w->cx);
    return ok;
}
