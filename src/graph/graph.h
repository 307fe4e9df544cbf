/* graph/graph.h -- a graph: ops in order, values with what is known of them, and
 * text both ways. Everything of a graph lives in its arena; nothing is freed
 * singly, a graph is dropped whole. No fixed limits; a million nodes are fine.
 *
 * One form serves all stages: programs as captured (views, writes, grad-mode
 * regions), functional graphs, joint graphs, halves. verify.c says what each
 * stage may contain. */
#ifndef TD_GRAPH_H
#define TD_GRAPH_H

#include "ops/ops.h"

typedef struct td_graph td_graph;
typedef struct td_gnode td_gnode; /* a statement: an op call or a region's edge */
typedef struct td_gval  td_gval;  /* an input, or one result of a node */

/* What a value looks like. Shared and never changed: replace the pointer. */
typedef struct td_look {
    uint8_t        kind;  /* TD_K_TENSOR, or TD_K_INT, _FLOAT, _BOOL: a plain number */
    uint8_t        dtype; /* of a tensor */
    uint8_t        rank;
    bool           grad;    /* requires grad */
    int32_t        storage; /* values of one number share storage; -1: not known */
    int64_t        offset;
    const int64_t *size, *stride; /* [rank]; may be symbolic (core/dim.h) */
} td_look;

typedef enum td_gkind {
    TD_G_NONE, TD_G_VALUE, TD_G_INT, TD_G_FLOAT, TD_G_BOOL, TD_G_DTYPE,
    TD_G_INTS,  /* a list of integers, some perhaps symbolic */
    TD_G_LIST,  /* of arguments: values, none, integers that are values */
    TD_G_STR,
    TD_G_GRAPH  /* a nested graph */
} td_gkind;

/* An argument of a node, or an entry of `return`. */
typedef struct td_garg {
    uint8_t  kind; /* td_gkind */
    uint32_t n;    /* length of a list */
    union {
        td_gval              *v;
        int64_t               i;
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
    const char    *name; /* without %; NULL: printed as its id */
    const td_look *look; /* NULL: not known */
    td_guse       *uses; /* valid after td__graph_index */
    int            n_uses;
};

typedef enum td_gnode_kind {
    TD_N_OP,
    TD_N_ENTER, /* begins a region; `region` says which */
    TD_N_LEAVE  /* ends the innermost one */
} td_gnode_kind;

typedef enum td_region { TD_R_NO_GRAD, TD_R_ENABLE_GRAD, TD_R_INFERENCE, TD_R_PLAIN } td_region;

/* Which half of a joint graph a node belongs to. */
typedef enum td_origin { TD_FROM_FORWARD, TD_FROM_BACKWARD } td_origin;

struct td_gnode {
    uint8_t   kind;   /* td_gnode_kind */
    uint8_t   region; /* td_region */
    uint8_t   origin; /* td_origin */
    bool      dead;   /* taken out; skipped by walks until td__graph_pack */
    td_op     op;
    int32_t   id;     /* position in nodes after td__graph_index */
    int32_t   n_in, n_out;
    td_garg  *in;     /* schema order; trailing defaults may be left out */
    td_gval **out;    /* lists are flattened */
    td_where  here;   /* of the user's source */
    const char *scope; /* "model/attn", or NULL */
    uint32_t  tags;   /* for passes */
};

/* What an input or output stands for (docs/text-format.md). */
typedef enum td_desc_kind {
    TD_D_PLAIN, TD_D_PARAM, TD_D_BUFFER, TD_D_CONST, TD_D_TANGENT, TD_D_UPDATE,
    TD_D_META_UPDATE, TD_D_BASE, TD_D_VIEW_BASE, TD_D_SYNTHETIC_BASE, TD_D_GRAD, TD_D_SAVED,
    TD_D_SEED, TD_D_OFFSET, TD_D_TOKEN, TD_D_COUNT
} td_desc_kind;

typedef struct td_desc {
    uint8_t     kind;  /* td_desc_kind */
    int32_t     index; /* "tangent 2"; -1: none */
    const char *name;  /* "fc.weight"; NULL: none */
} td_desc;

struct td_graph {
    td_ctx     *cx; /* errors go here */
    td_arena    arena;
    const char *name; /* without @ */
    TD_VEC(td_gval *) inputs;
    TD_VEC(td_desc) in_desc;
    TD_VEC(td_gnode *) nodes;
    TD_VEC(td_garg) outputs;
    TD_VEC(td_desc) out_desc;
    TD_VEC(td_tensor *) consts; /* held: tensors the body closed over, inputs <const> */
    int32_t n_values;  /* ids given out */
    int32_t n_storages;
};

/* ---- building (graph.c) ------------------------------------------------- */

td_graph *td__graph_make(td_ctx *cx, const char *name); /* NULL: failed */
void      td__graph_drop(td_graph *g);
td_gval  *td__graph_input(td_graph *g, const char *name, const td_look *look, td_desc d);
/* An op node with n_out fresh results; in[] is copied with its lists. */
td_gnode *td__graph_op(td_graph *g, td_op op, const td_garg *in, int n_in, int n_out);
bool      td__graph_enter(td_graph *g, td_region r);
bool      td__graph_leave(td_graph *g);
bool      td__graph_output(td_graph *g, td_garg a, td_desc d);
const td_look *td__graph_look(td_graph *g, const td_tensor *t); /* copy into the arena */
const char    *td__graph_str(td_graph *g, const char *s);

static inline td_garg td__garg_value(td_gval *v) {
    td_garg a = {TD_G_VALUE, 0, {0}};
    a.u.v = v;
    return a;
}

/* ---- walking (walk.c) --------------------------------------------------- */

bool td__graph_index(td_graph *g); /* node ids, use lists; false: no memory */
void td__graph_pack(td_graph *g);  /* forgets dead nodes, renumbers values */
void td__graph_replace(td_graph *g, td_gval *from, td_gval *to); /* all reads */
/* Calls fn on every value an argument (and lists in it) reads. */
void td__garg_each(const td_garg *a, void (*fn)(void *env, td_gval *v), void *env);
td_graph *td__graph_clone(const td_graph *g);
bool      td__graph_equal(const td_graph *a, const td_graph *b, char *why, size_t cap);
uint64_t  td__graph_hash(const td_graph *g); /* stable across processes; names do not count */

/* ---- text (graph_print.c, graph_parse.c, graph_json.c, graph_dot.c) ------ */

enum { TD_PRINT_TYPES = 1, TD_PRINT_PLACES = 2, TD_PRINT_SCOPES = 4 };
bool td__graph_print(td_buf *b, const td_graph *g, unsigned how);
bool td__graph_json(td_buf *b, const td_graph *g);
bool td__graph_dot(td_buf *b, const td_graph *g);

/* ---- checking (verify.c) ------------------------------------------------ */

typedef enum td_stage {
    TD_STAGE_PROGRAM,    /* as captured: views, writes, regions */
    TD_STAGE_FUNCTIONAL, /* no op with a write mark, no regions */
    TD_STAGE_JOINT,      /* functional; primals and tangents in, outputs and gradients out */
    TD_STAGE_HALF        /* a forward or backward half */
} td_stage;
bool td__graph_verify(const td_graph *g, td_stage stage); /* false after td__fail */

/* ---- meaning (interp.c) ------------------------------------------------- */

/* Calls the graph's ops one after another through the context's modes. `in` are
 * tensors and numbers by input; out[i] is filled by output, results belonging to
 * the innermost scope. Replay under modes is what every transformation is. */
bool td__graph_replay(const td_graph *g, const td_value *in, td_value *out);

#endif
