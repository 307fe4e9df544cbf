/* backend/native.h -- between the files of the native backend; private to the room.
 *
 * lower.c says of every value of a graph how loops would make it; group.c and fuse.c
 * gather those into groups that share a space; nests.c makes a nest of each group;
 * native.c puts it all together and native_run.c runs it. docs/native.md has the whole
 * story. */
#ifndef TD_NATIVE_H
#define TD_NATIVE_H

#include "backend/backend.h"
#include "backend/nest.h"
#include "graph/graph.h"

/* ---- extents (extent.c) ------------------------------------------------- */

/* Sizes and strides are a number times a product of symbols. Products are kept in a
 * table and counted by td_extent.p, so that equal ones are equal. An extent with
 * p == TD_EXTENT_BAD is not known; nothing equals it. */
enum { TD_EXTENT_BAD = -2, TD_PRODUCT_TERMS = 6 };

typedef struct td_product {
    int     n;
    int64_t term[TD_PRODUCT_TERMS]; /* dims of the graph, ascending, no products */
} td_product;

typedef struct td_products {
    TD_VEC(td_product) v;
    bool failed; /* no memory: an extent is bad that need not be */
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
/* a / b where that is exact for all values of the symbols; else bad. */
td_extent td__extent_div(td_products *t, td_extent a, td_extent b);
/* The value where bound[] says what the dims of g are. */
int64_t td__product_value(const td_product *p, const td_graph *g, const int64_t *bound);

/* ---- sums of products (gather.c) ---------------------------------------- */

/* One product in their place; what nobody reads any more stays for td__graph_dce. False
 * after td__fail: no memory. */
bool td__gather(td_graph *g);

/* ---- values made by loops (lower.c) ------------------------------------- */

enum { TD_SPACE_DIMS = 8, TD_POINT_STMTS = 8 };

/* Elements of a root, or the index itself, as a space sees them. */
typedef struct td_access {
    const td_gval *root;  /* whose bytes; NULL: a PLACE */
    uint8_t        dtype; /* of the elements */
    td_extent offset; /* in elements, from the root's first; of a PLACE: its start */
    td_extent stride[TD_SPACE_DIMS];
} td_access;

/* Where in its group a value lives. */
typedef enum td_level {
    TD_AT_POINT, /* at every point of the space */
    TD_AT_ROW,   /* once a row */
    TD_AT_END,   /* when all rows are done: at every point of the inside */
    TD_AT_ONCE   /* when all is done, once */
} td_level;

typedef enum td_reach {
    TD_FOLDS_NOT,
    TD_FOLDS_SOME, /* over some dims: `folded` */
    TD_FOLDS_ALL
} td_reach;

/* A value that loops can make. Its recipe is a list of statements, the last of which is
 * the value; a LOAD's ptr counts in in[]; a REDUCE stands for the fold of a reduction,
 * and what follows it is done with the result. */
typedef struct td_point {
    const td_gval      *v;
    int                 pos;    /* of its node */
    int                 group;  /* -1: nobody needs it stored */
    bool                leaf;   /* reads nothing: readers make it themselves */
    bool                stored; /* somebody outside its group reads it */
    bool                writes; /* its elements go to bytes that are there already */
    uint8_t             level;  /* td_level of the result */
    uint8_t             walks;  /* td_level: where it is computed, and folded from */
    uint8_t             reach;  /* td_reach */
    uint32_t            folded; /* bit per dim of the group */
    td_access           own;    /* where its elements lie, 0 along folded dims */
    td_access          *in;
    td_stmt            *stmt;
    int                 n_in, n_stmt;
    const struct td_pw *pw; /* where a GIVEN is among them: its ptr is an argument */
} td_point;

typedef struct td_group {
    TD_VEC(int) member; /* points, in the order of their nodes */
    int       n_dims;
    td_extent size[TD_SPACE_DIMS];
    bool      split;
    uint32_t  outer;       /* where split: bit per dim */
    int       first, last; /* positions of its nodes */
    uint8_t   state;       /* while units are put in order */
    unsigned  mark;        /* of the last search that came by */
    int       rank;        /* in td_lowered.at */
} td_group;

/* What lowering knows of a graph. */
typedef struct td_lowered {
    td_graph   *g;
    td_arena    arena;
    td_products products;
    TD_VEC(td_point) point;
    TD_VEC(td_group) group;
    int      *point_of; /* [n_values]: which point makes it; -1: none */
    td_gval **root_of;  /* [n_values]: whose bytes a value shows; itself if no view */
    int      *bytes_of; /* [n_values] by root: the first root of the same storage */
    bool     *needed;   /* [n_values]: somebody wants it as a tensor */
    struct td_follow **follows;    /* [nodes]: what a node comes after, beside what it
                                 * reads: writes, reads before a write, draws */
    unsigned          *seen, mark; /* [nodes]: of the last search */
    int *at; /* [nodes] units in an order that works; TD_NO_UNIT where there is none */
    int *rank;   /* [nodes] of those that are called: where they stand */
    int *behind; /* [nodes] room for td__unit_merge */
} td_lowered;

typedef struct td_follow {
    int               node;
    struct td_follow *next;
} td_follow;

/* Fills in points and roots; groups are single values afterwards. False after td__fail:
 * no memory, or TD_E_UNSUPPORTED for sizes beyond td_product. */
bool td__lower(td_lowered *l, td_graph *g);
void td__lowered_free(td_lowered *l);
/* The argument whose bytes a node's results show; -1: they have their own. */
int  td__shown(const td_gnode *n);
/* A value as elements of its root over a space of these sizes, to which it broadcasts.
 * False: its geometry is not known well enough. */
bool td__access_of(td_lowered *l, const td_gval *v, const td_look *space,
                   td_access *to);

/* ---- recipes (recipe.c) ------------------------------------------------- */

/* Fills in the recipe of a point; false: loops cannot make it, or after td__fail: no
 * memory. */
bool td__recipe(td_lowered *l, td_point *p);

/* ---- groups (group.c) --------------------------------------------------- */

/* Merges the groups of point p and of its reader r, whose operand k it is. False: they
 * do not fit. */
bool td__group_join(td_lowered *l, int p, int r, int k);
/* Does one of its points fold? */
bool td__group_folds(const td_lowered *l, const td_group *g);
/* Merges the groups of p and q, which read the same elements as operands k and j. */
bool td__group_share(td_lowered *l, int p, int k, int q, int j);

/* ---- order (schedule.c) ---------------------------------------------------- */

/* A unit of work: a group by its number, a node that is called by ~its position. */
enum { TD_NO_UNIT = INT32_MAX };
/* Calls fn on every unit that one must come after; stops when fn returns false. */
bool td__unit_deps(const td_lowered *l, int unit, bool (*fn)(void *env, int unit),
                   void *env);
/* Is there a way from group a to group b, or back, through something else? Also when
 * the search takes too long. */
bool td__unit_between(td_lowered *l, int a, int b);
/* Before groups a and b become one, under the number of a; nothing lies between. */
void td__unit_merge(td_lowered *l, int a, int b);
/* Fills in td_lowered.follows and where units stand; false: no memory. */
bool td__unit_follows(td_lowered *l);
/* All units in an order that works. */
typedef TD_VEC(int) td_units;
bool td__unit_order(td_lowered *l, td_units *to);

/* ---- fusion (fuse.c) ---------------------------------------------------- */

bool td__fuse(td_lowered *l); /* sets td_point.stored, too; false: no memory */

/* ---- nests (nests.c) ---------------------------------------------------- */

/* Which bytes a pointer of a nest is: those of a value, from an offset on. */
typedef struct td_bytes {
    const td_gval *v;
    td_extent      offset;
    uint8_t        dtype;
} td_bytes;

/* A random draw: numbers `at` and at + 1 of the run are its seed and offset. */
typedef struct td_draw {
    const td_gval *v;
    int            per; /* elements a block of random words serves */
    int            at;
} td_draw;

/* A number that an op gets when it runs, as its loop takes it. */
typedef struct td_late {
    const td_garg      *arg;
    const struct td_pw *pw;
    int                 at;
} td_late;

typedef struct td_built {
    td_nest nest;
    TD_VEC(td_bytes) bytes;         /* by pointer */
    TD_VEC(int) params;             /* products the nest's sizes are */
    TD_VEC(const td_gval *) makes;  /* values it stores */
    TD_VEC(const td_gval *) writes; /* values whose bytes it changes */
    TD_VEC(td_draw) draws;
    TD_VEC(td_late) lates;
} td_built;

/* False after td__fail: no memory, or TD_E_UNSUPPORTED for sizes beyond td_product. */
bool td__nest_build(td_lowered *l, const td_group *grp, td_built *to);
void td__built_free(td_built *b);
bool td__nest_print(td_buf *b, const td_built *t); /* false: no memory */

/* ---- equal nests (nest_same.c) ------------------------------------------ */

typedef struct td_same_key {
    td_buf   text;
    uint64_t hash;
    int      launch;
} td_same_key;

typedef struct td_same {
    TD_VEC(td_same_key) key;
    int *slot; /* [cap] hash table: 1 + index of a key */
    int  cap;
} td_same;

/* The first launch whose nest is the same; `launch` itself when it is that. */
int  td__same_find(td_same *t, const td_nest *n, int launch);
void td__same_free(td_same *t);

/* ---- memory (arena.c, native_memory.c) ----------------------------------- */

/* Bytes that are needed from one step to another. Values that take over the bytes of
 * another share its stay. */
typedef struct td_stay {
    const td_gval *v;           /* the first */
    int32_t        first, last; /* steps; first -1: an input; last: the number of steps,
                                 * it goes on beyond */
    bool           own;         /* somebody outside sees them: never in the arena */
    int64_t        bytes;
    int64_t        at; /* in the arena; -1: a block of their own */
    td_storage    *st; /* the same for who needs a tensor; NULL: none made yet */
} td_stay;

typedef struct td_arena_sizes {
    int64_t arena;  /* bytes of it */
    int64_t live;   /* most bytes in it that are needed at once: it cannot be smaller */
    int64_t most;   /* in use at once, with blocks of their own and without inputs */
    int64_t blocks; /* the same without an arena; no less than `most`, to a page */
} td_arena_sizes;

/* Gives stays their places. False: no memory. */
bool td__arena_place(td_stay *s, int n, int steps, td_arena_sizes *to);

typedef struct td_memory {
    TD_VEC(td_stay) stays;
    int           *stay_of; /* [n_values] by root; -1: none */
    bool           any;     /* is there a stay that is not its own? */
    bool           placed;  /* where sizes are symbolic: for those in bound[] */
    int64_t       *bound;   /* [dims.n]; NULL: all sizes are numbers */
    td_arena_sizes sizes;
    char          *arena; /* of the run; NULL: none */
} td_memory;

struct td_native;
/* What a run needs, once steps are there; false after td__fail. */
bool           td__memory_plan(struct td_native *c);
void           td__memory_free(td_memory *m);
/* The arena for a run of these sizes; false after td__fail. _give ends it. */
bool           td__memory_take(struct td_native *c, const int64_t *bound);
void           td__memory_give(struct td_native *c);
/* The stay of a root in the arena; NULL: its bytes lie elsewhere. */
const td_stay *td__memory_stay(const struct td_native *c, const td_gval *v);

/* ---- compiled graphs (native.c, native_run.c) --------------------------- */

/* A kernel with what it needs to run. */
typedef struct td_launch {
    td_built        b;
    td_kernel       kernel;
    int             n_wide, n_single; /* accumulators of a part */
    bool            borrowed;         /* text and helpers are an equal launch's */
    const td_gval **reads;            /* distinct values */
    const td_gval **over;             /* by value made: one whose bytes it may take over
                                       * when nobody else needs it; NULL: none */
    int             n_reads;
    td_meta        *metas;     /* of values made, where sizes are numbers; else NULL */
    bool            inner;     /* some of them are no outputs */
    char            label[64]; /* the ops in it, for traces and comments */
    char          **ptr;       /* room for a run: by pointer */
    int64_t        *size;      /* by parameter */
    int64_t        *given;
} td_launch;

typedef struct td_native_step {
    int             launch; /* -1: `node` is called */
    const td_gnode *node;
} td_native_step;

typedef struct td_native {
    td_graph  *g; /* simplified, our own */
    td_lowered low;
    td_launch *launches;
    int        n_launches;
    TD_VEC(td_native_step) steps;
    bool              held; /* there are no kernels: nodes are replayed */
    td_memory         mem;
    /* It came from disk: texts, and loops as data, are not there. Reports make the same
     * once more. */
    bool              found;
    struct td_native *again;
} td_native;

/* What a step moves, in bytes, and computes; -1: its sizes are not known. */
typedef struct td_work {
    int64_t read, written, flops;
} td_work;
/* With `sized` for the sizes of the last run. */
td_work  td__launch_work(const td_launch *k, bool sized);
/* bound[] NULL: for sizes that are numbers. */
td_work  td__call_work(const td_graph *g, const td_gnode *n, const int64_t *bound);
bool     td__native_walk(void *env, td_replay *r);                /* env: a td_native */
td_meta *td__launch_metas(const td_graph *g, const td_launch *k); /* NULL: no memory */
void     td__native_drop(void *env);                              /* env: a td_native */
const td_native *td__native_of(const td_runner *r); /* NULL: it is no native code */
/* The same with texts and loops; for reports. */
const td_native *td__native_shown(const td_runner *r);

/* ---- on disk (native_image.c) ------------------------------------------- */

/* What a graph is kept under; "": it is not. */
typedef struct td_keeping {
    char   name[40];
    td_buf key;
} td_keeping;

struct td_disk;
/* The code of g as it was kept; false: there is none, which is logged, and *c is what
 * it was but for what its drop lets go of. Fills in *k either way. */
bool td__native_find(struct td_disk *d, td_keeping *k, td_native *c, const td_graph *g);
/* The same of n bytes: NULL, or why not. Nothing is believed of them but what kernels
 * do with the bytes they are given. */
const char *td__native_read(td_native *c, const void *bytes, size_t n,
                            const td_graph *g);
void        td__native_keep(struct td_disk *d, const td_keeping *k, const td_native *c,
                            const td_graph *g);

#endif
