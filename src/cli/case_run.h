/* cli/case_run.h -- runs the cases of a .td file and says what came of them. */
#ifndef TD_CASE_RUN_H
#define TD_CASE_RUN_H

#include "graph/graph.h"
#include "tandem/mode.h"

typedef struct case_run case_run;

/* Executes a function on inputs; for a const, in[i] is the run's own copy. May say
 * in run->refused that it cannot. */
typedef bool case_call_fn(case_run *run, const td_graph *fn, const td_value *in,
                          td_value *out);

/* A way of execution. */
typedef struct case_way {
    const char            *name;
    case_call_fn          *call;
    void                  *env;   /* the call's own */
    double                 slack; /* values may differ by so many units of precision */
    double                 grad_slack; /* gradients */
    /* What it saves for backward is its own: where eager's backward fails because the
     * program has written a saved value, it may go on. */
    bool                   saves_copies;
    bool                   of_graphs; /* cannot run bodies: see case_needs_body */
    /* What it is compared with; NULL: eager. */
    const struct case_way *against;
} case_way;

/* The consts of a function, copied: a run may write them. */
typedef struct case_consts {
    const td_graph *fn;
    td_tensor     **copy; /* [fn->consts.n] */
} case_consts;

/* A function of the case, compiled. */
typedef struct case_closure case_closure;
typedef struct case_fn {
    const td_graph *fn;
    struct td_fn   *f;
    case_closure   *closure; /* it is a body with this env; NULL: a graph */
} case_fn;

struct case_run {
    const td_gfile *file;
    const td_gcase *c;
    const case_way *way;
    td_replay       r;              /* the case's values */
    const td_gstep *step;           /* the call under way */
    const td_gstep *last;           /* the last call, whose outputs go backward */
    bool            refused;        /* the way said no, the context why */
    int             higher;         /* how often gradients were taken as values */
    TD_VEC(const td_gval *) leaves; /* values that require grad, in order */
    TD_VEC(td_storage *) storages;  /* met so far: their numbers in reports */
    TD_VEC(case_consts) consts;
    TD_VEC(case_fn) fns;                  /* way_compiled.c's */
    TD_VEC(struct case_region *) regions; /* case_call.c's, of checkpoints, */
    struct td_module *module;             /* ...and of module= */
    td_buf           *out;                /* the report; NULL: none */
    bool              json;
    bool              open;     /* JSON: a step is begun and not closed */
    td_mode_hook      listener; /* case_draws.c's */
    td_buf            draws;    /* JSON of what was drawn since the last call */
};

/* case_ways.c: eagerly, and the other ways there are; the table ends with NULL. */
extern const case_way        case_eager;
extern const case_way *const case_ways[];
enum { CASE_COMPILED = 7 };
extern const case_way case_compiled[CASE_COMPILED]; /* way_compiled.c */
extern const case_way case_as_set; /* compiled as the settings say, for `cache why` */
/* The same with the graphs of native code replayed: what it is made of. */
extern const case_way case_replayed[CASE_COMPILED];

/* Runs the case inside a scope of its own, reporting as it goes. False: it failed
 * and the context says why and where. */
bool case_run_all(case_run *run);

/* The same in steps, in the caller's scope. _end is needed either way. */
bool case_begin(case_run *run);
bool case_step(case_run *run, int i);
void case_end(case_run *run);

/* case_file.c: does a case call g? */
bool case_calls(const td_gfile *f, const td_graph *g);
/* Opens a context, reads the file and shows it; the status of the command. */
int  case_file(const char *command, const char *path, int (*show)(const td_gfile *f));

/* Every function of the file through the clean-up passes. False: no memory. */
bool case_clean(const td_gfile *f);

/* case_call.c: runs the call of a step in the run's way, with its options around it;
 * out has room for case_results. */
bool case_call(case_run *run, const td_gstep *s, const td_value *in, td_value *out);
/* Around a backward with hooks=; _end also after a failure in between. */
bool case_hooks_begin(case_run *run, const td_gstep *s);
void case_hooks_end(case_run *run, const td_gstep *s);
void case_call_end(case_run *run);
void case_fns_end(case_run *run); /* way_compiled.c */
/* The function of a call with what its options put inside, run eagerly. */
bool case_body(case_run *run, const td_gstep *s, const td_value *in, td_value *out);
int  case_results(const td_gstep *s); /* how many it gives */
/* Is the input no argument: a literal, or a tensor of the case that is closed over? */
bool case_is_closed_over(const td_graph *fn, int input);
bool case_is_literal(const td_graph *fn, int input);
/* Does a call of the case have more inside than the graph of its function? */
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
/* What was drawn since the last report; a call that fails has drawn too. */
void case_report_draws(case_run *run);
void case_report_outputs(case_run *run, const td_gstep *s);
void case_report_backward(case_run *run, const td_gstep *s, const td_tensors *roots,
                          const td_tensors *grads);

#endif
