/* prog_branches.c -- branches and loops for a program: a few forms of cond and
 * while_loop over a value or two of any sizes. A predicate compares integers, or is
 * the sum of a comparison: every way of running the program must take the same branch.
 * The statement is run by parsing it. */
#include "prog.h"

#include "cli/case_run.h"
#include "core/typed.h"
#include "trace/trace.h"

#include <stdio.h>
#include <string.h>

enum {
    FLOATS = 1, /* takes floats only */
    TWO = 2,    /* has a second operand, %b */
    OWN = 4,    /* only for td_cond and td_while: it writes an argument, or needs types
                  * that nested functions in text do not have */
    ODD = 8,    /* only for the ops: gradients or requires_grad of compiled branches and
                  * loops are not those of the code that ran, see docs/beyond.md */
    STATES = 16, /* of a loop: %b is a state, too */
    NOTES = 64,  /* calls registered ops with effects */
    MIXED = 32   /* one operand alone may require grad: after two iterations both do */
};

/* A branch: both functions, which read %a, and %b where there are two operands. A loop:
 * the body, which also reads the counter %n, and no `no`. T stands for the type of the
 * operands, S for their sizes. */
typedef struct form {
    int         flags, n_out;
    const char *yes, *no;
} form;

#define CUSTOM(in, dirty, forward, back)                          \
    "      %z = custom(\"own\", func @forward(%u: T) {\n" forward \
    "      }, func @backward(" back "      }, [" in "], []" dirty ")\n"
#define SQUARE(in)                                                                \
    CUSTOM(in, "", "        %v = mul(%u, %u)\n        return %v, %u <saved 0>\n", \
           "%u: T <saved 0>, %g: T <tangent 0>) {\n"                              \
           "        %h = mul(%g, %u)\n        return %h <grad 0>\n")
#define TWICE(in)                                                                      \
    CUSTOM(in, ", dirty=[0]", "        mul_(%u, 2.0)\n        return %u\n",            \
           "%g: T <tangent 0>) {\n        %h = mul(%g, 2.0)\n        return %h <grad " \
           "0>\n")

#define HOOK(on, reads)                                  \
    "      on_grad(" on ", func @hook(%g: T, %e: T) {\n" \
    "        %d = mul(%g, %e)\n        return %d\n      }, [" reads "])\n"

static const form branches[] = {
    /* pure */
    {0, 1, "      %r = mul(%a, 2)\n      return %r\n",
     "      %r = neg(%a)\n      return %r\n"},
    {FLOATS, 2, "      %r = sin(%a)\n      %q = mul(%r, %a)\n      return %r, %q\n",
     "      %r = mul(%a, 0.5)\n      %q = exp(%r)\n      return %q, %r\n"},
    /* one operand that only a branch reads, or neither */
    {TWO | ODD, 1, "      %r = mul(%a, %b)\n      return %r\n",
     "      %r = mul(%a, 3)\n      return %r\n"},
    {TWO | ODD, 1, "      %r = mul(%a, 3)\n      return %r\n",
     "      %r = sub(%b, %a)\n      return %r\n"},
    {TWO, 1, "      %r = mul(%a, 3)\n      return %r\n",
     "      %r = add(%a, 1)\n      return %r\n"},
    {TWO | ODD, 1, "      %r = mul(%a, 3)\n      return %r\n",
     "      %r = mul(%b, 3)\n      return %r\n"},
    /* results that are operands, views, or one tensor twice */
    {TWO | ODD, 2, "      return %a, %b\n", "      return %b, %a\n"},
    {0, 2, "      %r = mul(%a, 2)\n      return %r, %r\n",
     "      %r = neg(%a)\n      %q = alias(%r)\n      return %q, %a\n"},
    {0, 1, "      %v = reshape(%a, [-1])\n      return %v\n",
     "      %v = mul(%a, 2)\n      %w = reshape(%v, [-1])\n      return %w\n"},
    {0, 1, "      %v = unsqueeze(%a, 0)\n      %w = mul(%v, 2)\n      return %w\n",
     "      %v = unsqueeze(%a, 0)\n      return %v\n"},
    /* other dtypes and sizes */
    {0, 2, "      %s = sum(%a)\n      %c = gt(%a, 0)\n      return %s, %c\n",
     "      %m = mul(%a, 2)\n      %s = sum(%m)\n      %c = le(%a, 0)\n      return "
     "%s, "
     "%c\n"},
    /* writes of tensors of the branch's own */
    {TWO, 1,
     "      %c = clone(%a)\n      mul_(%c, 2)\n      add_(%c, %b)\n      return "
     "%c\n",
     "      %c = add(%b, %a)\n      %v = unsqueeze(%c, 0)\n      mul_(%v, 2)\n      "
     "return %c\n"},
    /* history that a branch does not continue */
    {FLOATS | ODD, 2,
     "      %d = detach(%a)\n      %r = mul(%d, %a)\n      return %d, %r\n",
     "      %r = sin(%a)\n      return %a, %r\n"},
    {FLOATS | OWN, 1, "      %d = detach(%a)\n      return %d\n",
     "      %d = detach(%a)\n      %r = neg(%d)\n      return %r\n"},
    {FLOATS | ODD, 2,
     "      no_grad {\n        %r = mul(%a, 2.0)\n      }\n      %q = mul(%r, %a)\n    "
     "  "
     "return %r, %q\n",
     "      %r = sin(%a)\n      %q = cos(%a)\n      return %r, %q\n"},
    /* a literal */
    {FLOATS, 1,
     "      %k = tensor([2], f32, [])\n      %l = to(%k, i64)\n      %r = mul(%a, "
     "%l)\n      return %r\n",
     "      %r = mul(%a, 5)\n      return %r\n"},
    /* random numbers */
    {FLOATS, 1, "      %k = rand_like(%a)\n      %r = mul(%a, %k)\n      return %r\n",
     "      %r = mul(%a, 5.0)\n      return %r\n"},
    {FLOATS | TWO | OWN, 1,
     "      %k = rand_like(%a)\n      %l = mul(%b, %k)\n      %r = dropout(%l, 0.5, "
     "true)\n"
     "      %q = mul(%r, %a)\n      return %q\n",
     "      %r = mul(%a, %b)\n      %k = rand_like(%b)\n      %q = sub(%r, %k)\n"
     "      return %q\n"},
    /* custom functions */
    {FLOATS, 1, SQUARE("%a") "      return %z\n",
     "      %r = neg(%a)\n      return %r\n"},
    {FLOATS | TWO, 1, "      %r = mul(%a, %b)\n" SQUARE("%r") "      return %z\n",
     SQUARE("%b") "      %r = mul(%a, %z)\n      return %r\n"},
    {FLOATS, 1, "      %r = sin(%a)\n" TWICE("%r") "      return %z\n",
     "      %r = neg(%a)\n      return %r\n"},
    {FLOATS | OWN, 1, TWICE("%a") "      return %z\n",
     "      neg_(%a)\n      return %a\n"},
    /* gradient hooks */
    {FLOATS, 1,
     "      %r = sin(%a)\n" HOOK("%r", "%r") "      %q = exp(%r)\n      return %q\n",
     "      %r = neg(%a)\n      return %r\n"},
    {FLOATS | TWO, 1, "      %r = mul(%a, %b)\n" HOOK("%r", "%b") "      return %r\n",
     "      %q = mul(%b, 2.0)\n      %r = mul(%a, %q)\n" HOOK(
         "%q", "%r") "      return %r\n"},
    /* effects */
    {FLOATS | NOTES, 1,
     "      %q = fz_note(%a, 1)\n      %r = mul(%q, %q)\n      return %r\n",
     "      fz_mark(%a, 2)\n      %r = fz_same(%a, 3)\n      return %r\n"},
    {FLOATS | TWO | NOTES, 2,
     "      fz_mark(%a, 4)\n      %r = fz_note(%b, 5)\n      return %a, %r\n",
     "      %q = mul(%a, %b)\n      %r = fz_same(%q, 6)\n      fz_mark(%r, 7)\n"
     "      return %r, %b\n"},
    {FLOATS | OWN | NOTES, 1,
     "      mul_(%a, 2)\n      %r = fz_note(%a, 8)\n      %q = sin(%r)\n"
     "      return %q\n",
     "      fz_mark(%a, 9)\n      neg_(%a)\n      fz_mark(%a, 10)\n      return %a\n"},
    /* a branch in a branch */
    {TWO, 1,
     "      %s = full([], 1, i64)\n      %t = cond(%s, func @in(%c: T, %d: T) {\n"
     "        %m = mul(%c, %d)\n        return %m\n"
     "      }, func @out(%c: T, %d: T) {\n        %m = neg(%c)\n        return %m\n"
     "      }, [%a, %b])\n      return %t\n",
     "      %r = sub(%a, %b)\n      return %r\n"},
    /* writes of arguments, as many in one branch as in the other: docs/beyond.md */
    {OWN, 1, "      mul_(%a, 2)\n      %r = add(%a, 1)\n      return %r\n",
     "      neg_(%a)\n      %r = mul(%a, %a)\n      return %r\n"},
    {OWN | TWO, 1,
     "      add_(%a, %b)\n      mul_(%a, 2)\n      %r = mul(%b, %a)\n      return %r\n",
     "      mul_(%a, 3)\n      add_(%a, %b)\n      return %a\n"},
    {OWN, 1, "      add_(%a, 1)\n      %r = neg(%a)\n      return %r\n",
     "      %v = unsqueeze(%a, 0)\n      mul_(%v, 2)\n      %r = mul(%v, %v)\n      %q "
     "= "
     "reshape(%r, S)\n      return %q\n"},
    {OWN | FLOATS, 1,
     "      no_grad {\n        mul_(%a, 2.0)\n      }\n      %r = sin(%a)\n      "
     "return "
     "%r\n",
     "      mul_(%a, 3.0)\n      %r = cos(%a)\n      return %r\n"},
    {OWN | TWO, 2,
     "      mul_(%a, 2)\n      add_(%b, %a)\n      %r = add(%b, 1)\n      return %a, "
     "%r\n",
     "      neg_(%a)\n      add_(%b, %a)\n      %r = add(%a, 1)\n      return %r, "
     "%b\n"},
    {OWN | FLOATS, 1, "      %r = sin(%a)\n      copy_(%a, %r)\n      return %r\n",
     "      fill_(%a, 1.0)\n      %r = mul(%a, 2.0)\n      return %r\n"},
};

static const form loops[] = {
    {0, 1, "      %r = mul(%a, 2)\n      return %m, %r\n", NULL},
    {FLOATS, 1, "      %r = sin(%a)\n      return %m, %r\n", NULL},
    {FLOATS, 1, "      %r = sin(%a)\n" HOOK("%r", "%a") "      return %m, %r\n", NULL},
    {TWO, 1, "      %r = add(%a, %b)\n      return %m, %r\n", NULL},
    {TWO, 1, "      %r = sub(%b, %a)\n      return %m, %r\n", NULL},
    {TWO | ODD, 1, "      %r = clone(%b)\n      return %m, %r\n", NULL},
    {TWO | ODD, 1, "      return %m, %b\n", NULL},
    {0, 1, "      return %m, %a\n", NULL},
    {0, 1,
     "      %v = reshape(%a, [-1])\n      %w = mul(%v, 2)\n      %r = reshape(%w, S)\n"
     "      return %m, %r\n",
     NULL},
    {0, 1, "      %c = clone(%a)\n      mul_(%c, 2)\n      return %m, %c\n", NULL},
    {FLOATS | ODD, 1,
     "      %d = detach(%a)\n      %r = mul(%d, 2.0)\n      return %m, %r\n", NULL},
    {FLOATS, 1, SQUARE("%a") "      return %m, %z\n", NULL},
    {FLOATS, 1, "      %r = mul(%a, 0.5)\n" TWICE("%r") "      return %m, %z\n", NULL},
    {OWN, 1, "      mul_(%a, 2)\n      return %m, %a\n", NULL},
    {FLOATS | OWN, 1,
     "      %k = rand_like(%a)\n      %r = mul(%a, %k)\n      return %m, %r\n", NULL},
    {FLOATS | TWO | OWN, 1,
     "      %l = mul(%b, %a)\n      %r = dropout(%l, 0.5, true)\n      %q = sin(%r)\n"
     "      return %m, %q\n",
     NULL},
    {TWO, 1,
     "      %s = eq(%n, 1)\n      %t = cond(%s, func @in(%c: T, %d: T) {\n"
     "        %k = mul(%c, %d)\n        return %k\n"
     "      }, func @out(%c: T, %d: T) {\n        %k = sub(%c, %d)\n        return %k\n"
     "      }, [%a, %b])\n      return %m, %t\n",
     NULL},
    {FLOATS | NOTES, 1,
     "      fz_mark(%a, 11)\n      %q = sin(%a)\n      %r = fz_same(%q, 12)\n"
     "      return %m, %r\n",
     NULL},
    {FLOATS | TWO | NOTES, 1,
     "      %q = fz_note(%b, 13)\n      %r = mul(%a, %b)\n      return %m, %r\n", NULL},
    {NOTES, 1, "      %r = fz_note(%a, 14)\n      return %m, %r\n", NULL},
    /* states that read each other */
    {TWO | STATES | MIXED, 2, "      %r = add(%a, %b)\n      return %m, %r, %a\n",
     NULL},
    {TWO | STATES | MIXED | FLOATS, 2,
     "      %r = sin(%b)\n      %q = mul(%a, 0.5)\n      %p = sub(%q, %b)\n"
     "      return %m, %p, %r\n",
     NULL},
    {TWO | STATES | MIXED, 2,
     "      %r = sub(%a, %b)\n      %q = add(%a, %b)\n      return %m, %r, %q\n", NULL},
    {TWO | STATES | ODD, 2, "      return %m, %b, %a\n", NULL},
    {TWO | STATES, 2, "      %r = sub(%a, %b)\n      return %m, %r, %b\n", NULL},
    {TWO | STATES | OWN, 2,
     "      add_(%b, %a)\n      %c = clone(%b)\n      mul_(%a, 2)\n"
     "      return %m, %c, %a\n",
     NULL},
};

/* ---- text --------------------------------------------------------------- */

/* One statement. */
typedef struct statement {
    const form *of;
    prog_val    x, y, pred; /* of a loop pred is its counter at the start */
    bool        closes;     /* the branches close over y */
    int         turns;
} statement;

/* `%a: f32[2] grad, %b: f32[2]` */
static void print_operands(td_buf *b, const statement *s) {
    prog_fill_in(b, td_requires_grad(s->x.t) ? "%a: T grad" : "%a: T", s->x.t);
    if (!(s->of->flags & TWO)) return;
    prog_fill_in(b, td_requires_grad(s->y.t) ? ", %b: T grad" : ", %b: T", s->x.t);
}

static void print_branch(td_buf *b, const statement *s, const char *name,
                         const char *body) {
    td__buf_printf(b, "func @%s(", name);
    print_operands(b, s);
    td__buf_add(b, s->closes ? " <const>) {\n" : ") {\n");
    prog_fill_in(b, body, s->x.t);
    td__buf_add(b, "    }");
}

static void print_cond(td_buf *b, const statement *s) {
    td__buf_printf(b, "cond(%s, ", s->pred.name);
    print_branch(b, s, "yes", s->of->yes);
    td__buf_add(b, ", ");
    print_branch(b, s, "no", s->of->no);
    td__buf_printf(b, ", [%s", s->x.name);
    if (s->of->flags & TWO) td__buf_printf(b, ", %s", s->y.name);
    td__buf_add(b, "])\n");
}

static void print_loop(td_buf *b, const statement *s) {
    bool        two = s->of->flags & TWO, states = s->of->flags & STATES;
    const char *y = two ? s->y.name : "";
    td__buf_add(b, "while_loop(func @test(%n: i64[], ");
    print_operands(b, s);
    td__buf_printf(b, ") {\n      %%t = lt(%%n, %d)\n      return %%t\n    }, ",
                   s->turns);
    td__buf_add(b, "func @body(%n: i64[], ");
    print_operands(b, s);
    td__buf_add(b, ") {\n      %m = add(%n, 1)\n");
    prog_fill_in(b, s->of->yes, s->x.t);
    td__buf_printf(b, "    }, [%s, %s%s%s], [%s])\n", s->pred.name, s->x.name,
                   states ? ", " : "", states ? y : "", states ? "" : y);
}

static void print_statement(td_buf *b, const statement *s) {
    if (s->of->no) print_cond(b, s);
    else print_loop(b, s);
}

/* Results: a loop also gives the counter. */
static int count_results(const statement *s) {
    return s->of->no ? s->of->n_out : s->of->n_out + 1;
}

/* Runs the statement on the tensors themselves; false: it fails. */
static bool run_statement(prog_world *w, const statement *s, td_value *out) {
    td_buf                   b = {0};
    bool                     two = strcmp(s->x.name, s->y.name) != 0;
    static const char *const lists[] = {"", "%r0", "%r0, %r1", "%r0, %r1, %r2"};
    const char              *r = lists[count_results(s)];
    td__buf_printf(&b, "func @t(%s, %s%s%s) {\n  %s = ", s->pred.name, s->x.name,
                   two ? ", " : "", two ? s->y.name : "", r);
    print_statement(&b, s);
    td__buf_printf(&b, "  return %s\n}\n", r);
    td_gfile *file = td__gfile_parse(w->cx, td__buf_str(&b), b.n, "branch.td");
    td_value  in[3] = {td_value_tensor(s->pred.t), td_value_tensor(s->x.t),
                       td_value_tensor(s->y.t)};
    bool      ok = file && (w->control ? case_replay_control(file->graphs.v[0], in, out)
                                       : td__graph_replay(file->graphs.v[0], in, out));
    td__gfile_drop(file);
    td__buf_free(&b);
    return ok;
}

/* ---- operands ----------------------------------------------------------- */

static const prog_val *some_number(prog_world *w, bool floats) {
    for (int tries = 0; tries < 8 && w->vals.n; tries++) {
        const prog_val *v = &w->vals.v[prog_upto(&w->r, w->vals.n)];
        td_dtype        dt = (td_dtype)v->t->dtype;
        if (w->typed && !v->t->typed) continue;
        if (dt != TD_BOOL && (td__is_float(dt) || !floats) && v->t->numel) return v;
    }
    return NULL;
}

static void name_value(prog_world *w, prog_val *v, td_tensor *t) {
    v->t = t;
    snprintf(v->name, sizeof v->name, "%%%c%d", w->letter, w->n_names++);
}

/* A value to compare for the predicate: integers, or an argument, whose elements are
 * the same in every way of running the program. Fresh integers where there are none. */
static prog_val some_evidence(prog_world *w, td_buf *text) {
    int64_t two[] = {2};
    for (int tries = 0; tries < 12 && w->vals.n; tries++) {
        const prog_val *v = &w->vals.v[prog_upto(&w->r, w->vals.n)];
        bool            arg = v->name[1] == 'p' && td_version(v->t) == 0;
        if (v->t->typed) continue; /* and so would be the predicate */
        if (v->t->numel && (arg || !td__is_float((td_dtype)v->t->dtype))) return *v;
    }
    prog_val v;
    v.t = prog_fresh(w, text, TD_I64, 1, two, v.name);
    return v;
}

/* `%v1 = gt(%x, 0)`, `%v2 = sum(%v1)`: nonzero where an element is positive. Or the sum
 * is compared with 2; or a flag itself, where it has one element. */
static prog_val make_predicate(prog_world *w, td_buf *text) {
    prog_val of = some_evidence(w, text), c = {0}, s = {0}, p = {0};
    if (td_is_nil(of.t) || (of.t->dtype == TD_BOOL && of.t->numel == 1)) return of;
    name_value(w, &c, td_gt(of.t, 0.0));
    name_value(w, &s, td_op_sum(c.t, (td_ints){NULL, 0}, false, TD_DTYPE_NONE));
    prog_indent(text, w);
    td__buf_printf(text, "%s = gt(%s, 0.0)\n", c.name, of.name);
    prog_indent(text, w);
    td__buf_printf(text, "%s = sum(%s)\n", s.name, c.name);
    if (prog_chance(&w->r, 30)) return s;
    name_value(w, &p, td_lt(s.t, 2.0));
    prog_indent(text, w);
    td__buf_printf(text, "%s = lt(%s, 2.0)\n", p.name, s.name);
    return p;
}

/* The counter of a loop: 0. */
static prog_val make_counter(prog_world *w, td_buf *text) {
    prog_val n;
    name_value(w, &n, td_op_full(w->cx, (td_ints){NULL, 0}, td_value_int(0), TD_I64));
    prog_indent(text, w);
    td__buf_printf(text, "%s = full([], 0, i64)\n", n.name);
    return n;
}

static bool is_dense(td_tensor *t) { return td__is_dense_inside(t); }

static bool is_finite(td_tensor *t) { return td_item(td_all(td_isfinite(t))) != 0; }

static bool choose(prog_world *w, statement *s, td_buf *text) {
    bool            loop = prog_chance(&w->r, 30);
    const form     *f = loop ? &loops[prog_upto(&w->r, TD_COUNT(loops))]
                             : &branches[prog_upto(&w->r, TD_COUNT(branches))];
    const prog_val *x = some_number(w, f->flags & FLOATS);
    if (!x || f->flags & (w->control ? ODD : OWN)) return false;
    if (f->flags & NOTES && (!(prog_with & PROG_USER) || prog_public)) return false;
    /* whether the gradient of a branch or loop requires grad is not known to compiled
     * code, nor to the op while_loop eagerly (docs/beyond.md) */
    if (prog_with & PROG_GRADS && (!loop || !w->control)) return false;
    const prog_val *y = f->flags & TWO ? prog_one_like(w, x) : x;
    /* the branches of an op must agree in strides, and td_while makes states dense */
    if (!w->control && !(is_dense(x->t) && is_dense(y->t))) return false;
    /* history would depend on the branch that runs; and both have one type in text */
    bool mixed = td_requires_grad(x->t) != td_requires_grad(y->t);
    if (mixed && !(f->flags & MIXED && w->control)) return false;
    *s = (statement){.of = f, .x = *x, .y = *y, .turns = prog_upto(&w->r, 4)};
    /* a state that no gradient reaches has zeros, which poles make NaN (beyond.md) */
    if (f->flags & STATES && !(is_finite(x->t) && is_finite(y->t))) return false;
    if (f->flags & STATES && s->turns < 2) s->turns = 2;
    /* compiled code gives y a gradient also if no iteration reads it */
    if (loop && w->control && f->flags & TWO && !s->turns) s->turns = 1;
    /* compiled code contains the body, which may change the type of a state */
    if (loop && (x->t->typed || y->t->typed) && !s->turns) s->turns = 1;
    s->closes = !loop && f->flags & TWO && w->control && prog_chance(&w->r, 40);
    s->pred = loop ? make_counter(w, text) : make_predicate(w, text);
    return !td_is_nil(s->pred.t);
}

/* Does the other branch give results of the same types? It runs on copies. */
static bool branches_agree(prog_world *w, const statement *s, const td_value *out) {
    statement o = *s;
    td_value  other[3] = {TD_NONE, TD_NONE, TD_NONE};
    uint64_t  seed = td_rng_seed(w->cx), offset = td_rng_offset(w->cx);
    if (!s->of->no || !(s->x.t->typed || s->y.t->typed)) return true;
    o.pred.t = td_eq(s->pred.t, 0.0);
    o.x.t = td_clone(s->x.t);
    o.y.t = s->y.t == s->x.t ? o.x.t : td_clone(s->y.t);
    bool ok = run_statement(w, &o, other);
    td_rng_set(w->cx, seed, offset);
    for (int i = 0; ok && i < count_results(s); i++)
        ok = td__typed_same_inside(out[i].u.t->typed, other[i].u.t->typed);
    return ok;
}

bool prog_branch(prog_world *w) {
    statement s;
    td_buf    text = {0};
    td_value  out[3] = {TD_NONE, TD_NONE, TD_NONE};
    bool      ok =
        choose(w, &s, &text) && run_statement(w, &s, out) && branches_agree(w, &s, out);
    if (ok) {
        td__buf_add(&w->text, td__buf_str(&text));
        td__vec_push(&w->vals, s.pred);
        prog_indent(&w->text, w);
        for (int i = 0; i < count_results(&s); i++) {
            prog_val v = {0};
            name_value(w, &v, out[i].u.t);
            td__buf_printf(&w->text, i ? ", %s" : "%s", v.name);
            td__vec_push(&w->vals, v);
        }
        td__buf_add(&w->text, " = ");
        print_statement(&w->text, &s);
    }
    td_clear(w->cx);
    td__buf_free(&text);
    return ok;
}
