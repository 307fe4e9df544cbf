/* aot/aot.h -- from a body or a graph to a function: the pipeline, the specializations
 * of a function and how a call picks one. */
#ifndef TD_AOT_H
#define TD_AOT_H

#include "module/deps.h"
#include "runtime/plan.h"
#include "tandem/export.h"

/* What must be alike for a call to fit: one word per property, compared whole.
 * key.c writes it, why.c reads it:
 *
 *   count of arguments, modes (grad mode, inference mode << 1, default dtype <<
 *   TD_KEY_DTYPE, autocast << TD_KEY_AUTOCAST, TD_KEY_PASSES, TD_KEY_HOOKED), then for
 *   each argument,
 *   tensor closed over, and tensor that some of them are views of its td_kind, and for
 *   a tensor: bits, alias, sizes, strides, offset if TD_KEY_OFFSET, bytes of its
 *   storage behind its last element if TD_KEY_REST; for a number: its bits.
 *   TD_KEY_ANY stands for what guards look after. For each gradient they keep (.grad)
 *   that the program reads TD_KEY_GRAD, which value keeps it, and the same as for a
 *   value; for each that it found absent TD_K_NONE, or TD_K_BOOL 1 where it is there.
 *
 * alias: 2k + 1, the same tensor as the k-th; 2k + 2, in the same bytes; 0, neither. */
typedef TD_VEC(int64_t) td_key;
#define TD_KEY_ANY INT64_MIN
#define TD_KEY_GRAD 64 /* no td_kind */
typedef enum td_key_bit {
    TD_KEY_DTYPE = 8, /* of the modes; a tensor's is in bits 0..7 */
    TD_KEY_AUTOCAST = 16,
    TD_KEY_PASSES = 24, /* of the modes: td_graph.wanted, td__history_passes */
    TD_KEY_HOOKED,      /* of the modes: a gradient hook on one of td_spec.reached */
    TD_KEY_RANK = 8,
    TD_KEY_NEEDS = 16, /* requires grad */
    TD_KEY_LEAF,       /* ...and is a leaf */
    TD_KEY_INFERENCE,
    TD_KEY_VIEW,
    TD_KEY_CREATION, /* four bits: td_creation */
    TD_KEY_NUMBER = TD_KEY_CREATION + 4,
    TD_KEY_READONLY,
    TD_KEY_STALE, /* a view whose history is out of date */
    TD_KEY_OFFSET,
    TD_KEY_BASE,  /* not passed: what a tensor before it is a view of */
    TD_KEY_MOVED, /* a view whose base lies in other bytes */
    TD_KEY_OWN,   /* a view that requires grad for itself, as its base need not */
    TD_KEY_APART, /* a view whose history is not its base's */
    TD_KEY_REST
} td_key_bit;

/* Which values of a call lie in the same bytes. */
typedef struct td_kin {
    int  first;  /* the first of them */
    int  same;   /* the first that is the same tensor */
    int  view;   /* of a base: a view of it; else -1 */
    bool shared; /* they are not all one tensor; said of the first and those others */
} td_kin;
typedef struct td_kin_slot {
    const void *key;   /* bytes, or a tensor in bytes that another came with first */
    uint64_t    stamp; /* of the call that wrote it */
    int         first;
} td_kin_slot;
typedef struct td_kins {
    td_kin      *kin;
    td_kin_slot *slot; /* a table by key */
    int          room; /* values it has room for */
    size_t       mask;
    uint64_t     stamp;
} td_kins;

/* The stages of compiling: rows of td__stages (stages.c). */
typedef enum td_spent {
    TD_SPENT_CAPTURE,
    TD_SPENT_FACTS, /* where somebody listens */
    TD_SPENT_JOINT,
    TD_SPENT_PASSES,
    TD_SPENT_PARTITION,
    TD_SPENT_PLAN,
    TD_SPENT_FORWARD, /* by the backend, like the next two */
    TD_SPENT_BACKWARD,
    TD_SPENT_INFERENCE,
    TD_SPENT_COUNT
} td_spent;

/* What cache.c knows of a specialization while it is made. */
typedef struct td_entry {
    bool      on;     /* it may be found on disk, or kept there */
    bool      found;  /* it was */
    td_values args;   /* of the call; valid until it is made */
    uint64_t  before; /* what they were like: tracing may bring views up to date */
    td_buf    bytes;  /* to be kept */
    char      name[48];
    int       slot; /* which entry of that name to write; -1: any */
} td_entry;

typedef struct td_spec {
    struct td_spec *next;
    int             nr;
    td_graph       *program; /* owned; NULL: the function's own graph */
    td_plan        *plan;    /* NULL: such calls run as they are */
    td_key          key;
    TD_VEC(int32_t) owners;  /* values of the key whose gradient the program reads, */
    TD_VEC(int32_t) bare;    /* ...and those that kept none */
    TD_VEC(int32_t) reached; /* values that a backward in the body may end in */
    bool       offsets;      /* storage offsets of inputs count, and where those end */
    bool       views;        /* whether they are views counts, without gradients too */
    bool       differentiates; /* the body runs a backward inside */
    bool       varies; /* symbols stand for sizes of arguments; while it is traced */
    uint8_t    has;    /* what the stages have made so far */
    td_joint  *j;      /* until the plan takes it */
    td_halves *h;      /* the same; NULL: none */
    td_faker  *fakes;  /* while it is traced for many sizes: of its arguments */
    td_halves *step;   /* what backwards inside compute again; NULL: nothing */
    struct td_guard_prog *guards;  /* on sizes; NULL: the key has them as numbers */
    int                   mode;    /* td_fn.mode it was made in */
    td_deps               deps;    /* what else the body read */
    uint64_t              n_calls; /* with debug_asserts */
    td_config             set;     /* what it was compiled with */
    td_entry              kept;
    int64_t               ns[TD_SPENT_COUNT];
} td_spec;

/* A function's options, with all they point to. Functions share it, and histories that
 * may have a backward to compile: the last one drops the callbacks. */
typedef struct td_held {
    int         refs;
    td_arena    arena;
    td_aot_opts opts;
    td_backend  backends[3];
    td_config   config;
} td_held;

struct td_fn {
    TD_OWNED_FIELDS;
    int              id;
    td_body         *body;
    void            *env;
    const td_graph  *graph; /* instead of a body */
    bool             owns_graph;
    bool             inner; /* of a backward: the user's stages had their turn */
    td_held         *held;
    td_aot_opts      opts; /* held's */
    char            *name;
    td_spec         *specs; /* the last one used first */
    int              n_specs;
    bool             over; /* it was said that calls beyond the limit run as they are */
    td_key           key;  /* of the call under way, where it fits nothing */
    td_kins          kins; /* ...and its values */
    struct td_state *state;   /* of a module; NULL: none */
    int              n_state; /* the first arguments are the module's members */
    int              mode;    /* which of the forms a module had it has now */
    const td_value  *members; /* [n_state], while a call or a stage needs them */
    bool             staged;  /* its specialization is all it has */
    int              calls;   /* under way: */
    bool             gone;    /* ...dropped with the last of them */
    td_ends         *ends;    /* of an export: filled in with the joint graph */
    bool             forward; /* nothing is differentiated, whatever requires grad */
    struct td_step  *step;    /* of td_aot_step; NULL: it is none */
};

/* ---- options.c ---------------------------------------------------------- */

/* Callbacks are taken over whatever happens. NULL after td__fail. */
td_held    *td__held_make(td_ctx *cx, const td_aot_opts *opts);
void        td__held_drop(td_held *h); /* NULL is fine */
/* The name the options give, or else the usual one. */
const char *td__held_name(const td_held *h, const char *usual);

/* ---- fn.c --------------------------------------------------------------- */

/* Compiles for arguments like these, unless that is done, without calling. They may
 * be without bytes. */
bool   td__fn_prepare(td_fn *f, td_values args);
/* Nothing but a name and options; takes over h, which may be NULL after td__fail.
 * Nobody owns it yet: td__fn_free frees it, td__fn_give makes it the user's. */
td_fn *td__fn_make(td_ctx *cx, td_held *h, const char *name);
void   td__fn_free(td_fn *f);             /* NULL is fine */
td_fn *td__fn_give(td_ctx *cx, td_fn *f); /* the nil function for NULL */
/* td_aot_function and td_aot_module, not given to the user yet; NULL after td__fail. */
td_fn *td__fn_of_body(td_ctx *cx, td_body *body, void *env, const td_aot_opts *opts);
td_fn *td__fn_of_module(td_module *m, const td_aot_opts *opts, bool fixed);
/* A call, counted in td_fn.calls, is through: f goes if it was dropped meanwhile. */
void   td__fn_leave(td_fn *f);
/* Calls it with all arguments, a module's members first. own as in td__spec_call. */
int    td__fn_call(td_fn *f, td_values args, bool *own, td_value *out, int n_out);
/* Are n results as many as were asked for? False after td__fail. */
bool   td__fn_gives(const td_fn *f, const char *who, int n, int n_out);

/* ---- module_fn.c -------------------------------------------------------- */

/* td__fn_call with the members the module has now; own counts the user's arguments. */
int  td__state_call(td_fn *f, td_values args, bool *own, td_value *out, int n_out);
/* Looks what the module has now. False after td__fail. */
bool td__state_renew(td_fn *f);
/* The arguments behind the module's members, which td_fn.members are from now on; the
 * caller gives them back, and f lives until then. False: td__fail. */
bool td__state_args(td_fn *f, td_values args, td_values *all);
void td__state_give(td_fn *f, td_values all);
void td__state_drop(struct td_state *s); /* NULL is fine */
/* The members of m, which may be NULL, and `more` are f's state. */
bool td__state_make(td_fn *f, td_module *m, td_tensors more, bool fixed);
/* Which form the module is in, as text; NULL: f has none. */
const char *td__state_form(const td_fn *f);
/* What the module's form differs in from that of a specialization. */
void        td__state_difference(td_buf *b, const td_fn *f, const td_spec *s);
td_module  *td__state_module(const td_fn *f); /* NULL: it has none */
/* Names and kinds of the first inputs of a program. */
bool        td__state_name(const td_fn *f, td_graph *program, const td_deps *d);

/* ---- step.c ------------------------------------------------------------- */

/* Is all the history of a step used up inside? Else td__fail. */
bool td__step_check(const td_fn *f, const td_joint *j);

/* ---- change.c ----------------------------------------------------------- */

/* The user's pass and decompositions; where there are any, or the function is staged,
 * the graph is tidy. */
bool td__joint_change(td_fn *f, td_joint *j, bool cse);
/* A copy of g takes the place of the joint graph; `who` is to blame. */
bool td__joint_become(td_joint *j, const td_graph *g, const char *who);

/* ---- key.c -------------------------------------------------------------- */

/* Properties of a call on these arguments and of the tensors the body closed over;
 * `offsets`: where they begin counts too. */
bool td__key_make(td_fn *f, td_key *key, td_values args, const td_spec *s);
/* The same of arguments alone, whatever sizes, strides and offsets they have. */
bool td__key_make_any(td_fn *f, td_key *key, td_values args);
/* Would the key be that of the specialization? False after td__fail, too. */
bool td__key_fits(td_fn *f, td_values args, const td_spec *s);
void td__kins_free(td_kins *k);
/* Finds whose gradients the program reads, before its key is made; false: no memory. */
bool td__key_owners(td_spec *s, td_values args);

/* ---- why.c -------------------------------------------------------------- */

/* What two keys first differ in: "argument 0: size 4 at dim 1, was 3". Nothing where
 * they are the same. */
void td__key_difference(td_buf *b, const td_key *now, const td_key *was);
/* Of which kind the difference is that td__key_difference describes. */
typedef enum td_key_change {
    TD_CHANGE_OTHER,
    TD_CHANGE_NUMBER,
    TD_CHANGE_SIZE
} td_key_change;
td_key_change td__key_change(const td_key *now, const td_key *was);
/* How many words differ; of other lengths: a lot. */
int           td__key_distance(const td_key *a, const td_key *b);
/* Calls fn with one line of text for each thing a key promises. */
void td__key_each(const td_key *k, void (*fn)(void *env, const char *text), void *env);

/* ---- misfit.c ----------------------------------------------------------- */

/* Why the call does not fit the specialization; nothing where it does. */
void td__spec_difference(td_buf *b, td_fn *f, td_values args, const td_spec *s);
/* One more than the limit allows: says in what the call differs. False. */
bool td__fail_limit(td_fn *f, td_values args, int64_t limit);
void td__log_misfit(td_fn *f, td_values args); /* why it fits none */

/* ---- recheck.c ---------------------------------------------------------- */

/* With debug_asserts, at some calls: does the body still do what was compiled? False
 * after td__fail. */
bool td__spec_recheck(td_fn *f, td_spec *s, td_values args);

/* ---- compile.c ---------------------------------------------------------- */

/* The arguments by input of the program, to be freed. NULL after td__fail. */
td_value *td__spec_inputs(const td_spec *s, const td_graph *program, td_values args);
/* Those of the n inputs that are arguments, which come first, and how many they are: a
 * captured program takes tensors only, a graph of the user's numbers too. */
int       td__spec_given(const td_spec *s, td_values args, td_value *in, int n);

/* The settings that hold for what is compiled now. */
td_config       td__fn_settings(const td_fn *f);
const td_graph *td__spec_program(const td_fn *f, const td_spec *s);

/* A specialization for these arguments; NULL after td__fail. */
td_spec  *td__spec_make(td_fn *f, td_values args);
/* The same in two steps, for a staged function: up to the joint graph, which is tidy,
 * and from there. The second takes over j. Where the setting `dynamic` is on it is for
 * many sizes, or fails. */
td_joint *td__spec_join(td_fn *f, td_spec *s, td_values args);
bool      td__spec_plan(td_fn *f, td_spec *s, td_joint *j);
void      td__spec_drop(td_spec *s); /* NULL is fine */

/* ---- stages.c ----------------------------------------------------------- */

typedef bool td_stage_fn(td_fn *f, td_spec *s, td_values args);

/* A graph or a text that a stage makes, to be shown. */
typedef struct td_made {
    const char *name;  /* for `tandem show --after`; NULL: it is not shown there */
    const char *title; /* in logs; NULL: it is not logged */
    td_topic    topic;
    const td_graph *(*graph)(const td_fn *f, const td_spec *s); /* gives NULL: none */
    void (*text)(td_buf *b, const td_spec *s);
} td_made;

/* A stage. What is done for all of them wraps rows: spans and times, logs, checks with
 * debug_asserts, the cache on disk. */
enum { TD_STAGE_MAKES = 5 };
typedef struct td_stage_row {
    const char  *name; /* also of its span */
    td_stage_fn *run;  /* NULL: the backend does, when the plan is made or later */
    uint8_t      needs, makes; /* sets of what td_spec.has counts */
    bool         finds;   /* before it: is what it and the next ones make on disk? */
    bool         keeps;   /* what there is goes to disk */
    td_topic     for_log; /* it is run for this topic alone; 0: always */
    td_made      made[TD_STAGE_MAKES];
} td_stage_row;
extern const td_stage_row td__stages[TD_SPENT_COUNT];

/* Runs the rows from first to last but those whose work is done. False after fail. */
bool           td__stages_run(td_fn *f, td_spec *s, td_values args, td_spent first,
                              td_spent last);
/* s->j, and perhaps s->h, were found on disk. */
void           td__stages_found(td_spec *s);
/* What `tandem show --after=name` shows; NULL: nothing has that name. */
const td_made *td__stage_made(const char *name);
/* The program the body makes of these arguments, which fakes made where their sizes are
 * symbols (else NULL); what else it read goes to deps. NULL after td__fail. */
td_graph *td__spec_capture(td_fn *f, td_values args, td_faker *fakes, td_deps *deps);
/* s->program replayed for these arguments, of other sizes. NULL after td__fail. */
td_graph *td__spec_replay(const td_spec *s, td_values args);

/* ---- cache.c ------------------------------------------------------------ */

/* Before anything is traced: decides whether s may be kept, and finds it on disk where
 * the caller vouches for the program. True: s->program, s->j and the rest are there. */
bool td__keep_vouched(td_fn *f, td_spec *s, td_values args);
/* The same behind the capture, for arguments as they are traced. */
bool td__keep_find(td_fn *f, td_spec *s, td_values args);
/* Before the plan changes them: j and h, which may be NULL, are what is to be kept. */
void td__keep_note(td_fn *f, td_spec *s, const td_joint *j, const td_halves *h);
void td__keep_store(td_fn *f, td_spec *s); /* when it is made */

/* ---- dynamic.c ---------------------------------------------------------- */

typedef enum td_vary {
    TD_SIZES_NUMBERS,  /* sizes of arguments stay numbers */
    TD_SIZES_MAY_VARY, /* the settings choose; numbers where symbols will not do */
    TD_SIZES_MUST_VARY /* all are symbols, or it fails */
} td_vary;
/* From the body to s->j and the guards; s->varies tells whether sizes of arguments were
 * symbols. Sizes that depend on values are symbols in any case. False after td__fail:
 * where s->varies, numbers may still do. */
bool      td__spec_trace(td_fn *f, td_spec *s, td_values args, td_vary how);
/* td__spec_capture for the sizes at hand. */
td_graph *td__spec_capture_numbers(td_fn *f, td_values args, td_deps *deps);

/* own[i]: argument i is the call's to drop, and no longer own when it was; own may be
 * NULL. */
bool td__spec_call(td_fn *f, td_spec *s, td_values args, bool *own, td_value *out);

/* What was decided about values that backward reads; NULL: there are none. */
static inline const td_halves *td__spec_kept(const td_spec *s) {
    return s->plan->h ? s->plan->h : s->step;
}

/* ---- explain.c, explain_json.c, explain_parts.c, stage_log.c ------------ */

enum { TD_EXPLAIN_GRAPHS = 1, TD_EXPLAIN_TIMES = 2 };
/* All three append; false: no memory. */
bool td__explain(td_buf *b, const td_fn *f, unsigned how);
bool td__explain_json(td_buf *b, const td_fn *f, unsigned how);
/* Inputs, results and bases: what a call does besides running code (explain.h). */
void td__explain_wrappers(td_buf *b, const td_spec *s);
/* Each guard in words, those on sizes in one text. */
void td__spec_guards(const td_spec *s, void (*fn)(void *env, const char *text),
                     void          *env);

void        td__explain_type(td_buf *b, const td_graph *g, const td_geom *geom);
/* "12 B", "4.0 KiB". Returns out. */
const char *td__size_text(char out[32], int64_t bytes);

typedef struct td_op_counts {
    int ops, views, writes, draws;
} td_op_counts;
td_op_counts td__count_ops(const td_graph *g);

/* Logs, each where somebody listens. */
void td__stage_log(const td_fn *f, const td_spec *s, const td_stage_row *r);
void td__log_guards(const td_fn *f, const td_spec *s);

/* ---- again.c, regrad.c -------------------------------------------------- */

bool td__again_make(td_fn *f, td_spec *s);

/* A program, and the joint graph that says what is differentiated with respect to
 * what. */
typedef struct td_regrad {
    const td_joint *j;
    const td_graph *program;
    const uint64_t *missing; /* a set: tangents that do not arrive */
} td_regrad;
/* Do gradients of gradients take a run of the program, because history ends inside?
 * Otherwise the joint graph gives them. */
bool td__again_reruns(const td_graph *program, const td_joint *j);
/* A body of primals and tangents that gives the gradients; env is a td_regrad. */
bool td__regrad(td_call *c);
/* May the program of such a body be differentiated? False after td__fail (linear.c). */
bool td__regrad_linear(td_fn *f, const td_graph *g);
/* May its gradients be compiled, whichever of its results get one? */
bool td__custom_check(td_fn *f, const td_graph *program, const td_joint *j);
bool td__regrad_check(const td_joint *j, const td_graph *program,
                      const char *name); /* false: refused */

#endif
