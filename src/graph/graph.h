/* graph/graph.h -- the IR: a list of op nodes in program order, values with
 * their types, and a text form that reads back. All memory of a graph is in its
 * arena and is freed when the graph is dropped, which must happen before its
 * context closes. There are no fixed limits; graphs of a million nodes work.
 *
 * One form serves all stages: programs as captured (views, writes, grad-mode
 * regions), functional graphs, joint graphs, forward and backward halves,
 * epilogues. verify.c states what each stage may contain; docs/text-format.md
 * describes the text. */
#ifndef TD_GRAPH_H
#define TD_GRAPH_H

#include "core/geometry.h"
#include "core/place.h"
#include "ops/ops.h"
#include "tandem/autocast.h"
#include "tandem/grad.h"

typedef struct td_graph td_graph;
typedef struct td_gnode td_gnode; /* a statement: an op call or a region's edge */
typedef struct td_gval  td_gval;  /* an input, or one result of a node */

typedef struct td_gtyped td_gtyped;

/* The type of a value. Shared between values and immutable: to change a value's type,
 * replace the pointer. Sizes, strides and offset may be symbolic (gdim.c); the offset
 * of an int is the symbol it is. */
typedef struct td_gtype {
    union {
        td_geom geom; /* of a tensor */
        struct {
            TD_GEOM_FIELDS
        };
    };
    uint8_t          kind; /* TD_K_TENSOR, or TD_K_INT, _FLOAT, _BOOL: a plain number */
    bool             grad; /* requires grad */
    bool             dense;   /* strides are exactly the row-major ones */
    int32_t          storage; /* values of one number share storage; -1: not known */
    const td_gtyped *of; /* of a tensor of a type: what it consists of; else NULL */
} td_gtype;

/* What a tensor of a type (core/typed.h) consists of. Inner types have no storage
 * number and require no grad. */
struct td_gtyped {
    const char     *name, *metadata;
    int             n;
    const td_gtype *inner[];
};

/* A tensor of which no size, stride or offset is symbolic? l may be NULL. */
static inline bool td__gtype_is_concrete(const td_gtype *l) {
    return l && l->kind == TD_K_TENSOR && !td__geom_is_symbolic(&l->geom);
}

typedef enum td_gkind {
    TD_G_NONE,
    TD_G_VALUE,
    TD_G_INT,
    TD_G_SYM, /* an integer that is symbolic: u.i is its tag */
    TD_G_FLOAT,
    TD_G_BOOL,
    TD_G_DTYPE,
    TD_G_INTS, /* a list of integers; entries may be symbolic */
    TD_G_LIST, /* a list of arguments: values, none, integer values */
    TD_G_STR,
    TD_G_GRAPH /* a nested graph, which reads only its own inputs */
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

/* One read of a value. */
typedef struct td_guse {
    td_gnode       *node; /* the reader; NULL: the graph's outputs */
    struct td_guse *next;
} td_guse;

struct td_gval {
    td_gnode       *node; /* the node that computes it; NULL: an input */
    int32_t         nr;   /* which result, or which input */
    int32_t         id;   /* unique in its graph, dense */
    const char     *name; /* without %; NULL: printed as a number */
    const td_gtype *type; /* NULL: not known */
    td_guse        *uses; /* valid after td__graph_index, one per read */
    int             n_uses;
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
    /* of programs before their capture, which records the casts */
    TD_R_AUTOCAST_BF16,
    TD_R_AUTOCAST_F16,
    TD_R_AUTOCAST_OFF,
    TD_R_COUNT
} td_gregion;

/* Is it a grad mode, not autocast? */
static inline bool td__region_is_grad(td_gregion r) { return r <= TD_R_PLAIN; }

/* Which part of a graph a node belongs to: the forward or backward of a joint graph;
 * in a program, whether a td_backward or td_grad inside the body computed it. */
typedef enum td_origin {
    TD_FROM_FORWARD,
    TD_FROM_BACKWARD,
    TD_FROM_BEFORE, /* it ran before on the same values, so it cannot fail */
    TD_FROM_AGAIN,  /* a forward node recomputed where a backward reads it */
    TD_FROM_COUNT
} td_origin;

/* td_gnode.tags: the recomputation policy that a checkpoint region sets for the node
 * (td_policy in tandem/grad.h), and the number of the region, from 1. */
#define TD_REGION_LIMIT 0xffffff
#define TD_TAG(policy, region) ((uint32_t)(policy) | (uint32_t)(region) << 8)
#define TD_TAG_POLICY(tags) ((td_policy)((tags)&7u))
#define TD_TAG_REGION(tags) ((int)((tags) >> 8))
/* td_ctx.tags: those of the node being replayed, with its origin in bits 4 and 5. */
#define TD_TAG_FROM(origin) ((uint32_t)(origin) << 4)
#define TD_TAG_ORIGIN(tags) ((uint8_t)((tags) >> 4 & 3u))
#define TD_TAG_WISH(tags) ((tags) & ~0x30u)

struct td_gnode {
    uint8_t         kind;   /* td_gnode_kind */
    uint8_t         region; /* td_gregion */
    uint8_t         origin; /* td_origin */
    bool            dead;   /* removed; skipped until td__graph_pack drops it */
    td_op           op;
    int32_t         id; /* position in nodes after td__graph_index */
    int32_t         n_in, n_out;
    td_garg        *in;  /* in schema order; trailing defaults are omitted */
    td_gval       **out; /* a list result is flattened; unused entries may be omitted */
    td_where        here;  /* the user's source line; file NULL: unknown */
    const td_place *stack; /* the calls around it, innermost first; or NULL */
    const char     *scope; /* "model/attn", or NULL */
    uint32_t        tags;  /* TD_TAG: policy of a checkpoint region; 0: none */
};

/* What an input or output is: a parameter, a tangent, a gradient...
 * (docs/text-format.md). */
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
    TD_D_OWN_GRAD, /* of a program: the .grad of input `index` */
    TD_D_OBJECT,   /* input: an object of type `name` */
    TD_D_INNER,    /* inner tensor `name` of input or output `index`, of a type */
    TD_D_COUNT
} td_desc_kind;

typedef struct td_desc {
    uint8_t     kind;  /* td_desc_kind */
    int32_t     index; /* "tangent 2"; -1: none */
    const char *name;  /* "fc.weight"; NULL: none */
} td_desc;
#define TD_PLAIN_DESC ((td_desc){TD_D_PLAIN, -1, NULL})

/* A symbolic size: a symbol, or an operation on two dims. A dim below
 * TD_DIM_SYM_LIMIT in a graph's types and arguments is an index into
 * td_graph.dims. */
typedef struct td_gdim {
    uint8_t op;     /* td_dim_op up to TD_DIM_MAX, or TD_GDIM_SYMBOL */
    char    letter; /* of a symbol: s, or u when only run time knows it */
    int16_t depth;  /* of the expression, bounded */
    int32_t nr;     /* s3 */
    int64_t a, b;   /* operands */
} td_gdim;
enum { TD_GDIM_SYMBOL = 255 };

/* A fact about a graph's symbolic sizes that holds at every call: a rel b. */
typedef struct td_gfact {
    uint8_t rel; /* td_dim_rel */
    int64_t a, b;
} td_gfact;

/* Something that a later directory made of a graph, such as its compiled code. All uses
 * of the graph share it, and it is freed with the graph. */
typedef struct td_gmade {
    void *env; /* NULL: nothing was made */
    void (*drop)(void *env);
    /* Of code: runs below all modes; in[] by input, out[] by output. */
    bool (*run)(void *env, td_ctx *cx, const td_value *in, td_value *out);
} td_gmade;

/* Inputs of a program that a call or its key looks at, by number. */
typedef TD_VEC(int32_t) td_input_list;
typedef enum td_noted {
    TD_NOTED_BARE,    /* must have no .grad, as at capture */
    TD_NOTED_WANTED,  /* a td_grad in the body computes the gradient */
    TD_NOTED_REACHED, /* have a grad_fn, and gradients of a td_grad may reach it */
    TD_NOTED
} td_noted;

struct td_graph {
    TD_HANDLE_FIELDS;    /* cx receives errors */
    int         holders; /* references besides the first */
    td_arena    arena;
    const char *name; /* without @ */
    TD_VEC(td_gval *) inputs;
    TD_VEC(td_desc) in_desc;
    TD_VEC(td_gnode *) nodes;
    TD_VEC(td_garg) outputs;
    TD_VEC(td_desc) out_desc;
    TD_VEC(td_tensor *) consts; /* referenced: tensors the body closed over, <const> */
    td_input_list noted[TD_NOTED]; /* by td_noted */
    /* Of a program traced for these alone: the sizes that depend on values, in the
     * order in which a replay makes them. */
    td_dim_list   sizes;
    TD_VEC(td_gdim) dims;       /* symbolic sizes, hash-consed */
    TD_VEC(td_gfact) facts;     /* known of them */
    TD_VEC(td_graph *) nested;  /* owned: graphs among the arguments, one per use */
    int64_t          inside;    /* nodes of nested graphs, counted once per use */
    int32_t         *dim_slots; /* hash table over dims */
    int              n_dim_slots;
    int32_t          n_values; /* ids given out */
    int32_t          n_storages;
    td_gmade         parts; /* of the body of a region: its halves (part/region.c) */
    td_gmade         code;  /* of a graph that ops call: what a backend made of it */
    struct td_graph *flat;  /* of such a graph: that of inner tensors, owned; or NULL */
    uint8_t          left;  /* 1 + the td_gregion that holds after it; 0: unchanged */
    /* Converts a trace's symbolic dim into one of this graph; NULL outside traces. */
    int64_t (*dim_in)(void *env, td_graph *g, int64_t dim);
    void *dim_env;
};

/* ---- building (graph.c) ------------------------------------------------- */

/* Functions that return NULL or false have recorded an error in the context. */
td_graph *td__graph_make(td_ctx *cx, const char *name);
void      td__graph_keep(td_graph *g); /* adds a reference, for td__graph_drop */
void      td__graph_drop(td_graph *g); /* NULL is fine */
/* Makes g the owner of `nested`, which will be an argument of a node: takes
 * over the caller's reference, also on failure. */
bool      td__graph_own(td_graph *g, td_graph *nested);
td_gval  *td__graph_input(td_graph *g, const char *name, const td_gtype *type,
                          td_desc d);
/* Adds an input <const> for a tensor the body closes over; references it. */
td_gval  *td__graph_const(td_graph *g, const char *name, td_tensor *t);
/* Appends an op node with n_out new results. in[] is copied with its lists;
 * numbers are converted to the schema's types and trailing defaults omitted. */
td_gnode *td__graph_op(td_graph *g, td_op op, const td_garg *in, int n_in, int n_out);
/* Replaces op and arguments of a node; its results stay the same values. */
bool td__graph_become(td_graph *g, td_gnode *n, td_op op, const td_garg *in, int n_in);
/* Adds a result to a node; *cap is the capacity of n->out. */
td_gval           *td__graph_result(td_graph *g, td_gnode *n, int *cap);
bool               td__graph_enter(td_graph *g, td_gregion r);
bool               td__graph_leave(td_graph *g);
bool               td__graph_output(td_graph *g, td_garg a, td_desc d);
/* The type of a tensor, in the graph's arena. storage: its storage number, or
 * -1. */
const td_gtype    *td__graph_type(td_graph *g, const td_tensor *t, bool grad,
                                  int32_t storage);
/* A copy of type l in the graph's arena; stride NULL: row-major. */
const td_gtype    *td__graph_type_of(td_graph *g, td_gtype l);
/* Does a dim have size 0? */
static inline bool td__gtype_is_empty(const td_gtype *l) {
    for (int d = 0; d < l->rank; d++)
        if (l->size[d] == 0) return true;
    return false;
}
const td_gtype  *td__graph_type_number(td_graph *g, td_kind kind);
const char      *td__graph_str(td_graph *g, const char *s); /* NULL for NULL */
/* ---- values of a type (gtyped.c) ---- */
/* A copy in the graph's arena; what a tensor consists of, likewise. NULL after fail. */
const td_gtyped *td__gtyped_copy(td_graph *g, const td_gtyped *of);
const td_gtyped *td__gtyped_of(td_graph *g, const td_typed *d);
/* Makes t, a fake tensor, one of the type, with fake inner tensors. */
bool             td__gtyped_fake(td_tensor *t, const td_gtyped *of);
/* The same type, metadata and inner types? Both may be NULL. */
bool             td__gtyped_same(const td_gtyped *a, const td_gtyped *b);
/* Does d, of a tensor, consist of tensors of these types? Both may be NULL. */
bool             td__gtyped_is(const td_gtyped *of, const td_typed *d);
/* Does an input, an output or a result of a node have a type? */
bool             td__graph_is_typed(const td_graph *g);
/* Converts a to the type of schema parameter p; false: impossible. */
bool             td__garg_fit(const td_param *p, td_garg *a);

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
static inline td_garg td__garg_dtype(td_dtype dt) {
    td_garg a = {TD_G_DTYPE, 0, {0}};
    a.u.dt = dt;
    return a;
}
/* Converts a literal to an argument, and an argument to a literal; lists and strings
 * are not copied. False: v is a tensor or a list of tensors; a is a value, a symbol, a
 * list or a graph, whose value only a run has. */
bool td__garg_of(const td_value *v, td_garg *a);
bool td__garg_literal(const td_garg *a, td_value *v);

/* ---- symbolic sizes (gdim.c) -------------------------------------------- */

/* A trace's symbolic dim as one of the graph, while a recorder writes into it. */
int64_t td__graph_dim(td_graph *g, int64_t dim);
/* Are the strides exactly the row-major ones? Compared as expressions of the
 * trace: a graph may write the same product in another order. */
bool    td__is_row_major(const td_tensor *t);

/* A symbol, or an operation on two dims, in the graph's table; operations on numbers
 * are computed. TD_DIM_HUGE after td__fail: out of memory, or nested too deeply. */
int64_t        td__gdim_symbol(td_graph *g, char letter, int32_t nr);
int64_t        td__gdim_make(td_graph *g, td_dim_op op, int64_t a, int64_t b);
const td_gdim *td__gdim_at(const td_graph *g, int64_t dim); /* NULL: a number */
/* bound[dims.n] is the table of a replay: the value of each entry, INT64_MIN while
 * unknown; a value may be a symbol of an enclosing trace. td__gdim_settle computes the
 * expressions whose operands are known. */
int64_t        td__gdim_value(const td_graph *g, int64_t dim, const int64_t *bound);
void           td__gdim_settle(const td_graph *g, int64_t *bound);
/* A lower bound of dim by the facts of g; 0 if they give none. */
int64_t        td__gdim_least(const td_graph *g, int64_t dim);
/* Fills bound[dims.n] from the inputs of a call; INT64_MIN: not determined by
 * them. */
void           td__gdim_bind(const td_graph *g, const td_value *in, int64_t *bound);
/* Determines symbols that no input has as a size, from equations among the
 * facts. */
void           td__gdim_solve(const td_graph *g, int64_t *bound);
/* Does the fact hold for these sizes? False if they are unknown. */
bool td__gfact_holds(const td_graph *g, const td_gfact *f, const int64_t *bound);
void td__gfact_text(td_buf *b, const td_graph *g, const td_gfact *f);

/* ---- walking (walk.c, clone.c, compare.c) ------------------------------- */

bool td__graph_index(td_graph *g); /* sets node ids and use lists; false: no memory */
void td__graph_pack(td_graph *g);  /* drops dead nodes, renumbers nodes and values */
/* Replaces all reads of `from` by reads of `to`. Needs use lists and updates them. */
void td__graph_replace(td_graph *g, td_gval *from, td_gval *to);
/* Adds a copy of v in a storage of its own: `copy`, which keeps strides and offset,
 * where `clone` would not. NULL after td__fail. */
td_gnode *td__graph_copy(td_graph *g, td_gval *v);
/* Calls fn for every value that an argument reads, in lists too. */
void      td__garg_each(const td_garg *a, void (*fn)(void *env, td_gval *v), void *env);
/* Replaces every value v that an argument reads by fn(env, v), in lists too. */
void      td__garg_map(td_garg *a, td_gval *(*fn)(void *env, td_gval *v), void *env);
td_graph *td__graph_clone(const td_graph *g);
/* Replaces the lists of inputs of `to` by those of `from`. False after td__fail. */
bool      td__graph_note_as(td_graph *to, const td_graph *from);
/* Appends copies of g's nodes to `to`. twin[], by value id in g: on entry the value of
 * `to` that replaces an input of g (NULL: a new input is added); on return the copy of
 * every value. `each` is called for every copied node, `was` in g and `now` in `to`; if
 * it returns an earlier node of `to`, that node replaces the copy. False after
 * td__fail. */
typedef td_gnode *td_append_fn(void *env, const td_gnode *was, td_gnode *now);
bool              td__graph_append(td_graph *to, const td_graph *g, td_gval **twin,
                                   td_append_fn *each, void *env);
/* Do two nodes of a graph compute the same, if they draw no random numbers? */
bool              td__gnode_equal(const td_gnode *a, const td_gnode *b);
uint64_t          td__gnode_hash(const td_gnode *n); /* equal nodes have one hash */
int      td__graph_results(const td_graph *g);       /* outputs before any <own_grad> */
/* Same text, apart from names, source lines and storage numbers? `why` gets the first
 * line that differs. */
bool     td__graph_equal(const td_graph *a, const td_graph *b, char *why, size_t cap);
uint64_t td__graph_hash(const td_graph *g); /* stable across processes; 0: no memory */

/* ---- text (graph_print.c, graph_json.c, graph_dot.c) -------------------- */

enum {
    TD_PRINT_TYPES = 1,
    TD_PRINT_PLACES = 2, /* of the user's source */
    TD_PRINT_SCOPES = 4,
    TD_PRINT_BARE = 8,    /* values are numbered in order: names do not count */
    TD_PRINT_BRIEF = 16,  /* to be read by people: large literals are not written out */
    TD_PRINT_STACKS = 64, /* with places: the calls around them */
    TD_PRINT_OPS = 32 /* no params, no literals: what a graph does, to any tensors */
};
/* Append to b; false: out of memory. */
bool td__graph_print(td_buf *b, const td_graph *g, unsigned how);
bool td__graph_json(td_buf *b, const td_graph *g);
bool td__graph_dot(td_buf *b, const td_graph *g);
/* "select(0, 1)": a call without its first argument. */
void td__gnode_call_print(td_buf *b, const td_graph *g, const td_gnode *n);
/* "f32[4,3]{1,4}": a type, with sizes as g names them. */
void td__gtype_print(td_buf *b, const td_graph *g, const td_gtype *type);
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
    bool        checkpoint, grads, rehearse, control, body; /* of a call */
    const char *autocast, *module, *dynamic; /* of a call: words; NULL: none */
    const char *hooks; /* of a call or backward: word; NULL: none */
    int         line;
    int64_t     seed;
    td_gnode   *node;
    td_gval   **out;
    int         n_out;
    td_garg    *args;
    int         n_args;
    int n_roots; /* of a backward: args before `with`; the others are tangents */
    int konst;
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

/* NULL after td__fail: TD_E_ARG "file:line:column: reason", TD_E_IO for file
 * errors. */
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
    TD_STAGE_HALF,  /* a forward or backward half */
    TD_STAGE_CODE   /* a half as native code runs it */
} td_stage;
bool td__graph_verify(const td_graph *g, td_stage stage); /* false after td__fail */

/* ---- meaning (interp.c, infer.c) ---------------------------------------- */

/* Executes the graph: calls its ops in order through the context's modes. in[]
 * are tensors and numbers by input; NONE for a const uses the graph's own
 * tensor. out[] is filled by output; tensors belong to the innermost scope. A
 * value is released after its last read. An error message ends in the source
 * line of the node that failed. Every transformation is a replay under other
 * modes. */
bool td__graph_replay(const td_graph *g, const td_value *in, td_value *out);
/* td__graph_replay that stores the values of the symbolic sizes in
 * bound[dims.n]; bound may be NULL. */
bool td__graph_replay_bound(const td_graph *g, const td_value *in, td_value *out,
                            int64_t *bound);

/* The modes before a region. */
typedef struct td_region_modes {
    bool             grad, inference, casts; /* casts: it is a region of autocast */
    td_autocast_mode autocast;
} td_region_modes;

/* A replay in single steps; values are referenced until the end. */
typedef struct td_replay {
    const td_graph *g;
    td_value       *val;    /* [n_values]; NONE: not computed, or released */
    int64_t        *bound;  /* [dims.n]: values of symbolic sizes */
    int32_t        *total;  /* [n_values]: reads in a whole replay */
    int32_t        *reads;  /* [n_values]: reads still to come; NULL: never release */
    const bool     *own;    /* by input: drop the caller's reference once set */
    TD_VEC(td_value) args;  /* arguments of the current call */
    TD_VEC(td_tensor *) ts; /* its lists of tensors */
    TD_VEC(int64_t) ints;   /* its lists of integers */
    TD_VEC(td_region_modes) modes; /* before each open region, to restore */
    /* Whole replays only: computes all nodes instead of the node-by-node loop. */
    bool (*walk)(void *env, struct td_replay *r);
    void *walk_env;
} td_replay;
bool td__replay_begin(td_replay *r, const td_graph *g); /* needs _end either way */
bool td__replay_set(td_replay *r, const td_gval *v, td_value x);
bool td__replay_node(td_replay *r, const td_gnode *n);

/* Does the node check what the trace assumed about a size that depends on values? */
bool td__node_is_guess(const td_gnode *n);
/* An argument as a value; symbolic sizes are evaluated. Lists are in r until
 * the next call. */
bool td__replay_arg(td_replay *r, const td_garg *a, td_value *out);
void td__region_set(td_ctx *cx, td_gregion r); /* sets the grad mode inside r */
void td__replay_end(td_replay *r);             /* restores modes, releases all values */
/* td__graph_replay with memory that is reused, for graphs that run often. */
bool td__replay_begin_whole(td_replay *r, const td_graph *g); /* needs _end, too */
bool td__replay_whole(td_replay *r, const td_value *in, td_value *out);
void td__replay_read(td_replay *r, const td_gval *v); /* one of its reads is done */

/* Fills in missing types by a replay on fake tensors; every input needs a type.
 * Stops where sizes are symbolic or depend on data; types after that stay NULL.
 * False after td__fail: an op rejects its arguments. */
bool td__graph_infer(td_graph *g);
/* The same on a copy, and fails where a stated type differs from the inferred one. */
bool td__graph_check_types(const td_graph *g);

/* ---- clean-up (effects.c and one file each) ----------------------------- */

/* Does any op of the graph, or the functional twin of one, have one of these
 * flags (TD_OPF_...)? */
bool td__graph_flags(const td_graph *g, uint32_t flags);

/* Does an op draw random numbers, itself or through its parts? */
bool               td__op_draws(td_op op);
/* Do its arguments say that it draws no random numbers and writes no statistics, such
 * as dropout with p = 0, or batch norm outside of training? */
bool               td__gnode_is_idle(const td_gnode *n);
/* Does it draw from its arguments rng_seed and rng_offset? Then it is as pure as other
 * ops. */
bool               td__gnode_has_rng(const td_gnode *n);
/* Does a node draw from the generator, where nested graphs count, or a whole graph
 * (nested.c)? */
bool               td__gnode_draws(const td_gnode *n);
bool               td__graph_draws(const td_graph *g);
/* Makes a functional graph that draws one of the generator's state (functional_rng.c):
 * its last inputs become <seed> and <offset>, i64[] each, its last output the new
 * <offset>, and each draw takes both as arguments. A graph that draws nothing, or only
 * repeats the draws of a saved state, stays without them; so does one that leaves the
 * generator with another seed (random_state), or whose number of draws depends on
 * values; it goes on to draw from the generator. False after td__fail; g is
 * then useless. */
bool               td__graph_functional_rng(td_graph *g);
/* Are its last inputs <seed> and <offset>? */
bool               td__graph_takes_rng(const td_graph *g);
static inline bool td__is_rng_desc(const td_desc *d) {
    return d->kind == TD_D_SEED || d->kind == TD_D_OFFSET;
}
/* Does the node call an op with an effect, itself or in a nested graph? Not if it has
 * run before: then the effect has happened. */
bool td__gnode_has_effect(const td_gnode *n);
/* Are all results of g linear in the inputs for which `in` is true, and does it draw no
 * numbers (linear.c)? False if that is not known. */
bool td__graph_linear(const td_graph *g, bool (*in)(const td_graph *g, int i));
/* Is input i a const whose tensor the graph owns? */
bool td__graph_holds(const td_graph *g, int i);
/* For a call with nested graphs: does result i require grad in one of them? */
bool td__nested_grad(const td_opcall *c, int i);
/* ...does the tape save entry `item` of its list argument `arg`, or, with arg -1, its
 * result `item`? */
bool td__nested_saves(const td_opcall *c, int arg, int item);
/* ...does eager save it, too? Other operands of a region are read only for a gradient
 * of a gradient, if nothing has written them until then. */
bool td__nested_checks(const td_opcall *c, int arg, int item);
/* ...does a gradient lead from its results to entry `item` of its list argument? */
bool td__nested_leads(const td_opcall *c, int item);
/* Are the graphs of this op functional, made for operands of given types, so that they
 * stay as they are in every trace? */
static inline bool td__op_calls(td_op op) {
    return op == TD_OP_call || op == TD_OP_call_forward;
}
/* Arguments of op cond_forward (ops/nested.def); the first four are those of cond. */
enum {
    TD_COND_PRED,
    TD_COND_YES,
    TD_COND_NO,
    TD_COND_OPERANDS,
    TD_COND_YES_FORWARD,
    TD_COND_NO_FORWARD,
    TD_COND_SAVED,
    TD_COND_ARGS
};
/* Arguments of op call_forward (ops/nested.def). */
enum {
    TD_CALL_BODY,
    TD_CALL_BACKWARD,
    TD_CALL_FORWARD,
    TD_CALL_OPERANDS,
    TD_CALL_RESULTS,
    TD_CALL_SAVED,
    TD_CALL_TANGENTS,
    TD_CALL_GRADS,
    TD_CALL_CHECKS,
    TD_CALL_ARGS
};
/* In its argument grads: where the gradient of an operand comes from, if it is no
 * output of `backward`. */
enum {
    TD_GRAD_NO_EDGE = -1, /* no result is computed from the operand */
    TD_GRAD_NONE = -2,    /* eager's backward visits its edge without a gradient */
    TD_GRAD_INPUT = -3    /* -3 - i: it is input i of `backward` */
};
/* In a trace of region or custom: fails if one of its graphs holds a literal, which
 * only a text contains. The joint graph has inputs for tensors of the program alone. */
bool td__nested_literals(td_opcall *c);
/* td__refuse_capture, where one of the graphs of c fails on fake tensors. */
bool td__nested_refuse(td_opcall *c);
/* After a failure in a captured branch or loop: eager may not run what failed (a
 * branch, an iteration), so the error becomes TD_E_TRACE, and `why` stands before it.
 * Always false. */
bool td__refuse_capture(td_ctx *cx, const char *why);
/* Must the node stay in its place, neither moved, merged nor removed? It
 * writes, draws random numbers or bounds a region. */
bool td__gnode_is_fixed(const td_gnode *n);
/* Must the node run even if nothing reads its results? Fixed ones, and those
 * that eager fails at for certain values. */
bool td__gnode_stays(const td_gnode *n);
/* Sets reads[i] for every input i of g that a node or an output reads. */
void td__graph_reads(const td_graph *g, bool *reads);
/* Sets writes[i] for each input that a node writes itself, not by a view. */
void td__graph_written_inputs(const td_graph *g, bool *writes);
/* Does a result have a data-dependent size? Other nodes may use that size even
 * if nothing reads the result, so the node must stay. */
bool td__gnode_shows(const td_gnode *n);

/* Passes. Each accepts a graph of any stage, preserves the stage's contract and the
 * meaning, and packs the graph. fold and views use types (td__graph_infer) and skip
 * values without one. False: out of memory. */
bool td__graph_dce(td_graph *g);   /* removes dead code */
bool td__graph_cse(td_graph *g);   /* merges common subexpressions */
bool td__graph_fold(td_graph *g);  /* folds constants */
bool td__graph_views(td_graph *g); /* shortens chains of view ops */
bool td__graph_order(td_graph *g); /* sorts nodes into a canonical order */

/* ---- tokens (tokens.c) -------------------------------------------------- */

/* Threads tokens through the calls of ops with an ordered effect, forward and backward
 * apart: token forms of the ops, inputs and outputs <token k> behind all others, also
 * in the graphs of branches and loops. A graph without such calls stays as it is. False
 * after td__fail. */
bool td__tokens_add(td_graph *g);
/* The reverse; the order of the calls is that of the nodes, which the tokens imply.
 * False after td__fail: a token is read by another op. */
bool td__tokens_remove(td_graph *g);
bool td__graph_has_tokens(const td_graph *g); /* does it call a token form? */
/* Is it a call with an ordered effect, or a branch or loop with one in its graphs? */
bool td__gnode_takes_token(const td_gnode *n);

#endif
