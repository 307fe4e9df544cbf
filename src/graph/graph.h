/* graph/graph.h -- a graph: ops in order, values with what is known of them, and
 * text both ways. Everything of a graph lives in its arena; nothing is freed
 * singly, a graph is dropped whole, before its context closes. No fixed limits; a
 * million nodes are fine.
 *
 * One form serves all stages: programs as captured (views, writes, grad-mode
 * regions), functional graphs, joint graphs, halves. verify.c says what each
 * stage may contain. docs/text-format.md is the form people see. */
#ifndef TD_GRAPH_H
#define TD_GRAPH_H

#include "ops/ops.h"
#include "tandem/grad.h"

typedef struct td_graph td_graph;
typedef struct td_gnode td_gnode; /* a statement: an op call or a region's edge */
typedef struct td_gval  td_gval;  /* an input, or one result of a node */

/* What a value looks like. Shared and never changed: replace the pointer. */
typedef struct td_look {
    uint8_t        kind;  /* TD_K_TENSOR, or TD_K_INT, _FLOAT, _BOOL: a plain number */
    uint8_t        dtype; /* of a tensor */
    uint8_t        rank;
    bool           grad;    /* requires grad */
    bool           dense;   /* strides are exactly the row-major ones */
    int32_t        storage; /* values of one number share storage; -1: not known */
    int64_t        offset;  /* may be symbolic; of an int: the symbol it is */
    const int64_t *size, *stride; /* [rank]; may be symbolic (gdim.c) */
} td_look;

typedef enum td_gkind {
    TD_G_NONE,
    TD_G_VALUE,
    TD_G_INT,
    TD_G_SYM, /* an integer that is symbolic: u.i is its tag */
    TD_G_FLOAT,
    TD_G_BOOL,
    TD_G_DTYPE,
    TD_G_INTS, /* a list of integers, some perhaps symbolic */
    TD_G_LIST, /* of arguments: values, none, integers that are values */
    TD_G_STR,
    TD_G_GRAPH /* a nested graph; it reads nothing but its inputs */
} td_gkind;

/* An argument of a node, or an entry of `return`. */
typedef struct td_garg {
    uint8_t  kind; /* td_gkind */
    uint32_t n;    /* length of a list */
    union {
        td_gval              *v;
        int64_t               i; /* INT, SYM, BOOL */
        double                f;
        td_dtype              dt;
        const int64_t        *ints;
        const struct td_garg *list;
        const char           *s;
        td_graph             *g;
    } u;
} td_garg;

typedef struct td_guse {
    td_gnode       *node; /* the reader; NULL: the graph's outputs */
    struct td_guse *next;
} td_guse;

struct td_gval {
    td_gnode      *node; /* who makes it; NULL: an input */
    int32_t        nr;   /* which result, or which input */
    int32_t        id;   /* unique in its graph, dense */
    const char    *name; /* without %; NULL: printed as a number */
    const td_look *look; /* NULL: not known */
    td_guse       *uses; /* valid after td__graph_index, one per read */
    int            n_uses;
};

typedef enum td_gnode_kind {
    TD_N_OP,
    TD_N_ENTER, /* begins a region; `region` says which */
    TD_N_LEAVE  /* ends the innermost one */
} td_gnode_kind;

typedef enum td_gregion {
    TD_R_NO_GRAD,
    TD_R_ENABLE_GRAD,
    TD_R_INFERENCE, /* inference mode on */
    TD_R_PLAIN,     /* inference mode off, gradients on */
    TD_R_COUNT
} td_gregion;

/* Which part of a graph a node belongs to: of the halves of a joint graph, or, in a
 * program, whether a backward inside it computes the node. */
typedef enum td_origin {
    TD_FROM_FORWARD,
    TD_FROM_BACKWARD,
    TD_FROM_BEFORE, /* what could fail has run before, with the same values */
    TD_FROM_AGAIN   /* a forward node, computed once more where a backward reads it */
} td_origin;

/* What a checkpoint region asks for the results of a node (tandem/grad.h: td_policy)
 * lies in td_gnode.tags with the number of the region, 1 upwards. */
#define TD_REGION_LIMIT 0xffffff
#define TD_TAG(policy, region) ((uint32_t)(policy) | (uint32_t)(region) << 8)
#define TD_TAG_POLICY(tags) ((td_policy)((tags)&7u))
#define TD_TAG_REGION(tags) ((int)((tags) >> 8))
/* A context's tags, those of the node being replayed, have its origin beside them. */
#define TD_TAG_FROM(origin) ((uint32_t)(origin) << 4)
#define TD_TAG_ORIGIN(tags) ((uint8_t)((tags) >> 4 & 3u))
#define TD_TAG_WISH(tags) ((tags) & ~0x30u)

struct td_gnode {
    uint8_t     kind;   /* td_gnode_kind */
    uint8_t     region; /* td_gregion */
    uint8_t     origin; /* td_origin */
    bool        dead;   /* taken out; skipped by walks until td__graph_pack */
    td_op       op;
    int32_t     id; /* position in nodes after td__graph_index */
    int32_t     n_in, n_out;
    td_garg    *in;    /* schema order; trailing defaults are left out */
    td_gval   **out;   /* lists are flattened, and may be cut short */
    td_where    here;  /* of the user's source; file NULL: not known */
    const char *scope; /* "model/attn", or NULL */
    uint32_t    tags;  /* TD_TAG: a checkpoint's wish; 0: none */
};

/* What an input or output stands for (docs/text-format.md). */
typedef enum td_desc_kind {
    TD_D_PLAIN,
    TD_D_PARAM,
    TD_D_BUFFER,
    TD_D_CONST, /* input: index counts in td_graph.consts */
    TD_D_TANGENT,
    TD_D_UPDATE,
    TD_D_META_UPDATE,
    TD_D_BASE,
    TD_D_VIEW_BASE,
    TD_D_SYNTHETIC_BASE,
    TD_D_GRAD,
    TD_D_SAVED,
    TD_D_SEED,
    TD_D_OFFSET,
    TD_D_TOKEN,
    TD_D_LOSS,     /* output: index counts results */
    TD_D_OWN_GRAD, /* of a program: the gradient input `index` keeps, .grad */
    TD_D_COUNT
} td_desc_kind;

typedef struct td_desc {
    uint8_t     kind;  /* td_desc_kind */
    int32_t     index; /* "tangent 2"; -1: none */
    const char *name;  /* "fc.weight"; NULL: none */
} td_desc;
#define TD_PLAIN_DESC ((td_desc){TD_D_PLAIN, -1, NULL})

/* A symbolic size of a graph: a symbol, or an operation on two dims. Dims below
 * TD_DIM_SYM_LIMIT in a graph's looks and arguments count in its table. */
typedef struct td_gdim {
    uint8_t op;     /* td_dim_op up to TD_DIM_MAX, or TD_GDIM_SYMBOL */
    char    letter; /* of a symbol: s, or u when only run time knows it */
    int16_t depth;  /* of the expression, bounded */
    int32_t nr;     /* s3 */
    int64_t a, b;   /* operands */
} td_gdim;
enum { TD_GDIM_SYMBOL = 255 };

/* What holds of a graph's symbolic sizes whenever it runs: a rel b. */
typedef struct td_gfact {
    uint8_t rel; /* td_dim_rel */
    int64_t a, b;
} td_gfact;

struct td_graph {
    TD_HANDLE_FIELDS;    /* errors go to cx */
    int         holders; /* beside the first */
    td_arena    arena;
    const char *name; /* without @ */
    TD_VEC(td_gval *) inputs;
    TD_VEC(td_desc) in_desc;
    TD_VEC(td_gnode *) nodes;
    TD_VEC(td_garg) outputs;
    TD_VEC(td_desc) out_desc;
    TD_VEC(td_tensor *) consts; /* held: tensors the body closed over, inputs <const> */
    TD_VEC(int32_t) bare;   /* inputs that kept no gradient, where a capture asked */
    TD_VEC(int32_t) wanted; /* inputs whose gradient a td_grad in the body computes */
    TD_VEC(td_gdim) dims;   /* symbolic sizes, hash-consed */
    TD_VEC(td_gfact) facts; /* known of them */
    TD_VEC(td_graph *) nested; /* owned: graphs among the arguments */
    int32_t *dim_slots;        /* hash table over dims */
    int      n_dim_slots;
    int32_t  n_values; /* ids given out */
    int32_t  n_storages;
    uint8_t  left; /* 1 + the td_gregion it leaves the context in; 0: as it was */
    /* Turns a tracer's symbolic dim into one of this graph; NULL outside traces. */
    int64_t (*dim_in)(void *env, td_graph *g, int64_t dim);
    void *dim_env;
};

/* ---- building (graph.c) ------------------------------------------------- */

/* Whatever returns NULL or false has recorded a failure in the context. */
td_graph *td__graph_make(td_ctx *cx, const char *name);
void      td__graph_keep(td_graph *g); /* one more holder, dropped like the first */
void      td__graph_drop(td_graph *g); /* NULL is fine */
/* `nested` will be an argument of a node: g takes over the caller's hold on it. False:
 * it is dropped. */
bool      td__graph_own(td_graph *g, td_graph *nested);
td_gval *td__graph_input(td_graph *g, const char *name, const td_look *look, td_desc d);
/* A tensor the body closed over, as an input <const>; it is held. */
td_gval *td__graph_const(td_graph *g, const char *name, td_tensor *t);
/* An op node with n_out fresh results; in[] is copied with its lists, numbers are
 * brought to the schema's types and trailing defaults cut off. */
td_gnode *td__graph_op(td_graph *g, td_op op, const td_garg *in, int n_in, int n_out);
/* The node computes something else from here on; its results stay. */
bool td__graph_become(td_graph *g, td_gnode *n, td_op op, const td_garg *in, int n_in);
/* One more result; *cap is how many n->out has room for. */
td_gval       *td__graph_result(td_graph *g, td_gnode *n, int *cap);
bool           td__graph_enter(td_graph *g, td_gregion r);
bool           td__graph_leave(td_graph *g);
bool           td__graph_output(td_graph *g, td_garg a, td_desc d);
/* A copy into the arena; storage is -1 unless the caller numbers them. */
const td_look *td__graph_look(td_graph *g, const td_tensor *t, bool grad,
                              int32_t storage);
/* A look of these sizes; stride NULL: row-major. */
const td_look *td__graph_look_of(td_graph *g, td_look l);
/* For making a tensor of that type. */
td_meta        td__look_meta(const td_look *l);
const td_look *td__graph_look_number(td_graph *g, td_kind kind);
const char    *td__graph_str(td_graph *g, const char *s); /* NULL for NULL */
/* Brings a to the type of the schema; false: it does not fit. */
bool           td__garg_fit(const td_param *p, td_garg *a);

static inline td_garg td__garg_value(td_gval *v) {
    td_garg a = {TD_G_VALUE, 0, {0}};
    a.u.v = v;
    return a;
}
static inline td_garg td__garg_int(int64_t i) {
    td_garg a = {TD_G_INT, 0, {0}};
    a.u.i = i;
    return a;
}
static inline td_garg td__garg_ints(const int64_t *v, int n) {
    td_garg a = {TD_G_INTS, (uint32_t)n, {0}};
    a.u.ints = v;
    return a;
}

/* ---- symbolic sizes (gdim.c) -------------------------------------------- */

/* A tracer's dim as one of the graph, while it records into it (graph.c). */
int64_t td__graph_dim(td_graph *g, int64_t dim);
/* Are its strides the row-major ones to the letter? In the tracer's terms: a graph may
 * write the same product in another order. */
bool    td__is_row_major(const td_tensor *t);

/* Tags of the graph's own table; numbers fold. TD_DIM_HUGE after td__fail: no
 * memory, or an expression without measure. */
int64_t        td__gdim_symbol(td_graph *g, char letter, int32_t nr);
int64_t        td__gdim_make(td_graph *g, td_dim_op op, int64_t a, int64_t b);
const td_gdim *td__gdim_at(const td_graph *g, int64_t dim); /* NULL: a number */
/* A replay's table bound[dims.n] says what each entry is, INT64_MIN while that is
 * not known; it may be a tracer's symbol. Settle fills in the expressions. */
int64_t        td__gdim_value(const td_graph *g, int64_t dim, const int64_t *bound);
void           td__gdim_settle(const td_graph *g, int64_t *bound);
/* What dim is no smaller than, by the facts of g; 0 where they do not say. */
int64_t        td__gdim_least(const td_graph *g, int64_t dim);
/* Fills bound[dims.n] from the inputs of a call; INT64_MIN: they do not say. */
void           td__gdim_bind(const td_graph *g, const td_value *in, int64_t *bound);
/* A symbol that no input shows, where facts say what it is. */
void           td__gdim_solve(const td_graph *g, int64_t *bound);
/* Does a fact hold of such sizes? Not where they are not known. */
bool td__gfact_holds(const td_graph *g, const td_gfact *f, const int64_t *bound);
void td__gfact_text(td_buf *b, const td_graph *g, const td_gfact *f);

/* ---- walking (walk.c, clone.c, compare.c) ------------------------------- */

bool td__graph_index(td_graph *g); /* node ids, use lists; false: no memory */
void td__graph_pack(td_graph *g);  /* forgets dead nodes, renumbers nodes and values */
/* All reads of `from` become reads of `to`. Needs and keeps use lists. */
void td__graph_replace(td_graph *g, td_gval *from, td_gval *to);
/* Calls fn on every value an argument (and lists in it) reads. */
void td__garg_each(const td_garg *a, void (*fn)(void *env, td_gval *v), void *env);
/* Rewrites every read of an argument: v becomes fn(env, v). Lists are the graph's. */
void td__garg_map(td_garg *a, td_gval *(*fn)(void *env, td_gval *v), void *env);
td_graph         *td__graph_clone(const td_graph *g);
/* Copies the nodes of g behind those of `to`. twin[], by id in g, has what stands for
 * an input of g in `to`, NULL: a new input; it is filled in for all other values.
 * `each` hears of every copy, `was` in g and `now` in `to`; where it returns an earlier
 * node of `to`, that one stands for the copy, which goes. False after td__fail. */
typedef td_gnode *td_append_fn(void *env, const td_gnode *was, td_gnode *now);
bool              td__graph_append(td_graph *to, const td_graph *g, td_gval **twin,
                                   td_append_fn *each, void *env);
/* Do two nodes of a graph compute the same, if they draw no random numbers? */
bool              td__gnode_equal(const td_gnode *a, const td_gnode *b);
int      td__graph_results(const td_graph *g); /* outputs before any <own_grad> */
/* The same text but for names, places and numbers of storages; `why` gets the first
 * line that differs. */
bool     td__graph_equal(const td_graph *a, const td_graph *b, char *why, size_t cap);
uint64_t td__graph_hash(const td_graph *g); /* stable across processes; 0: no memory */

/* ---- text (graph_print.c, graph_json.c, graph_dot.c) -------------------- */

enum {
    TD_PRINT_TYPES = 1,
    TD_PRINT_PLACES = 2, /* of the user's source */
    TD_PRINT_SCOPES = 4,
    TD_PRINT_BARE = 8,   /* values are numbered in order: names do not count */
    TD_PRINT_BRIEF = 16, /* to be read by people: large literals are not written out */
    TD_PRINT_OPS = 32    /* no params, no literals: what a graph does, to any tensors */
};
/* All three append; false: no memory. */
bool td__graph_print(td_buf *b, const td_graph *g, unsigned how);
bool td__graph_json(td_buf *b, const td_graph *g);
bool td__graph_dot(td_buf *b, const td_graph *g);
/* "select(0, 1)": the op with all arguments but its first one. */
void td__gnode_call_print(td_buf *b, const td_graph *g, const td_gnode *n);
/* "f32[4,3]{1,4}": the type alone, dims as g names them. */
void td__look_print(td_buf *b, const td_graph *g, const td_look *look);
/* Pieces of JSON: numbers read back exactly; inf and nan are strings. */
void td__json_string(td_buf *b, const char *s);
void td__json_float(td_buf *b, td_dtype dt, double f);
void td__json_elements(td_buf *b, const td_tensor *t); /* flat, row-major */

/* ---- files of text (graph_parse.c, case_parse.c) ------------------------ */

typedef enum td_gstep_kind {
    TD_STEP_NODE,     /* an op call or a region's edge: node */
    TD_STEP_TENSOR,   /* out[0] is the case graph's const `konst` */
    TD_STEP_LOAD,     /* out[0] is tensor `name` of file `path` */
    TD_STEP_CALL,     /* out[] are the outputs of function `fn` on args[] */
    TD_STEP_BACKWARD, /* from args[], or all outputs of the last call */
    TD_STEP_GRAD      /* out[0] is the gradient kept in args[0] */
} td_gstep_kind;

/* One statement of a case. */
typedef struct td_gstep {
    uint8_t     kind; /* td_gstep_kind */
    bool        seeded, requires_grad, retain_graph, create_graph;
    bool        checkpoint, grads, rehearse; /* of a call */
    const char *autocast, *module;           /* of a call: words; NULL: none */
    const char *hooks; /* of a call or backward: word; NULL: none */
    int         line;
    int64_t     seed;
    td_gnode   *node;
    td_gval   **out;
    int         n_out;
    td_garg    *args;
    int         n_args;
    int         konst;
    const char *path, *name;
    td_graph   *fn;
} td_gstep;

/* A case: statements over the values of a graph of their own. */
typedef struct td_gcase {
    const char *name;
    int         line;
    td_graph   *g; /* values, op nodes and literals */
    TD_VEC(td_gstep) steps;
} td_gcase;

typedef struct td_gfile {
    TD_OWNED_FIELDS;
    td_arena    arena;
    const char *name; /* for messages */
    TD_VEC(td_graph *) graphs;
    TD_VEC(td_gcase *) cases;
    td_map by_name; /* of graphs */
} td_gfile;

/* NULL after td__fail: TD_E_ARG "file:line:column: rule", TD_E_IO for the file. */
td_gfile *td__gfile_parse(td_ctx *cx, const char *text, size_t n, const char *name);
td_gfile *td__gfile_read(td_ctx *cx, const char *path);
void      td__gfile_drop(td_gfile *f); /* NULL is fine; before the context closes */
td_graph *td__gfile_find(const td_gfile *f, const char *name); /* NULL: none */
bool      td__gfile_print(td_buf *b, const td_gfile *f, unsigned how);

/* ---- checking (verify.c) ------------------------------------------------ */

typedef enum td_stage {
    TD_STAGE_PROGRAM,    /* as captured: views, writes, regions */
    TD_STAGE_FUNCTIONAL, /* no op with a write mark, no regions */
    TD_STAGE_JOINT, /* functional; primals and tangents in, outputs and gradients out */
    TD_STAGE_HALF   /* a forward or backward half */
} td_stage;
bool td__graph_verify(const td_graph *g, td_stage stage); /* false after td__fail */

/* ---- meaning (interp.c, infer.c) ---------------------------------------- */

/* Calls the graph's ops one after another through the context's modes. `in` are
 * tensors and numbers by input (for a const, NONE takes the graph's own); out[i] is
 * filled by output, results belonging to the innermost scope. Values are let go
 * after their last use. When it fails the message ends in the place of the node that
 * did. Replay under modes is what every transformation is. */
bool td__graph_replay(const td_graph *g, const td_value *in, td_value *out);
/* The same; bound[dims.n] says afterwards what each symbolic size was. NULL is fine. */
bool td__graph_replay_bound(const td_graph *g, const td_value *in, td_value *out,
                            int64_t *bound);

/* A replay in steps, for cases: values by id, held until the end. */
typedef struct td_replay {
    const td_graph *g;
    td_value       *val;    /* [n_values]; NONE: not there */
    int64_t        *bound;  /* [dims.n] symbols */
    int32_t        *total;  /* [n_values] reads of a whole replay */
    int32_t        *reads;  /* [n_values] those to come; NULL: nothing is let go */
    const bool     *own;    /* by input: a tensor the replay drops for its caller */
    TD_VEC(td_value) args;  /* room for one call */
    TD_VEC(td_tensor *) ts; /* lists of tensors, and results */
    TD_VEC(int64_t) ints;
    TD_VEC(uint8_t) modes; /* what each open region found */
    /* Whole replays only: computes the outputs in another way than node by node. */
    bool (*walk)(void *env, struct td_replay *r);
    void *walk_env;
} td_replay;
bool td__replay_begin(td_replay *r, const td_graph *g); /* needs _end either way */
bool td__replay_set(td_replay *r, const td_gval *v, td_value x);
bool td__replay_node(td_replay *r, const td_gnode *n);
/* An argument as a value: numbers evaluated, lists in r until the next call. */
bool td__replay_arg(td_replay *r, const td_garg *a, td_value *out);
void td__region_set(td_ctx *cx, td_gregion r); /* the grad mode inside it */
void td__replay_end(td_replay *r); /* closes regions, lets go of all values */
/* td__graph_replay in room that stays, for graphs that run often. */
bool td__replay_begin_whole(td_replay *r, const td_graph *g); /* needs _end, too */
bool td__replay_whole(td_replay *r, const td_value *in, td_value *out);
void td__replay_read(td_replay *r, const td_gval *v); /* one of its reads is done */

/* Fills the looks of values that have none by a replay without bytes; every input
 * needs one. Where sizes are symbolic or depend on values it stops, and what it
 * could not see stays NULL. False after td__fail: an op refuses its arguments. */
bool td__graph_infer(td_graph *g);

/* ---- clean-up (effects.c and one file each) ----------------------------- */

/* Has an op of the graph, or the twin of a writer, one of these flags (TD_OPF_...)? */
bool td__graph_flags(const td_graph *g, uint32_t flags);

/* Does an op draw random numbers, itself or through its parts? */
bool td__op_draws(td_op op);
/* The same of a node, whose nested graphs count, and of a whole graph (nested.c). */
bool td__gnode_draws(const td_gnode *n);
bool td__graph_draws(const td_graph *g);
/* Is input i a const whose tensor the graph holds? */
bool td__graph_holds(const td_graph *g, int i);
/* Does result i of a call that takes graphs require grad in one of them? */
bool td__nested_grad(const td_opcall *c, int i);
/* May the node neither move, merge nor go: it writes, draws or bounds a region. */
bool td__gnode_is_fixed(const td_gnode *n);
/* Must it run though nobody reads its results? What is fixed, and what eager would fail
 * at for certain values. */
bool td__gnode_stays(const td_gnode *n);

/* Each takes any stage, keeps its contract and the meaning, and packs the graph.
 * fold and views go by looks (td__graph_infer) and pass over what has none. False:
 * no memory. */
bool td__graph_dce(td_graph *g);   /* what nobody reads and has no effect */
bool td__graph_cse(td_graph *g);   /* equal pure nodes become one */
bool td__graph_fold(td_graph *g);  /* nodes of constants become constants */
bool td__graph_views(td_graph *g); /* chains of views become short */
bool td__graph_order(td_graph *g); /* nodes in an order that depends on meaning only */

#endif
