/* cli/case_run.h -- runs the cases of .td files and reports the results. */
#ifndef TD_CASE_RUN_H
#define TD_CASE_RUN_H

#include "graph/graph.h"
#include "tandem/mode.h"

typedef struct case_run case_run;

/* Executes a function on inputs; consts are the run's own copies. Sets run->refused
 * if it does not support the function. */
typedef bool case_call_fn(case_run *run, const td_graph *fn, const td_value *in,
                          td_value *out);

/* A way to execute functions: eagerly, or compiled with some options. */
typedef struct case_way {
    const char            *name;
    case_call_fn          *call;
    void                  *env;   /* for call */
    double                 slack; /* tolerance of values, in units of machine epsilon */
    double                 grad_slack; /* tolerance of gradients */
    /* It saves copies for backward: where eager's backward fails because a saved value
     * was modified, this way may succeed. */
    bool                   saves_copies;
    bool                   of_graphs; /* takes graphs only: see case_needs_body */
    bool                   backward;  /* its backwards are code (td_aot_backward) */
    /* The way it is compared with; NULL: eager. */
    const struct case_way *against;
} case_way;

/* Copies of a function's consts: a run may write them. */
typedef struct case_consts {
    const td_graph *fn;
    td_tensor     **copy; /* [fn->consts.n] */
} case_consts;

/* A function of the case, compiled. */
typedef struct case_closure case_closure;
/* A compiled function of the case. */
typedef struct case_fn {
    const td_graph *fn;
    struct td_fn   *f;
    case_closure   *closure; /* env of its body; NULL: it is a graph */
} case_fn;

struct case_run {
    const td_gfile *file;
    const td_gcase *c;
    const case_way *way;
    td_replay       r;       /* the values of the case */
    const td_gstep *step;    /* the current call */
    const td_gstep *last;    /* the last call; backward starts at its outputs */
    bool            refused; /* the way does not support it; error in context */
    int             higher;  /* number of `grad` statements: order of derivatives */
    TD_VEC(const td_gval *) leaves; /* values that require grad, in order */
    TD_VEC(td_storage *) storages;  /* by their number in reports */
    TD_VEC(case_consts) consts;
    TD_VEC(case_fn) fns;                  /* used by way_compiled.c */
    TD_VEC(struct case_region *) regions; /* checkpoint regions (case_call.c) */
    struct td_module      *module;        /* of module= (case_call.c) */
    struct td_backward_fn *back;          /* of a way with `backward`; made when used */
    td_buf                *out;           /* the report; NULL: none */
    bool                   json;
    bool                   open; /* JSON: the current step's object is open */
    /* Called before each backward with its roots and tangents, if not NULL; false after
     * td__fail ends the run. */
    bool (*before_backward)(void *env, td_tensors roots, td_tensors grads);
    void        *before_env;
    td_mode_hook listener; /* used by case_draws.c */
    td_buf       draws;    /* JSON: random results since the last call */
};

/* case_ways.c: eagerly, and the other ways there are; the table ends with NULL. */
extern const case_way        case_eager;
extern const case_way        case_backward; /* case_eager with backwards as code */
extern const case_way *const case_ways[];
/* way_compiled.c; those from CASE_COMPILED on pack and offload saved values, for random
 * programs. */
enum { CASE_COMPILED = 7, CASE_RANDOM = 9 };
extern const case_way case_compiled[CASE_RANDOM];
extern const case_way case_as_set; /* compiled with the settings, for `cache why` */
/* The same with the graphs of native code interpreted. */
extern const case_way case_replayed[CASE_RANDOM];

/* Runs the case inside a scope of its own, with a report. False: it failed, and the
 * context has the error. */
bool case_run_all(case_run *run);

/* The same step by step, in the caller's scope; case_end in any case. */
bool case_begin(case_run *run);
bool case_step(case_run *run, int i);
void case_end(case_run *run);

/* case_file.c: does any case call g? */
bool case_calls(const td_gfile *f, const td_graph *g);
/* Opens a context, reads the file and calls `show`. Returns the exit status. */
int  case_file(const char *command, const char *path, int (*show)(const td_gfile *f));

/* Runs the clean-up passes on every function of the file. False: out of memory. */
bool case_clean(const td_gfile *f);

/* case_call.c: executes the call of a step in the run's way, with all its options; out
 * has case_results entries. */
bool case_call(case_run *run, const td_gstep *s, const td_value *in, td_value *out);
/* For a backward with hooks=; case_hooks_end also after a failure in between. */
bool case_hooks_begin(case_run *run, const td_gstep *s);
void case_hooks_end(case_run *run, const td_gstep *s);
void case_call_end(case_run *run);
void case_fns_end(case_run *run); /* way_compiled.c */
/* The function of a call, with what its options add inside it, run eagerly. */
bool case_body(case_run *run, const td_gstep *s, const td_value *in, td_value *out);
int  case_results(const td_gstep *s); /* number of results */
/* Does a call of the case have control=true? */
bool case_has_control(const td_gcase *c);
/* case_control.c: replays g with td_cond and td_while in place of cond, while_loop. */
bool case_replay_control(const td_graph *g, const td_value *in, td_value *out);
/* Is the input no argument, but a literal or a closed-over tensor? */
bool case_is_closed_over(const td_graph *fn, int input);
bool case_is_literal(const td_graph *fn, int input);
/* Does a call of the case do more than the graph of its function? */
bool case_needs_body(const td_gcase *c);

/* case_draws.c: around what `draws` random numbers, for JSON reports: lists them in
 * run->draws, which the next call reports. False after a failure; _end is needed after
 * a failed call too. */
bool case_draws_begin(case_run *run, bool draws);
bool case_draws_end(case_run *run);

/* case_report.c: parts of a report, in this order. Nothing when there is no `out`. */
void case_report_begin(case_run *run);
void case_report_end(case_run *run, bool ok);
void case_report_call(case_run *run, const td_gstep *s);
void case_report_inputs(case_run *run, const td_gstep *s, const char *key);
/* The random numbers drawn since the last report, also by a call that failed. */
void case_report_draws(case_run *run);
void case_report_outputs(case_run *run, const td_gstep *s);
/* The length of a report before a step. */
typedef struct case_mark {
    size_t n;
    bool   open;
} case_mark;
/* Called before a backward, which may write its tangents. */
case_mark case_report_backward(case_run *run, const td_gstep *s, td_tensors tangents);
/* Gradients of all leaves of the case, also of those that the backward did not reach.
 * `failed`: none; the report is as it was before the backward. */
void      case_report_gradients(case_run *run, const case_mark *failed);

#endif
