/* guard_program.c -- guards compiled to straight-line code over the inputs' sizes,
 * and its interpreter, which runs before a call. Each common subexpression is
 * computed once. An overflow or a division by zero fails the guard that needs
 * the value: no trace was made for such sizes. */
#include "core/typed.h"
#include "trace/sym.h"

#include <string.h>

/* Opcodes from CHECK on compare (CHECK + td_dim_rel). Registers are 16 bits; up to
 * FEW_REGS of them are on the stack. */
enum { CHECK = TD_DIM_MAX + 1, MOST_REGS = 60000, FEW_REGS = 192 };

/* State of a compilation. Registers are numbered loads, constants, steps, so loads and
 * constants are collected before the first step is added. */
typedef struct builder {
    td_symenv     *e;
    td_guard_prog *p;
    int32_t       *reg;  /* by expression: 1 + its register; 0: none yet */
    int32_t       *load; /* by symbol: its register */
    bool           fits; /* false: out of memory or of registers */
} builder;

/* ---- compiling ---------------------------------------------------------- */

/* The register of a constant, new or existing. */
static int const_reg(builder *b, int64_t v) {
    td_guard_prog *p = b->p;
    for (int i = 0; i < p->consts.n; i++)
        if (p->consts.v[i] == v) return p->loads.n + i;
    if (!td__vec_push(&p->consts, v)) return b->fits = false, 0;
    return p->loads.n + p->consts.n - 1;
}

/* Registers the constants of an expression. */
static void gather(builder *b, int64_t dim) {
    const td_symexpr *x = td__sym_at(b->e, dim);
    if (!x) {
        const_reg(b, dim);
        return;
    }
    if (x->kind == TD_SYM_SYMBOL) return;
    if (x->kind != TD_SYM_SUM) {
        gather(b, x->a);
        gather(b, x->b);
        return;
    }
    if (x->a) const_reg(b, x->a);
    for (int i = 0; i < x->nr; i++) {
        if (x->term[i].k != 1) const_reg(b, x->term[i].k);
        for (int k = 0; k < x->term[i].n; k++)
            gather(b, td__sym_tag(x->term[i].atom[k]));
    }
}

/* Adds r[new] = r[x] op r[y]; returns the new register. */
static int add_step(builder *b, int op, int x, int y) {
    td_guard_prog *p = b->p;
    td_guard_step  s = {(uint8_t)op, (uint16_t)p->n_regs, (uint16_t)x, (uint16_t)y};
    if (p->n_regs >= MOST_REGS || !td__vec_push(&p->steps, s))
        return b->fits = false, 0;
    return p->n_regs++;
}

static int reg_of(builder *b, int64_t dim);

/* Code for a sum. */
static int sum_reg(builder *b, td_symexpr x) {
    int sum = -1;
    for (int i = 0; i < x.nr; i++) {
        int v = reg_of(b, td__sym_tag(x.term[i].atom[0]));
        for (int k = 1; k < x.term[i].n; k++)
            v = add_step(b, TD_DIM_MUL, v, reg_of(b, td__sym_tag(x.term[i].atom[k])));
        if (x.term[i].k != 1) v = add_step(b, TD_DIM_MUL, v, const_reg(b, x.term[i].k));
        sum = sum < 0 ? v : add_step(b, TD_DIM_ADD, sum, v);
    }
    return x.a ? add_step(b, TD_DIM_ADD, sum, const_reg(b, x.a)) : sum;
}

/* The register of an expression; its code is added on first use. */
static int reg_of(builder *b, int64_t dim) {
    static const td_dim_op ops[] = {TD_DIM_EQ,  TD_DIM_ADD, TD_DIM_DIV,
                                    TD_DIM_MOD, TD_DIM_MIN, TD_DIM_MAX};
    const td_symexpr      *x = td__sym_at(b->e, dim);
    if (!x) return const_reg(b, dim);
    if (x->kind == TD_SYM_SYMBOL) return b->load[x->nr];
    int32_t *memo = &b->reg[td__sym_index(dim)];
    if (*memo) return *memo - 1;
    int r = x->kind == TD_SYM_SUM
                ? sum_reg(b, *x)
                : add_step(b, (int)ops[x->kind], reg_of(b, x->a), reg_of(b, x->b));
    *memo = r + 1;
    return r;
}

/* Adds a comparison, and its text for messages. */
static void add_check(builder *b, const td_guard *g) {
    td_guard_prog *p = b->p;
    td_guard_step  s = {(uint8_t)(CHECK + g->rel), (uint16_t)p->checks.n,
                        (uint16_t)reg_of(b, g->a), (uint16_t)reg_of(b, g->b)};
    b->fits = b->fits && p->checks.n < MOST_REGS && td__vec_push(&p->steps, s) &&
              td__guard_line_add(b->e, g, &p->checks);
}

/* The guards a symbol was created with. which 0: equals a given expression; 1:
 * lower bound; 2: upper bound. False: this one does not exist. */
static bool symbol_guard(const td_symbol *s, int which, td_guard *g) {
    bool given = s->given != s->tag;
    *g = (td_guard){.a = s->tag, .b = s->given};
    if (which == 0) return given;
    if (given) return false;
    bool low = which == 1;
    g->rel = low ? TD_DIM_IS_GE : TD_DIM_IS_LT;
    g->b = low ? s->first.lo : s->first.hi + 1;
    return low ? s->first.lo > -TD_DIM_HUGE : s->first.hi < TD_DIM_HUGE;
}

/* Calls fn for each guard that is checked before a call. */
static void each_guard(builder *b, void (*fn)(builder *b, const td_guard *g)) {
    const td_symenv *e = b->e;
    td_guard         g;
    for (int i = 0; i < e->symbols.n; i++)
        for (int k = 0; k < 3 && e->symbols.v[i].read != TD_SYM_INSIDE; k++)
            if (symbol_guard(&e->symbols.v[i], k, &g)) fn(b, &g);
    for (int i = 0; i < e->guards.n; i++)
        if (!e->guards.v[i].runtime) fn(b, &e->guards.v[i]);
}

static void gather_guard(builder *b, const td_guard *g) {
    gather(b, g->a);
    gather(b, g->b);
}

/* One register per symbol that is a size, stride or offset of an argument. Symbols that
 * appear inside (data-dependent) have none. */
static void add_loads(builder *b) {
    for (int i = 0; i < b->e->symbols.n; i++) {
        const td_symbol *s = &b->e->symbols.v[i];
        td_guard_load    l = {s->read, s->arg, s->dim, s->part};
        if (s->read == TD_SYM_INSIDE) continue;
        b->load[i] = b->p->loads.n;
        b->fits = b->fits && td__vec_push(&b->p->loads, l);
    }
}

/* Turns guards into a program over registers: loads of sizes, constants, then
 * arithmetic and comparisons. Without recursion or allocation, so that checking guards
 * at each call is cheap. */
td_guard_prog *td__guards_compile(td_symenv *e) {
    builder b = {.e = e, .fits = true};
    b.p = td__zalloc(sizeof *b.p);
    b.reg = td__zalloc(sizeof *b.reg * (size_t)(e->exprs.n + 1));
    b.load = td__zalloc(sizeof *b.load * (size_t)(e->symbols.n + 1));
    bool ok = b.p && b.reg && b.load;
    if (ok) {
        add_loads(&b);
        each_guard(&b, gather_guard);
        b.p->n_regs = b.p->loads.n + b.p->consts.n;
        each_guard(&b, add_check);
        ok = td__guard_lines_of(e, &b.p->all);
    }
    td__free(b.reg);
    td__free(b.load);
    if (ok && b.fits) return b.p;
    td__guards_drop(b.p);
    return td__fail_memory(e->cx), NULL;
}

void td__guards_drop(td_guard_prog *p) {
    if (!p) return;
    td__vec_free(&p->loads);
    td__vec_free(&p->consts);
    td__vec_free(&p->steps);
    td__guard_lines_free(&p->checks);
    td__guard_lines_free(&p->all);
    td__free(p);
}

/* ---- running ------------------------------------------------------------ */

/* One operation; false: overflow or division by zero. */
static bool step_value(uint8_t op, int64_t a, int64_t b, int64_t *r) {
    switch ((td_dim_op)op) {
    case TD_DIM_ADD: return !__builtin_add_overflow(a, b, r);
    case TD_DIM_MUL: return !__builtin_mul_overflow(a, b, r);
    case TD_DIM_DIV:
        if (b <= 0) return false;
        *r = a / b - (a % b < 0);
        return true;
    case TD_DIM_MOD:
        if (b <= 0) return false;
        *r = a % b + (a % b < 0 ? b : 0);
        return true;
    case TD_DIM_MIN: return *r = a < b ? a : b, true;
    default: return *r = a > b ? a : b, true;
    }
}

/* The guard that needed the value of step i: steps stand right before the first
 * guard that uses them, so it is the next check. */
static int failing(const td_guard_prog *p, int i) {
    while (p->steps.v[i].op < CHECK) i++;
    return p->steps.v[i].to;
}

/* Interprets the program on registers r[]; -1, or the guard that failed. */
static int run(const td_guard_prog *p, int64_t *r) {
    const td_guard_step *s = p->steps.v;
    for (int i = 0; i < p->steps.n; i++) {
        int64_t a = r[s[i].a], b = r[s[i].b];
        if (s[i].op >= CHECK) {
            if (!td__dim_rel_holds((td_dim_rel)(s[i].op - CHECK), a, b)) return s[i].to;
        } else if (!step_value(s[i].op, a, b, &r[s[i].to])) return failing(p, i);
    }
    return -1;
}

/* Reads a size, stride, offset or integer from the inputs. */
static int64_t loaded(const td_guard_load *l, const td_value *in) {
    const td_value *v = &in[l->arg];
    if (l->read == TD_SYM_INT) return v->u.i;
    const td_tensor *t = td__typed_part(v->u.t, l->part);
    if (l->read == TD_SYM_OFFSET) return t->offset;
    return l->read == TD_SYM_SIZE ? t->size[l->dim] : t->stride[l->dim];
}

/* Sets up the registers and runs. More than FEW_REGS come from the heap; out of
 * memory counts as guard 0 failing. */
static int with_regs(const td_guard_prog *p, const td_value *in,
                     const int64_t *values) {
    int64_t few[FEW_REGS], *r = few;
    size_t  consts = sizeof *r * (size_t)p->consts.n;
    if (p->n_regs > FEW_REGS && !(r = td__alloc(sizeof *r * (size_t)p->n_regs)))
        return 0;
    for (int i = 0; i < p->loads.n; i++)
        r[i] = values ? values[i] : loaded(&p->loads.v[i], in);
    if (consts) memcpy(r + p->loads.n, p->consts.v, consts);
    int failed = run(p, r);
    if (r != few) td__free(r);
    return failed;
}

int td__guards_run(const td_guard_prog *p, const td_value *in) {
    return with_regs(p, in, NULL);
}

int td__guards_run_loaded(const td_guard_prog *p, const int64_t *values) {
    return with_regs(p, NULL, values);
}

bool td__guards_hold(const td_guard_prog *p, const td_graph *g, const td_value *in) {
    int    failed = td__guards_run(p, in);
    td_buf text = {0};
    if (failed < 0) return true;
    td__guard_line_print(&p->checks.v[failed], &text);
    td__fail(g->cx, TD_E_GUARD,
             "@%.60s: the guard %s does not hold for these arguments; capture the "
             "function for them",
             g->name, td__buf_str(&text));
    td__buf_free(&text);
    return false;
}
