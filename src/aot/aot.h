/* aot/aot.h -- ahead-of-time compilation: from a body, a module or a graph to a
 * td_fn.
 *
 * A td_fn owns a list of specializations (td_spec). Each is compiled code for one
 * key: the properties of a call that decide which program it runs. A call computes
 * its key, runs the specialization with that key, or compiles a new one (compile.c,
 * stages.c). */
#ifndef TD_AOT_H
#define TD_AOT_H

#include "module/deps.h"
#include "runtime/plan.h"
#include "tandem/export.h"
#include "tandem/facts.h"

/* The key of a call: 64-bit words, one per property. Two calls with equal keys (and,
 * for symbolic sizes, passing guards) run the same code. key.c writes keys, key_diff.c
 * prints and compares them. Layout:
 *
 *   word 0      number of arguments
 *   word 1      modes: bit 0 grad mode, bit 1 inference mode, default dtype at
 *               TD_KEY_DTYPE, autocast at TD_KEY_AUTOCAST, TD_KEY_PASSES, TD_KEY_HOOKED
 *   values      each argument, each tensor the body closes over
 *   gradients   for each .grad the program reads: TD_KEY_GRAD, index of the value that
 *               has it, then the gradient as a value. For each .grad the program found
 *               absent: TD_KEY_GRAD, index, then TD_K_NONE, or TD_K_BOOL 1 if it exists
 *   bases       the base of each view that shares its storage with another value
 *
 *   a value is  its td_kind, then
 *     tensor    bits (td_key_bit), alias word, sizes, strides, the offset if
 *               TD_KEY_OFFSET, bytes of storage after its last element if TD_KEY_REST,
 *               td_storage.object_key if TD_KEY_OBJECT, rank and sizes of the
 *               accumulation node if TD_KEY_READ, a count of words and these words if
 *               TD_KEY_TYPED
 *     number    its 64 bits
 *
 * The alias word of value i is 2k + 1 if value k < i is the same tensor, 2k + 2 if k is
 * the first value in the same storage, else 0. TD_KEY_ANY replaces a size that guards
 * check instead. */
typedef TD_VEC(int64_t) td_key;
/* The values of a call while its key is made: at(env, i) is a tensor or NULL. */
typedef struct td_key_values {
    td_tensor *(*at)(const void *env, int i);
    const void *env;
    int         n;
} td_key_values;
/* Appends the words of value i, a tensor t of a type: type, metadata, inner tensors and
 * what they share storage with. Sizes that are symbols in `of`, or all if `any`, are
 * TD_KEY_ANY. False: out of memory. */
bool td__key_typed(const td_key_values *all, int i, const td_tensor *t,
                   const td_gtyped *of, bool any, td_key *to);
/* Two lists of such words of n words each: do they differ in inner sizes and strides
 * alone? */
bool td__key_typed_sizes(const int64_t *a, const int64_t *b, int n);
#define TD_KEY_ANY INT64_MIN
#define TD_KEY_GRAD 64 /* no td_kind */
typedef enum td_key_bit {
    TD_KEY_DTYPE = 8, /* in the modes word; a tensor's dtype is in bits 0..7 */
    TD_KEY_AUTOCAST = 16,
    TD_KEY_PASSES = 24, /* modes: one input's history passes through another's */
    TD_KEY_HOOKED,      /* modes: a td_spec.grad_targets tensor has a gradient hook */
    TD_KEY_RANK = 8,
    TD_KEY_NEEDS = 16, /* requires grad */
    TD_KEY_LEAF,       /* requires grad and is a leaf */
    TD_KEY_INFERENCE,
    TD_KEY_VIEW,
    TD_KEY_CREATION, /* four bits: td_creation, how the view was made */
    TD_KEY_READONLY = TD_KEY_CREATION + 4,
    TD_KEY_STALE, /* a stale view: its base was written since it was made */
    TD_KEY_OFFSET,
    TD_KEY_BASE,     /* not an argument: the base of a view earlier in the key */
    TD_KEY_MOVED,    /* a view whose base was moved to another storage (set_) */
    TD_KEY_OWN,      /* a view with requires_grad set on itself, not through its base */
    TD_KEY_APART,    /* a view whose grad_fn does not derive from its base's */
    TD_KEY_NUMBER,   /* a tensor that stands for a number (numbers.c) */
    TD_KEY_REST,     /* the bytes of storage after the last element follow */
    TD_KEY_OBJECT,   /* it carries an object, whose key follows */
    TD_KEY_READ,     /* a leaf that was read: its accumulation node lives, its rank
                    * follows and sizes; -1: those of the tensor */
    TD_KEY_TYPED,    /* of a type: a count of words follows, and these (key_typed.c) */
    TD_KEY_DEVICE,   /* eight bits: its code (core/device.h) */
    TD_KEY_MAKES = 2 /* modes: six bits, the device of ops that read no tensor */
} td_key_bit;

/* How one value of a call relates to the values before it. */
typedef struct td_arg_alias {
    int  first;  /* the first value in the same storage; itself if there is none */
    int  same;   /* the first value that is the same tensor */
    int  view;   /* for a base: the value that is a view of it; else -1 */
    bool shared; /* two different tensors share the storage */
} td_arg_alias;
/* A hash table from storage (or tensor) to the first value that has it. Slots whose
 * stamp is of an earlier call count as empty, so that no call clears the table. */
typedef struct td_alias_slot {
    const void *key;   /* the storage's bytes, or a tensor that is not first in them */
    uint64_t    stamp; /* the call that wrote the slot */
    int         first;
} td_alias_slot;
typedef struct td_arg_aliases {
    td_arg_alias  *group;
    td_alias_slot *slot; /* the hash table */
    int            cap;  /* in values */
    size_t         mask;
    uint64_t       stamp;
} td_arg_aliases;

/* The stages of compilation, in order: rows of td__stages (stages.c). */
typedef enum td_pipe_stage {
    TD_PIPE_CAPTURE,
    TD_PIPE_FACTS, /* only if the log topic `facts` is on */
    TD_PIPE_JOINT,
    TD_PIPE_PASSES,
    TD_PIPE_PARTITION,
    TD_PIPE_PLAN,
    TD_PIPE_FORWARD, /* run by the backend, like the next two */
    TD_PIPE_BACKWARD,
    TD_PIPE_INFERENCE,
    TD_PIPE_COUNT
} td_pipe_stage;

/* The disk cache's state of a specialization while it is compiled (cache.c). */
typedef struct td_cache_state {
    bool      on;     /* the specialization may be read from disk and written there */
    bool      found;  /* it was read from disk */
    td_values args;   /* borrowed from the call, while compiling */
    uint64_t  before; /* hash of args: tracing may refresh stale views */
    td_buf    bytes;  /* serialized, to be written */
    char      name[48];
    int       slot; /* the entry of that name to overwrite; -1: any */
} td_cache_state;

/* The inputs of the first call of a specialization as they arrived: copies without
 * bytes, which share storages, are views of each other, and have flags and histories as
 * the inputs had. A later trace of the program takes them. */
typedef struct td_arrived {
    td_faker  fakes;
    td_value *in; /* by input of the program */
    int       n;
} td_arrived;

/* A specialization: the compiled code for one key, and what makes a call fit it. */
typedef struct td_spec {
    struct td_spec *next;
    int             nr;
    td_graph       *program; /* as captured, owned; NULL: td_fn.graph is the program */
    td_plan        *plan;    /* NULL: not compiled, calls run eagerly (fallback) */
    td_key          key;
    TD_VEC(int32_t) grads_read;   /* values of the key whose .grad the program reads */
    TD_VEC(int32_t) grads_absent; /* values whose .grad the program found absent */
    TD_VEC(int32_t) grad_targets; /* values a backward in the body computes .grad of */
    bool       offsets;  /* the key has storage offsets and the rest of the storage */
    bool       views;    /* the key records views even without requires_grad */
    bool       measures; /* a size of the program depends on values */
    bool       reads;    /* the key records which leaves have an accumulation node */
    bool       replayed; /* the program is a replay of what was captured at first */
    bool       differentiates; /* the body itself runs a backward */
    bool       varies;         /* sizes of arguments are symbols */
    bool       found;          /* it was read from the cache or a file */
    uint8_t    has;            /* set of what the stages have produced so far */
    td_joint  *j;              /* owned until the plan takes it over */
    td_halves *h;              /* the same; NULL: nothing to differentiate */
    /* By argument, the dims that were symbols when the body was captured, besides those
     * that the settings make symbols. Empty: all sizes were numbers. */
    TD_VEC(uint32_t) marks;
    td_faker   *fakes;   /* borrowed while tracing symbolic sizes; else NULL */
    td_arrived *arrived; /* owned until td__spec_later; NULL: no later trace */
    td_halves  *step;    /* what backwards inside the body recompute; NULL: nothing */
    struct td_guard_prog *guards;  /* on symbolic sizes; NULL: sizes are in the key */
    int                   mode;    /* td_fn.mode when it was compiled */
    td_deps               deps;    /* modules and watched bytes that the body read */
    uint64_t              n_calls; /* counted with debug_asserts only */
    td_config             set;     /* the settings it was compiled with */
    td_dim_list           sizes;   /* those of its program (td_graph.sizes), or empty */
    td_cache_state        cache;
    td_buf                image;             /* for td_fn_save, without its head */
    int64_t               ns[TD_PIPE_COUNT]; /* time spent per stage */
} td_spec;

/* A function's options, copied with everything they point to. Counted: the function
 * and every history whose backward is not compiled yet hold a reference. The last
 * td__shared_opts_drop calls the drop callbacks of the user's backends and passes. */
typedef struct td_shared_opts {
    int         refs;
    td_arena    arena;
    td_aot_opts opts;
    td_backend  backends[3];
    td_config   config;
    const char *store; /* the name of td_aot_opts.offload.store; NULL: none */
} td_shared_opts;

struct td_fn {
    TD_OWNED_FIELDS;
    int                  id;
    td_body             *body;
    void                *env;
    const td_graph      *graph; /* instead of a body */
    bool                 owns_graph;
    bool                 inner; /* computes gradients: the user's passes already ran */
    int                  n_orders; /* ...orders below it (td_joint_opts) */
    const td_grad_order *orders;
    td_shared_opts      *shared;
    td_aot_opts          opts; /* shared->opts */
    char                *name;
    td_spec             *specs; /* a list, most recently used first */
    int                  n_specs;
    bool             limit_warned; /* warned once: calls over the limit run eagerly */
    td_key           key;          /* scratch: the key of the current call */
    td_arg_aliases   aliases;      /* scratch: its values by storage */
    struct td_state *state;        /* members of a module or step; NULL: none */
    int              n_state;      /* leading arguments that are members */
    int              mode;    /* index of the module's current form (module_fn.c) */
    const td_value  *members; /* [n_state], borrowed during a call */
    bool             staged;  /* of td_stage_compile: never compiles another */
    int              calls;   /* calls under way */
    bool             dropped; /* dropped meanwhile: the last call frees it */
    int              loss;    /* of an export: td_joint_opts.loss */
    bool             forward; /* differentiates nothing, even if inputs require grad */
    struct td_step  *step;    /* of td_aot_step; else NULL */
    uint8_t         *numbers; /* by argument: what is known of numbers (numbers.c) */
    int              n_numbers;
    int              n_lifted; /* numbers that are passed as tensors */
    TD_VEC(td_buf) images;     /* what td_fn_save writes, or td_fn_load read */
    char *unsaved;   /* why a specialization has no image; NULL: all have one */
    char *loaded;    /* the file it was read from: it has no body; else NULL */
    bool  own_graph; /* of a loaded function: the user replaced its joint graphs */
};

/* ---- numbers.c ---------------------------------------------------------- */

/* The arguments of a call, with tensors for numbers that vary. */
typedef struct td_lifted {
    td_values given, args;
    int       n_lifted;
    td_value  few[16], *heap;
} td_lifted;

/* Makes room for what is known of n arguments. False after td__fail. */
bool td__numbers_reserve(td_fn *f, int n);
/* Sets l->args from l->given. False after td__fail; td__lifted_end either way. */
bool td__lifted_make(td_fn *f, td_lifted *l);
void td__lifted_end(td_lifted *l);
/* Finds numbers in which the call differs from earlier ones, to be passed as tensors
 * from now on. False: there are none, or td__fail. */
bool td__numbers_learn(td_fn *f, td_values args);
/* After a trace with tensors for numbers failed: clears the error, and the next trace
 * has constants instead. td__numbers_decide ends this: for good if that trace
 * succeeded; else the call fails in any case, and nothing is known. */
void td__numbers_forbid(td_fn *f, const td_lifted *l);
void td__numbers_decide(td_fn *f, bool constants);

/* ---- fn_options.c ------------------------------------------------------- */

/* Copies and checks the options; one reference is the caller's. Takes over the
 * callbacks even when it fails (their drop functions run then). NULL after td__fail. */
td_shared_opts *td__shared_opts_make(td_ctx *cx, const td_aot_opts *opts);
void            td__shared_opts_drop(td_shared_opts *h); /* NULL is fine */
/* Is argument i, counted after the members before it, one of
 * td_aot_opts.static_args? */
bool            td__arg_is_static(const td_fn *f, int i);
/* The name in the options, or `usual` if there is none. */
const char     *td__shared_opts_name(const td_shared_opts *h, const char *usual);

/* ---- fn.c --------------------------------------------------------------- */

/* Compiles for arguments of these types, unless such code exists, without calling it.
 * The arguments may be fake tensors (without bytes). False after td__fail. */
bool   td__fn_prepare(td_fn *f, td_values args);
/* A function with a name and options only. Takes over h, which may be NULL after
 * td__fail. The function has no owner yet: free it with td__fn_free, or hand it to
 * the user with td__fn_give. NULL after td__fail. */
td_fn *td__fn_make(td_ctx *cx, td_shared_opts *h, const char *name);
void   td__fn_free(td_fn *f);             /* NULL is fine */
td_fn *td__fn_give(td_ctx *cx, td_fn *f); /* the nil function for NULL */
/* td_aot_function and td_aot_module before td__fn_give. NULL after td__fail. */
td_fn *td__fn_of_body(td_ctx *cx, td_body *body, void *env, const td_aot_opts *opts);
td_fn *td__fn_of_module(td_module *m, const td_aot_opts *opts, bool fixed);
/* Ends a call that td_fn.calls counted; frees f if it was dropped during the call. */
void   td__fn_leave(td_fn *f);
/* Calls f with all arguments, a module's members first. Returns the number of
 * results, of which the first n_out are in out; -1 after td__fail. own: as for
 * td__spec_call. */
int    td__fn_call(td_fn *f, td_values args, bool *own, td_value *out, int n_out);
/* Are n results at least the n_out requested? False after td__fail. */
bool   td__fn_check_results(const td_fn *f, const char *who, int n, int n_out);

/* ---- module_fn.c -------------------------------------------------------- */

/* td__fn_call with the module's current members before args; own is by index of args.
 */
int  td__state_call(td_fn *f, td_values args, bool *own, td_value *out, int n_out);
/* Reads the module's current members and form into f. False after td__fail. */
bool td__state_renew(td_fn *f);
/* Sets *all to the module's members, then args. td_fn.members points into it until
 * td__state_give, which the caller must call; f is not freed in between. False after
 * td__fail. */
bool td__state_args(td_fn *f, td_values args, td_values *all);
void td__state_give(td_fn *f, td_values all);
void td__state_drop(struct td_state *s); /* NULL is fine */
/* Makes f's state from the members of m (NULL: none) and the tensors `more`. fixed:
 * fail later calls if the members change. False after td__fail. */
bool td__state_make(td_fn *f, td_module *m, td_tensors more, bool fixed);
/* The module's current form as text (names, ties, train or eval mode); NULL: no
 * module. */
const char *td__state_form(const td_fn *f);
/* Appends how the module's form differs from the one s was compiled for. */
void        td__state_difference(td_buf *b, const td_fn *f, const td_spec *s);
td_module  *td__state_module(const td_fn *f); /* NULL: it has none */
/* The number of a form, as td_fn.mode; -1 after td__fail. */
int         td__state_form_nr(td_fn *f, const char *form);
/* The name of leading argument i, a member: its path in the module, or its entry in
 * td_aot_opts.state_names. NULL: it has none. */
const char *td__state_member(const td_fn *f, int i);
/* What messages call argument i of the function: "fc1.weight", or "argument 0", counted
 * from the first argument of the user. */
const char *td__arg_name(const td_fn *f, int i, char out[80]);
/* Names the first inputs of a captured program after members, parameters before
 * buffers. */
bool        td__state_name(const td_fn *f, td_graph *program, const td_deps *d);

/* ---- train_step.c ------------------------------------------------------- */

/* A training step must return nothing with a grad_fn: true if j has no tangents or f
 * is no step. False after td__fail. */
bool td__step_check(const td_fn *f, const td_joint *j);

/* ---- pack_saved.c ------------------------------------------------------- */

/* Traces td_aot_opts.saved for the saved values of s->h and joins both functions to it;
 * s->h stays as it is if pack returns nothing. False after td__fail. */
bool td__spec_pack(const td_fn *f, td_spec *s, const td_part_opts *o);
/* Packing is traced from types, which know no size that depends on values: fails if
 * j has one and f packs. The program is traced for the sizes of the call then. */
bool td__pack_check_sizes(const td_fn *f, const td_joint *j);

/* ---- joint_pass.c ------------------------------------------------------- */

/* Applies td_aot_opts.decompose and td_aot_opts.pass to the joint graph. Runs dead
 * code elimination and, if cse, CSE around them. False after td__fail. */
bool td__joint_change(td_fn *f, td_joint *j, bool cse);
/* The decompositions of the options alone, with the same clean-up around them. */
bool td__joint_decompose(td_joint *j, const td_aot_opts *o, bool cse);
/* Replaces the joint graph by a copy of g, after checking that inputs and outputs
 * have the same meaning and types. `who` is named in errors. False after td__fail. */
bool td__joint_become(td_joint *j, const td_graph *g, const char *who);

/* ---- key.c -------------------------------------------------------------- */

/* Writes the key of a call with these arguments, as s compares keys (s->offsets,
 * s->views, s->reads, s->guards, closed-over tensors). False after td__fail. */
bool td__key_make(td_fn *f, td_key *key, td_values args, const td_spec *s);
/* The key of the arguments alone, with TD_KEY_ANY for all sizes, strides and offsets.
 */
bool td__key_make_any(td_fn *f, td_key *key, td_values args);
/* Does the call have the key of s? Stops at the first word that differs. False also
 * after td__fail. */
bool td__key_fits(td_fn *f, td_values args, const td_spec *s);
void td__arg_aliases_free(td_arg_aliases *k);
/* Fills grads_read, grads_absent and grad_targets from s->program; call it before
 * td__key_make. False: out of memory. */
bool td__key_find_grads(td_spec *s, td_values args);

/* ---- key_diff.c --------------------------------------------------------- */

/* Appends the first difference of the key of a call of f to that of a specialization:
 * "argument 0: size 4 at dim 1, was 3". Appends nothing if they are equal. */
void td__key_difference(td_buf *b, const td_fn *f, const td_spec *s);
/* What kind of difference td__key_difference describes. */
typedef enum td_key_change {
    TD_CHANGE_OTHER,
    TD_CHANGE_NUMBER,
    TD_CHANGE_SIZE
} td_key_change;
td_key_change td__key_change(const td_key *now, const td_key *was);
/* The number of words that differ; 1 << 20 for keys of different lengths. */
int           td__key_distance(const td_key *a, const td_key *b);
/* May the words be a key? Those of a file may be anything; all other functions take
 * keys that are. */
bool          td__key_valid(const td_key *k);
/* Calls fn with one line of text for each property in the key. */
void td__key_each(const td_key *k, void (*fn)(void *env, const char *text), void *env);

/* ---- mismatch.c --------------------------------------------------------- */

/* Appends the reason why the call does not fit s; nothing if it fits. */
void td__spec_difference(td_buf *b, td_fn *f, td_values args, const td_spec *s);
/* Fails a call that needs more than `limit` specializations, with the difference from
 * the nearest one and a remedy. Returns false. */
bool td__fail_limit(td_fn *f, td_values args, int64_t limit);
void td__log_mismatch(td_fn *f, td_values args); /* topic guards: a line per spec */

/* ---- recheck.c ---------------------------------------------------------- */

/* With debug_asserts, at calls 2, 4, 8, ...: captures the body again and compares.
 * False after td__fail, also if the body does something else than what was compiled. */
bool td__spec_recheck(td_fn *f, td_spec *s, td_values args);

/* ---- compile.c ---------------------------------------------------------- */

/* One value per input of the program; the caller frees the array. NULL after
 * td__fail. */
td_value *td__spec_inputs(const td_spec *s, const td_graph *program, td_values args);
/* Copies the arguments that are inputs of the program to in[0..n) and returns their
 * number; consts follow them. A captured program takes tensors only, the user's graph
 * numbers too. */
int       td__spec_args(const td_spec *s, td_values args, td_value *in, int n);

/* The settings for code compiled now: the options' own, then the context's. */
td_config       td__fn_settings(const td_fn *f);
const td_graph *td__spec_program(const td_fn *f, const td_spec *s);

/* Compiles a specialization for these arguments; NULL after td__fail. sizes: those
 * that depend on values, which it is for alone, taken over; NULL: any. */
td_spec  *td__spec_make(td_fn *f, td_values args, td_dim_list *sizes);
/* The sizes that depend on values which the program of s makes of these arguments.
 * Called after td__fail: true clears the error, false leaves it. */
bool      td__spec_measure(td_fn *f, const td_spec *s, td_values args, td_dim_list *to);
/* The facts of a call of f with all arguments; NULL after td__fail. */
td_facts *td__spec_facts(td_fn *f, td_values args);
/* td__spec_make in two steps, for staged functions: up to the cleaned joint graph,
 * and from there to the plan. td__spec_plan takes over j. With the setting `dynamic`
 * all sizes are symbols, or it fails. NULL and false after td__fail. */
td_joint *td__spec_join(td_fn *f, td_spec *s, td_values args);
bool      td__spec_plan(td_fn *f, td_spec *s, td_joint *j);
void      td__spec_drop(td_spec *s); /* NULL is fine */

/* ---- stages.c ----------------------------------------------------------- */

typedef bool td_stage_fn(td_fn *f, td_spec *s, td_values args);

/* A graph or text that a stage produces, for logs and `tandem show --after`. */
typedef struct td_artifact {
    const char *name;  /* for `tandem show --after`; NULL: not shown there */
    const char *title; /* in logs; NULL: not logged */
    td_topic    topic;
    const td_graph *(*graph)(const td_fn *f, const td_spec *s); /* NULL result: none */
    void (*text)(td_buf *b, const td_spec *s);
} td_artifact;

/* A stage. What is done for all of them wraps rows: spans and times, logs, checks with
 * debug_asserts, the cache on disk. */
enum { TD_STAGE_ARTIFACTS = 5 };
/* A row of the pipeline. td__stages_run does for every row what stages have in
 * common: spans and times, logs, verification with debug_asserts, the disk cache. */
typedef struct td_stage_row {
    const char  *name;         /* also the name of its span */
    td_stage_fn *run;          /* NULL: the backend runs it, with the plan or later */
    uint8_t      needs, makes; /* sets, as td_spec.has */
    bool         looks_up; /* before it, look for this and the next stages on disk */
    bool         stores;   /* write what there is to the disk cache */
    bool         users;    /* calls passes, decompositions or a partitioner */
    td_topic     for_log;  /* run only if this topic is on; 0: always */
    td_artifact  artifacts[TD_STAGE_ARTIFACTS];
} td_stage_row;
extern const td_stage_row td__stages[TD_PIPE_COUNT];

/* Runs the rows first..last, except those whose product td_spec.has already contains.
 * False after td__fail. */
bool td__stages_run(td_fn *f, td_spec *s, td_values args, td_pipe_stage first,
                    td_pipe_stage last);
/* Marks the stages up to s->j and, if present, s->h as done: they were read from
 * disk. */
void td__stages_found(td_spec *s);
/* The artifact that `tandem show --after=name` prints; NULL: no such name. */
const td_artifact *td__stage_artifact(const char *name);
/* How the settings want the program joined, in the current grad mode. */
td_joint_opts      td__spec_joint_opts(const td_fn *f, const td_spec *s);
/* How td__spec_capture captures. */
typedef struct td_capture_as {
    td_faker *fakes; /* made the arguments, with symbolic sizes; NULL: none */
    bool      whole; /* regions are their ops (td_closure.whole) */
} td_capture_as;
/* Captures the body on these arguments. Modules and bytes that the body reads are
 * recorded in deps. NULL after td__fail. */
td_graph *td__spec_capture(td_fn *f, td_values args, td_capture_as how, td_deps *deps);
/* A copy of s->program, captured by replaying it on arguments of other sizes. NULL
 * after td__fail. */
td_graph *td__spec_replay(const td_spec *s, td_values args);

/* ---- cache.c ------------------------------------------------------------ */

/* Before tracing: decides whether s may be cached (s->cache.on) and, if
 * td_aot_opts.version names the program, reads it from disk. True: s->program, s->j,
 * s->h and guards are set. */
bool td__cache_find_version(td_fn *f, td_spec *s, td_values args);
/* The same after the capture, with a hash of the captured program. */
bool td__cache_find(td_fn *f, td_spec *s, td_values args);
/* Serializes s->j and s->h (NULL: none) into s->cache.bytes, before the plan modifies
 * them. */
void td__cache_serialize(td_fn *f, td_spec *s);
void td__cache_store(td_fn *f, td_spec *s); /* writes s->cache.bytes to disk */

/* ---- fn_file.c, fn_file_read.c ------------------------------------------ */

/* Serializes s->j and s->h (NULL: none) into s->image, before the plan modifies them,
 * if the function may be saved. False after td__fail: out of memory. */
bool   td__image_serialize(td_fn *f, td_spec *s);
/* Adds s to td_fn.images; its key is known. False after td__fail. */
bool   td__image_keep(td_fn *f, td_spec *s);
void   td__images_drop(td_fn *f);
/* Finds the specialization of a loaded function for these arguments: as
 * td__cache_find_version. False after td__fail, which names the differences. */
bool   td__image_find(td_fn *f, td_spec *s, td_values args);
/* Fails: the function has no body, which `what` needs. Returns false. */
bool   td__fail_loaded(const td_fn *f, const char *what);
/* A function of the bytes of a file. Takes over h. NULL after td__fail. */
td_fn *td__fn_read(td_ctx *cx, td_shared_opts *h, const void *bytes, size_t n,
                   const char *path);

/* ---- dynamic.c ---------------------------------------------------------- */

typedef enum td_vary {
    TD_SIZES_NUMBERS, /* sizes of arguments stay numbers */
    TD_SIZES_MAY_VARY /* the settings choose; numbers where symbols are unsupported */
} td_vary;
/* Runs the stages capture to passes: fills s->program, s->j and s->guards. s->varies
 * tells whether sizes of arguments were symbols; sizes that depend on values are
 * symbols in any case. False after td__fail: if s->varies, a trace with numbers may
 * still succeed. */
bool td__spec_trace(td_fn *f, td_spec *s, td_values args, td_vary how);
/* Marks dims, and numbers, in which the call differs from s. False: it differs in other
 * properties, or td__fail. */
bool td__spec_changes(td_fn *f, const td_spec *s, td_values args, uint32_t *marks);

/* ---- marked.c ----------------------------------------------------------- */

/* Has an argument dims marked with td_mark_dynamic? */
bool td__marked_any(td_values args);
/* Do calls with marked dims need symbols in the code of s? */
bool td__marks_count(const td_spec *s);
/* Are the marked dims of t symbols in l, the type of its input? NULL: none is. */
bool td__marks_served(const td_tensor *t, const td_gtype *l);
/* False after td__fail: a dim is marked, which cannot be a symbol for that reason. */
bool td__marked_refuse(td_fn *f, td_values args, const char *why);
/* ...a dim of argument i. */
bool td__marked_refuse_one(td_fn *f, td_values args, int i, const char *why);
/* After a trace: is every marked dim a symbol, within its bounds? False after td__fail,
 * which names the op that needs a number. */
bool td__marked_check(td_fn *f, const td_spec *s, td_values args,
                      const struct td_symenv *e);
/* Appends that a marked dim is a number in s. */
void td__marks_difference(td_buf *b, const td_fn *f, const td_spec *s, td_values args);
/* Appends the marks as bytes, for the cache. */
void td__marks_put(td_buf *b, td_values args);

/* How the body of a specialization is captured again. */
typedef struct td_recapture {
    bool symbols; /* the same sizes are symbols; else all are numbers */
    bool whole;   /* regions are their ops */
} td_recapture;
/* Captures the body of s again, on these arguments. NULL after td__fail. */
td_graph *td__spec_recapture(td_fn *f, const td_spec *s, td_values args,
                             td_recapture how, td_deps *deps);

/* Runs s on the arguments; out has room for td_joint.n_results. own (may be NULL):
 * own[i] says that the call may drop argument i early, and is cleared once it has.
 * False after td__fail. */
bool td__spec_call(td_fn *f, td_spec *s, td_values args, bool *own, td_value *out);

/* The partition of s, or of the backward inside a step; NULL: nothing is
 * differentiated. */
static inline const td_halves *td__spec_partition(const td_spec *s) {
    return s->plan->h ? s->plan->h : s->step;
}

/* ---- explain.c, explain_json.c, explain_parts.c, stage_log.c ------------ */

enum { TD_EXPLAIN_GRAPHS = 1, TD_EXPLAIN_TIMES = 2 };
/* Append explanations of f's specializations as text and JSON. False: out of memory. */
bool td__explain(td_buf *b, const td_fn *f, unsigned how);
bool td__explain_json(td_buf *b, const td_fn *f, unsigned how);
/* Appends inputs, results, bases and the epilogue of a call (explain.h). */
void td__explain_wrappers(td_buf *b, const td_spec *s);
/* Calls fn for each property of the key and dependency in words; guards on sizes are
 * one text. */
void td__spec_guards(const td_spec *s, void (*fn)(void *env, const char *text),
                     void          *env);

/* Appends a type: "f32[4,8]", with strides and offset unless contiguous at 0. */
void        td__explain_type(td_buf *b, const td_graph *g, const td_geom *geom);
/* Writes "12 B" or "4.0 KiB" and returns out. */
const char *td__size_text(char out[32], int64_t bytes);

typedef struct td_op_counts {
    int ops, views, writes, draws;
} td_op_counts;
td_op_counts td__count_ops(const td_graph *g);

/* What td_compiling returns in callbacks of this stage. */
td_compile_info td__spec_info(const td_fn *f, const td_spec *s, const char *stage,
                              td_half half);

/* Log what a stage produced, and the guards of s, if their topics are on. */
void td__stage_log(const td_fn *f, const td_spec *s, const td_stage_row *r);
void td__log_guards(const td_fn *f, const td_spec *s);

/* ---- double_backward.c, missing.c, custom_linear.c ----------------------- */

/* What later traces of a program take. Its plan owns it. */
typedef struct td_trace_source {
    td_plan           *p;       /* not referenced: it owns this */
    td_graph          *program; /* referenced */
    td_shared_opts    *shared;  /* referenced: decompositions and backends */
    td_arrived        *arrived; /* owned; NULL: nothing is traced later */
    td_config          set;     /* the settings of the specialization; no fallback */
    td_joint_opts      opts;    /* orders: own copies */
    bool               grad, inference; /* modes of the call */
    td_dtype           dtype;
    const char        *name;     /* of the functions of the next order */
    struct td_variant *variants; /* these functions */
    uint32_t          *marks;    /* by input: a bit per dim whose size is a symbol */
    bool              *fixed;    /* by input: none of its sizes is a symbol */
    td_arena           arena;
} td_trace_source;

/* Makes s->arrived, where gradients of gradients or of some results alone may be asked
 * for; s->j is there. False after td__fail. */
bool      td__spec_arrive(td_fn *f, td_spec *s, td_values args);
void      td__arrived_drop(td_arrived *a); /* NULL is fine */
/* Sets td_plan.later of s->plan; takes over s->arrived. False after td__fail. */
bool      td__spec_later(td_fn *f, td_spec *s);
/* May gradients of gradients be asked for, of this partition? */
bool      td__spec_twice(const td_fn *f, const td_spec *s, const td_halves *h);
/* missing.c: td_later_traces.joint, and what it needs of the plan's joint graph. */
td_joint *td__missing_joint(void *env, td_arriving which);
bool      td__missing_symbols(td_trace_source *t);
/* May the gradients of a program with custom functions be differentiated? False after
 * td__fail. */
bool      td__custom_linear(td_fn *f, const td_graph *program);

#endif
