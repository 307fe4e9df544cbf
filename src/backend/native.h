/* backend/native.h -- shared by the files of the native backend; private to it.
 *
 * lower.c decides how loops see every value of a graph; group.c and fuse.c merge
 * values into groups over one space; nests.c builds the loop nest of each group;
 * native.c compiles them and native_run.c runs them. docs/native.md explains the
 * whole. */
#ifndef TD_NATIVE_H
#define TD_NATIVE_H

#include "backend/backend.h"
#include "backend/nest.h"
#include "core/device.h"
#include "graph/graph.h"

/* ---- extents (extent.c) ------------------------------------------------- */

/* Sizes and strides are a number times a product of symbols. td_extent.p is the index
 * of the product in a table without duplicates, so that equal extents compare equal. An
 * extent with p == TD_EXTENT_BAD is unknown and equals nothing. */
enum { TD_EXTENT_BAD = -2, TD_PRODUCT_TERMS = 6 };

typedef struct td_product {
    int     n;
    int64_t term[TD_PRODUCT_TERMS]; /* symbolic dims of the graph, ascending */
} td_product;

typedef struct td_products {
    TD_VEC(td_product) v;
    bool failed; /* out of memory: some extents are bad without reason */
} td_products;

static inline td_extent td__extent(int64_t n) { return (td_extent){n, -1}; }
static inline bool      td__extent_is(td_extent a, int64_t n) {
         return a.p == -1 && a.c == n;
}
static inline bool td__extent_eq(td_extent a, td_extent b) {
    return a.c == b.c && a.p == b.p && a.p != TD_EXTENT_BAD;
}
td_extent td__extent_of(td_products *t, const td_graph *g, int64_t dim);
td_extent td__extent_mul(td_products *t, td_extent a, td_extent b);
/* a / b if that is exact for all values of the symbols; else bad. */
td_extent td__extent_div(td_products *t, td_extent a, td_extent b);
/* The value for these bindings of the graph's dims; INT64_MIN: unknown, or overflow. */
int64_t td__product_value(const td_product *p, const td_graph *g, const int64_t *bound);

/* Gives a new node the part of the graph and the source line of one it computes for. */
static inline void td__gnode_stand_for(td_gnode *n, const td_gnode *of) {
    n->origin = of->origin;
    n->here = of->here;
    n->stack = of->stack;
    n->scope = of->scope;
}

/* ---- sums of products (combine_products.c) ------------------------------- */

/* Replaces sums of products by one product each; dead nodes stay for td__graph_dce.
 * False after td__fail. */
bool td__combine_products(td_graph *g);

/* ---- values computed again (compute_again.c) ------------------------------ */

/* On a device, a value that loops far apart read is computed again from one that is
 * stored anyway; dead nodes stay for td__graph_dce. False after td__fail. */
bool td__compute_again(td_graph *g);

/* ---- packed matrices (pack_products.c) ------------------------------------ */

/* Packs matrices that several products of few rows read, and makes these _mm_strips;
 * dead nodes stay for td__graph_dce. False after td__fail. */
bool td__pack_products(td_graph *g);

/* ---- concatenations (place_pieces.c) --------------------------------------- */

/* Loops store the pieces of a cat where it has them. Without dead nodes: those of a cat
 * that nothing reads would stay. False after td__fail. */
bool td__place_pieces(td_graph *g);

/* ---- ops of devices (device_forms.c) -------------------------------------- */

/* td__graph_decompose of a graph with tensors of devices: some of their ops get a form
 * that loops compute. ops NULL: none beside these. NULL after td__fail. */
td_graph *td__device_forms(const td_graph *g, const char *ops);

/* ---- lowering (lower.c) --------------------------------------------------- */

enum { TD_SPACE_DIMS = 8, TD_POINT_STMTS = 8 };

/* The elements of a root over the points of a space; or, with root NULL, the index
 * itself as a value (PLACE). */
typedef struct td_access {
    const td_gval *root;  /* the value in memory; NULL: a PLACE */
    uint8_t        dtype; /* of the elements */
    td_extent offset;     /* in elements from the root's first; of a PLACE: the start */
    td_extent stride[TD_SPACE_DIMS];
} td_access;

/* Where in its group's nest a value is computed. */
typedef enum td_level {
    TD_AT_POINT, /* at every point of the space */
    TD_AT_ROW,   /* once per row */
    TD_AT_END,   /* after all rows, at every point of the inside */
    TD_AT_ONCE   /* after all rows, once */
} td_level;

/* Over which dims a point folds. */
typedef enum td_reach {
    TD_FOLDS_NOT,
    TD_FOLDS_SOME, /* over some dims: `folded` */
    TD_FOLDS_ALL
} td_reach;

/* A value that loops can compute. Its recipe is a list of statements; the last is the
 * value. A LOAD's ptr is an index into in[]. A REDUCE stands for the fold of a
 * reduction, and the statements after it process the result. */
typedef struct td_point {
    const td_gval      *v;
    int                 pos;    /* index of its node */
    int                 group;  /* -1: a leaf that need not be stored */
    bool                leaf;   /* reads nothing: its readers compute it themselves */
    bool                stored; /* read outside its group */
    bool                writes; /* copy_: writes to memory that exists */
    uint8_t             level;  /* td_level of the result */
    uint8_t             walks;  /* td_level of its operands, before a fold */
    uint8_t             reach;  /* td_reach */
    uint32_t            folded; /* bit per dim of the group */
    td_access           own;    /* its own elements; stride 0 along folded dims */
    td_access          *in;
    td_stmt            *stmt;
    int                 n_in, n_stmt;
    const struct td_pw *pw; /* if it has a GIVEN, whose ptr is an argument index */
    const td_scalars
        *tail; /* zeros that it stores behind its elements; its last operand
                             * is the index along their dim. NULL: none */
} td_point;

/* Points over one space, which become one nest. If split, the dims in `outer` make
 * rows and the others the inside. */
typedef struct td_group {
    TD_VEC(int) member; /* points, in the order of their nodes */
    int       n_dims;
    td_extent size[TD_SPACE_DIMS];
    bool      split;
    uint32_t  outer;       /* if split: set of dims */
    int       first, last; /* first and last index of its nodes */
    uint8_t   state;       /* of td__unit_order */
    unsigned  mark;        /* the last search that visited it */
    int       rank;        /* its index in td_lowered.at */
} td_group;

/* Everything that lowering finds out about a graph. */
typedef struct td_lowered {
    td_graph   *g;
    uint8_t     device; /* where its loops run beside the CPU; 0: nowhere else */
    td_arena    arena;
    td_products products;
    TD_VEC(td_point) point;
    TD_VEC(td_group) group;
    int      *point_of; /* [n_values]: the point that computes it; -1: none */
    td_gval **root_of;  /* [n_values]: the value it is a view of; itself if no view */
    int      *bytes_of; /* [n_values] by root: the first root of the same storage */
    bool     *needed;   /* [n_values]: a call or output needs it as a tensor */
    struct td_follow **follows; /* [nodes]: dependences of a node beside its operands:
                                 * writes, reads before a write, draws */
    unsigned          *seen, mark; /* [nodes]: the last search that visited it */
    int               *at;   /* [nodes] units in a valid order; TD_NO_UNIT: unused */
    int               *rank; /* [nodes] called nodes: their index in at */
    int               *deferred; /* [nodes] scratch for td__unit_merge */
} td_lowered;

typedef struct td_follow {
    int               node;
    struct td_follow *next;
} td_follow;

/* Fills points, roots and groups of one point each. False after td__fail: out of
 * memory, or TD_E_UNSUPPORTED for sizes beyond td_product. */
bool td__lower(td_lowered *l, td_graph *g);
void td__lowered_free(td_lowered *l);
/* The argument that the node's results are views of; -1: they have their own storage.
 */
int  td__view_operand(const td_gnode *n);
/* v as elements of its root over a space of these sizes, to which it broadcasts.
 * False: its geometry is not known well enough. */
bool td__access_of(td_lowered *l, const td_gval *v, const td_gtype *space,
                   td_access *to);

/* ---- recipes (recipe.c) ------------------------------------------------- */

/* Fills the recipe of a point. False: loops cannot compute it; or after td__fail:
 * memory. */
bool td__recipe(td_lowered *l, td_point *p);

/* ---- groups (group.c) --------------------------------------------------- */

/* Merges the groups of point p and of point r, which reads p as operand k. False:
 * they do not fit. */
bool td__group_join(td_lowered *l, int p, int r, int k);
/* Does one of its points fold? */
bool td__group_folds(const td_lowered *l, const td_group *g);
/* Merges the groups of p and q, which read the same elements as operands k and j. */
bool td__group_share(td_lowered *l, int p, int k, int q, int j);

/* ---- order (schedule.c) ---------------------------------------------------- */

/* A unit of work: a group by its number, a called node by ~index. */
enum { TD_NO_UNIT = INT32_MAX };
/* Calls fn on every unit that `unit` depends on; stops and returns false if fn does. */
bool td__unit_deps(const td_lowered *l, int unit, bool (*fn)(void *env, int unit),
                   void *env);
/* Is there a path between groups a and b through other units, so that merging them
 * would make a cycle? True also if the search takes too long. */
bool td__unit_between(td_lowered *l, int a, int b);
/* Updates the order before groups a and b become one, numbered a; td__unit_between
 * must be false. */
void td__unit_merge(td_lowered *l, int a, int b);
/* Fills follows, at and rank. False: out of memory. */
bool td__unit_follows(td_lowered *l);
/* All units in an order that respects dependences. False: out of memory. */
typedef TD_VEC(int) td_units;
bool td__unit_order(td_lowered *l, td_units *to);

/* ---- fusion (fuse.c) ---------------------------------------------------- */

bool td__fuse(td_lowered *l); /* also sets td_point.stored; false after td__fail */

/* ---- nests (nests.c) ---------------------------------------------------- */

/* The memory that a pointer of a nest addresses: a value's, from an offset on. */
typedef struct td_bytes {
    const td_gval *v;
    td_extent      offset;
    uint8_t        dtype;
} td_bytes;

/* A random draw: given numbers `at` and at + 1 of the run are its seed and offset. */
typedef struct td_draw {
    const td_gval *v;
    int            per; /* elements per block of random words */
    int            at;
} td_draw;

/* A scalar argument that is known at run time only, converted as its loop needs it. */
typedef struct td_run_number {
    const td_garg      *arg;
    const struct td_pw *pw;
    int                 at;
} td_run_number;

/* A nest with what its pointers, sizes and numbers refer to. */
typedef struct td_built {
    td_nest nest;
    TD_VEC(td_bytes) bytes;         /* by pointer */
    TD_VEC(int) params;             /* indices of products: the nest's sizes */
    TD_VEC(const td_gval *) makes;  /* values it stores to new memory */
    TD_VEC(const td_gval *) writes; /* values it writes in place */
    TD_VEC(td_draw) draws;
    TD_VEC(td_run_number) run_numbers;
} td_built;

/* Builds the nest of a group. False after td__fail: out of memory, or
 * TD_E_UNSUPPORTED for sizes beyond td_product. */
bool td__nest_build(td_lowered *l, const td_group *grp, td_built *to);
void td__built_free(td_built *b);
bool td__nest_print(td_buf *b, const td_built *t); /* false: out of memory */

/* ---- equal nests (nest_same.c) ------------------------------------------ */

typedef struct td_same_key {
    td_buf   text;
    uint64_t hash;
    int      launch;
} td_same_key;

/* A set of nests, compared by everything that emit.c reads. */
typedef struct td_same {
    TD_VEC(td_same_key) key;
    int *slot; /* [cap] hash table: 1 + index of a key */
    int  cap;
} td_same;

/* The first launch with an equal nest; `launch` itself if there is none. */
int  td__same_find(td_same *t, const td_nest *n, int launch);
void td__same_free(td_same *t);

/* ---- memory (memory_layout.c, native_memory.c) ---------------------------- */

/* Memory that is live from one step to another. Values that reuse each other's memory
 * in turn share a range. */
typedef struct td_live_range {
    const td_gval *v;           /* the first of its values */
    int32_t        first, last; /* steps; first is -1 for an input; last is the number
                                 * of steps if it outlives the run */
    bool           own;         /* visible outside the run: never in the arena */
    int64_t        bytes;
    int64_t        at; /* offset in the arena of its device; -1: allocated separately */
    td_storage    *st; /* a storage over it, for ops; NULL: none yet */
} td_live_range;

/* The outcome of a placement, in bytes. */
typedef struct td_arena_sizes {
    int64_t arena;  /* size of the arena */
    int64_t live;   /* peak of live bytes in it: its lower bound */
    int64_t most;   /* peak of a run: arena and separate allocations, no inputs */
    int64_t blocks; /* the same without an arena; at least `most`, to a page */
} td_arena_sizes;

/* Sets td_live_range.at of n ranges over `steps` steps. False: out of memory. */
bool td__arena_place(td_live_range *s, int n, int steps, td_arena_sizes *to);

/* Sets td_live_range.at of all ranges that are not `own`, of any size, in one block.
 * Returns its size; -1: out of memory. */
int64_t td__arena_place_all(td_live_range *s, int n);

/* A part of the arena of a device. */
typedef struct td_hole {
    int64_t at, bytes;
} td_hole;

/* The memory of a compiled graph's values. */
/* A result of a call that is computed within that of a cat (native_parts.c). */
typedef struct td_part {
    const td_gval *of, *whole;
    td_meta        as; /* its strides and its offset there */
} td_part;

typedef struct td_memory {
    TD_VEC(td_live_range) ranges;
    TD_VEC(td_part) parts;
    int           *range_of; /* [n_values] by root; -1: none */
    bool           any;      /* some range may be placed in the arena */
    bool           placed;   /* symbolic sizes: placed for those in bound[] */
    int64_t       *bound;    /* [dims.n]; NULL: all sizes are numbers */
    td_arena_sizes sizes;
    char          *arena;    /* of the current run; NULL: none */
    uint8_t        device;   /* of td_lowered */
    int64_t        there;    /* bytes of its arena, with those of accumulators at the */
    int64_t        parts_at; /* end, from here on */
    td_storage    *on;       /* the arena of the device, kept from run to run */
    td_hole       *hole;     /* [steps]: what the step may use of it; NULL: nothing */
} td_memory;

struct td_native;
/* native_parts.c: finds the parts. False: out of memory. */
bool           td__parts_find(struct td_native *c);
const td_part *td__parts_of(const struct td_native *c, const td_gval *v); /* or NULL */
/* Computes live ranges and, without symbolic sizes, offsets; call it when steps
 * exist. False after td__fail. */
bool           td__memory_plan(struct td_native *c);
void           td__memory_free(td_memory *m);
/* Allocates the arena for a run with these sizes; td__memory_give frees it. False
 * after td__fail. */
bool           td__memory_take(struct td_native *c, const int64_t *bound);
void           td__memory_give(struct td_native *c);
/* Lends the device the largest part of its arena that no value has during a step; -1:
 * takes it back. */
void           td__memory_lend(const struct td_native *c, int step);
/* Where the accumulators of this run are on the device; NULL: none. */
char          *td__memory_parts(const struct td_native *c);
/* The live range of a root in the arena; NULL: its memory is elsewhere. */
const td_live_range *td__memory_range(const struct td_native *c, const td_gval *v);

/* ---- compiled graphs (native.c, native_run.c) --------------------------- */

/* The kernels of a nest on a device (native_device.c). */
typedef struct td_on_device {
    uint8_t         device;
    bool            has_end;
    td_device_shape shape;
    int             n_wide, n_single;
    int             vector; /* elements that a thread takes at once; 0: one by one */
    int             threads, plain_threads; /* of a block; 0: any number */
    int             shared, plain_shared;   /* bytes that a block keeps rows in */
    int             tile;                   /* inner elements of a block of `end` */
    char           *text, *end_text;
    char           *plain_text; /* without vectors, for pointers that lie otherwise */
    void           *kernel, *end, *plain; /* the plugin's; plain: NULL until needed */
    int64_t        *word;                 /* scratch of a run: their argument */
    int             n_words;
    int             nr, end_nr; /* of the two launches in the recording; -1 */
    bool            varies;     /* some of its words are given numbers */
} td_on_device;

/* The type of a value that a launch makes. */
typedef struct td_made_meta {
    td_meta as;
    int64_t count; /* td__tensor_count */
} td_made_meta;

/* A kernel with everything a run of it needs. */
typedef struct td_launch {
    td_built        b;
    td_on_device   *on; /* NULL: it runs on the CPU */
    td_kernel       kernel;
    int             n_wide, n_single; /* accumulators of a part */
    bool            borrowed;         /* text and helpers belong to an equal launch */
    const td_gval **reads;            /* distinct values */
    const td_gval **over;             /* by value made: an operand whose memory it may
                                       * reuse if nothing else needs it; NULL: none */
    int             n_reads;
    td_made_meta   *metas;     /* of the values made; NULL: sizes are symbolic */
    bool            inner;     /* some of them are no outputs of the graph */
    char            label[64]; /* the ops in it, for traces and comments */
    char          **ptr;       /* scratch of a run: addresses by pointer */
    int64_t        *size;      /* scratch: symbolic sizes by parameter */
    int64_t        *given;     /* scratch: numbers for GIVEN and DRAW */
    int             n_timed;   /* runs that were measured, for ns */
    double          ns;        /* of an element, the least of them */
} td_launch;

typedef struct td_native_step {
    int             launch; /* -1: `node` is called */
    const td_gnode *node;
} td_native_step;

/* Code of kernels that need no replay (native_direct.c). */
typedef struct td_direct_ptr {
    int     in, made; /* input, or value that the kernel makes; the other is -1 */
    int64_t at, end;  /* bytes: where it begins, and where its first element ends */
} td_direct_ptr;
typedef struct td_direct_code {
    td_direct_ptr *ptr;   /* by step, and by pointer of its launch */
    int           *out;   /* by output: which of `made` */
    bool          *reads; /* by input: does a kernel read it? */
    td_tensor    **made;  /* scratch of a run: by step, and by value that it makes */
} td_direct_code;

/* Native code of a graph. */
typedef struct td_native {
    td_graph  *g; /* the simplified graph, owned */
    td_lowered low;
    td_launch *launches;
    int        n_launches;
    TD_VEC(td_native_step) steps;
    bool                 interpreted; /* no kernels: nodes are replayed (tests) */
    td_memory            mem;
    struct td_recording *recording; /* NULL: none yet */
    bool                 found;     /* read from disk: nests and texts are missing */
    struct td_native *rebuilt; /* the same with nests and texts, for reports; or NULL */
    td_direct_code   *direct;  /* NULL: it runs as a replay */
} td_native;

/* NULL: the code is another, or there is no memory; then it runs as a replay. */
td_direct_code *td__direct_make(const td_native *c);
void            td__direct_free(td_direct_code *d); /* NULL is fine */
td_direct       td__native_direct(void *env, const td_value *in, td_value *out);

/* native_device.c: does the device run loops? */
bool    td__device_has_loops(uint8_t code);
/* Writes the texts of k's nest for a device. False: out of memory. */
bool    td__launch_write_device(td_launch *k, uint8_t device);
/* Builds the kernels of all launches at the same time. False after td__fail. */
bool    td__device_kernels(const struct td_native *c);
bool    td__launch_load_device(td_ctx *cx, td_on_device *t); /* false after td__fail */
void    td__on_device_drop(td_on_device *t);
/* How many parts the rows of a fold over rows have, and the bytes of each. */
int64_t td__device_parts(const td_on_device *t, int64_t rows, int64_t inside);
int64_t td__device_part_bytes(const td_on_device *t, int64_t inside);
/* Starts the kernels; pointers, sizes and numbers are in k. False after td__fail. */
bool    td__launch_run_device(td_ctx *cx, td_launch *k, int64_t rows, int64_t inside,
                              char *parts_at);
char   *td__text_copy(const td_buf *b); /* NULL: out of memory */

/* ---- recordings (native_record.c) ----------------------------------------- */

/* Runs the steps on a device, or replays them. False after td__fail. */
bool td__record_walk(struct td_native *c, td_replay *r);
void td__recording_drop(struct td_recording *x); /* NULL is allowed */
/* native_run.c, for it: the steps one by one; a launch's checks, numbers and
 * versions. */
bool td__native_steps(const struct td_native *c, td_replay *r);
bool td__launch_may_write(const struct td_native *c, const td_replay *r,
                          const td_launch *k);
bool td__launch_numbers(const struct td_native *c, const td_replay *r, td_launch *k);
void td__launch_note_writes(const td_replay *r, const td_launch *k);

/* Bytes that a step moves, and operations; -1: the sizes are unknown. */
typedef struct td_work {
    int64_t read, written, flops;
} td_work;
/* sized: with the symbolic sizes of the last run. */
td_work       td__launch_work(const td_launch *k, bool sized);
/* bound NULL: symbolic sizes are unknown. */
td_work       td__call_work(const td_graph *g, const td_gnode *n, const int64_t *bound);
bool          td__native_walk(void *env, td_replay *r); /* env: a td_native */
/* native_run.c: runs the kernel, whose pointers and numbers are set, over all threads.
 * False after td__fail. */
bool          td__launch_run(const td_native *c, td_launch *k);
/* Has t the layout that code of g expects of a value of type l? bound may be NULL
 * without symbolic sizes. */
bool          td__native_fits(const td_graph *g, const td_gtype *l, const td_tensor *t,
                              const int64_t *bound);
/* The address of byte `at` of t, behind which an element ends at byte `end`. Kernels
 * load invariant operands before their loops, also if these run zero times: where t's
 * storage ends before, it is that of a zero. */
char         *td__native_pointer(const td_tensor *t, int64_t at, int64_t end);
/* For traces (TD_TRACE), within the span of the launch. */
void          td__native_note_launch(td_ctx *cx, const td_launch *k);
/* NULL: no memory. */
td_made_meta *td__launch_metas(const td_graph *g, const td_launch *k);
void          td__native_drop(void *env); /* env: a td_native */
/* Steps, nests, kernel texts and live ranges of g, without compiled kernels; freed with
 * td__native_drop. NULL after td__fail. */
td_native    *td__native_texts(const td_graph *g);
const td_native *td__native_of(const td_runner *r); /* NULL: not native code */
/* The same with nests and texts, for reports. */
const td_native *td__native_full(const td_runner *r);

/* ---- on disk (native_image.c) ------------------------------------------- */

/* The name a graph's code has on disk; "": it is not cached. */
typedef struct td_cache_key {
    char   name[40];
    td_buf key;
} td_cache_key;

struct td_disk;
/* Reads the code of g from disk into *c. False: there is none (logged); *c must still
 * be dropped. Fills *k in any case. */
bool        td__native_lookup(struct td_disk *d, td_cache_key *k, td_native *c,
                              const td_graph *g);
/* Reads code from n bytes. Returns NULL, or why it is unusable. Every index is
 * checked; only the kernels themselves are trusted. */
const char *td__native_read(td_native *c, const void *bytes, size_t n,
                            const td_graph *g);
void td__native_store(struct td_disk *d, const td_cache_key *k, const td_native *c,
                      const td_graph *g);

#endif
