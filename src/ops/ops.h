/* ops/ops.h -- the op table, schemas, formulas and the one call point.
 * An op is one row of a .def file; everything else is derived from it. */
#ifndef TD_OPS_H
#define TD_OPS_H

#include "core/core.h"

typedef struct td_formula td_formula;
typedef struct td_vjp     td_vjp;

/* ---- rows --------------------------------------------------------------- */

typedef bool td_shape_fn(td_opcall *c);  /* fills c->meta; false after td__fail */
typedef bool td_kernel_fn(td_opcall *c); /* fills the bytes of c->out */
typedef bool td_decomp_fn(td_opcall *c); /* sets c->out by calling other ops */
typedef bool td_vjp_fn(td_vjp *v);       /* sets v->grad by calling other ops */

/* Properties of an op that passes and the call path ask for. */
enum {
    /* -- how it is computed -- */
    TD_OPF_POINTWISE = 1 << 0, /* .expr on each element; sizes broadcast */
    TD_OPF_COMMUTES = 1 << 1,  /* the first two arguments may be exchanged */
    TD_OPF_CREATE = 1 << 2, /* no tensor argument: its C function takes the context */
    TD_OPF_RANDOM = 1 << 3, /* draws: c->seed and c->offset are set, see td__draw */
    TD_OPF_DRAWS = 1 << 4,  /* composite, and some of its parts may be RANDOM */
    TD_OPF_NESTS = 1 << 5,  /* takes graphs; its kernel makes c->out, also for fakes */
    /* Result sizes depend on values: the kernel makes c->out, and the shape rule gives
     * what a trace may assume of the sizes. */
    TD_OPF_DYNAMIC = 1 << 6,
    TD_OPF_CHEAP = 1 << 7, /* one pass over its arguments: backward may recompute it */
    TD_OPF_FUSES = 1 << 8, /* the code generator prefers the simpler form: its loops
                            * fuse with those around them */
    TD_OPF_PICKY = 1 << 9, /* fails for certain values: indices, integers over 0 */
    /* Linear in each tensor argument with coefficients >= 0: the same call on absolute
     * values is the magnitude of what is summed, which bounds the rounding error. */
    TD_OPF_SUMS = 1 << 10,
    TD_OPF_FILLS = 1 << 11,    /* gives every element the same value */
    TD_OPF_INTERNAL = 1 << 12, /* for formulas: documented, but without a td_ macro */

    /* -- storage and layout of results -- */
    TD_OPF_VIEW = 1 << 13,   /* the result shares the storage of one argument */
    TD_OPF_MULTI = 1 << 14,  /* view with a list of results */
    TD_OPF_DETACH = 1 << 15, /* view that shares the storage but not the history */
    /* The result takes over the storage of in[0], which no other tensor uses any more:
     * it is not a view. */
    TD_OPF_SHARE = 1 << 16,
    TD_OPF_WHOLE = 1 << 17,  /* copies the whole storage of its first argument */
    TD_OPF_EXACT = 1 << 18,  /* has the strides of its first argument, gaps included */
    TD_OPF_PLACES = 1 << 19, /* its offsets count from the start of the storage */

    /* -- writing -- */
    TD_OPF_WRITES_OK = 1 << 20, /* kernel may run with out[0] == in[0] */
    TD_OPF_META = 1 << 21, /* writes metadata only (t_, squeeze_...), by its kernel */
    /* The last argument (a number, the source of masked_scatter) is read before the
     * first element is written, and may overlap it. */
    TD_OPF_READ_FIRST = 1 << 22,
    TD_OPF_UNIFORM = 1 << 23, /* may write elements that share one address */
    TD_OPF_APART = 1 << 24,   /* in place: refuses arguments that overlap the written */

    /* -- autograd -- */
    TD_OPF_CUTS = 1 << 25, /* ends or exchanges the history of a tensor; not a view */
    TD_OPF_TAPE = 1 << 26, /* sets flags or history; the tape does it, not a kernel */

    /* -- the C function -- */
    TD_OPF_FROM_ZERO = 1 << 27, /* the macro may omit the first argument, which is 0 */

    /* Computes the same with a number and with a 0-d tensor of the dtype in which it
     * computes: a float that varies between calls may be passed as one. */
    TD_OPF_TAKES_0D = 1 << 29,

    /* -- tensors of a type -- */
    TD_OPF_TYPED = 1 << 30, /* makes one, or reads its parts: no type computes it */

    /* -- registered ops -- */
    TD_OPF_EFFECT =
        1 << 28 /* does more than compute its results: runs once, in order */
};
/* The last flag that 32 bits hold; an enumerator would be negative. Its kernel makes
 * c->out, with the geometry of the shape rule, and may hold on to the storages of its
 * arguments. Only what it returns matters: it has no effect. */
#define TD_OPF_HOLDS (1u << 31)

/* How a pointwise op treats dtypes and numbers. Without a bit, all operands are
 * promoted to one dtype, in which it computes and returns. */
enum {
    TD_DT_FLOAT = 1 << 0,      /* integers compute as the default float */
    TD_DT_FLOAT_ONLY = 1 << 1, /* integers and bool are errors */
    TD_DT_INT_ONLY = 1 << 2,   /* floats are errors (bitwise ops) */
    TD_DT_NO_BOOL = 1 << 3,    /* bool is an error */
    TD_DT_FIRST = 1 << 4,      /* computes in and returns the dtype of in[0] */
    TD_DT_BOOL_OUT = 1 << 5,   /* returns bool */
    /* Where the common dtype is f16 or bf16, ATen computes in f32 and takes numbers as
     * f32, with these exceptions: */
    TD_DT_HALF_SCALARS = 1 << 6, /* a Scalar must be representable in the half itself */
    TD_DT_EXACT_NUMBER = 1 << 7, /* a number operand is not rounded to the half first */
    /* Integers: a Scalar beyond the dtype's range means the end of the range; other ops
     * report it as an error. */
    TD_DT_SATURATES = 1 << 8,
    TD_DT_EXACT_0_DIM = 1 << 9, /* like EXACT_NUMBER, for a tensor without dims */
    TD_DT_REAL_OUT = 1 << 10    /* of complex numbers it returns real ones */
};

/* One op. Rows live in *.def as TD_OP(id, .field = ...,). FN(x) names the C
 * function td__x. Exactly one of expr, cpu, decomp, decomp_fn, typed_fn, pure, or VIEW
 * says how it is computed; exactly one of vjp, vjp_fn, or a reason for none. */
#ifndef TD_TABLE_TEXT
#define TD_ROW_FN(type) type *
#else
#define TD_ROW_FN(type) const char *
#endif
/* A row. Functions are pointers in the library and names in the generator, which links
 * no rule and no kernel. */
struct td_opdef {
    const char *name;
    const char *schema; /* "mul(Tensor a, Operand b) -> Tensor"; NULL: from pure */
    const char *doc;    /* one or two sentences */
    TD_ROW_FN(td_shape_fn) shape;
    TD_ROW_FN(td_kernel_fn) cpu;
    TD_ROW_FN(td_vjp_fn) vjp_fn;
    TD_ROW_FN(td_decomp_fn) decomp_fn;
    TD_ROW_FN(td_decomp_fn) simpler_fn;
    /* Below autograd: computes an op of which an argument or the result is of a type of
     * the library, by ops on inner tensors (sparse tensors); some arguments may be
     * plain. */
    TD_ROW_FN(td_decomp_fn) typed_fn;
    TD_ROW_FN(td_decomp_fn)
    split_fn;            /* in a joint trace: calls an op that hands values
                                       * to its backward, where there is one */
    const char *vjp;     /* "a: g * b; b: g * a", or TD_NO_GRAD(why), TD_VIA_... */
    const char *saves;   /* with vjp_fn: "a b out", the values it reads, or by argument
                           * whose gradient reads them: "a: a b; b: a b out" */
    const char *decomp;  /* formula over the arguments */
    const char *simpler; /* of an op with a kernel: the same in terms of simpler ops */
    const char *pure;    /* functional twin of a writer */
    const char *inverse; /* of a view: the op that puts a changed view back */
    const char *idle;    /* "p=0 train=0": where one holds, it draws, writes nothing */
    const char *expr;    /* C over $args, for loops and code generation */
    /* On complex tensors: of pointwise ops C over $args; TD_COMPLEX, the kernel or the
     * parts take them; a formula that computes the op of other ops; NULL: an error.
     * TD_MOVES: it takes stored dtypes too, as views and composites of TD_COMPLEX. */
    const char *complex;
    const char *work;     /* of heavy ops: multiply-adds, see td__work_parse */
    uint32_t    flags;    /* TD_OPF_... */
    uint16_t    dtypes;   /* TD_DT_..., of pointwise ops */
    uint8_t     view;     /* td_view_kind, of views */
    uint8_t     autocast; /* td_cast: what it computes in under autocast */
    uint8_t     linear;   /* td_linear; views are linear in what they view */
    uint8_t     element;  /* td_element, of ops without expr */
    uint8_t     draws;    /* td_draws, of random ops that write nothing */
    /* An analytic function of its complex arguments: the derivative is that on real
     * numbers, conjugated (docs/complex.md). Else the derivative is right as it is. */
    bool        analytic;
};

/* How many blocks of the generator a random op takes (kernels/draw.h). */
typedef enum td_draws {
    TD_DRAWS_NONE,
    TD_DRAWS_FLOATS, /* one for four elements of the result; of f64, for two */
    TD_DRAWS_PAIRS,  /* one for two elements */
    TD_DRAWS_EACH,   /* one for each; its stream has further blocks */
    TD_DRAWS_COINS,  /* one for four, or none with train=false */
    TD_DRAWS_CHOICES /* multinomial: one for two samples, or two weights */
} td_draws;

typedef enum td_cast {
    TD_CAST_NONE, /* in what it is given; of a composite, the parts decide */
    TD_CAST_LOW,  /* in the dtype of the region */
    TD_CAST_F32,
    TD_CAST_WIDEST /* in the widest dtype of its arguments */
} td_cast;

/* What it is linear in, of its tensors; NONE: nothing, or not known. */
typedef enum td_linear {
    TD_LINEAR_NONE,
    TD_LINEAR_SUM,   /* all of them at once: a sum of terms, or the elements of one */
    TD_LINEAR_EACH,  /* each of them, while the others stay */
    TD_LINEAR_FIRST, /* the first, while the others stay */
    TD_LINEAR_REST,  /* all but the first at once, while that stays */
    TD_LINEAR_ZERO   /* it is zero */
} td_linear;

/* What a view does to the dims of its argument, for passes that merge views. */
typedef enum td_view_kind {
    TD_VIEW_OTHER,   /* selects elements, or anything else */
    TD_VIEW_SAME,    /* nothing: sizes, strides and offset are the argument's */
    TD_VIEW_LATE,    /* nothing, and a backward reads the elements when it runs */
    TD_VIEW_RESHAPE, /* other sizes, the same elements in row-major order */
    /* The same dims in another order: a list of them, two that change places, or no
     * argument, which reverses them. */
    TD_VIEW_PERMUTE,
    TD_VIEW_EXPAND, /* size-1 dims repeat, by stride 0 */
    TD_VIEW_STRIDED /* any sizes and strides, an offset into the storage */
} td_view_kind;

/* What an element of the result is, for loops of compiled code. Arguments are found by
 * their names: `value`, `dim`, `dtype`, `p`. */
typedef enum td_element {
    TD_EL_CALLED,    /* only the kernel knows */
    TD_EL_COPY,      /* that of the first argument */
    TD_EL_COPY_INTO, /* ...of the second, with the strides of the first */
    TD_EL_ZERO,
    TD_EL_ONE,
    TD_EL_VALUE,
    TD_EL_RANGE, /* from the first argument in steps of the third */
    TD_EL_SUM,   /* reductions, over `dim` or all */
    TD_EL_PROD,
    TD_EL_MAX,
    TD_EL_MIN,
    TD_EL_ALL,
    TD_EL_ANY,
    TD_EL_UNIFORM, /* draws */
    TD_EL_NORMAL,
    TD_EL_COIN
} td_element;

#define TD_NO_GRAD(why) "!" why /* has no derivative, and why */
#define TD_ZERO_GRAD "0"        /* derivative is zero everywhere: no history */
#define TD_VIA_DECOMP "@decomp" /* differentiate the parts */
#define TD_VIA_PURE "@pure"     /* differentiate the functional twin */
#define TD_COMPLEX "="          /* its kernel or its parts take complex elements */
#define TD_MOVES "=="           /* moves elements of any dtype, computes nothing */
#define TD_WRITES(twin)                               \
    TD_OP(twin##_, .pure = #twin, .vjp = TD_VIA_PURE, \
          .doc = "Writes the result of " #twin " into its first argument.")

typedef enum td_op {
#define TD_OP(id, ...) TD_OP_##id,
#include "ops/ops.def"
#undef TD_OP
    TD_OP_COUNT
} td_op;

extern const td_opdef td__ops[TD_OP_COUNT]; /* the library's rows; see td__row */

/* Ops that programs register (user_ops.c) have numbers above TD_OP_COUNT, which stands
 * for no op; all numbers are below TD_OP_LIMIT. */
enum { TD_MOST_USER_OPS = 256, TD_OP_LIMIT = TD_OP_COUNT + 1 + TD_MOST_USER_OPS };

/* ---- schemas (schema.c) ------------------------------------------------- */

typedef enum td_arg_type {
    TD_T_TENSOR,
    TD_T_OPT_TENSOR,
    TD_T_TENSORS,
    TD_T_OPT_TENSORS, /* Tensor?[] */
    TD_T_OPERAND,     /* tensor or number */
    TD_T_SCALAR,
    TD_T_OPT_SCALAR,
    TD_T_INT,
    TD_T_OPT_INT,
    TD_T_INTS,
    TD_T_OPT_INTS,
    TD_T_FLOAT,
    TD_T_OPT_FLOAT,
    TD_T_BOOL,
    TD_T_DTYPE,
    TD_T_OPT_DTYPE,
    TD_T_STR,
    TD_T_GRAPH,
    TD_T_OBJECT /* a tensor that carries an object (tandem/object.h) */
} td_arg_type;

#define TD_MAX_ARGS 16
#define TD_MAX_RESULTS 8

typedef struct td_param {
    char     name[24];
    uint8_t  type;  /* td_arg_type */
    char     alias; /* letter, 0: none */
    bool     write;
    bool     has_default;
    td_value def; /* the default; a list or string points into the two below */
    int64_t  ints_def[4];
    char     str_def[16];
} td_param;

typedef struct td_schema {
    char     name[40];
    int      n_in, n_out;
    td_param in[TD_MAX_ARGS];
    td_param out[TD_MAX_RESULTS]; /* name "out" when the schema gives none */
} td_schema;

/* Reads schema text; false and a message in `why` when it is wrong. */
bool td__schema_parse(const char *text, td_schema *s, char *why, size_t cap);
/* The schema of NAME_ from its functional twin's. */
bool td__schema_writer(const td_schema *pure, td_schema *s, char *why, size_t cap);

/* ---- how much an op computes (op_cost.c) ------------------------------------ */

/* A row's work is a product of words: "a" or "out" counts the elements of an argument
 * or of the result, "a.-1" is a size of it, "a/0" its elements over that size. An op
 * with work is heavy: arithmetic, not memory, decides how long it takes. */
typedef struct td_work_term {
    int8_t arg; /* -1: the result */
    int8_t dim; /* counted from the end when negative */
    char   how; /* 0: elements, '.': a size, '/': elements over a size */
} td_work_term;
enum { TD_WORK_TERMS = 4 };
/* How many terms, -1 when the text is wrong. */
int  td__work_parse(const td_schema *s, const char *text, td_work_term *terms);
/* Is it an op that may be done twice: it only moves memory, once? */
bool td__op_is_cheap(td_op op);

/* ---- what is derived from a row, once per process (table.c) ------------- */

/* A term of a derivative: which argument, what it reads, how to compute it. */
typedef struct td_term {
    const td_formula *f;
    uint32_t          reads_in;  /* bit per argument that must be saved */
    uint32_t          reads_out; /* bit per result that must be saved */
} td_term;

struct td_opinfo {
    td_op             op;
    const td_opdef   *def;
    td_schema         s;
    td_op             pure;        /* of a writer; TD_OP_COUNT: none */
    bool              composite;   /* decomp or decomp_fn */
    bool              has_simpler; /* parts, a simpler form, or a twin with one */
    bool              differentiable;
    bool              writes;  /* any argument with ! */
    int8_t            view_of; /* VIEW: index of the viewed argument, else -1 */
    /* Index of rng_seed, which rng_offset follows; -1: it has no such arguments */
    int8_t            rng;
    const td_formula *decomp, *simpler;
    const td_formula *of_complex;          /* the formula in .complex; NULL: none */
    td_term           term[TD_MAX_ARGS];   /* by argument; f == NULL: none */
    uint32_t          saves_in, saves_out; /* of vjp_fn, or the union of terms */
};

/* Of a registered op (user_ops.c); td__user_op_find: TD_OP_COUNT when unknown. */
const td_opdef  *td__user_row(td_op op);
td_opinfo       *td__user_info(td_op op);
td_op            td__user_op_find(const char *name);
bool             td__op_exists(td_op op); /* a row of the library or a registered one */
/* The token form of an op with an ordered effect: it takes a token before the op's
 * arguments and returns one before its results. And back. TD_OP_COUNT: none. */
td_op            td__op_with_token(td_op op);
td_op            td__op_without_token(td_op op);
/* Stands for a registered op in cached graphs; 0: it has no version. */
uint64_t         td__user_op_mark(td_op op);
/* Derives the info of a registered row; false and a message: the row is wrong. */
bool             td__table_add(td_op op, char *msg, size_t cap);
/* The row of an op, of the library or registered. */
const td_opdef  *td__row(td_op op);
bool             td__table_init(void); /* idempotent; false: td__table_why says why */
const char      *td__table_why(void);
const td_opinfo *td__opinfo(td_op op);
td_op            td__op_find(const char *name); /* TD_OP_COUNT when unknown */
int td__op_arg(td_op op, const char *name);     /* index of that argument, -1: none */
/* The row's view kind; of an op that writes metadata, that of its functional twin. */
td_view_kind       td__op_view_kind(td_op op);
/* Does it change sizes, strides, offset or storage of its first argument? META ops that
 * the tape does change flags and histories only. */
static inline bool td__op_writes_geometry(td_op op) {
    return (td__row(op)->flags & (TD_OPF_META | TD_OPF_TAPE)) == TD_OPF_META;
}
/* The op that was probably meant by a name that is none; NULL: no name is close. */
const char *td__op_near(const char *name);

/* ---- calls (call.c) ----------------------------------------------------- */

#define TD_FEW 3

/* One op call on its way through the modes to the kernel. */
struct td_opcall {
    td_ctx          *cx;
    const td_opdef  *def;
    const td_opinfo *info;
    td_value        *in; /* [n_in], schema order, defaults filled in */
    int              n_in;
    uint8_t          device;       /* of its tensors and results (device_args.c) */
    int              n_out;        /* results; lists are flattened */
    td_tensor      **out;          /* [n_out], few or scratch */
    td_meta         *meta;         /* [n_out], few_meta or scratch */
    uint64_t         seed, offset; /* RANDOM: this call's draw */
    struct td_pw
        *describe; /* pointwise.h: not NULL: kernels fill it and compute nothing */
    td_tensor *few[TD_FEW];
    td_meta    few_meta[TD_FEW];
};

/* Calls an op through the modes. in[] is schema order; fewer than n_in entries
 * take the defaults. On failure every result is nil and false is returned; a nil
 * argument gives nil results and true. `out` has room for n_out results. */
bool td__call(td_ctx *cx, td_op op, const td_value *in, int n_in, td_tensor **out,
              int n_out);
/* The same for ops with a list of results: how many, -1 on failure. At most cap
 * are copied out; more than that is an error. */
int  td__call_list(td_ctx *cx, td_op op, const td_value *in, int n_in, td_tensor **out,
                   int cap);
td_tensor             *td__call1(td_ctx *cx, td_op op, const td_value *in,
                                 int n_in); /* one result */
/* The context of the first tensor among the arguments; NULL when there is none (a
 * NULL where a tensor must be), which td__call reports to stderr. */
td_ctx                *td__args_ctx(const td_value *in, int n);
static inline td_value td__value_ints(td_ints l) {
    td_value v = {TD_K_INTS, (uint32_t)l.n, {0}}; /* bind refuses a negative n */
    v.u.ints = l.v;
    return v;
}
static inline td_value td__value_tensors(td_tensors l) {
    td_value v = {TD_K_TENSORS, (uint32_t)(l.n < 0 ? 0 : l.n), {0}};
    v.u.ts = l.v;
    return v;
}
static inline td_value td__value_dtype(td_dtype dt) {
    td_value v = {TD_K_DTYPE, 0, {0}};
    v.u.dt = dt;
    return v;
}
static inline td_value td__value_str(const char *s) {
    td_value v = {TD_K_STR, 0, {0}};
    v.u.s = s;
    return v;
}
static inline td_value td__value_graph(const struct td_graph *g) {
    td_value v = {TD_K_GRAPH, 0, {0}};
    v.u.g = (struct td_graph *)(uintptr_t)g; /* read only, for the call */
    return v;
}
/* Ops that read no tensor make their results on that device until the next call, which
 * takes what this one returns. */
static inline uint8_t td__make_on(td_ctx *cx, uint8_t device) {
    uint8_t was = cx->device;
    cx->device = device;
    return was;
}
/* Ops that read no tensor, on that device (device_args.c). */
td_tensor *td__zeros_on(td_ctx *cx, uint8_t device, td_ints size, td_dtype dtype);
td_tensor *td__empty_on(td_ctx *cx, uint8_t device, td_ints size, td_ints stride,
                        td_dtype dtype);
/* For modes: the rest of the stack, then the kernel. */
bool       td__call_below(td_mode *m, td_opcall *c);

/* Is it resize_ to the sizes its tensor has? That changes nothing and does not count as
 * a write. */
bool td__resize_is_same(const td_opcall *c);

/* Shape rules of list results reserve room for n; false: no memory. */
bool td__call_results(td_opcall *c, int n);
/* RANDOM kernels say how many Philox blocks they used before drawing. */
void td__draw(td_opcall *c, uint64_t blocks);

/* Argument access in rules and kernels; kinds are already checked. */
static inline td_tensor *td__in(const td_opcall *c, int i) {
    return c->in[i].kind == TD_K_TENSOR ? c->in[i].u.t : NULL;
}
static inline int64_t td__in_int(const td_opcall *c, int i) { return c->in[i].u.i; }
/* For rules that compute with the integer in C: a symbol is fixed by a guard. */
static inline int64_t td__in_number(const td_opcall *c, int i) {
    return td__dim_fixed(c->in[i].u.i);
}
static inline bool td__in_bool(const td_opcall *c, int i) { return c->in[i].u.i != 0; }
static inline bool td__in_none(const td_opcall *c, int i) {
    return c->in[i].kind == TD_K_NONE;
}
double               td__value_f(td_value v); /* number as double */
int64_t              td__value_i(td_value v); /* number as integer, truncated */
static inline double td__in_f(const td_opcall *c, int i) {
    return td__value_f(c->in[i]);
}
static inline td_dtype td__in_dtype(const td_opcall *c, int i, td_dtype otherwise) {
    return c->in[i].kind == TD_K_DTYPE ? c->in[i].u.dt : otherwise;
}
/* Records "op: message" with the op's name in front. Always false. */
bool td__op_fail(td_opcall *c, td_code code, const char *fmt, ...) TD_PRINTF(3, 4);
/* May argument i, a tensor or a list of them, be read while t is written? Not where it
 * overlaps t in part, nor, where it must be `apart`, in all elements. False after
 * td__op_fail. */
bool td__may_read_beside(td_opcall *c, int i, const td_tensor *t, bool apart);
/* Wraps dim argument i for `rank`; -1 after td__op_fail. */
int  td__op_dim(td_opcall *c, int64_t dim, int rank);

/* ---- formulas (formula.c) ----------------------------------------------- */

/* A parsed "g * b" or "sum(a, [0], true)": a flat postfix program. Language:
 * names, numbers, true/false/none, [int lists], calls of ops with positional
 * arguments, + - * / and unary minus, `a.sizes`, `a.strides`, `a.dtype`, `a.rank`,
 * `a.numel`. */
const td_formula *td__formula_parse(const char *text, const td_schema *s, bool vjp,
                                    char *why, size_t cap);
uint32_t          td__formula_reads_in(const td_formula *f);
uint32_t          td__formula_reads_out(const td_formula *f);
/* Where names come from. `in` entries may be tensors that were not saved: then
 * only in_meta is looked at. */
struct td_vjp {
    td_ctx               *cx;
    const td_opdef       *def;
    const td_opinfo      *info;
    const td_value       *in;      /* by argument; an unsaved tensor is NONE */
    const td_meta *const *in_meta; /* by argument; NULL for non-tensors */
    td_tensor *const     *out;     /* by result; NULL when not saved */
    td_tensor *const     *g;       /* by result; NULL: no gradient arrived */
    int                   n_out;   /* results, lists flattened */
    const bool           *need;    /* by argument: a gradient is wanted */
    td_tensor           **grad;    /* by argument, to fill; NULL: zero */
    td_tensor ***list_grad; /* by argument of type Tensor[]: array to fill, else NULL */
    const bool *const *list_need;
    const td_meta *const *const
                         *list_meta; /* by argument of type Tensor[]: each entry's */
    const td_meta *const *out_meta;  /* by result: sizes, dtype */
};
td_tensor *td__formula_eval(const td_formula *f, const td_vjp *v); /* NULL on failure */
/* Of a formula that is an argument with a list, or calls an op that returns one: the *n
 * tensors, in the scratch of the call. NULL after td__fail, or, without an error, for
 * any other formula. */
td_tensor *const *td__formula_list(const td_formula *f, const td_vjp *v, int *n);

/* ---- generated from the rows -------------------------------------------- */

#ifndef TD_TABLE_TEXT
#include "ops/rules_gen.h" /* prototypes of every FN(...) named in a row */
#include "tandem/ops.h"    /* td_op_add(...) for every row: C rules call these */
#endif

#endif
