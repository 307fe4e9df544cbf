/* prog_grow.c -- statements of a program: an op is chosen from the table, gets
 * arguments, and is called on the tensors there are; what the shape rules refuse is
 * tried again, and what works is written down. */
#include "prog.h"

#include "core/typed.h"

#include "ops/rules_gen.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

int64_t  prog_calls[TD_OP_LIMIT];
bool     prog_public;
unsigned prog_with;

/* ---- which op ----------------------------------------------------------- */

typedef enum family { ANY_OP, VIEWS, WRITERS, METAS, RANDOMS, MASKS } family;

/* What only the plan of a compiled call has. */
static bool is_step(td_op op) {
    static const td_op steps[] = {TD_OP__made, TD_OP__assign, TD_OP__bump, TD_OP__touch,
                                  TD_OP__give, TD_OP__bind,   TD_OP__put,  TD_OP__put_};
    for (int i = 0; i < TD_COUNT(steps); i++)
        if (steps[i] == op) return true;
    return false;
}

/* Puts a changed view back: only the functional mode calls it. */
static bool is_inverse(td_op op) {
    for (int i = 0; i < TD_OP_COUNT; i++)
        if (td__row(i)->inverse && !strcmp(td__row(i)->inverse, td__row(op)->name))
            return (td__row(op)->flags & TD_OPF_INTERNAL) != 0;
    return false;
}

/* Do users not call it? They do call ops of the tape: requires_grad_ and detach_. */
static bool is_hidden(td_op op) {
    const td_opdef *d = td__row(op);
    return d->flags & TD_OPF_INTERNAL && !(d->flags & TD_OPF_TAPE);
}

/* Graphs are no arguments we could make, bytes taken over are gone for others, and
 * handles of stores are only in halves. */
static bool is_left_out(td_op op) {
    if (prog_public && is_hidden(op)) return true;
    if (is_step(op)) return true;
    return td__row(op)->flags &
               (TD_OPF_NESTS | TD_OPF_SHARE | TD_OPF_HOLDS | TD_OPF_TYPED) ||
           is_inverse(op);
}

bool prog_gives_unset(td_op op) { return td__row(op)->cpu == td__kern_empty; }

/* Has it a mask or indices, or results whose sizes depend on values? */
static bool takes_mask(td_op op) {
    const td_schema *s = &td__opinfo(op)->s;
    bool             any = td__row(op)->flags & TD_OPF_DYNAMIC;
    for (int i = 0; i < s->n_in; i++)
        any |= !strcmp(s->in[i].name, "mask") || !strcmp(s->in[i].name, "condition") ||
               !strcmp(s->in[i].name, "indices");
    return any;
}

static bool is_of(td_op op, family f) {
    const td_opinfo *i = td__opinfo(op);
    uint64_t         flags = td__row(op)->flags;
    bool             alias = i->s.n_out > 0 && i->s.out[0].alias && !i->writes;
    switch (f) {
    case ANY_OP: return true;
    case VIEWS: return alias;
    case WRITERS: return i->writes && !(flags & TD_OPF_META);
    case METAS: return (flags & TD_OPF_META) != 0;
    case RANDOMS: return td__op_draws(op);
    case MASKS: return takes_mask(op);
    }
    return false;
}

static td_op some_op(prog_world *w, const prog_taste *t) {
    int    p = prog_upto(&w->r, 100);
    family f = ANY_OP;
    if ((p -= t->views) < 0) f = VIEWS;
    else if ((p -= t->writers) < 0) f = WRITERS;
    else if ((p -= t->metas) < 0) f = METAS;
    else if ((p -= t->randoms) < 0) f = RANDOMS;
    else if (prog_with & PROG_MASKS && (p -= 10) < 0) f = MASKS;
    if (prog_with & PROG_USER && !prog_public && prog_chance(&w->r, 8))
        return prog_user_op(w);
    for (int tries = 0; tries < 10000; tries++) {
        td_op op = (td_op)prog_upto(&w->r, TD_OP_COUNT);
        bool  rare =
            f != MASKS && td__row(op)->flags & TD_OPF_DYNAMIC && prog_chance(&w->r, 90);
        if (is_of(op, f) && !is_left_out(op) && !rare) return op;
    }
    return TD_OP_add;
}

/* ---- calling ------------------------------------------------------------ */

enum { MOST_RESULTS = 16 };

static bool gives_list(const td_schema *s) {
    return s->n_out == 1 && s->out[0].type == TD_T_TENSORS;
}

/* Do the sizes of an argument depend on values? */
static bool takes_by_values(const prog_call *c) {
    for (int k = 0; k < c->w->vals.n; k++) {
        const prog_val *v = &c->w->vals.v[k];
        for (int i = 0; i < c->n && v->by_values; i++)
            if (c->in[i].kind == TD_K_TENSOR && c->in[i].u.t == v->t) return true;
    }
    return false;
}

/* How many results; -1 after a failure, which the context still holds. */
static int call(prog_call *c, td_tensor **out) {
    td_ctx          *cx = c->w->cx;
    const td_schema *s = &c->info->s;
    td_dim_list      sizes = {0}, *was = cx->sizes_seen;
    int              n;
    cx->sizes_seen = &sizes;
    if (gives_list(s)) n = td__call_list(cx, c->op, c->in, c->n, out, MOST_RESULTS);
    else n = td__call(cx, c->op, c->in, c->n, out, s->n_out) ? s->n_out : -1;
    cx->sizes_seen = was;
    c->by_values = sizes.n > 0 || takes_by_values(c);
    td__vec_free(&sizes);
    return n;
}

static bool are_small(td_tensor **out, int n) {
    for (int i = 0; i < n; i++)
        if (out[i]->numel > PROG_NUMEL || out[i]->rank > 5) return false;
    return true;
}

static bool has_nan(const td_tensor *t) {
    int64_t at[TD_MAX_RANK] = {0}, k = 0;
    bool    read = td__is_float((td_dtype)t->dtype) && !t->typed;
    for (int i = 0; t->typed && i < t->typed->n; i++)
        if (has_nan(t->typed->inner[i])) return true;
    for (int64_t i = 0; read && i < t->numel; i++) {
        const char *e = td__ptr(t) + k * (int64_t)td__dtype_bytes[t->dtype];
        if (isnan(td__load_f((td_dtype)t->dtype, e))) return true;
        for (int d = t->rank - 1; d >= 0; d--) {
            k += t->stride[d];
            if (++at[d] < t->size[d]) break;
            k -= t->stride[d] * at[d];
            at[d] = 0;
        }
    }
    return false;
}

/* Which of two NaNs comes out is nobody's promise: their bits are not to be read as
 * numbers, nor numbers as NaNs. */
static bool reads_nan(const prog_call *c, td_tensor **out) {
    return c->op == TD_OP_view_dtype && (has_nan(c->self) || has_nan(out[0]));
}

/* A scatter keeps the strides of self; bytes in the gaps between elements are not set,
 * and as_strided could read them. */
static bool leaves_gaps(const prog_call *c, td_tensor **out) {
    bool keeps = c->op == TD_OP_slice_scatter || c->op == TD_OP_select_scatter ||
                 c->op == TD_OP_diagonal_scatter;
    return keeps && !td__is_packed(out[0]->rank, out[0]->size, out[0]->stride);
}

/* Nor is the sign of a NaN a promise, nor what a bool is with other bytes than 0 and 1,
 * which a view of it as numbers could write. */
static bool reads_bits(const prog_call *c) {
    td_op pure = c->info->pure < TD_OP_COUNT ? c->info->pure : c->op;
    if (pure == TD_OP_copysign && c->in[1].kind == TD_K_TENSOR)
        return has_nan(c->in[1].u.t);
    return c->op == TD_OP_view_dtype && c->self->dtype == TD_BOOL;
}

/* Integers written into the bits of floats make them so small or large that gradients
 * are the noise of sums. */
static bool writes_bits(const prog_call *c) {
    if (!c->info->writes || !c->self || td__is_float((td_dtype)c->self->dtype))
        return false;
    for (int i = 0; i < c->w->vals.n; i++) {
        const td_tensor *t = c->w->vals.v[i].t;
        if (t->st == c->self->st && td_requires_grad(t)) return true;
    }
    return false;
}

static void take(prog_world *w, td_tensor *t, const char *name, bool by_values) {
    prog_val v = {.t = t, .by_values = by_values && t->rank > 0};
    snprintf(v.name, sizeof v.name, "%s", name);
    td__vec_push(&w->vals, v);
}

static void add_fresh(prog_call *c) {
    td__buf_add(&c->w->text, td__buf_str(&c->before));
    for (int i = 0; i < c->fresh.n; i++)
        take(c->w, c->fresh.v[i].t, c->fresh.v[i].name, false);
}

/* What a checkpoint region asks for its results; 0: there is none. */
static const char *const wishes[] = {"", " prefer_recompute", " must_recompute",
                                     " prefer_save", " must_save"};

/* Begins or ends a checkpoint region now and then. */
static void checkpoint_region(prog_world *w) {
    if (w->is_case || !(prog_with & PROG_CHECKPOINT)) return;
    if (w->wish && prog_chance(&w->r, 40)) w->wish = 0;
    else if (!w->wish && prog_chance(&w->r, 20)) {
        w->wish = prog_chance(&w->r, 50) ? 1 : prog_range(&w->r, 1, 4);
        w->regions++;
    }
}

void prog_add_policy(td_buf *b, const prog_world *w) {
    td__buf_add(b, wishes[w->wish]);
    if (w->wish) td__buf_printf(b, " %d", w->regions);
    td__buf_add(b, "\n");
}

/* `%v3 = op(...)`, `%v3, %v4 = op(...)` or, for a writer, often without results. */
static void write_down(prog_call *c, td_tensor **out, int n) {
    prog_world      *w = c->w;
    const td_schema *s = &c->info->s;
    bool             list = gives_list(s), named = n > 0;
    char             name[PROG_NAME], entry[PROG_NAME + 8];
    add_fresh(c);
    prog_indent(&w->text, w);
    if (c->info->writes && s->n_out == 1 && prog_chance(&w->r, 70)) named = false;
    for (int i = 0; named && i < (list ? 1 : n); i++) {
        snprintf(name, sizeof name, "%%%c%d", w->letter, w->n_names++);
        td__buf_printf(&w->text, i ? ", %s" : list ? "%s..." : "%s", name);
        if (!list) take(w, out[i], name, c->by_values);
    }
    for (int i = 0; named && list && i < n; i++) {
        snprintf(entry, sizeof entry, "%.15s.%d", name, i);
        take(w, out[i], entry, c->by_values);
    }
    td__buf_printf(&w->text, "%s%s(%s)", named ? " = " : "", td__row(c->op)->name,
                   td__buf_str(&c->text));
    prog_add_policy(&w->text, w);
    if (prog_gives_unset(c->op)) {
        prog_indent(&w->text, w);
        td__buf_printf(&w->text, "zero_(%s)\n", name);
        td_op_zero_(out[0]);
    }
}

static void call_end(prog_call *c) {
    td__buf_free(&c->text);
    td__buf_free(&c->before);
    td__vec_free(&c->fresh);
}

/* What a case draws would move its generator; what it makes is drawn by seeds. */
static bool may_stand(const prog_world *w, td_op op) {
    return !(w->is_case && td__op_draws(op));
}

static const prog_call *trying; /* NULL: none */

void prog_unfinished_call(void (*say)(const char *text, size_t n)) {
    if (!trying) return;
    const char *name = td__row(trying->op)->name;
    if (trying->before.n) say(trying->before.s, trying->before.n);
    say(name, strlen(name));
    say("(", 1);
    if (trying->text.n) say(trying->text.s, trying->text.n);
    say(")\n", 2);
}

typedef enum outcome { DONE, REFUSED, FAILED } outcome;

/* One try. A call that fails is kept, as text, when `fail` asks for that. */
static outcome try_call(prog_world *w, td_op op, bool fail) {
    prog_call  c = {.w = w, .op = op, .info = td__opinfo(op)};
    td_tensor *out[MOST_RESULTS];
    uint64_t   seed = td_rng_seed(w->cx), offset = td_rng_offset(w->cx);
    trying = &c;
    int n = prog_args(&c) && !writes_bits(&c) && !reads_bits(&c) ? call(&c, out) : -2;
    trying = NULL;
    bool fine = n >= 0 && are_small(out, n) && !reads_nan(&c, out) &&
                !(n && leaves_gaps(&c, out));
    outcome is = fine ? DONE : n == -1 ? FAILED : REFUSED;
    if (is == DONE && !fail) {
        write_down(&c, out, n);
        prog_calls[op]++;
    } else td_rng_set(w->cx, seed, offset);
    if (is == FAILED && fail) {
        add_fresh(&c);
        prog_indent(&w->text, w);
        td__buf_printf(&w->text, "%s(%s)\n", td__row(op)->name, td__buf_str(&c.text));
    }
    td_clear(w->cx);
    call_end(&c);
    return is;
}

/* ---- a weight that changes ------------------------------------------------ */

static bool is_weight(td_tensor *t) {
    return t->rank == 2 && t->dtype == TD_F32 && td_requires_grad(t) && td_is_leaf(t);
}

/* Writes `%v1 = OP(ARGS)` down, and its result. */
static void say_result(prog_world *w, td_tensor *t, const char *call) {
    char name[PROG_NAME];
    snprintf(name, sizeof name, "%%%c%d", w->letter, w->n_names++);
    prog_indent(&w->text, w);
    td__buf_printf(&w->text, "%s = %s\n", name, call);
    take(w, t, name, false);
}

/* A leaf that a product reads, that is written then, and read by a product again: under
 * autocast the second must cast it anew. */
static bool change_weight(prog_world *w) {
    char read[2 * PROG_NAME + 16];
    for (int tries = 0; tries < 8 && w->vals.n; tries++) {
        prog_val x = w->vals.v[prog_upto(&w->r, w->vals.n)];
        if (!is_weight(x.t) || x.t->numel == 0) continue;
        snprintf(read, sizeof read, "linear(%s, %s)", x.name, x.name);
        say_result(w, td_op_linear(x.t, x.t, NULL), read);
        prog_indent(&w->text, w);
        td__buf_printf(&w->text, "no_grad {\n    mul_(%s, 2)\n  }\n", x.name);
        td_grad_mode was = td_no_grad_begin(w->cx);
        td_op_mul_(x.t, td_value_int(2));
        td_no_grad_end(w->cx, was);
        say_result(w, td_op_linear(x.t, x.t, NULL), read);
        return true;
    }
    return false;
}

void prog_statement(prog_world *w, const prog_taste *taste) {
    checkpoint_region(w);
    if (prog_with & PROG_AUTOCAST && !w->is_case && prog_chance(&w->r, 10) &&
        change_weight(w))
        return;
    if (prog_with & PROG_CUSTOM && !w->is_case && prog_chance(&w->r, 12) &&
        prog_custom(w))
        return;
    if (prog_with & PROG_HOOKS && !w->is_case && prog_chance(&w->r, 15) && prog_hook(w))
        return;
    if (prog_with & PROG_BRANCHES && !w->is_case && prog_chance(&w->r, 20) &&
        prog_branch(w))
        return;
    if (prog_with & PROG_TYPES && !prog_public && !w->is_case &&
        prog_chance(&w->r, 20) && prog_typed_statement(w))
        return;
    if (prog_with & PROG_REGIONS && !w->is_case && prog_chance(&w->r, 35) &&
        prog_region(w))
        return;
    for (int ops = 0; ops < 12; ops++) {
        td_op op = some_op(w, taste);
        if (!may_stand(w, op)) continue;
        for (int tries = 0; tries < 6; tries++)
            if (try_call(w, op, false) == DONE) return;
    }
}

/* Only ops without effects: what is tried and works leaves no trace. */
bool prog_mistake(prog_world *w) {
    for (int tries = 0; tries < 30; tries++) {
        td_op op = (td_op)prog_upto(&w->r, TD_OP_COUNT);
        if (is_left_out(op) || td__opinfo(op)->writes || td__op_draws(op)) continue;
        if (try_call(w, op, true) == FAILED) return true;
    }
    return false;
}

/* ---- regions ------------------------------------------------------------ */

void prog_close_region(prog_world *w) {
    const td_region_modes *was = &w->modes[--w->depth];
    w->cx->grad_enabled = was->grad;
    w->cx->inference = was->inference;
    if (was->casts) td_autocast_end(w->cx, was->autocast);
    prog_indent(&w->text, w);
    td__buf_add(&w->text, "}\n");
}

void prog_open_region(prog_world *w, td_gregion r) {
    static const char *const words[TD_R_COUNT] = {"no_grad",       "enable_grad",
                                                  "inference",     "plain",
                                                  "autocast_bf16", "autocast_f16",
                                                  "autocast_off"};
    td_ctx                  *cx = w->cx;
    prog_indent(&w->text, w);
    td__buf_printf(&w->text, "%s {\n", words[r]);
    td_region_modes *now = &w->modes[w->depth++];
    *now = (td_region_modes){.grad = cx->grad_enabled, .inference = cx->inference};
    now->casts = !td__region_is_grad(r);
    if (r == TD_R_AUTOCAST_BF16) now->autocast = td_autocast_begin(cx, TD_BF16);
    if (r == TD_R_AUTOCAST_OFF) now->autocast = td_autocast_off_begin(cx);
    if (now->casts) return;
    if (r == TD_R_INFERENCE || r == TD_R_PLAIN) cx->inference = r == TD_R_INFERENCE;
    cx->grad_enabled = r == TD_R_ENABLE_GRAD || r == TD_R_PLAIN;
}

static td_gregion some_region(prog_world *w) {
    int        p = prog_upto(&w->r, 10);
    td_gregion r = p < 5 ? TD_R_NO_GRAD : p < 8 ? TD_R_ENABLE_GRAD : TD_R_INFERENCE;
    if (w->cx->inference && prog_chance(&w->r, 50)) r = TD_R_PLAIN;
    if (prog_with & PROG_AUTOCAST && !w->is_case && prog_chance(&w->r, 50))
        r = prog_chance(&w->r, 75) ? TD_R_AUTOCAST_BF16 : TD_R_AUTOCAST_OFF;
    return r;
}

void prog_regions(prog_world *w, bool close_all) {
    while (close_all && w->depth) prog_close_region(w);
    if (close_all) return;
    if (w->depth && prog_chance(&w->r, 35)) prog_close_region(w);
    else if (w->depth < 3 && prog_chance(&w->r, 8)) prog_open_region(w, some_region(w));
}

void prog_world_end(prog_world *w) {
    td__vec_free(&w->vals);
    td__buf_free(&w->text);
}
