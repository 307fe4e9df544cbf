/* trace/sym.h -- symbolic sizes: expressions over symbols, what is known of them, and
 * the guards under which a trace holds.
 *
 * A dim below TD_DIM_SYM_LIMIT is the tag of an expression of the environment that
 * the thread's dim hook serves (core/dim.h). Expressions are in one form: a sum of
 * products of atoms with integer factors, each made once, so equal sizes have equal
 * tags. An atom is a symbol, or a division, modulo, min or max that no rule resolves.
 * Every rule holds for all integers within the symbols' ranges. */
#ifndef TD_SYM_H
#define TD_SYM_H

#include "graph/graph.h"

/* ---- expressions (sym.c, sym_div.c) ------------------------------------- */

typedef enum td_symkind {
    TD_SYM_SYMBOL,
    TD_SYM_SUM, /* of terms and a constant */
    TD_SYM_DIV,
    TD_SYM_MOD,
    TD_SYM_MIN,
    TD_SYM_MAX
} td_symkind;

/* k * product of atoms; atoms are entries, ascending, a power is a repetition. */
typedef struct td_symterm {
    int64_t        k;
    int32_t        n;
    const int32_t *atom;
} td_symterm;

/* A sum while it is being built. Terms are in order and differ. */
typedef struct td_sympoly {
    td_symterm *t;
    int         n;
    int64_t     c;
} td_sympoly;

typedef struct td_symrange {
    int64_t lo, hi; /* -TD_DIM_HUGE, TD_DIM_HUGE: no bound known */
} td_symrange;

typedef struct td_symexpr {
    uint8_t           kind;     /* td_symkind */
    bool              unbacked; /* an unbacked symbol is in it: no hint */
    int16_t           depth;
    int32_t           nr;   /* SYMBOL: in symbols; SUM: how many terms */
    int64_t           a, b; /* operands of an atom; SUM: a is the constant */
    const td_symterm *term;
    int64_t           hint;
    uint32_t          now_at, range_at; /* generations the two below hold for */
    int64_t           now;              /* with what is known by then put in */
    td_symrange       range;
} td_symexpr;

/* ---- environments (sym_env.c, sym_know.c) ------------------------------- */

/* What a symbol is read from when a program is called. */
typedef enum td_symread {
    TD_SYM_SIZE,
    TD_SYM_STRIDE,
    TD_SYM_OFFSET,
    TD_SYM_INT,   /* an integer argument */
    TD_SYM_INSIDE /* unbacked: made by the program itself */
} td_symread;

typedef struct td_symbol {
    char        letter; /* s: backed by an input; u: unbacked */
    uint8_t     read;   /* td_symread */
    bool        size;   /* unbacked: is the size of something */
    bool        duck;   /* sizes that are equal now share it */
    int32_t     nr;     /* s3 */
    int32_t     arg, dim;
    const char *source; /* "x.size(0)" */
    int64_t     hint;
    td_symrange first; /* what it was made with */
    td_symrange range; /* what is known by now */
    int64_t     tag;
    int64_t     given; /* what it must be, a number or an expression; its tag: free */
    int64_t     is;    /* what it was found equal to; its tag: nothing */
} td_symbol;

typedef enum td_symrel { TD_SYM_EQ, TD_SYM_NE, TD_SYM_LT, TD_SYM_GE } td_symrel;

/* A comparison the trace depends on. */
typedef struct td_guard {
    uint8_t     rel;     /* td_symrel */
    bool        runtime; /* asserted while the program runs, not before */
    int64_t     a, b;
    td_where    here; /* of the op that asked; file may be NULL */
    const char *op;   /* NULL: none */
} td_guard;

/* What follows from guards and does not fit a symbol's range. */
typedef enum td_symfact_kind {
    TD_FACT_ZERO,     /* d == 0 */
    TD_FACT_NONZERO,  /* d != 0 */
    TD_FACT_LEAST,    /* d >= m */
    TD_FACT_MULTIPLE, /* d % m == 0, m a dim */
    TD_FACT_KINDS
} td_symfact_kind;
typedef struct td_symfact {
    int64_t d, m;
} td_symfact;

enum { TD_SYM_MEMO = 1024 };
typedef struct td_symmemo {
    int64_t  a, b, r;
    int32_t  op;  /* 1 + td_dim_op; 0: free */
    uint32_t gen; /* arithmetic: what was known */
} td_symmemo;

typedef struct td_symenv {
    td_mode  mode; /* first: hears which op is at work, for places */
    td_ctx  *cx;   /* errors go here */
    td_arena arena, scratch;
    TD_VEC(td_symexpr) exprs;
    int32_t *slots; /* hash table over exprs */
    int      n_slots;
    TD_VEC(td_symbol) symbols;
    TD_VEC(td_guard) guards;
    TD_VEC(td_symfact) facts[TD_FACT_KINDS];
    uint32_t    gen; /* grows with every fact */
    int         n_backed, n_unbacked;
    int         trying;   /* a proof is sought: what is too long is given up quietly */
    bool        assumed;  /* an answer was taken for the usual case, not proved */
    bool        in_facts; /* facts are being asked: resolving them asks no others */
    bool        may_fix;  /* numbers will do where symbols will not: */
    bool        fixed;    /* ...which happened (td__sym_fix_all), */
    char        why[200]; /* ...for this reason */
    const char *op;       /* at work */
    const char *file, *file_copy;
    td_dim_hook outer_hook;
    td_symmemo  memo[TD_SYM_MEMO];
} td_symenv;

/* NULL after td__fail. Drop it when no tensor with its sizes is left. */
td_symenv  *td__symenv_make(td_ctx *cx);
void        td__symenv_drop(td_symenv *e); /* NULL is fine */
/* Serves the thread's dims from here on, and hears op calls; _end stops both. They
 * nest like the modes they are. A failure that may be due to what was assumed of sizes
 * that depend on values is no longer that of the program: TD_E_TRACE. */
void        td__symenv_begin(td_symenv *e);
void        td__symenv_end(td_symenv *e);
td_symenv  *td__symenv_current(void); /* that serves the thread; NULL: none */
bool        td__symenv_assumed(void); /* does that one know only what it assumed? */
/* Says which op is at work, for places, unless one it is part of has; gives what was,
 * for td__symenv_op_end. */
const char *td__symenv_op(const char *op);
void        td__symenv_op_end(const char *was);

/* The size `hint` of an input: 0 and 1 stay numbers, which is guarded; others become
 * a symbol >= 2. Every call makes another symbol. TD_DIM_HUGE after td__fail. */
int64_t td__sym_size(td_symenv *e, const char *source, int32_t arg, int32_t dim,
                     int64_t hint);
/* Any symbol read from an input: `like` says letter, read, size, arg, dim, source,
 * hint and first. With `given` it must be that, which is guarded and returned. */
int64_t td__sym_input(td_symenv *e, td_symbol like, const int64_t *given);
/* A number only run time knows, of [lo, hi]; `size`: the size of something, which
 * rules treat as neither 0 nor 1 (docs/symbolic-shapes.md). */
int64_t td__sym_unbacked(td_symenv *e, const char *source, td_symrange r, bool size);
/* Which sizes of an input become symbols. */
typedef struct td_symhow {
    uint32_t dims; /* bit per dim; 0: its strides and offset are numbers too */
    bool     duck; /* equal sizes share a symbol */
} td_symhow;
#define TD_SYM_ALL ((td_symhow){UINT32_MAX, false})
/* The geometry of input number `arg` with symbols for sizes; strides are expressions
 * of sizes where they can be, else symbols. Numbers are guarded. False after
 * td__fail. */
bool td__sym_tensor(td_symenv *e, const char *name, int32_t arg, const td_tensor *t,
                    td_symhow how, td_meta *m);
/* Input number `arg` has the geometry m, which is guarded. */
bool td__sym_tensor_is(td_symenv *e, const char *name, int32_t arg, const td_tensor *t,
                       const td_meta *m);
/* Says that a rel b holds whenever the program runs: known from here on and recorded
 * to be checked there. False, with an error, when it cannot hold. */
bool td__sym_assert(td_symenv *e, int64_t a, td_symrel rel, int64_t b);

/* Arithmetic; any operand may be a number. */
int64_t td__sym_add(td_symenv *e, int64_t a, int64_t b, int64_t k); /* a + k * b */
int64_t td__sym_mul(td_symenv *e, int64_t a, int64_t b);
int64_t td__sym_div(td_symenv *e, int64_t a, int64_t b);
int64_t td__sym_mod(td_symenv *e, int64_t a, int64_t b);
int64_t td__sym_min(td_symenv *e, int64_t a, int64_t b);
int64_t td__sym_max(td_symenv *e, int64_t a, int64_t b);
/* Does a rel b hold? Proved where possible, else answered from the hints under a
 * guard. Unbacked and not provable: false and a TD_E_TRACE error. */
bool    td__sym_holds(td_symenv *e, int64_t a, td_symrel rel, int64_t b);
/* The same, but of what is unbacked the general answer, asserting nothing. */
bool    td__sym_seems(td_symenv *e, int64_t a, td_symrel rel, int64_t b);
/* 1 proved, 0 refuted, -1 open. Records nothing. */
int     td__sym_prove(td_symenv *e, int64_t a, td_symrel rel, int64_t b);
/* Makes every size of an input the number it has, guarded, as td__sym_holds does for
 * one. The failure that showed that symbols will not do is cleared. False: nothing was
 * done, because the trace may not, or has no symbols left to fix. */
bool    td__sym_fix_all(td_symenv *e);
/* The expression with all that is known put in. */
int64_t td__sym_now(td_symenv *e, int64_t dim);

const td_symexpr     *td__sym_at(const td_symenv *e, int64_t dim); /* NULL: a number */
static inline int64_t td__sym_tag(int i) { return td__dim_tag(i); }
static inline int td__sym_index(int64_t dim) { return td__dim_entry(dim, INT32_MAX); }
int64_t           td__sym_hint(const td_symenv *e, int64_t dim); /* under the hints */
/* Under values[i] for symbols.v[i]; false: a division by zero or an overflow. */
bool td__sym_eval(const td_symenv *e, int64_t dim, const int64_t *values, int64_t *out);

/* ---- ranges (sym_range.c) ----------------------------------------------- */

td_symrange td__sym_range(td_symenv *e, int64_t dim);
/* The same of a sum that is no expression yet. */
td_symrange td__sym_poly_range(td_symenv *e, const td_sympoly *p, int depth);

/* ---- text (sym_text.c) -------------------------------------------------- */

void td__sym_print(const td_symenv *e, int64_t dim, td_buf *out);
/* Reads "s0*4 + 1" with the symbols there are. False: `why` says what is wrong. */
bool td__sym_parse(td_symenv *e, const char *text, int64_t *dim, char *why, size_t cap);
/* For td_graph.dim_in: the same expression in a graph's own table. */
int64_t td__sym_to_graph(void *env, td_graph *g, int64_t dim);

/* ---- in graphs (sym_facts.c) -------------------------------------------- */

/* Writes down in g what holds of e's symbols whenever a trace under it is called. */
bool td__sym_facts(td_symenv *e, td_graph *g);
/* The sizes of g in an empty environment that serves the thread, which learns all that
 * g says of them: bound[] by entry of g->dims. */
bool td__sym_from_graph(td_symenv *e, const td_graph *g, int64_t *bound);

/* ---- guards (guard.c, guard_run.c) -------------------------------------- */

/* "s0 == x.size(0), s0 >= 2, s0 % 8 == 0 (view at model.c:41)" */
void td__guards_print(const td_symenv *e, td_buf *out);
void td__guard_print(const td_symenv *e, const td_guard *g, td_buf *out);

/* A guard in words, its place in the user's source apart. */
typedef struct td_guard_line {
    char    *text; /* "s0 % 8 == 0" */
    char    *why;  /* the op that asked for it, "read" or "asserted"; NULL: no op */
    td_where here; /* file NULL: not known */
} td_guard_line;
typedef TD_VEC(td_guard_line) td_guard_lines;

/* One guard, and all that td__guards_print prints. False: no memory. */
bool td__guard_line_add(const td_symenv *e, const td_guard *g, td_guard_lines *to);
bool td__guard_lines_of(const td_symenv *e, td_guard_lines *to);
void td__guard_line_print(const td_guard_line *l, td_buf *out);
void td__guard_lines_print(const td_guard_lines *l, td_buf *out);
void td__guard_lines_free(td_guard_lines *l);

typedef struct td_guard_load {
    uint8_t read; /* td_symread */
    int32_t arg, dim;
} td_guard_load;

typedef struct td_guard_step {
    uint8_t  op; /* td_dim_op up to MAX: r[to] = r[a] op r[b]; from CHECK on: a test */
    uint16_t to; /* register, or the guard that fails */
    uint16_t a, b;
} td_guard_step;

/* Guards as straight-line code over registers: what is read from the inputs, then
 * constants, then results of steps. Whole in itself; runs on any thread. */
typedef struct td_guard_prog {
    TD_VEC(td_guard_load) loads;
    TD_VEC(int64_t) consts;
    TD_VEC(td_guard_step) steps;
    td_guard_lines checks; /* of each guard that is run */
    td_guard_lines all;    /* what td__guards_print prints */
    int            n_regs;
} td_guard_prog;

/* The entry guards of e. NULL after td__fail. */
td_guard_prog *td__guards_compile(td_symenv *e);
void           td__guards_drop(td_guard_prog *p); /* NULL is fine */
/* Places that p does not know and equal guards of e do. False: no memory. */
bool           td__guards_place(td_guard_prog *p, const td_symenv *e);
/* -1 when all hold, else the index of the first guard that does not, for checks.v.
 * in[] are the inputs by argument number: tensors, or integers. */
int            td__guards_run(const td_guard_prog *p, const td_value *in);
/* False, after td__fail with the guard, for arguments that the graph is not for. */
bool td__guards_hold(const td_guard_prog *p, const td_graph *g, const td_value *in);
/* The same as td__guards_run from the values of the loads. */
int  td__guards_run_loaded(const td_guard_prog *p, const int64_t *loaded);

/* ---- inside the room ---------------------------------------------------- */

int64_t td__sym_fail_memory(td_symenv *e); /* TD_DIM_HUGE */
/* A sum of its own from a dim; NULL terms when memory is out (failed). */
bool    td__sym_poly(td_symenv *e, int64_t dim, td_sympoly *p);
/* p + k * q and p * q, in e->scratch; false: overflow, too long or no memory, told. */
bool td__sym_poly_add(td_symenv *e, const td_sympoly *p, const td_sympoly *q, int64_t k,
                      td_sympoly *out);
bool td__sym_poly_mul(td_symenv *e, const td_sympoly *p, const td_sympoly *q,
                      td_sympoly *out);
int64_t td__sym_intern_poly(td_symenv *e, const td_sympoly *p);
int64_t td__sym_intern_atom(td_symenv *e, td_symkind kind, int64_t a, int64_t b);
int64_t td__sym_intern_symbol(td_symenv *e, int32_t nr);
/* Is d known to be a multiple of m? */
bool    td__sym_divides(td_symenv *e, int64_t m, int64_t d);
/* The largest known integer that divides every value of the atom. */
int64_t td__sym_multiple(td_symenv *e, int32_t atom);
/* Makes `a rel b` known; returns nothing that could fail but memory. */
bool    td__sym_learn(td_symenv *e, int64_t a, td_symrel rel, int64_t b);
bool    td__sym_fail_unbacked(td_symenv *e, int64_t a, td_symrel rel, int64_t b);
bool    td__sym_record(td_symenv *e, td_symrel rel, int64_t a, int64_t b, bool runtime);

#endif
