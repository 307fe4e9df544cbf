/* trace/sym.h -- symbolic sizes: expressions over symbols, what a trace knows
 * about them, and the guards under which the trace is valid.
 *
 * A dim below TD_DIM_SYM_LIMIT is the tag of an expression in the
 * environment that serves the thread's dims (core/dim.h). Expressions have a
 * normal form: a sum of products of atoms with integer coefficients. An atom is
 * a symbol, or a floor division, modulo, min or max that no rule simplifies.
 * Expressions are hash-consed: equal normal forms have equal tags.
 *
 * Soundness: every simplification and every proof holds for all integers within
 * the symbols' ranges. Whatever cannot be proved is answered from the hint (the
 * size at trace time) and recorded as a guard. */
#ifndef TD_SYM_H
#define TD_SYM_H

#include "graph/graph.h"

/* ---- expressions (sym.c, sym_div.c) ------------------------------------- */

/* Kinds of expressions. All but SUM are atoms. */
typedef enum td_symkind {
    TD_SYM_SYMBOL,
    TD_SYM_SUM, /* of terms and a constant */
    TD_SYM_DIV,
    TD_SYM_MOD,
    TD_SYM_MIN,
    TD_SYM_MAX
} td_symkind;

/* coefficient k times a product of atoms. Atoms are indices of expressions,
 * ascending; a power repeats its atom. */
typedef struct td_symterm {
    int64_t        k;
    int32_t        n;
    const int32_t *atom;
} td_symterm;

/* A sum under construction, in scratch memory: terms in order, no two with the
 * same product, plus the constant c. */
typedef struct td_sympoly {
    td_symterm *t;
    int         n;
    int64_t     c;
} td_sympoly;

/* An interval, both ends included. */
typedef struct td_symrange {
    int64_t lo, hi; /* -TD_DIM_HUGE, TD_DIM_HUGE: no bound known */
} td_symrange;

/* One interned expression. */
typedef struct td_symexpr {
    uint8_t           kind;     /* td_symkind */
    bool              unbacked; /* contains an unbacked symbol, so it has no hint */
    int16_t           depth;    /* nesting of atoms inside atoms */
    int32_t           nr;       /* SYMBOL: index in symbols; SUM: number of terms */
    int64_t           a, b;     /* operands of an atom; SUM: a is the constant */
    const td_symterm *term;     /* SUM: its terms */
    int64_t           hint;     /* value at trace time */
    uint32_t          now_at, range_at; /* env generations at which the caches hold */
    int64_t           now;              /* cache: td__sym_now */
    td_symrange       range;            /* cache: td__sym_range */
} td_symexpr;

/* ---- environments (sym_env.c, sym_prove.c) ------------------------------- */

/* Where the value of a symbol is read when a program is called. */
typedef enum td_symread {
    TD_SYM_SIZE,
    TD_SYM_STRIDE,
    TD_SYM_OFFSET,
    TD_SYM_INT,   /* an integer argument */
    TD_SYM_INSIDE /* unbacked: made by the program itself */
} td_symread;

/* A symbol: a size, stride, offset or integer whose value may differ between calls. */
typedef struct td_symbol {
    char        letter;   /* 's': backed by an input; 'u': unbacked, data-dependent */
    uint8_t     read;     /* td_symread */
    bool        size;     /* unbacked: it is the size of a dim */
    bool        duck;     /* other inputs' sizes with the same hint share it */
    int32_t     nr;       /* its number: 3 for s3; -1: has no name, see given */
    int32_t     arg, dim; /* the input, and the dim, it is read from */
    int32_t     part;     /* ...of which part of the input (td__typed_part) */
    const char *source;   /* "x.size(0)" */
    int64_t     hint;     /* its value at trace time */
    td_symrange first;    /* range at creation, which is guarded */
    td_symrange range;    /* range known by now */
    int64_t     tag;      /* its expression */
    int64_t     given;    /* the expression it must equal, guarded; its tag: free */
    int64_t     is;       /* the expression it was found to equal; its tag: none */
} td_symbol;

/* A comparison a rel b that the trace depends on. */
typedef struct td_guard {
    uint8_t     rel;     /* td_dim_rel */
    bool        runtime; /* asserted while the program runs, not before */
    int64_t     a, b;
    td_where    here; /* the user's source line of the op; file may be NULL */
    const char *op;   /* the op whose rule compared; NULL: none */
} td_guard;

/* Facts that follow from guards and are not expressible as a symbol's range or
 * value. */
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

/* Cache of dim operations, direct-mapped: r = a op b. */
enum { TD_SYM_MEMO = 1024 };
typedef struct td_symmemo {
    int64_t  a, b, r;
    int32_t  op;  /* 1 + td_dim_op; 0: free */
    uint32_t gen; /* generation at which an arithmetic result holds */
} td_symmemo;

/* The symbol environment of one trace. Expressions, symbols and guards live as
 * long as it does. */
typedef struct td_symenv {
    td_mode  mode; /* first; sees which op runs, to name it in guards */
    td_ctx  *cx;   /* receives errors */
    td_arena arena, scratch;
    TD_VEC(td_symexpr) exprs;
    int32_t *slots; /* hash table over exprs */
    int      n_slots;
    TD_VEC(td_symbol) symbols;
    TD_VEC(td_guard) guards;
    TD_VEC(td_symfact) facts[TD_FACT_KINDS];
    uint32_t    gen;                  /* grows with every fact; invalidates caches */
    int         n_backed, n_unbacked; /* named symbols of each kind */
    int         trying;   /* > 0: inside a proof; overlong sums fail without an error */
    bool        assumed;  /* an answer about an unbacked size was assumed, not proved */
    bool        in_facts; /* inside a search of facts, which must not recurse */
    bool        may_fix;  /* the trace may specialize all sizes where symbols fail */
    bool        fixed;    /* it did (td__sym_fix_all) */
    char        why[200]; /* the failure that caused it */
    const char *op;       /* the op that is running, as the user called it */
    const char *file, *file_copy; /* last source file, and a copy that stays */
    td_dim_hook outer_hook;       /* the hook that served the thread before */
    td_symmemo  memo[TD_SYM_MEMO];
} td_symenv;

/* A new environment; NULL after td__fail. Drop it after all tensors whose sizes are
 * expressions of it. */
td_symenv  *td__symenv_make(td_ctx *cx);
void        td__symenv_drop(td_symenv *e); /* NULL is fine */
/* Serves the thread's dims and sees op calls until td__symenv_end. Environments
 * nest like modes. td__symenv_end turns an error that may come from an
 * assumption about data-dependent sizes into TD_E_TRACE, because the eager
 * program might not fail. */
void        td__symenv_begin(td_symenv *e);
void        td__symenv_end(td_symenv *e);
/* The environment that serves the thread; NULL: none. */
td_symenv  *td__symenv_current(void);
/* Has it answered a question about an unbacked size by assumption? */
bool        td__symenv_assumed(void);
/* Sets the op that is running, for guards, unless an enclosing op is set.
 * Returns the previous one, for td__symenv_op_end. */
const char *td__symenv_op(const char *op);
void        td__symenv_op_end(const char *was);

/* The size `hint` of an input. 0 and 1 stay numbers, guarded; other sizes
 * become a new symbol with range >= 2. TD_DIM_HUGE after td__fail. */
int64_t td__sym_size(td_symenv *e, const char *source, int32_t arg, int32_t dim,
                     int64_t hint);
/* A new symbol that is read from an input; `like` sets letter, read, size,
 * duck, arg, dim, source, hint and first. With `given`, the input must equal
 * that expression: it is guarded and returned. */
int64_t td__sym_input(td_symenv *e, td_symbol like, const int64_t *given);
/* A new unbacked symbol, known only when the program runs, within r. `size`: it
 * is the size of a dim, which shape rules assume to be neither 0 nor 1
 * (docs/symbolic-shapes.md). */
int64_t td__sym_unbacked(td_symenv *e, const char *source, td_symrange r, bool size);
/* Which sizes of an input become symbols. */
typedef struct td_symhow {
    uint32_t         dims; /* bit per dim; 0: its strides and offset are numbers too */
    bool             duck; /* equal sizes share a symbol */
    bool             number; /* the size stands for an int argument */
    const td_bounds *bounds; /* by dim; NULL: any size */
    int              part;   /* which part of the input it is (td__typed_part) */
} td_symhow;
#define TD_SYM_ALL ((td_symhow){UINT32_MAX, false, false, NULL, 0})
/* The geometry of input `arg` with symbols for its sizes. Strides are
 * expressions of sizes where they follow from them, else symbols. What stays a
 * number is guarded. False after td__fail. */
bool td__sym_tensor(td_symenv *e, const char *name, int32_t arg, const td_tensor *t,
                    td_symhow how, td_meta *m);
/* Do all strides of t follow from its sizes in this way? */
bool td__sym_strides_follow(const td_tensor *t);
/* Input `arg` is a tensor that was passed before: guards that it has geometry
 * m. */
bool td__sym_tensor_is(td_symenv *e, const char *name, int32_t arg, const td_tensor *t,
                       const td_meta *m);
/* States that a rel b holds whenever the program runs: the trace may rely on
 * it, and a run-time assert is recorded. False, with an error, if it can be
 * refuted. */
bool td__sym_assert(td_symenv *e, int64_t a, td_dim_rel rel, int64_t b);

/* Arithmetic; any operand may be a number. */
int64_t td__sym_add(td_symenv *e, int64_t a, int64_t b, int64_t k); /* a + k * b */
int64_t td__sym_mul(td_symenv *e, int64_t a, int64_t b);
int64_t td__sym_gcd(int64_t a, int64_t b); /* of numbers, not negative */
int64_t td__sym_div(td_symenv *e, int64_t a, int64_t b);
int64_t td__sym_mod(td_symenv *e, int64_t a, int64_t b);
int64_t td__sym_min(td_symenv *e, int64_t a, int64_t b);
int64_t td__sym_max(td_symenv *e, int64_t a, int64_t b);
/* Does a rel b hold? Proved or refuted if possible; otherwise the hints answer
 * and a guard is recorded. For an unbacked size that cannot be decided: false
 * and TD_E_TRACE. */
bool    td__sym_holds(td_symenv *e, int64_t a, td_dim_rel rel, int64_t b);
/* td__sym_holds for decisions that affect only layout: about unbacked sizes it
 * gives the answer for large sizes and asserts nothing. */
bool    td__sym_seems(td_symenv *e, int64_t a, td_dim_rel rel, int64_t b);
/* 1: holds for all values in range; 0: holds for none; -1: undecided. Records
 * nothing. */
int     td__sym_prove(td_symenv *e, int64_t a, td_dim_rel rel, int64_t b);
/* Specializes the trace: guards every backed symbol to its hint, so that all
 * sizes are numbers, and clears the error that made it necessary. False:
 * nothing was done, because the trace may not specialize or has no symbols
 * left. */
bool    td__sym_fix_all(td_symenv *e);
/* The expression with symbols replaced by what they are known to equal. */
int64_t td__sym_now(td_symenv *e, int64_t dim);

/* The expression of a tag; NULL for a number. */
const td_symexpr     *td__sym_at(const td_symenv *e, int64_t dim);
static inline int64_t td__sym_tag(int i) { return td__dim_tag(i); }
static inline int td__sym_index(int64_t dim) { return td__dim_entry(dim, INT32_MAX); }
int64_t           td__sym_hint(const td_symenv *e, int64_t dim); /* at trace time */
/* Evaluates with values[i] for symbols.v[i]; false: division by zero or overflow. */
bool td__sym_eval(const td_symenv *e, int64_t dim, const int64_t *values, int64_t *out);

/* ---- ranges (sym_range.c) ----------------------------------------------- */

/* An interval that contains every value of the expression. */
td_symrange td__sym_range(td_symenv *e, int64_t dim);
/* The same for a sum that is not interned. depth: 0 from outside. */
td_symrange td__sym_poly_range(td_symenv *e, const td_sympoly *p, int depth);

/* ---- text (sym_text.c) -------------------------------------------------- */

void td__sym_print(const td_symenv *e, int64_t dim, td_buf *out);
/* Parses "s0*4 + 1" with the environment's symbols. False: `why` has the
 * reason. */
bool td__sym_parse(td_symenv *e, const char *text, int64_t *dim, char *why, size_t cap);
/* For td_graph.dim_in: the same expression in the graph's own table of sizes. */
int64_t td__sym_to_graph(void *env, td_graph *g, int64_t dim);

/* ---- in graphs (sym_facts.c) -------------------------------------------- */

/* Stores in g->facts what holds for its symbols at every call: ranges and entry
 * guards. */
bool td__sym_facts(td_symenv *e, td_graph *g);
/* Loads the sizes and facts of g into e, which is empty and serves the thread.
 * bound[i] is the expression of g->dims[i]. */
bool td__sym_from_graph(td_symenv *e, const td_graph *g, int64_t *bound);

/* ---- guards (guard.c, guard_program.c) -------------------------------------- */

/* "s0 == x.size(0), s0 >= 2, s0 % 8 == 0 (view at model.c:41)" */
void td__guards_print(const td_symenv *e, td_buf *out);
void td__guard_print(const td_symenv *e, const td_guard *g, td_buf *out);

/* Does the expression contain the symbol? */
bool            td__sym_uses(const td_symenv *e, int64_t dim, const td_symbol *s);
/* The guard that fixed the size; else the first before a call that is about it. NULL:
 * there is none. */
const td_guard *td__guard_about(const td_symenv *e, const td_symbol *s);

/* A guard as text, with its source line separate. */
typedef struct td_guard_line {
    char    *text; /* "s0 % 8 == 0" */
    char    *why;  /* the op that compared, "read" or "asserted"; NULL: none */
    td_where here; /* file NULL: not known */
} td_guard_line;
typedef TD_VEC(td_guard_line) td_guard_lines;

/* Appends one guard; all guards of a trace. False: out of memory. */
bool td__guard_line_add(const td_symenv *e, const td_guard *g, td_guard_lines *to);
bool td__guard_lines_of(const td_symenv *e, td_guard_lines *to);
void td__guard_line_print(const td_guard_line *l, td_buf *out);
void td__guard_lines_print(const td_guard_lines *l, td_buf *out);
void td__guard_lines_free(td_guard_lines *l);

/* One number to read from the inputs. */
typedef struct td_guard_load {
    uint8_t read; /* td_symread */
    int32_t arg, dim;
    int32_t part; /* of the argument, if it is of a type (td__typed_part) */
} td_guard_load;

/* One instruction of compiled guards. */
typedef struct td_guard_step {
    uint8_t  op; /* td_dim_op up to MAX: r[to] = r[a] op r[b]; from CHECK on: a test */
    uint16_t to; /* register, or the guard that fails */
    uint16_t a, b;
} td_guard_step;

/* Guards compiled to straight-line code over registers: first the loads, then
 * the constants, then results of steps. Self-contained; may run on any thread. */
typedef struct td_guard_prog {
    TD_VEC(td_guard_load) loads;
    TD_VEC(int64_t) consts;
    TD_VEC(td_guard_step) steps;
    td_guard_lines checks; /* text of each check, by td_guard_step.to */
    td_guard_lines all;    /* every guard, as td__guards_print prints them */
    int            n_regs;
} td_guard_prog;

/* Compiles the guards of e that are checked before a call. NULL after td__fail. */
td_guard_prog *td__guards_compile(td_symenv *e);
void           td__guards_drop(td_guard_prog *p); /* NULL is fine */
/* Fills in source lines that p lacks (it came from the cache) from equal guards
 * of e. False: out of memory. */
bool           td__guards_place(td_guard_prog *p, const td_symenv *e);
/* -1 if all hold, else the index in checks of the first that fails. in[] are
 * the inputs by argument number: tensors, or integers. */
int            td__guards_run(const td_guard_prog *p, const td_value *in);
/* td__guards_run that fails with TD_E_GUARD and the text of the guard. */
bool td__guards_hold(const td_guard_prog *p, const td_graph *g, const td_value *in);
/* td__guards_run with the loads given as values. */
int  td__guards_run_loaded(const td_guard_prog *p, const int64_t *loaded);

/* ---- between the sym_*.c files ------------------------------------------ */

/* Records out-of-memory; returns TD_DIM_HUGE, the value of a failed dim operation. */
int64_t td__sym_fail_memory(td_symenv *e);
/* Any dim as a sum, in scratch memory. False after td__fail. */
bool    td__sym_poly(td_symenv *e, int64_t dim, td_sympoly *p);
/* p + k*q, and p*q, in e->scratch. False: overflow, too many terms or out of
 * memory, with an error unless e->trying. */
bool td__sym_poly_add(td_symenv *e, const td_sympoly *p, const td_sympoly *q, int64_t k,
                      td_sympoly *out);
bool td__sym_poly_mul(td_symenv *e, const td_sympoly *p, const td_sympoly *q,
                      td_sympoly *out);
/* The tag of a sum, atom or symbol in normal form; the number itself for a constant. */
int64_t td__sym_intern_poly(td_symenv *e, const td_sympoly *p);
int64_t td__sym_intern_atom(td_symenv *e, td_symkind kind, int64_t a, int64_t b);
int64_t td__sym_intern_symbol(td_symenv *e, int32_t nr);
/* Is d known to be a multiple of m? */
bool    td__sym_divides(td_symenv *e, int64_t m, int64_t d);
/* The largest known integer that divides every value of the atom. */
int64_t td__sym_multiple(td_symenv *e, int32_t atom);
/* Makes `a rel b` known, as a value, range or fact. False only when out of
 * memory. */
bool    td__sym_learn(td_symenv *e, int64_t a, td_dim_rel rel, int64_t b);
/* Fails: whether a rel b holds depends on data. */
bool    td__sym_fail_unbacked(td_symenv *e, int64_t a, td_dim_rel rel, int64_t b);
/* Appends a guard with the running op and its source line. */
bool td__sym_record(td_symenv *e, td_dim_rel rel, int64_t a, int64_t b, bool runtime);

#endif
