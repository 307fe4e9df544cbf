/* tests/ops/sample.h -- samples of ops: text, parsed form, inputs, expectations.
 * The language is described in docs/testing.md; tools/oracle reads it too. */
#ifndef TD_SAMPLE_H
#define TD_SAMPLE_H

#include "ops/ops.h"

#define MAX_NODES 96
#define MAX_LEAVES 16
#define MAX_DIMS 16
#define MAX_TEXT 512
#define MAX_ENDS 32

/* ---- text (sample_text.c) ----------------------------------------------- */

enum {
    TAG_ERROR = 1 << 0,    /* both systems refuse it */
    TAG_ANY = 1 << 1,      /* whatever PyTorch does is right */
    TAG_RANDOM = 1 << 2,   /* values are not compared */
    TAG_NOGRAD = 1 << 3,   /* no input requires grad */
    TAG_EXACT = 1 << 4,    /* values agree to the last bit */
    TAG_WRITES = 1 << 5,   /* writes an argument though the name has no '_' */
    TAG_LOOSE = 1 << 6,    /* tolerance times 16 */
    TAG_NOCHECK = 1 << 7,  /* no gradcheck: at a kink or a jump */
    TAG_NOCHECK2 = 1 << 8, /* no gradgradcheck */
    TAG_VALUES = 1 << 9,   /* strides, aliases and requires_grad are not compared */
    TAG_OWNGRAD =
        1 << 10, /* PyTorch's gradient is wrong or refused: differences decide */
    /* results are unique up to signs: magnitudes are compared, gradients as OWNGRAD */
    TAG_SIGNS = 1 << 11
};

typedef struct sample_text {
    const char *text; /* one call, without spaces */
    const char *file;
    int         line;
    uint32_t    tags;
} sample_text;

typedef struct sample_list {
    TD_VEC(sample_text) items;
    td_arena arena;
} sample_list;

/* Appends the expanded samples of a file; false: told on stderr. */
bool sample_read(sample_list *l, const char *path);

/* ---- parsed form (sample_parse.c) --------------------------------------- */

typedef enum node_kind {
    NODE_NONE,
    NODE_INT,
    NODE_FLOAT,
    NODE_BOOL,
    NODE_DTYPE,
    NODE_STR,
    NODE_LIST,
    NODE_TENSOR, /* leaf */
    NODE_REF,    /* argument number i again */
    NODE_VIEW    /* one step of a chain below TENSOR or REF */
} node_kind;

/* Children (items of a list, views of a tensor, arguments of a view) hang on
 * `first` and continue at `next`; -1 ends. */
typedef struct node {
    node_kind kind;
    int       first, next;
    int64_t   i;
    double    f;
    td_dtype  dt;
    char      name[32]; /* keyword */
    char      str[32];  /* string, or the view op */
} node;

/* A tensor literal. */
typedef struct leaf {
    td_dtype dt;
    int      rank;
    int64_t  size[MAX_DIMS];
    bool     has_stride;
    int64_t  stride[MAX_DIMS];
    char     hint[16];
    int64_t  mod; /* 0: none */
    int      n_lit;
    double   lit_f[64];
    int64_t  lit_i[64];
    bool     grad;
} leaf;

typedef struct sample {
    const sample_text *src;
    uint64_t           seed;
    char               op_name[48];
    int                first; /* arguments */
    int                n_nodes, n_leaves;
    node               nodes[MAX_NODES];
    leaf               leaves[MAX_LEAVES];
    char               why[160]; /* parse error */
} sample;

bool sample_parse(const sample_text *t, sample *s);

/* ---- inputs (sample_values.c) ------------------------------------------- */

/* The sample's arguments as tensors and numbers. */
typedef struct inputs {
    td_tensor *leaf[MAX_LEAVES]; /* may require grad */
    td_tensor *base[MAX_LEAVES]; /* leaf, or its clone when the op writes */
    td_tensor *used[MAX_LEAVES]; /* what was passed: base or a view of it */
    td_tensor *made[TD_MAX_ARGS];
    td_value   in[TD_MAX_ARGS];
    bool       given[TD_MAX_ARGS];
    int        n_in;
    td_op      op;
    bool       writes;
    bool       strided;  /* wrap every leaf in a non-contiguous view */
    bool       absolute; /* absolute values: leaves, in f64, and factors */
    int64_t    ints[128];
    int        n_ints;
    td_tensor *lists[64];
    int        n_lists;
    td_tensor *out[64]; /* results of the call */
    int        n_out;
    char       why[256]; /* what is wrong, when building failed */
} inputs;

uint64_t   sample_hash(const void *p, size_t n);
/* Element i of leaf number nr, as a double or an integer by dtype. */
void       leaf_number(const sample *s, int nr, td_dtype dt, int64_t i, double *f,
                       int64_t *k);
/* A tensor of hashed numbers: a tangent. */
td_tensor *hashed_tensor(td_ctx *cx, const sample *s, int nr, td_dtype dt,
                         td_ints size);
/* Builds leaves and arguments. `as` gives the values of leaves that must not be
 * the sample's own (NULL: none). False: in->why says what is wrong. */
bool       inputs_build(td_ctx *cx, const sample *s, td_op op, td_tensor *const *as,
                        inputs *in);
/* Builds and calls; false: refused, see td_message or in->why. */
bool       inputs_call(td_ctx *cx, const sample *s, td_op op, td_tensor *const *as,
                       inputs *in);

/* ---- expectations (expected.c) ------------------------------------------ */

enum { EXP_OK, EXP_ERROR, EXP_LACKS, EXP_MISSING };
enum { EXP_GRAD = 1, EXP_VALUES = 2, EXP_STRIDED = 4 };

typedef struct exp_tensor {
    td_dtype       dt;
    int            rank, flags, alias;
    int64_t        offset, size[MAX_DIMS], stride[MAX_DIMS];
    const uint8_t *values;
    int64_t        numel;
} exp_tensor;

typedef struct exp_change {
    int        kind, leaf; /* 0: the base, 1: the tensor passed */
    exp_tensor t;
} exp_change;

typedef struct expected {
    int            status;
    int            n_out, n_change;
    exp_tensor     out[32];
    exp_change     change[8];
    bool           has_grad;
    bool           grad_there[MAX_LEAVES];
    const uint8_t *grad[MAX_LEAVES];
} expected;

typedef struct exp_file exp_file;
exp_file               *expected_open(const char *path, char *why, size_t cap);
void                    expected_close(exp_file *f);
const char             *expected_version(const exp_file *f);
/* What is stored for s; status EXP_MISSING when nothing is. False: damaged. */
bool                    expected_find(const exp_file *f, const sample *s, expected *e);
/* Of a leaf with hint `mirror` or `spd`: the place of element i in the transposed
 * matrix, i on the diagonal and of other leaves. Derivatives are checked for both
 * elements moved together. */
int64_t                 leaf_mirror(const leaf *l, int64_t i);
bool                    leaf_is_mirrored(const leaf *l);
int64_t                 leaf_numel(const leaf *l); /* of its storage */

/* ---- checks ------------------------------------------------------------- */

/* Sizes of what is added up, by element. */
typedef struct sum_size {
    double *v; /* NULL: not known */
    int64_t n;
} sum_size;

/* ...for everything a sample gives. */
typedef struct sums {
    sum_size out[64], base[MAX_LEAVES], grad[MAX_LEAVES];
} sums;

typedef struct report {
    const sample *s;
    int           failures;
    bool          quiet;
    sums         *sums; /* of an op that adds up; else NULL */
} report;

/* Prints one line for the sample and counts it. */
void fail_sample(report *r, const char *fmt, ...) TD_PRINTF(2, 3);

/* |got - want| <= abs + rel * |want| + of_sum * what was added up. */
typedef struct tolerance {
    double   rel, abs, of_sum;
    sum_size sum;
} tolerance;
/* Of result nr, of argument nr after the call, of the gradient of leaf nr. */
tolerance result_tolerance(const report *r, int nr, td_dtype dt);
tolerance base_tolerance(const report *r, int nr, td_dtype dt);
tolerance grad_tolerance(const report *r, int nr, td_dtype dt);

/* sums.c: are results of the op sums of products of its arguments, and nothing else? */
bool op_sums(td_op op);
/* Sets r->sums for such an op; and frees it. */
void sums_measure(td_ctx *cx, report *r);
void sums_free(report *r);

/* compare.c: true when equal, else one line through fail_sample. */
bool compare_values(report *r, const char *what, td_tensor *t, const uint8_t *want,
                    td_dtype want_dt, tolerance tol);
bool compare_tensor(report *r, const char *what, td_tensor *t, const exp_tensor *e,
                    tolerance tol);
bool compare_tensors(report *r, const char *what, td_tensor *a, td_tensor *b,
                     tolerance tol);

/* check_call.c: the sample against PyTorch. */
void check_call(td_ctx *cx, report *r, const expected *e);
/* sums.c: kernels that leave a term out are noticed; counts those it tried. */
void check_notices(td_ctx *cx, report *r, const expected *e, int *tried);
/* check_grad.c */
/* What is differentiated: results that need it, and bases written through views. */
int  grad_ends(const inputs *in, td_tensor **ends);
/* The tensors of t, by leaf, that require grad, and which leaves they are. */
int  grad_leaves_needing(const sample *s, td_tensor *const *t, td_tensor **need,
                         int *which);
/* Gradients by leaf of the results in `in`, NULL where there is none. */
bool grad_leaves(td_ctx *cx, const sample *s, const inputs *in, td_tensor **grads,
                 bool create);
/* Finite differences against td_grad, first and second order. */
typedef struct grad_stats {
    bool first, second; /* something was compared */
} grad_stats;
void check_grad(td_ctx *cx, report *r, const expected *e, grad_stats *st);
/* check_twins.c: strided inputs and the in-place form give the same. */
void check_twins(td_ctx *cx, report *r);
/* check_fake.c: inputs without bytes give results that look the same. */
void check_fake(td_ctx *cx, report *r);
/* check_sym.c: the call on symbolic sizes agrees with calls on numbers. */
typedef struct sym_stats {
    int same, other; /* samples whose geometry agreed under the hints, other sizes */
    int values;      /* samples that read values on the way */
} sym_stats;
void check_sym(td_ctx *cx, report *r, sym_stats *st);
/* check_parts.c: a part that fails for certain values has a composite that does. */
void check_parts(td_ctx *cx, report *r);
/* check_simpler.c: the op's simpler form gives the same; counts what it compared. */
void check_simpler(td_ctx *cx, report *r, int *checked);
/* check_native.c: as a function compiled by the native backend. */
typedef struct native_stats {
    int compared, refused;
    int exact, exact_grads; /* had to agree to the last bit */
} native_stats;
void check_native(td_ctx *cx, report *r, native_stats *st);
/* check_twice.c: gradients of gradients, inside and outside of compiled functions. */
typedef struct twice_stats {
    int compared, refused;
    int slopes; /* samples held against differences */
} twice_stats;
void check_twice(td_ctx *cx, report *r, twice_stats *st);
/* coverage.c: rows without samples, and rows that do not hold together. */
int  check_table(const bool *seen, const bool *graded, const bool *complex);

#endif
