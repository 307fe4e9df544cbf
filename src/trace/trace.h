/* trace/trace.h -- running a function of tensors without bytes and writing down what
 * it does: fake copies of tensors, the mode that records, and capture.
 *
 * What is recorded is what the modes hear: op calls, with composites whole, the
 * grad-mode regions around them, and the place of each in the user's source. The
 * tape below keeps requires-grad and views as eager does, so that td_grad inside a
 * body works; the ops it makes the engine call are recorded like any others. */
#ifndef TD_TRACE_H
#define TD_TRACE_H

#include "eager/eager.h"
#include "graph/graph.h"
#include "tandem/capture.h"

/* ---- maps from pointers (ptrmap.c) -------------------------------------- */

/* Zero-initialized is empty. */
typedef struct td_ptrmap {
    const void **key; /* NULL: free */
    void       **val;
    int          n, cap;
} td_ptrmap;
void *td__ptrmap_get(const td_ptrmap *m, const void *key);      /* NULL when absent */
bool  td__ptrmap_put(td_ptrmap *m, const void *key, void *val); /* a new key */
void  td__ptrmap_free(td_ptrmap *m);

/* ---- fake copies (fake.c) ----------------------------------------------- */

/* What stands for a real storage. */
typedef struct td_fake_store {
    td_storage *st;    /* held */
    bool        given; /* an argument lies in it */
    int32_t     nr;    /* in looks; -1: none yet */
} td_fake_store;

/* A gradient that a tensor keeps. */
typedef struct td_fake_grad {
    td_tensor *owner; /* a copy; the first that has it */
    td_tensor *real;
} td_fake_grad;

/* Copies without bytes of real tensors. Tensors that share bytes get copies that
 * share storage; a tensor has one copy. */
typedef struct td_faker {
    td_ctx   *cx;
    bool      flat; /* copies from here on are no views, but have a history */
    td_arena  arena;
    td_ptrmap stores;              /* by real bytes: td_fake_store */
    td_ptrmap copies;              /* by real tensor: its copy */
    td_ptrmap metas;               /* by real tensor: td_meta its copy gets */
    td_ptrmap grads;               /* by copy of a gradient: td_fake_grad */
    TD_VEC(td_tensor *) held;      /* in turn a copy and what it is a copy of */
    TD_VEC(td_tensor *) beyond;    /* held: leaves where copies got their history */
    TD_VEC(td_storage *) storages; /* held */
} td_faker;

/* The copy of t: geometry, dtype, version, requires-grad, leaf or not, and the views
 * that lead from its base to it. Alive until td__faker_end. NULL after td__fail. */
td_tensor     *td__fake_copy(td_faker *f, td_tensor *t);
/* The copy of t will look like this; before it is made. */
bool           td__fake_shape(td_faker *f, const td_tensor *real, const td_meta *m);
td_fake_store *td__fake_store_of(td_faker *f, const td_tensor *real); /* NULL: none */
/* No more copies will be asked for: lets go of the originals, whose copies stay. */
void           td__faker_close(td_faker *f);
void           td__faker_end(td_faker *f);

/* ---- recording (record.c) ----------------------------------------------- */

typedef struct td_record td_record;

/* What a recorder knows of a tensor: it hangs on td_tensor.payload. Every payload
 * starts with the mode that put it there. */
typedef struct td_tag {
    td_mode       *owner;
    td_gval       *v;
    const td_look *look;    /* of the tensor, as it is now; an alias may lag behind */
    int32_t        storage; /* number in looks */
    int32_t        hidden;  /* which td_whole it is inside of; -1: none */
    bool           moved;   /* set_ gave the tensor other bytes; left to aliases */
} td_tag;

/* A region that is open in the graph, and what held outside. */
typedef struct td_open_region {
    bool grad, inference;
} td_open_region;

/* A recorded call that made tensors nobody has seen: the parts of a composite, or the
 * copy the tape takes of what is overwritten. td_grad may ask for them. */
typedef struct td_whole {
    td_gnode *top;      /* NULL: the call failed */
    int       first, n; /* its parts in td_record.parts */
    int       main;     /* how many of them come before top itself; -1: composite */
    bool      wanted;   /* the graph gets the parts */
    td_gval **instead;  /* by result of a composite: the part that makes it */
} td_whole;

/* Tensors of the outside that a nested body reads around its arguments, held. They
 * are inputs of its graph, behind the arguments. */
typedef struct td_lift {
    TD_VEC(td_tensor *) tensors;
    int  n_args;  /* inputs before them */
    bool reached; /* the body closes over one of its arguments */
} td_lift;

/* Real tensors that a body reads around its arguments: what they are to a capture. */
typedef struct td_closure {
    td_values bound;   /* the first arguments stand for these: a module's members */
    td_faker *fakes;   /* made the arguments, whose sizes are symbols; NULL: they are
                          real themselves */
    bool      aliases; /* they may be arguments or share bytes with them: the caller
                          compares that at each call */
} td_closure;

struct td_record {
    td_mode    mode;   /* first: the mode is the recorder */
    td_mode    inside; /* above the tape: hears the parts of composites */
    td_mode    mark;   /* below the tape: tags results before the tape keeps them */
    td_ctx    *cx;
    td_graph  *g;
    td_faker   fakes;
    td_lift   *lift;  /* of a nested capture; NULL: what is closed over is a const */
    td_record *outer; /* of a nested capture: that of the body around it, or NULL */
    td_closure close;
    td_ptrmap  closed;    /* real tensors the body closes over: their copies */
    td_ptrmap  own_grads; /* inputs (td_gval) whose gradient is an input too */
    bool       start_grad, start_inference; /* before the first op */
    bool       grad, inference;             /* what the graph has, up to here */
    TD_VEC(td_open_region) open;
    td_opcall *current; /* the call being recorded; NULL: none */
    td_opcall *part;    /* the part of it that is running */
    td_whole   whole;   /* of it, so far */
    TD_VEC(td_whole) wholes;
    TD_VEC(td_gnode *) parts;           /* not in the graph's list */
    uint64_t          seed, offset;     /* of the generator, one further per draw */
    int               first_scope;      /* labels from here on make the path */
    td_buf            path;             /* of the last op */
    const char       *scope;            /* the same in the graph's arena */
    const char       *file, *file_copy; /* of the last op, and what nodes hold */
    struct td_symenv *sym;    /* whose symbols sizes are; NULL: all are numbers */
    int               guards; /* of it that were looked at */
};

/* Records into g what is called from here on. The mode stack becomes recorder, tape;
 * what stood on it comes back with _end. */
void       td__record_begin(td_record *r, td_graph *g);
/* Makes the copy of a real tensor that the body reads as input `v`. NULL after fail. */
td_tensor *td__record_input(td_record *r, td_tensor *real, const char *name);
/* Before the body runs: the copies it reads in the place of close.bound. */
bool       td__record_bind(td_record *r, const td_value *copies);
/* Copies every tensor that shares bytes with what the body can reach so far: one that
 * the body reads behind a write to these bytes must have been there before it. */
bool       td__record_siblings(td_record *r);
/* The same by the capture around this one, if there is one. */
bool       td__record_outer(td_record *r, td_tensor **t);
/* What stands for a tensor: *t may become its copy. NULL after td__fail. */
td_gval   *td__record_value(td_record *r, td_tensor **t, const char *who);
/* False, with an error, when the body moved the random generator. */
bool       td__record_generator(td_record *r, const char *who);
/* Closes regions and notes a grad mode the body left behind. */
bool       td__record_finish(td_record *r);
/* Lets go of everything but the graph. */
void       td__record_end(td_record *r);
/* Checks of sizes only run time knows that no recorded call has come after yet. */
bool       td__record_asserts(td_record *r);

/* ---- capture (capture.c) ------------------------------------------------ */

/* The program `body` makes of arguments like these, or NULL after td__fail. Inputs
 * are the tensors among args in order, a tensor given twice is two inputs; after
 * them come the tensors the body closed over. Numbers are part of the program. */
td_graph *td__capture(td_ctx *cx, td_body *body, void *env, td_values args);
/* The same where more is known of what the body closes over. A closed-over tensor that
 * is an argument is an input of its own all the same, which nothing reads: so whoever
 * calls the program knows of it. */
td_graph *td__capture_closing(td_ctx *cx, td_body *body, void *env, td_values args,
                              const td_closure *close);
/* The same from a graph: its replay is the body, `in` are its inputs, absent for consts
 * it holds. Names and descriptors stay. */
td_graph *td__capture_graph(const td_graph *g, const td_value *in);
/* The same from a captured program, as if its body ran for these inputs, consts and
 * gradients among them: what the body closes over and asks of gradients stays. */
td_graph *td__capture_replay(const td_graph *program, const td_value *in);
/* The same with the casts of the autocast region around: the program to run there, with
 * autocast off. */
td_graph *td__capture_cast(const td_graph *g, const td_value *in,
                           const td_closure *close);
/* The same for an argument of an op: what the body closes over, values of the capture
 * around it as well as real tensors, becomes inputs. Those in `lift` come first, in
 * order; new ones are added. */
td_graph *td__capture_nested(td_ctx *cx, td_body *body, void *env, td_values args,
                             td_lift *lift);
td_values td__call_args(const td_call *c);
/* Runs another body as this call's, without the first `skip` arguments. */
bool      td__call_inner(td_call *c, td_body *body, void *env, int skip);
/* Each tensor t among the results becomes fn(t); false when one is nil. */
bool      td__call_map(td_call *c, td_tensor *(*fn)(td_tensor *t));
/* For inputs as their looks say. */
td_graph *td__capture_types(const td_graph *g);
/* The same with ops replaced by simpler ones: names with commas between, or "all". */
td_graph *td__graph_decompose(const td_graph *g, const char *ops);

/* ---- gradients that inputs keep (own_grad.c) ---------------------------- */

/* td_backward adds to the gradient a leaf keeps, td_zero_grad takes it away. To a
 * program that is one more input, <own_grad i>, where it reads or writes the gradient
 * input i came with, and one more output, behind the results, where i is left with
 * another one, or with none. Whoever calls a program reads and leaves them.
 *
 * Fills in[] where a gradient is meant; false, without an error: one is missing, or
 * there is one where there was none. */
bool td__own_grads_read(const td_graph *program, td_value *in);
/* Gradients among out[] go to their inputs. */
bool td__own_grads_leave(const td_graph *program, const td_value *in,
                         const td_value *out);
/* td__graph_replay of a program, in[] without gradients. */
bool td__program_replay(const td_graph *program, td_value *in, td_value *out);

/* ---- histories of inputs (history.c) ------------------------------------ */

/* Does a gradient of `from`, no view of `to`, flow through operations of the outside to
 * `to`? -1 after td__fail. A program in which td_grad computes the gradient of an input
 * (wanted) is right only where no other input's history passes through it. */
int td__history_passes(td_tensor *from, td_tensor *to);

/* ---- nested graphs (nest.c) --------------------------------------------- */

void td__lift_free(td_lift *l);
/* Inputs that g does not read, so that it has one for each lifted tensor; n_args are
 * there without them. */
bool td__lift_pad(td_graph *g, const td_lift *l, int n_args);

/* A tensor to capture with in t's place: over the same bytes, with neither history nor
 * views nor a mode's payload, so that looking at it calls no op. NULL after fail. */
td_tensor *td__template(td_tensor *t, bool grad);

enum { TD_WRITTEN = 1, TD_WRITTEN_LOUD = 2 };
/* By input: is it written, and with gradients on; `grad` holds where g begins. */
bool td__graph_writes(const td_graph *g, bool grad, uint8_t *how);

/* The graphs among a call's arguments become the recorded graph's: captured anew for
 * the operands where they do not fit them. */
bool td__record_graphs(td_record *r, td_opcall *c, td_garg *args);

/* ---- custom functions (custom_capture.c) -------------------------------- */

/* td_mode.function of the recorder. */
bool td__record_function(td_mode *m, const td_fncall *call);

#endif
