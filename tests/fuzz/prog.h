/* prog.h -- the program fuzzer: random programs as text, checked in every way there
 * is of running them, and made small when two ways disagree. The text is the
 * program; what the generator knows besides are the tensors of an eager run that
 * grows with it. One seed makes one program, whatever ran before. */
#ifndef TD_PROG_H
#define TD_PROG_H

#include "joint/joint.h"

/* ---- chance (prog_rand.c) ----------------------------------------------- */

typedef struct prog_rng {
    uint64_t s;
} prog_rng;

uint64_t prog_next(prog_rng *r);
int      prog_upto(prog_rng *r, int n);           /* 0..n-1; 0 for n <= 0 */
int      prog_range(prog_rng *r, int lo, int hi); /* both included */
bool     prog_chance(prog_rng *r, int percent);

/* ---- what programs have in them (prog_main.c) --------------------------- */

/* Parts of the grammar that --with= adds. */
enum {
    PROG_CLOSED = 1,      /* tensors a function closes over, also passed as arguments */
    PROG_HOOKS = 2,       /* saved-tensor hooks around a call or backward, gradient
                             hooks in functions */
    PROG_CHECKPOINT = 4,  /* calls as checkpoints, checkpoint regions in functions */
    PROG_AUTOCAST = 8,    /* calls inside autocast regions */
    PROG_CUSTOM = 16,     /* custom functions */
    PROG_GRADS = 32,      /* gradients inside a function */
    PROG_MODULE = 64,     /* a module inside a function whose mode changes */
    PROG_MASKS = 128,     /* masks, sizes that depend on values */
    PROG_FUNCTIONS = 256, /* a second function that takes the results of the first */
    PROG_BRANCHES = 512,  /* cond and while_loop, as ops or by td_cond and td_while */
    PROG_USER = 1024,     /* registered ops */
    PROG_NUMBERS = 2048,  /* numbers among the arguments, other ones in later calls */
    PROG_MARKS = 4096,    /* dims marked with td_mark_dynamic, other sizes later */
    PROG_TYPES = 8192,    /* tensors of a type */
    PROG_REGIONS = 16384, /* regions that a function calls several times */
    PROG_ALL = 32767
};
extern unsigned prog_with;

/* ---- growing (prog_grow.c, prog_args.c, prog_fresh.c) ------------------- */

enum {
    PROG_LIST = 8,
    PROG_NAME = 24,
    PROG_NUMEL = 160,
    PROG_NUMBER_ARGS = 3,
    PROG_KNOWN = 4
};

typedef struct prog_val {
    td_tensor *t;
    char       name[PROG_NAME]; /* with its % */
    bool       by_values;       /* its sizes depend on values */
} prog_val;

typedef TD_VEC(prog_val) prog_vals;

/* A region of a function (td_call_region): its body and the type of its operands. */
typedef struct prog_known {
    const void *form;
    int         dtype, rank;
    int64_t     size[PROG_LIST];
    bool        closes; /* over its second operand */
    const char *name;   /* without its number */
} prog_known;

/* What a program has so far: a case's statements or a function's body. */
typedef struct prog_world {
    td_ctx         *cx;
    prog_rng        r;
    prog_vals       vals;
    td_buf          text;
    char            letter; /* names are %v0 %v1... */
    int             n_names;
    int             usual;     /* most sizes are this */
    bool            is_case;   /* draws carry seeds, leaves may require grad */
    int             grads;     /* percent of float leaves that require grad */
    int             depth;     /* open regions */
    td_region_modes modes[4];  /* before each of them */
    int             wish;      /* of the checkpoint region that is open; 0: none */
    int             regions;   /* checkpoint regions so far */
    bool            control;   /* its calls have control=true */
    bool            typed;     /* operands that are chosen are of a type */
    int             n_numbers; /* its number arguments: %n0 %n1 ... */
    td_value        number[PROG_NUMBER_ARGS];
    prog_known      known[PROG_KNOWN]; /* regions: @r0 @r1 ... */
    int             n_known;
} prog_world;

/* One call under way. */
typedef struct prog_call {
    prog_world      *w;
    td_op            op;
    const td_opinfo *info;
    td_value         in[TD_MAX_ARGS];
    int              n;
    int64_t          ints[TD_MAX_ARGS][PROG_LIST];
    td_tensor       *ts[TD_MAX_ARGS][PROG_LIST];
    td_tensor       *self;      /* the first tensor among the arguments */
    int              list_len;  /* of the last list of integers; -1: none yet */
    td_buf           text;      /* the arguments */
    td_buf           before;    /* statements that make fresh arguments */
    prog_vals        fresh;     /* what they make */
    int              first_new; /* names given out when it began */
    bool             by_values; /* sizes of its results depend on values */
} prog_call;

/* Are the elements of its result whatever is in memory? */
bool       prog_gives_unset(td_op op);
/* Fills in the arguments of c->op; false: nothing fits. */
bool       prog_args(prog_call *c);
/* A fresh tensor of these sizes; its statement goes to `text`, which names it. */
td_tensor *prog_fresh(prog_world *w, td_buf *text, td_dtype dt, int rank,
                      const int64_t *size, char *name);
/* A mask that selects nothing. */
td_tensor *prog_fresh_none(prog_world *w, td_buf *text, int rank, const int64_t *size,
                           char *name);
/* Whole numbers from 0 to below `most`, to index with. */
td_tensor *prog_fresh_index(prog_call *c, int64_t most, char *name);
/* Numbers of rows, from 1 on, as linalg_lu_factor gives for matrices like c->self. */
td_tensor *prog_fresh_pivots(prog_call *c, char *name);
td_dtype   prog_dtype(prog_rng *r);
int        prog_size(prog_world *w);
int        prog_rank(prog_world *w);
int        prog_sizes(prog_world *w, int64_t *size); /* the rank */
td_value   prog_number(prog_rng *r); /* an int or a float to pass as an argument */
void       prog_print_number(td_buf *b, td_value v);
void       prog_print_ints(td_buf *b, const int64_t *v, int n);
void       prog_indent(td_buf *b, const prog_world *w);

/* Of ops on images (prog_images.c): sizes for the tensor argument, and a list for the
 * list argument of this name; its length, -1: the name means nothing there. */
bool prog_takes_images(td_op op);
int  prog_image_sizes(prog_call *c, const char *name, int64_t *size);
int  prog_image_list(prog_call *c, const char *name, int64_t *v);

/* What kinds of ops to prefer, in percent; the rest is any op. */
typedef struct prog_taste {
    int views, writers, metas, randoms;
} prog_taste;

extern int64_t prog_calls[TD_OP_LIMIT]; /* ops that made it into programs */

/* Adds an object to the values of a case, in prog_user_ops.c as well: a value u8[0]
 * that becomes an object of this type where the function takes it. */
#define PROG_OBJECT "fz_counter"
void  prog_object_leaf(prog_world *w);
/* Registers ops for PROG_USER (prog_user_ops.c), and one of them. */
bool  prog_register_ops(td_ctx *cx);
td_op prog_user_op(prog_world *w);

/* Registers types for PROG_TYPES (prog_types.c). A leaf of one; a statement of a body
 * that reads an inner tensor or makes a pair, false: no tensor fits. */
bool prog_register_types(td_ctx *cx);
void prog_typed_leaf(prog_world *w);
bool prog_typed_statement(prog_world *w);

/* One more statement, or none when nothing fits. */
void            prog_statement(prog_world *w, const prog_taste *taste);
/* A call of a custom function (prog_custom.c); false: no tensor fits. */
bool            prog_custom(prog_world *w);
/* ...and what it shares with others: a text with T and S replaced by t's type and
 * sizes, a value of x's type, x itself where no other is found. */
void            prog_fill_in(td_buf *b, const char *text, const td_tensor *t);
const prog_val *prog_one_like(prog_world *w, const prog_val *x);
/* A gradient hook on a value (prog_hooks.c); false: none has a grad_fn. */
bool            prog_hook(prog_world *w);
/* Statements of a case: ops on result k, which is like t, and hooks on their results;
 * root: the name of the last. */
void            prog_hooks_outside(prog_rng *r, td_buf *b, const td_tensor *t, int k,
                                   char root[PROG_NAME]);
/* A branch or a loop (prog_branches.c); false: no tensor fits. */
bool            prog_branch(prog_world *w);
/* A call of a region (prog_called.c); false: no tensor fits. */
bool            prog_region(prog_world *w);
/* The policy of the checkpoint region that is open, and the end of the line. */
void            prog_add_policy(td_buf *b, const prog_world *w);
/* One statement that fails; false: everything tried was fine. */
bool            prog_mistake(prog_world *w);
/* Says the call being tried: its fresh arguments, its name and arguments. */
void            prog_unfinished_call(void (*say)(const char *text, size_t n));
/* Begins or ends a region of a grad mode or of autocast, in text and context. */
void            prog_open_region(prog_world *w, td_gregion r);
void            prog_close_region(prog_world *w);
void prog_regions(prog_world *w, bool close_all); /* opens or closes one now and then */
void prog_world_end(prog_world *w);

/* ---- whole programs (prog_make.c, prog_case.c) -------------------------- */

enum { PROG_INPUTS = 6, PROG_OUTPUTS = 5 };

typedef struct prog_maker {
    prog_world inputs, body;
    prog_val   arg[PROG_INPUTS];
    bool       closed[PROG_INPUTS];  /* the function closes over it */
    td_meta    was[PROG_INPUTS];     /* looks before the call */
    uint64_t   version[PROG_INPUTS]; /* ...and its version */
    bool       grad[PROG_INPUTS];    /* ...and whether it requires grad */
    bool       writes;               /* the function changes one, or a literal */
    prog_val   result[PROG_OUTPUTS];
    int        n_args, n_out, n_grad_out;
    int        types; /* 0: none, 1: dtype and sizes, 2: all */
    bool       reads; /* its numbers vary: calls have body=true */
    td_buf     head, out;
    prog_world second; /* the body of a function of the results, and */
    td_buf     call;   /* ...its call; empty: there is none */
} prog_maker;

/* Only ops that users call: none that only a derivative or a pass makes. */
extern bool prog_public;
/* Also other arguments, gradients of gradients, writes between call and backward. */
extern bool prog_wide;

/* Calls of the function, backwards, writes in between: the end of the case. */
void prog_finish(prog_maker *m);

/* The text of program `seed`, appended. */
bool prog_make(uint64_t seed, int size, td_buf *out);
/* Says what there is of a program being made, in pieces; for a signal handler. */
void prog_unfinished(void (*say)(const char *text, size_t n));

/* ---- checking (prog_check.c) -------------------------------------------- */

typedef enum prog_verdict {
    PROG_AGREE,
    PROG_REFUSED, /* some way of running it says it cannot */
    PROG_DIFFER,
    PROG_BROKEN /* the text does not parse, or memory ran out */
} prog_verdict;

typedef struct prog_result {
    prog_verdict verdict;
    bool         failed;    /* the case fails, in all ways alike */
    bool         rounds;    /* it only rounds otherwise; `why` says where */
    double       off;       /* of the difference: case_verdict.off */
    char         kind[320]; /* of the difference or refusal: which way, what */
    char         why[1200]; /* for people */
} prog_result;

/* Only the ways whose name has one of these words, with commas between, in it; NULL:
 * all. */
extern const char *prog_only;
/* One way more, whose results are off by 2^-14: is it noticed? */
extern bool        prog_mistaken;
/* The graphs after every pass, and every compiled way with other settings; otherwise
 * one of them, chosen by a hash of the text. For kept programs. */
extern bool        prog_all_passes;

void prog_check(const char *text, size_t n, prog_result *r);
/* Runs it once in each compiled way, nothing compared: what would be compiled? */
void prog_rehearse(const char *text, size_t n);

/* For prog_check.c and prog_faults.c: calls fn for each way of running the case, until
 * it is false. Which passes and budgets it tries depends on the hash. */
struct case_way;
typedef bool prog_way_fn(const td_gfile *f, const td_gcase *c,
                         const struct case_way *way, prog_result *r);
void prog_each_way(const td_gfile *f, const td_gcase *c, uint64_t hash, prog_way_fn *fn,
                   prog_result *r);
bool prog_is_asked_for(const char *way); /* by prog_only */
/* Runs the case and compares nothing. Its error; the context's state is restored. */
td_code prog_run(const td_gfile *f, const td_gcase *c, const struct case_way *way,
                 char *why, size_t cap);
/* A way and the first difference without what is another's in every program. */
void    prog_sum_up(char *out, size_t cap, const char *way, const char *why);

/* For prog_noise.c: checks a program whose floats are of this dtype by default. */
/* The device of all tensors; NULL: the CPU. */
extern const char *prog_device;
td_ctx            *prog_open(void); /* a context with that default device */
void prog_check_text(const char *text, size_t n, td_dtype floats, prog_result *r);
bool prog_only_numbers(const char *why); /* all differences are of elements */
bool prog_only_values(const char *why);  /* ...or of sizes, which depend on values */
/* In a run with more digits: how far numbers may be apart there; 0: as in any run. */
extern double prog_rounding;
extern bool   prog_native; /* the last program checked ran in native code */

/* ---- rounding (prog_noise.c) -------------------------------------------- */

/* Is the difference that r reports one of rounding alone? */
bool prog_is_noise(const char *text, size_t n, const prog_result *r);
/* Does eager itself move as far as the difference `why`, which is `off`, where it
 * rounds otherwise? Nothing is known of other ways of execution then. */
bool prog_is_unstable(const td_gfile *f, const td_gcase *c, const char *why,
                      double off);

/* ---- without memory (prog_faults.c) ------------------------------------- */

/* How many allocations of each way fail in turn; 0: the ways are compared instead. */
extern int prog_faults;
void       prog_check_faults(const char *text, size_t n, prog_result *r);

/* ---- making small (prog_shrink.c) --------------------------------------- */

/* Replaces `text` by the smallest found that still gives a result of `kind`. */
void prog_shrink(td_buf *text, const char *kind);

#endif
